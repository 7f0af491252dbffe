import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.export_format import Outline, outlines
from tests.store.formats.exports import asked, dumped, message, said, talk, tree


def outlined(data: bytes, holder: str = "mapping") -> list[Outline]:
    return [outline for _end, outline in outlines(memoryview(data), holder)]


def entries(data: bytes, holder: str = "mapping") -> list[tuple[str, bytes]]:
    """Return each message, with the key that stands before it, "" where there is none."""
    found = []
    for outline in outlined(data, holder):
        for span in outline.messages:
            key = key_before(data[max(0, span.start - 100) : span.start])
            found.append((json.loads(key[1]) if key else "", data[span.start : span.end]))
    return found


key_before = re.compile(rb'("[^"]*")\s*:\s*\Z').search


TWO = (asked("c1"), asked("c2", title='{"title": "no, [this] \\ is it", "create_time": 1'))


def check(data: bytes, holder: str = "mapping") -> None:
    """Fail unless spans rise and stay within."""
    position = 0
    for end, outline in outlines(memoryview(data), holder):
        for span in outline.messages:
            assert position <= span.start < span.end <= end <= len(data)
            position = span.end
        assert position <= end
        position = end


@pytest.mark.parametrize(
    "data",
    [
        dumped(*TWO),
        json.dumps(TWO, indent=2).encode(),
        json.dumps(TWO, separators=(",", ":"), ensure_ascii=False).encode(),
        b"\xef\xbb\xbf" + json.dumps(TWO, indent="\t").encode().replace(b"\n", b"\r\n") + b"\r\n",
        b"\n".join(json.dumps(one).encode() for one in TWO) + b"\n",
        b"".join(b"%b\x1e\n" % dumped(one) for one in TWO),
    ],
    ids=["list", "indented", "compact", "windows", "one a line", "shards"],
)
def test_messages_are_found_with_their_keys_however_they_are_written(data: bytes) -> None:
    found = [(key, json.loads(record)) for key, record in entries(data)]
    assert found == [(key, node) for one in TWO for key, node in one["mapping"].items()]  # type: ignore[attr-defined]
    for outline, one in zip(outlined(data), TWO, strict=True):
        assert {key: json.loads(value) for key, value in outline.members.items()} == {
            key: value for key, value in one.items() if key != "mapping"
        }
    check(data)


def test_messages_may_be_the_elements_of_a_list() -> None:
    two = (talk("c1", message("m1", "human", "Hi"), message("m2", "assistant", "Ho")), talk("c2"))
    data = dumped(*two)
    assert [json.loads(record) for _key, record in entries(data, "chat_messages")] == two[0]["chat_messages"]
    assert [len(outline.messages) for outline in outlined(data, "chat_messages")] == [2, 0]


def test_a_conversation_alone_and_files_without_any() -> None:
    one = json.dumps(asked("c1")).encode()
    assert len(entries(one)) == 7
    for data in (
        b"",
        b"[]",
        b" [ ] ",
        b"null",
        b'"text"',
        b"[1, 2]",
        b"\0\0\0",
        b"[[[[",
        b"{",
        b'{"',
        b"not JSON at all",
    ):
        assert entries(data) == []
    assert [outline.messages for outline in outlined(b'[{"a": 1}, {"mapping": {}}, {"mapping": 3}, {}]')] == [
        [],
        [],
        [],
        [],
    ]


def test_a_key_that_stands_twice_is_two_messages() -> None:
    data = b'[{"mapping": {"a": {"id": 1}, "a": {"id": 22}}}]'
    assert entries(data) == [("a", b'{"id": 1}'), ("a", b'{"id": 22}')]
    assert entries(b'{"mapping": {"\\u0061": {"id": 1}}}') == [("a", b'{"id": 1}')]


def test_conversations_that_begin_in_other_ways_than_the_first() -> None:
    data = b'[{"id": 1, "mapping": {"a": {}}}, {"mapping": {"b": {}}, "id": 2}, {"title": "", "mapping": {"c": {}}}]'
    assert [key for key, _record in entries(data)] == ["a", "b", "c"]


def test_objects_in_messages_that_begin_as_conversations_do() -> None:
    inner = {"title": "x", "create_time": 1, "mapping": {"no": {}}}
    data = dumped(*[tree(f"c{at}", said("u", "root", "user", {"parts": [inner] * 9})) for at in range(3)])
    assert [key for key, _record in entries(data)] == ["root", "u"] * 3


def test_what_no_parser_reads_is_followed_by_its_brackets() -> None:
    data = json.dumps(TWO).encode().replace(b"1700000000.25", b"EPOCH.MILLIS").replace(b"null", b"NaN")
    assert [key for key, _record in entries(data)] == [key for one in TWO for key in one["mapping"]]  # type: ignore[attr-defined]
    assert json.loads(outlined(data)[0].members["title"]) == "A talk"
    check(data)


def test_a_file_that_was_cut_off_keeps_what_came_before() -> None:
    data = dumped(*TWO)
    whole = entries(data)
    for end in range(0, len(data), 7):
        check(data[:end])
        found = entries(data[:end])
        kept = [entry for entry in found if entry in whole]
        assert kept == whole[: len(kept)]
        assert len(found) - len(kept) <= 1


@pytest.mark.parametrize("damage", [b"\0" * 40, b'"', b"{", b"}", b"]", b"\\", b"\xff\xfe", b"\n<<<<<<< HEAD\n"])
def test_damage_costs_the_messages_that_it_is_in(damage: bytes) -> None:
    data = dumped(*(asked(f"c{at}") for at in range(4)))
    whole = entries(data)
    for place in range(40, len(data), 97):
        damaged = data[:place] + damage + data[place:]
        check(damaged)
        found = {record for _key, record in entries(damaged)}
        lost = [record for _key, record in whole if record not in found]
        assert len(lost) <= 7, place


def test_after_damage_the_messages_that_follow_are_found() -> None:
    data = dumped(asked("c1")).replace(b'"Why is the sky', b"Why is the sky", 1)
    found = entries(data)
    assert [key for key, _record in found] == ["root", "u1", "a1", "a2", "u2", "u3", "a3"]
    assert b"Why is the sky" in found[1][1]
    assert json.loads(outlined(data)[0].members["current_node"]) == "a3"


@given(st.binary(max_size=200), st.integers(0, 4000), st.integers(0, 200))
def test_any_damage_is_survived(garbage: bytes, place: int, cut: int) -> None:
    data = dumped(*TWO)
    check(data[:place] + garbage + data[place + cut :])
    check(garbage)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(max_size=5) | st.just("mapping"), JSON, max_size=4), max_size=4), st.booleans())
def test_any_objects_are_taken_apart_as_a_parser_does(objects: list[dict[str, object]], spaced: bool) -> None:
    data = json.dumps(objects, indent=1 if spaced else None, ensure_ascii=spaced).encode("utf-8", "surrogatepass")
    found = outlined(data)
    assert len(found) == len(objects)
    for outline, one in zip(found, objects, strict=True):
        held = one.get("mapping")
        expected = list(held.values()) if isinstance(held, dict) else held if isinstance(held, list) else []
        assert [json.loads(data[span.start : span.end]) for span in outline.messages] == expected
        assert outline.members.keys() == one.keys() - {"mapping"} or not isinstance(held, (dict, list))


def test_every_one_of_many_damaged_conversations_is_told_from_the_others() -> None:
    data = dumped(*(asked(f"c{at}") for at in range(300))).replace(b'"role": "user"', b'"role: "user"')
    found = outlined(data)
    assert len(found) == 300
    assert all(3 <= len(outline.messages) <= 7 for outline in found)
