"""The parts of a space by themselves: log, records, bucket."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import DamageError, Missing
from store.shared import entry as entries
from store.shared.connect import connect
from store.shared.entry import Entry, new_token
from store.shared.space import Place, Space
from tests.spaces import MAKERS, Spaces, spaces

SPACE = bytes(range(16))


@pytest.fixture(params=[*MAKERS, "s3"])
def space(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Space]:
    if request.param == "s3":
        server, objects = request.getfixturevalue("postgres"), request.getfixturevalue("s3")
        made = connect(*Spaces(lambda: Place(postgres=server.url(), objects=objects.url)).make())
    else:
        made = connect(*spaces(request, request.param, memory_path).make())
    yield made
    made.close()


def an_entry(prev: int, seq: int, body: bytes = b"body") -> Entry:
    return Entry(prev, seq, new_token(), 1, 0, 3, bytes(32), body)


def test_entries_are_in_order_and_in_place_once(space: Space) -> None:
    first, second = an_entry(0, 4), an_entry(4, 9)
    assert not space.log.append(first)
    assert list(space.log.append(an_entry(0, 5))) == [first]
    assert not space.log.append(second)
    # an answer that was lost
    assert not space.log.append(first)
    assert not space.log.append(second)
    assert list(space.log.entries(0)) == [first, second]
    assert list(space.log.entries(4)) == [second]
    assert list(space.log.entries(9)) == []
    redacted = an_entry(0, 4, b"redacted")
    space.log.replace(redacted)
    assert list(space.log.entries(0)) == [redacted, second]


def test_of_all_who_append_at_once_one_is_first(space: Space) -> None:
    offered = [an_entry(0, seq) for seq in range(1, 9)]
    placed: list[Entry] = []
    threads = [
        threading.Thread(target=lambda one=one: placed.append(one) if not space.log.append(one) else None)
        for one in offered
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert placed == list(space.log.entries(0))


def test_records_change_by_compare_and_swap(space: Space) -> None:
    records = space.records
    assert records.record("lease/gc") == ("lease/gc", 0, b"")
    assert records.swap("lease/gc", 0, b"one")
    assert not records.swap("lease/gc", 0, b"two")
    assert records.swap("lease/gc", 1, b"two")
    assert records.record("lease/gc") == ("lease/gc", 2, b"two")
    assert records.swap("lease/a%b/c", 0, b"x")
    assert records.swap("machine/1", 0, b"y")
    assert [one.key for one in records.records("lease/")] == ["lease/a%b/c", "lease/gc"]
    assert [one.key for one in records.records("lease/", "lease/a%b/c")] == ["lease/gc"]
    # removed, and its versions go on
    assert records.swap("lease/gc", 2, b"")
    assert records.record("lease/gc") == ("lease/gc", 3, b"")
    assert [one.key for one in records.records("lease/")] == ["lease/a%b/c"]
    assert not records.swap("lease/gc", 0, b"again")
    assert records.swap("lease/gc", 3, b"again")


def test_who_read_a_record_long_ago_does_not_change_it(space: Space) -> None:
    for version in range(200):
        assert space.records.swap("often", version, b"%d" % version)
    for version in (0, 1, 100, 199):
        assert not space.records.swap("often", version, b"late")
    assert space.records.record("often") == ("often", 200, b"199")


def test_of_all_who_swap_at_once_each_counts(space: Space) -> None:
    def count() -> None:
        for _ in range(20):
            while True:
                now = space.records.record("count")
                if space.records.swap("count", now.version, b"%d" % (int(now.value or b"0") + 1)):
                    break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert space.records.record("count") == ("count", 80, b"80")


def test_objects_are_written_whole_and_read_by_range(space: Space) -> None:
    bucket = space.bucket
    with pytest.raises(Missing):
        bucket.get("packs/none")
    bucket.put("packs/a", b"0123456789")
    bucket.put("log/b", b"")
    assert bucket.get("packs/a") == b"0123456789"
    assert bucket.get("packs/a", 3, 4) == b"3456"
    assert bucket.get("packs/a", 8, 100) == b"89"
    assert bucket.get("packs/a", 10, 5) == bucket.get("packs/a", 70, 5) == b""
    assert bucket.get("packs/a", 7) == b"789"
    assert bucket.get("log/b") == b""
    assert sorted(bucket.list("packs/")) == [("packs/a", 10)]
    assert sorted(bucket.list("")) == [("log/b", 0), ("packs/a", 10)]
    bucket.put("packs/a", b"another")
    assert bucket.get("packs/a") == b"another"
    bucket.delete("packs/a")
    bucket.delete("packs/a")
    assert list(bucket.list("packs/")) == []


@given(
    entry=st.builds(
        Entry,
        prev=st.integers(0, 2**64 - 1),
        seq=st.integers(0, 2**64 - 1),
        token=st.binary(min_size=16, max_size=16),
        machine=st.integers(0, 2**32 - 1),
        generation=st.integers(0, 2**32 - 1),
        packs=st.integers(0, 2**64 - 1),
        chain=st.binary(min_size=32, max_size=32),
        body=st.binary(max_size=300),
    ),
    at=st.integers(0),
    flip=st.integers(1, 255),
)
def test_entries_are_as_they_were_or_damaged(entry: Entry, at: int, flip: int) -> None:
    data = entries.encode(entry, SPACE)
    assert entries.decode(data, entry.prev, SPACE) == entry
    for wrong in ((data, entry.prev ^ 1, SPACE), (data, entry.prev, bytes(16)), (data[:-1], entry.prev, SPACE)):
        with pytest.raises(DamageError):
            entries.decode(*wrong)
    flipped = bytearray(data)
    flipped[at % len(data)] ^= flip
    with pytest.raises(DamageError):
        entries.decode(bytes(flipped), entry.prev, SPACE)
