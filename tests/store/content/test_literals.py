import re

from hypothesis import example, given
from hypothesis import strategies as st

from store.content.cuts import find_literals, find_literals_carefully
from tests.store.content import samples
from tests.store.content.documents import documents

_LITERAL = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"(\s*:)?', re.DOTALL)


def reference(payload: bytes, at_least: int) -> list[tuple[int, int]]:
    """Find literals the slow and plain way."""
    return [match.span(1) for match in _LITERAL.finditer(payload) if not match[2] and len(match[1]) >= at_least]


@given(documents, st.sampled_from([1, 7, 47, 48, 60, 120]))
def test_the_careful_search_finds_what_the_plain_one_finds(document: bytes, at_least: int) -> None:
    assert find_literals_carefully(document, at_least) == reference(document, at_least)


@given(documents, st.sampled_from([48, 60, 120]))
@example(b'{"a":"C:\\\\","b":"' + b"x" * 60 + b'"}', 48)
@example(b'{"a":"' + b"x" * 60 + b'\\\\"}', 48)
@example(b'{"a":{"\\\\":"' + b"x" * 60 + b'\\\\"}}', 48)
@example(b'{"a":"C:\\\\","b":[' + b"1," * 60 + b'1],"c":"d"}', 48)
def test_the_fast_search_finds_the_same_or_shows_that_it_was_led_astray(document: bytes, at_least: int) -> None:
    found = find_literals(document, at_least)
    if b'\\\\"' not in document:
        assert found == reference(document, at_least) or found is None
    elif found is not None:
        # what it took for one string may be several; no string of this length is missed, nor any key taken
        joined = {at for start, stop in found for at in range(start, stop)}
        assert all(joined.issuperset(range(*range_)) for range_ in reference(document, at_least) if range_ not in found)


@given(st.binary(max_size=400), st.integers(1, 80))
def test_ranges_of_any_bytes_rise_and_stay_inside(payload: bytes, at_least: int) -> None:
    for found in (find_literals(payload, at_least) or [], find_literals_carefully(payload, at_least)):
        position = 0
        for start, stop in found:
            assert position < start
            assert stop - start >= at_least
            assert payload[start - 1 : start] == payload[stop : stop + 1] == b'"'
            position = stop


def test_every_long_string_of_the_samples_is_found() -> None:
    for payload in samples.payloads():
        if payload[:1] != b"{" or payload[-1:] != b"}" or b"\0" in payload:
            continue
        expected = reference(payload, 1024)
        assert find_literals_carefully(payload, 1024) == expected
        assert find_literals(payload, 1024) in (expected, None)
