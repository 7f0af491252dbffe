"""Deltas: whatever was before, what comes back is the content; and what resembles it takes little."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.content.delta import Delta, apply, difference, shared_ends
from store.content.zstd import train
from store.disk.blob_format import Stretch
from store.errors import DamageError
from tests.store.content.noise import EDIT, edited, noise

MIB = 1 << 20
LARGE = noise(3 * MIB)


def back(base: bytes, delta: Delta, size: int) -> bytes:
    return apply(base, delta.stretches, delta.frame, size)


# few different bytes make much in common, in every arrangement
some_bytes = st.binary(max_size=300) | st.text("ab\n", max_size=300).map(str.encode)
pieces = st.lists(st.sampled_from([noise(400, 1), noise(90, 2), b"x" * 70, b"\n", EDIT, b""]), max_size=12).map(
    b"".join
)


@given(some_bytes | pieces, some_bytes | pieces)
def test_any_content_comes_back_from_any_base(base: bytes, data: bytes) -> None:
    delta = difference(base, data)
    assert back(base, delta, len(data)) == data
    position = 0
    for stretch in delta.stretches:
        assert stretch.offset >= position
        position = stretch.offset + stretch.length
    assert position <= len(base)


@given(st.lists(st.tuples(st.integers(0, 3 * MIB), st.integers(0, 200_000), st.binary(max_size=50)), max_size=8))
def test_large_contents_come_back(changes: list[tuple[int, int, bytes]]) -> None:
    data = LARGE
    for place, gone, come in changes:
        data = data[:place] + come + data[place + gone :]
    delta = difference(LARGE, data)
    assert back(LARGE, delta, len(data)) == data
    assert delta.size < 2000
    backwards = difference(data, LARGE)
    assert back(data, backwards, len(LARGE)) == LARGE


@given(some_bytes | pieces, some_bytes | pieces)
def test_shared_ends_are_as_long_as_they_can_be(one: bytes, other: bytes) -> None:
    ahead, behind = shared_ends(one, other)
    most = min(len(one), len(other))
    assert one[:ahead] == other[:ahead]
    assert ahead == most or one[ahead] != other[ahead]
    assert one[len(one) - behind :] == other[len(other) - behind :]
    assert ahead + behind == most or one[-behind - 1] != other[-behind - 1]


@pytest.mark.parametrize("at", [0, 1, 65535, 65536, 65537, 131071, 131072, 199_999])
def test_shared_ends_of_long_contents(at: int) -> None:
    one = noise(200_000)
    other = one[:at] + b"!" + one[at + 1 :]
    assert shared_ends(one, other) == (at, len(one) - at - 1)
    assert shared_ends(one, one) == (len(one), 0)


@pytest.mark.parametrize("size", [16 << 10, MIB, 5 * MIB])
@pytest.mark.parametrize("places", [(0.0,), (0.5,), (1.0,), (0.0, 1.0), tuple(number / 40 for number in range(40))])
def test_edited_lines_take_little(size: int, places: tuple[float, ...]) -> None:
    base = noise(size)
    data = edited(base, *places)
    delta = difference(base, data)
    assert back(base, delta, len(data)) == data
    assert delta.size < 100 + 40 * len(places)


def test_a_change_on_each_line_takes_a_part() -> None:
    base = noise(MIB)
    data = b"\n".join(b"%6d\t%b" % line for line in enumerate(base.split(b"\n")))
    delta = difference(base, data)
    assert back(base, delta, len(data)) == data
    assert delta.size < MIB // 8


@pytest.mark.parametrize("size", [MIB, 6 * MIB])
def test_what_was_moved_takes_little(size: int) -> None:
    base = noise(size)
    third = size // 3
    data = base[third : 2 * third] + base[:third] + base[2 * third :]
    delta = difference(base, data)
    assert back(base, delta, len(data)) == data
    assert delta.size < 4000


def test_a_base_that_repeats_itself() -> None:
    base = b"the same line, over and over\n" * 100_000
    data = base[: MIB // 2] + noise(MIB) + base[MIB:]
    delta = difference(base, data)
    assert back(base, delta, len(data)) == data


def test_a_base_too_large_to_be_a_dictionary() -> None:
    base, data = noise(9 * MIB, 1), noise(9 * MIB, 2)
    delta = difference(base, data)
    assert delta.stretches == []
    assert back(base, delta, len(data)) == data


def test_a_base_that_is_a_dictionary_of_zstd() -> None:
    """zstd takes what begins so for a trained one, unless told otherwise."""
    base = train([b'{"id":%d,"text":"something like this"}' % number * 3 for number in range(3000)])
    assert base is not None
    assert base.startswith(b"\x37\xa4\x30\xec")
    for data in (base[:200] + b"!" + base[300:], b"!" + base[5000:6000] + b"!", b"\x37\xa4\x30\xec"):
        assert back(base, difference(base, data), len(data)) == data
        assert back(data, difference(data, base), len(base)) == base


# -- damage ------------------------------------------------------------------------------------------------------------


@given(st.data())
def test_a_delta_of_which_something_is_wrong_is_no_disaster(source: st.DataObject) -> None:
    base, data = noise(2000), edited(noise(2000), 0.3, 0.8)
    delta = difference(base, data)
    frame, stretches = bytearray(delta.frame), list(delta.stretches)
    if source.draw(st.booleans()):
        frame[source.draw(st.integers(0, len(frame) - 1))] ^= 1 << source.draw(st.integers(0, 7))
    else:
        number = source.draw(st.integers(0, len(stretches) - 1))
        numbers = source.draw(st.tuples(*[st.integers(0, 2**32 - 1) | st.integers(0, 3000)] * 3))
        stretches[number] = Stretch(*numbers)
    try:
        found = apply(base, stretches, bytes(frame), len(data))
    except DamageError:
        return
    assert len(found) <= len(data)


def test_no_more_is_made_than_was_declared() -> None:
    base, data = noise(2000), edited(noise(2000), 0.5)
    delta = difference(base, data)
    with pytest.raises(DamageError):
        back(base, delta, len(data) - 1)
    with pytest.raises(DamageError, match="takes more"):
        back(base[:-1], delta, len(data))
    bomb = difference(b"", bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(DamageError):
            back(base, bomb, MIB)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
