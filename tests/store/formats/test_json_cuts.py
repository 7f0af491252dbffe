import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.events.event import ValuePath
from store.formats.core import json_cuts
from store.formats.core.json_cuts import LARGEST_PASSED, Choice, cut_spans, cuts
from tests.store.formats.test_json_view import JSON


def choose(path: ValuePath) -> Choice:
    match path:
        case () | ("list",) | ("deep",) | ("deep", "list"):
            return Choice.ENTER
        case ("pairs",) | ("pairs", int()):
            return Choice.ENTER if len(path) == 1 else Choice.LISTS
        case ("list", int()) | ("deep", "list", int()) | ("pairs", int(), int()) | ("taken",) | (int(),):
            return Choice.TAKE
    return Choice.PASS


def cut(data: bytes) -> list[tuple[bytes, ValuePath, int]]:
    found, position = [], 0
    for one in cuts(memoryview(data), choose):
        assert position <= one.start < one.end <= len(data)
        found.append((data[one.start : one.end], one.path, one.document))
        position = one.end
    return found


DOCUMENT: dict[str, object] = {
    "first": {"list": [1], "x": "}]"},
    "list": [{"a": '],[ \\ " }'}, "text", 3.5, None, [1, {"b": []}]],
    "deep": {"passed": 1, "list": [{"c": {}}]},
    "taken": {"list": [1, 2]},
    "pairs": [[{"p": 1}, {"q": 2}], {"r": 3}],
}
EXPECTED: list[tuple[object, ValuePath]] = [
    ({"a": '],[ \\ " }'}, ("list", 0)),
    ("text", ("list", 1)),
    (3.5, ("list", 2)),
    (None, ("list", 3)),
    ([1, {"b": []}], ("list", 4)),
    ({"c": {}}, ("deep", "list", 0)),
    ({"list": [1, 2]}, ("taken",)),
    ({"p": 1}, ("pairs", 0, 0)),
    ({"q": 2}, ("pairs", 0, 1)),
    ({"r": 3}, ("pairs", 1)),
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \r\n", b"\0\0"])
def test_what_is_asked_for_is_cut_and_nothing_else(indent: int | None, before: bytes) -> None:
    found = cut(before + json.dumps(DOCUMENT, indent=indent).encode())
    assert [(json.loads(data), path) for data, path, _ in found] == EXPECTED


def by_brackets(data: bytes) -> list[tuple[bytes, ValuePath, int]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_cuts, "_PARSED_BYTES", -1)
        return cut(data)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("list", "deep", "taken", "pairs", "x"), JSON)), st.booleans())
def test_a_parser_cuts_as_brackets_do(document: dict[str, object], indented: bool) -> None:
    for value in (document, {"deep": document, "pairs": [document, [document]]}, [document, document]):
        data = json.dumps(value, indent=2 if indented else None).encode()
        assert cut(data) == by_brackets(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"list":[1],"list":[2,3]}',
        b'{"list":[1,2,3],"x":1,"list":[2]}',
        b'{"x":1,"x":"\\"x\\":1"}',
        b'{"taken":1,"deep":{"list":[1],"list":"\\"list\\""},"taken":"long enough to end behind"}',
    ],
)
def test_members_with_the_same_key_are_all_there(data: bytes) -> None:
    assert cut(data) == by_brackets(data)


def test_documents_that_follow_each_other_are_told_apart() -> None:
    data = b'[{"a":1},{"b":2}]\n{"list":[{"c":3}]}{"list":[{"d":4}]}\n"x"\n[{"e":5}]'
    assert [(data, document) for data, _, document in cut(data)] == [
        (b'{"a":1}', 0),
        (b'{"b":2}', 0),
        (b'{"c":3}', 1),
        (b'{"d":4}', 2),
        (b'{"e":5}', 4),
    ]


def test_what_is_large_is_a_record_even_where_nobody_asks_for_it() -> None:
    large = '"' + "x" * LARGEST_PASSED + '"'
    assert [path for _, path, _ in cut(f'{{"a":{large},"b":"small","list":[1]}}'.encode())] == [("a",), ("list", 0)]


def test_from_the_middle_all_is_one_span_at_the_offset() -> None:
    data = memoryview(json.dumps(DOCUMENT).encode())
    (span,) = cut_spans(data, 40, choose)
    assert (span.start, span.end) == (40, len(data))
    assert list(cut_spans(data, len(data), choose)) == []


