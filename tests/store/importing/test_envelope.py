import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from store.importing.envelope import Envelope, EnvelopeBuilder

gaps = st.lists(st.sampled_from([b"\n", b"\n", b"\n", b",\n  ", b"", b"\xff\0"]), max_size=30)
records = st.binary(max_size=3)


def built(builder: EnvelopeBuilder, between: list[bytes], rest: bytes) -> Envelope:
    for gap in between:
        builder.gap(gap)
    return builder.close(rest)


def joined(envelope: Envelope, contents: list[bytes]) -> bytes:
    stored = msgspec.json.decode(msgspec.json.encode(envelope), type=Envelope)
    return b"".join(stored.join([(content,) for content in contents]))


@given(gaps, st.binary(max_size=5), st.data())
def test_a_file_is_put_together_as_it_was(between: list[bytes], rest: bytes, data: st.DataObject) -> None:
    contents = data.draw(st.lists(records, min_size=len(between), max_size=len(between)))
    file = b"".join(gap + content for gap, content in zip(between, contents, strict=True)) + rest
    assert joined(built(EnvelopeBuilder(), between, rest), contents) == file


@given(gaps, gaps, st.integers(0, 30), st.binary(max_size=2), st.binary(max_size=2))
def test_going_on_is_the_same_as_beginning_anew(
    before: list[bytes], after: list[bytes], position: int, rest: bytes, end: bytes
) -> None:
    position = min(position, len(before))
    known = built(EnvelopeBuilder(), before, rest)
    went_on = built(EnvelopeBuilder(known, position), after, end)
    assert went_on == built(EnvelopeBuilder(), before[:position] + after, end)


def test_pieces_of_a_record_follow_each_other() -> None:
    envelope = built(EnvelopeBuilder(), [b"", b"\n"], b"\n")
    assert b"".join(envelope.join([(b"a", b"b"), iter((b"c",))])) == b"ab\nc\n"


def test_the_usual_file_takes_next_to_nothing() -> None:
    envelope = built(EnvelopeBuilder(), [b""] + [b"\n"] * 100_000, b"\n")
    assert msgspec.json.encode(envelope) == b'{"gaps":[[0,""],[1,"\\n"]],"suffix":"\\n"}'


def test_a_record_that_is_added_to_a_list_of_one_stands_as_that_one_does() -> None:
    envelope = built(EnvelopeBuilder(), [b'{"a": [\n    '], b"\n  ]\n}")
    records = [(0, (b"1",)), (None, (b"2",))]
    assert b"".join(envelope.rejoin(records, (b"", b"\n", b"\n"), 1)) == b'{"a": [\n    1,\n    2\n  ]\n}'
    lines = built(EnvelopeBuilder(), [b""], b"\n")
    assert b"".join(lines.rejoin(records, (b"", b"\n", b"\n"), 1)) == b"1\n2\n"


@given(st.sets(st.integers(0, 7)), st.sampled_from([None, 2]))
def test_what_closes_lists_and_opens_others_stays(gone: set[int], indent: int | None) -> None:
    """A document of lists and a member between: whatever is left out, it holds the rest in its place."""
    document: dict[str, object] = {"x": 0, "a": ["0", "1", "2"], "b": "3", "c": {"d": ["4"]}, "e": ["5", "6", "7"]}
    written = json.dumps(document, indent=indent).encode()
    gaps, end = [], 0
    for position in range(8):
        start = written.index(b'"%d"' % position, end)
        gaps.append(written[end:start])
        end = start + 3
    envelope = built(EnvelopeBuilder(), gaps, written[end:])
    left = [(position, (b'"%d"' % position,)) for position in range(8) if position not in gone]
    rejoined = b"".join(envelope.rejoin(left, (b"[", b",", b"]"), 8))

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {key: without(item) for key, item in value.items()}
        if isinstance(value, list):
            return [item for item in value if int(item) not in gone]
        return None if str(value) == "3" and 3 in gone else value

    assert json.loads(rejoined) == without(document)
    if not gone:
        assert rejoined == written
