"""Edited transcripts, taken apart: sections, their texts, and what each changes in its event."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text import prose, transcript
from fusefs.text.parse import ParseError
from fusefs.text.transcript import HEADING, blob_target, parts
from fusefs.text.transcript_edit import Section, bare, edit_of, new_text, new_title, numbered, read
from store.events.event import Block, Event, EventEdit, Kind
from store.formats.core.blocks import argument_blocks
from tests.fusefs.text import strategies
from tests.fusefs.text.test_transcript import conversation

HEAD = transcript.head(conversation())


def drawn(events: Sequence[Event]) -> tuple[list[str], dict[int, str]]:
    """Return the sections of events, and the lines of those that are folded."""
    sections = [transcript.section(number, event).decode() for number, event in enumerate(events, 1)]
    folded = {at: bare(sections[at - 1].encode()) for at, one in enumerate(events, 1) if transcript.is_folded(one)}
    return sections, folded


def sections_of(text: str, folded: dict[int, str] | None = None) -> list[Section]:
    """Return the sections of a transcript with a text behind its head."""
    return list(read(HEAD + text.encode(), folded or {}).sections)


def only(text: str) -> Section:
    (section,) = sections_of(text)
    return section


def edited(event: Event, old: str, new: str) -> EventEdit:
    """Return the edit of event 7 that a change in its section makes."""
    text = transcript.section(7, event).decode()
    assert text.count(old) == 1
    return edit_of(7, event, only(text.replace(old, new)))


@given(st.lists(strategies.events(), max_size=4))
def test_what_is_not_changed_is_no_edit(events: list[Event]) -> None:
    sections, folded = drawn(events)
    found = {section.number: section for section in sections_of("".join(sections), folded)}
    for number, event in enumerate(events, 1):
        if event.kind is Kind.RECORD:
            assert number not in found
            continue
        assert found[number].whole == bare(sections[number - 1].encode())
        assert found[number].folded == (number in folded)
        assert edit_of(number, event, found[number]) == EventEdit()


@given(strategies.events(), st.data())
def test_a_changed_text_changes_its_block_alone(event: Event, data: st.DataObject) -> None:
    shown = [part for part in parts(7, event, blob_target) if event.kind is not Kind.RECORD]
    texts = [part for part in shown if part.block is not None and part.block.type in ("text", "resource")]
    # newlines around a section are not its text
    texts = [part for part in texts if part.text.strip("\n")]
    if not texts or event.lossy:
        return
    part = data.draw(st.sampled_from(texts))
    cut = data.draw(st.integers(0, len(part.text)))
    text = f"{part.text[:cut]}more{part.text[cut:]}"
    heading = transcript.heading(7, event)
    pieces = [f"\n{one.before}{text if one is part else one.text}{one.after}" for one in shown]
    edit = edit_of(7, event, only(heading + "".join(pieces)))
    assert part.block is not None
    wanted = (prose.read if part.is_prose else prose.read_code)(text)
    told = [(change.path, change.text.strip("\n")) for change in edit.blocks]
    assert told == [(part.block.path, wanted.strip("\n"))]
    assert edit.fields == ()


def test_several_texts_of_one_event() -> None:
    event = Event(
        Kind.ASSISTANT,
        blocks=(
            Block("text", "Let me see.", name="thinking", path=(0,)),
            Block("text", "One", path=(1,)),
            Block("resource", "x = 1", uri="file:///a.py", path=(2,)),
            Block("text", "Two", path=(3,)),
        ),
    )
    text = transcript.section(7, event).decode()
    text = text.replace("Let", "Do let").replace("x = 1", "x = 2\n```\ny = 3").replace("Two", "### Two")
    found = {change.path: change.text for change in edit_of(7, event, only(text)).blocks}
    assert found == {(0,): "Do let me see.", (2,): "x = 2\n```\ny = 3", (3,): "# Two"}


def test_texts_that_cannot_be_told_apart_are_refused() -> None:
    event = Event(Kind.USER, blocks=(Block("text", "One", path=(0,)), Block("text", "Two", path=(1,))))
    text = transcript.section(7, event).decode()
    assert "One\n\n***\n\nTwo" in text
    assert edited(event, "Two", "Three\n\n***\n\nFour").blocks[0].text == "Three\n\n***\n\nFour"
    with pytest.raises(ParseError, match=r"^line 13: .* can be seen in two ways"):
        edit_of(7, event, only(text.replace("One", "1\n\n***\n\nI").replace("Two", "2")))


def test_a_command_and_a_file_that_a_call_writes() -> None:
    def call(tool: str, given: dict[str, object]) -> Event:
        return Event(Kind.TOOL_CALL, tool=tool, blocks=argument_blocks(given, ("input",), "arguments"))

    (change,) = edited(call("Bash", {"command": "ls", "timeout": 5}), "\nls\n", "\nls -l\n").blocks
    assert (change.type, change.path) == ("json", ("input",))
    assert change.text == '{\n  "command": "ls -l",\n  "timeout": 5\n}'
    (change,) = edited(call("Write", {"file_path": "/a", "content": "one\ntwo\n"}), "two", "three\n ## x").blocks
    assert (change.path, change.text) == (("input", "content"), "one\nthree\n## x\n")
    # which of the two it is cannot be told
    with pytest.raises(ParseError, match='line 16: this is drawn, and no text of event 7: write back "ls"'):
        edited(call("Bash", {"command": "ls", "description": "ls"}), "\nls\n", "\nls -l\n")


def test_json_is_checked() -> None:
    event = Event(Kind.TOOL_RESULT, blocks=(Block("json", '{\n  "a": 1\n}', path=("content",)),))
    assert edited(event, "1", "2").blocks[0].text == '{\n  "a": 2\n}'
    with pytest.raises(ParseError, match="line 18: this is not JSON"):
        edited(event, "1", "")


def test_blank_lines_around_a_section_are_not_its_text() -> None:
    event = Event(Kind.USER, blocks=(Block("text", "\nHello\n\n", path=(0,)),))
    for text in ("\n## 7 · user\n\n\nHello\n\n\n", "## 7 · user  \nHello", "\n\n## 7 · user\n\n\n\nHello\n\n\n\n\n"):
        assert edit_of(7, event, only(text)) == EventEdit()
    assert edit_of(7, event, only("## 7 · user\nGoodbye")).blocks[0].text == "\nGoodbye\n\n"


def test_a_text_may_quote_the_line_of_a_folded_event() -> None:
    line = "*1 · system · events/00001-system.md*"
    said = Event(Kind.USER, blocks=(Block("text", f"See:\n\n{line}", path=(0,)),))
    events = [Event(Kind.SYSTEM), said, Event(Kind.CONFIG)]
    sections, folded = drawn(events)
    found = sections_of("".join(sections), folded)
    assert [section.number for section in found] == [1, 2, 3]
    assert found[1].text == f"See:\n\n{line}"
    assert [section.line for section in found] == [13, 15, 21]


def test_headings() -> None:
    with pytest.raises(ParseError, match='line 14: "## Plan" is the heading of no event: within a text'):
        sections_of("\nHello\n## Plan\n")
    new = only("\n## user\n\n### Plan\n\n- go\n\n")
    assert (new.number, new.kind, new_text(new)) == (0, Kind.USER, "# Plan\n\n- go")
    assert new_text(only("## note\n```\n ## x\n```\n")) == "## x"
    with pytest.raises(ParseError, match="line 12: a new event has a text"):
        new_text(only("## user\n\n"))


def test_a_section_without_a_number_is_the_one_that_is_missing_in_its_place() -> None:
    shown = {1: Kind.USER, 2: Kind.ASSISTANT, 4: Kind.USER, 5: Kind.USER}

    def found(text: str) -> list[int]:
        return numbered(sections_of("".join(f"{HEADING}{one}\n\n" for one in text.split(", "))), shown)

    assert found("1 · user, 2 · assistant, user, 5 · user") == [1, 2, 4, 5]
    assert found("1 · user, 2 · assistant, user, user, user") == [1, 2, 4, 5, 0]
    assert found("1 · user, user, 2 · assistant") == [1, 0, 2]
    assert found("user, assistant, 4 · user, note") == [1, 2, 4, 0]
    with pytest.raises(ParseError, match="line 14: event 1 stands on line 12 already"):
        found("1 · user, 1 · user")


def title(text: str) -> tuple[str, int]:
    return new_title(text.rstrip("\n").split("\n"), NAMED)


NAMED = conversation()


def test_the_title_may_change() -> None:
    head = HEAD.decode()
    assert title(head) == ("", 0)
    assert title(head.replace("# Fix the", "# Mend <a> \\<p>")) == ("Mend <a> <p> login bug", 11)
    # in both places
    assert title(head.replace("Fix the", "Mend the")) == ("Mend the login bug", 11)
    for wrong, line in ((head.replace("title: Fix", "title: Mend"), 2), (head[4:], 1), (head.partition("#")[0], 9)):
        with pytest.raises(ParseError, match=f"line {line}: the head is drawn: write back"):
            title(wrong)
    with pytest.raises(ParseError, match="line 13: this belongs to no event"):
        title(f"{head}\nHello")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ParseError, match="line 12: the byte 0xff is not UTF-8"):
        read(HEAD + b"\xff", {})
    assert [section.number for section in read(b"\xef\xbb\xbf" + HEAD + "## 1 · user\n".encode(), {}).sections] == [1]


def test_a_folded_line_behind_a_new_section_is_no_text_of_it() -> None:
    folded = {2: "*2 · system · events/00002-system.md*"}
    text = f"\n## 1 · user\n\nHello\n\n## user\n\nAnd more\n\n{folded[2]}\n\n## 3 · user\n\nBye\n"
    found = sections_of(text, folded)
    assert [(section.number, section.text, section.folded) for section in found] == [
        (1, "Hello", False),
        (0, "And more", False),
        (2, "", True),
        (3, "Bye", False),
    ]
