import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.jp import array_spans
from tests.store.formats.test_json_view import JSON

EVENTS: list[object] = [
    {"timestamp": "2026-03-05 23:12:34.3", "type": "turn_start"},
    {"timestamp": "2026-03-05 23:12:35", "type": "chat_request", "content": 'brackets ]}[{ and "quotes" \\ \n'},
    {"type": "config_delta", "delta": {"a": [{"timestamp": 1}, []], "b": "]"}},
    {"event_id": "e4", "type": "chat_response", "message": "done"},
]
PRETTY = json.dumps(EVENTS, indent=2).encode()
MINIFIED = json.dumps(EVENTS, separators=(",", ":")).encode()


def cut(data: bytes, start: int = 0) -> list[bytes]:
    pieces, position = [], start
    for span in array_spans(memoryview(data), start):
        assert position <= span.start < span.end <= len(data)
        pieces.append(data[span.start : span.end])
        position = span.end
    return pieces


def parsed(data: bytes) -> list[object]:
    """Return the records of ``data``, None for each that is not JSON."""

    def parse(record: bytes) -> object:
        try:
            return json.loads(record)
        except ValueError:
            return None

    return [parse(record) for record in cut(data)]


@given(st.lists(JSON), st.sampled_from([None, 0, 1, 2, "\t"]), st.sampled_from([b"", b"\n", b" \r\n"]))
def test_elements_of_any_array(values: list[object], indent: int | str | None, around: bytes) -> None:
    data = around + json.dumps(values, indent=indent).encode() + around
    assert parsed(data) == values


@pytest.mark.parametrize("data", [PRETTY, MINIFIED, b"\xef\xbb\xbf" + PRETTY + b"\n", PRETTY.replace(b"\n", b"\r\n")])
def test_events(data: bytes) -> None:
    assert parsed(data) == EVENTS
    spans = list(array_spans(memoryview(data), 0))
    for at, span in enumerate(spans):
        assert list(array_spans(memoryview(data), span.end)) == spans[at + 1 :]


def test_what_stands_between_is_the_same_everywhere() -> None:
    spans = list(array_spans(memoryview(PRETTY), 0))
    assert PRETTY[: spans[0].start] == b"[\n  "
    assert PRETTY[spans[-1].end :] == b"\n]"
    between = [(before.end, after.start) for before, after in pairwise(spans)]
    assert {PRETTY[start:end] for start, end in between} == {b",\n  "}


@pytest.mark.parametrize("data", [b"", b"[]", b" [\n]\n", b"[", b"\n"])
def test_nothing(data: bytes) -> None:
    assert cut(data) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"done"', b'"done'),  # a quote is lost
        (b'"type": "chat_request"', b'"type" "chat_request'),
        (b'"quotes\\"', b'"quotes"'),
        (b"  },\n", b"  ,\n"),  # a bracket is lost
        (b"turn_start", b"turn\0\0\n\0start"),
        (b"  },\n", b"  },\n<<<<<<< HEAD\n"),  # a merge conflict
        (b"  },\n", b"  }}},\n"),
        (b"  },\n", b"  }\n"),
        (b"  },\n", b"  },,\n, "),
    ],
)
def test_one_damaged_place_costs_one_event(before: bytes, after: bytes) -> None:
    for count in (1, 2):
        start = PRETTY.replace(before, b"%s", 1).replace(before, after, count - 1).replace(b"%s", after, 1)
        events = parsed(start)
        kept = sum(event in events for event in EVENTS)
        assert kept >= len(EVENTS) - count, events


def test_a_file_cut_off_keeps_what_is_whole() -> None:
    for length in range(len(PRETTY)):
        events = parsed(PRETTY[:length])
        whole = [event for event in events if event is not None]
        assert EVENTS[: len(whole)] == whole or len(PRETTY) - length < 3
        assert len(events) - len(whole) <= 1


@pytest.mark.parametrize("tail", [b"\0\0\0", b"[1]", b"oops"])
def test_what_follows_the_array_is_one_record(tail: bytes) -> None:
    assert cut(PRETTY + b"\n" + tail + b"\n")[len(EVENTS) :] == [tail]


def test_what_is_no_array_is_one_record() -> None:
    assert cut(b'{"events": []}\n') == [b'{"events": []}']
    assert cut(b"\0\0") == [b"\0\0"]


@given(st.binary(max_size=60), st.integers(0, len(PRETTY)), st.integers(0, 40))
def test_any_damage_leaves_spans_in_order(noise: bytes, at: int, lost: int) -> None:
    cut(PRETTY[:at] + noise + PRETTY[at + lost :])
    cut(MINIFIED[: at // 2] + noise + MINIFIED[at // 2 + lost :])


@given(
    st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b",", b"\n", b" ", b'{"timestamp":', b"1", b"\0"]))
)
def test_any_tokens_leave_spans_in_order(tokens: list[bytes]) -> None:
    cut(b"[" + b"".join(tokens))


def test_lines_that_look_like_siblings_do_not_cut_a_valid_element() -> None:
    data = b'[\n  {"a": [\n  {"b": 1}\n  ]},\n  {"c": 2}\n]'
    assert parsed(data) == [{"a": [{"b": 1}]}, {"c": 2}]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "data",
    [
        json.dumps([{"type": "chat_request", "content": 'x\n"y' * 2_000_000}]).encode(),
        b"[" + b" " * 3_000_000 + b'"' + b" " * 3_000_000,
        b"[" * 1_000_000,
        b"[" + b'{"timestamp":' * 100_000,
        b"[\n" + b"  {\n" * 300_000,
        b"[\n  {},\n" + b"{}," * 300_000,
        b"[" + b'"' * 1_000_000,
        b"[" + b"\\" * 1_000_000,
        b"[" + b"x," * 500_000,
    ],
    ids=["literal", "blank", "brackets", "events", "lines", "mixed", "quotes", "backslashes", "words"],
)
def test_no_file_takes_for_ever(data: bytes) -> None:
    cut(data)