def pretty(*records: object) -> bytes:
    return json.dumps({"list": list(records)}, indent=2).encode()


def test_a_file_that_was_cut_off_keeps_what_came_before() -> None:
    data = pretty({"a": 1}, {"b": {"c": "long text"}})
    found = cut(data[:-20])
    assert json.loads(found[0][0]) == {"a": 1}
    assert found[1][0].startswith(b'{\n      "b"')
    assert len(found) == 2


@pytest.mark.parametrize("lost", [b'"c": {', b'"b": "'])
def test_a_bracket_or_a_quote_that_is_lost_spoils_one_record(lost: bytes) -> None:
    data = pretty({"a": 1}, {"b": "x", "c": {"d": 1}}, {"e": 5}, {"f": 6})
    whole = [data for data, _, _ in cut(data.replace(lost, lost[:-1]))]
    assert json.loads(whole[0]) == {"a": 1}
    assert [json.loads(record) for record in whole[-2:]] == [{"e": 5}, {"f": 6}]


def test_a_line_that_stands_twice_spoils_one_record() -> None:
    data = pretty({"a": 1}, {"b": {"c": 1}}, {"e": 5})
    whole = [data for data, _, _ in cut(data.replace(b'      "b": {\n', b'      "b": {\n      "b": {\n'))]
    assert json.loads(whole[-1]) == {"e": 5}


PIECES = st.sampled_from([b"{", b"}", b"[", b"]", b'"', b",", b"\n", b"\\", b"\0", b'"list":', b"1", b"\xff", b" "])


def damaged() -> Iterator[bytes]:
    yield from (b"", b"[", b"{", b'"', b"]]", b"[" * 9000, b'{"list":' * 900, b"{}" * 900, b'{"list":[' + b"," * 900)


@given(st.one_of(st.lists(PIECES, max_size=40).map(b"".join), JSON.map(lambda value: json.dumps(value).encode())))
def test_any_bytes_can_be_cut(data: bytes) -> None:
    cut(data)


@pytest.mark.parametrize("data", list(damaged()))
def test_odd_bytes_can_be_cut(data: bytes) -> None:
    cut(data)


def test_many_lost_brackets_do_not_take_forever() -> None:
    """Each record looks as if it went on to the end of the file; that is not tried for each of them."""
    record = b'\n  {"a": [' + b"1, " * 600 + b"\n"
    data = b"[" + record * 20_000 + b"]"
    assert sum(len(piece) for piece, _, _ in cut(data)) > len(data) * 0.9


@pytest.mark.parametrize("holder", ["list", "named"])
def test_in_one_line_a_quote_that_is_lost_spoils_one_record(holder: str) -> None:
    records = [{"id": f"r{at}", "says": f"word {at}", "more": {"id": 1}} for at in range(4)]
    held = records if holder == "list" else {f"k{at}": record for at, record in enumerate(records)}
    data = json.dumps({"v": {"id": "r"}, holder: held}, separators=(",", ":")).encode().replace(b'"word 1"', b'"word 1')

    def within(path: ValuePath) -> Choice:
        return Choice.ENTER if path in ((), (holder,)) else Choice.TAKE if path[0] == holder else Choice.PASS

    found = [(data[one.start : one.end], one.path) for one in cuts(memoryview(data), within)]
    whole = [json.loads(record) for at, (record, _path) in enumerate(found) if at != 1]
    assert whole == [records[0], *records[2:]]
    assert [path[0] for _record, path in found] == [holder] * 4


@pytest.mark.timeout(30)
@pytest.mark.parametrize("in_list", [True, False])
def test_objects_that_begin_unlike_the_first_are_not_searched_again_and_again(in_list: bool) -> None:
    others = [{"type": "call", "id": f"c{at}", "says": "x" * 50} for at in range(100_000)]
    held = [{"role": "user"}, *others] if in_list else {f"k{at}": one for at, one in enumerate([{"a": 1}, *others])}

    def each(path: ValuePath) -> Choice:
        return Choice.TAKE if path else Choice.ENTER

    assert sum(1 for _ in cuts(memoryview(json.dumps(held).encode()), each)) == len(others) + 1
