"""The set of hashes is one, and is small."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from store.hashes import Hashes
from store.ids import HASH_SIZE, Hash, hash_bytes

# hashes that begin alike are looked for at the same place
ALIKE = [Hash(b"alike567" + bytes([one]) * (HASH_SIZE - 8)) for one in range(30)]
NAMES = [*ALIKE, *(hash_bytes(b"%d" % one) for one in range(30)), Hash(b"\xff" * HASH_SIZE)]


@given(st.lists(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES)))
def test_it_has_what_was_added_and_nothing_else(one_by_one: list[Hash], together: list[Hash]) -> None:
    hashes = Hashes()
    for name in one_by_one:
        hashes.add(name)
    hashes.update(together)
    added = {*one_by_one, *together}
    assert len(hashes) == len(added)
    assert {name for name in NAMES if name in hashes} == added
    assert Hash(bytes(HASH_SIZE)) not in hashes


def test_very_many_take_little_memory() -> None:
    hashes, count = Hashes(), 40_000
    tracemalloc.start()
    try:
        hashes.update(hash_bytes(b"%d" % one) for one in range(count))
        assert tracemalloc.get_traced_memory()[0] < 100 * count
    finally:
        tracemalloc.stop()
    assert len(hashes) == count
    assert all(hash_bytes(b"%d" % one) in hashes for one in range(count))
    assert not any(hash_bytes(b"no %d" % one) in hashes for one in range(count))
