r"""Reading a transcript as a person left it: its title, its sections, and what each of them changes in its event.

A section begins with a line ``## 7 · result bash · 2026-03-05 19:31``; the number says whose it is. One of a new event
is headed by its kind alone, ``## user``. Texts are found between what is drawn around them, and read back as
``fusefs.text.prose`` draws them. Newlines around a section are not its text's. What is only drawn (the head but for
the title, folded prompts, diffs, lists of tasks, labels, fences, links) must stand there as it stood.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, product

from msgspec import Struct
from msgspec.structs import replace

from fusefs.text import prose, transcript
from fusefs.text.changes import block_edit
from fusefs.text.parse import ParseError, shorten, text_of
from fusefs.text.transcript import HEADING, TITLE, Part
from store.events.conversation import Conversation, called_before
from store.events.event import BlockEdit, Event, EventEdit, FieldEdit, Kind
from store.formats.core.json_view import as_object, decode, pretty
from store.results import to_texts

# Others need more than a text, and are written as files of their own.
_NEW = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.REASONING, Kind.QUESTION, Kind.SUMMARY, Kind.NOTE)
_KINDS = {kind.word: kind for kind in _NEW}

_beginning = re.compile(rf"^{HEADING}(?:([0-9]{{1,18}}) · )?", re.MULTILINE)
_new = re.compile(rf"{HEADING}({'|'.join(_KINDS)})").fullmatch
_last_folded = re.compile(r"(?:\A|\n)(\*([0-9]{1,18}) · [a-z]+ · events/\S+\*)\n*\Z").search
_folded_number = re.compile(r"\*([0-9]{1,18}) · ").match
_only_fence = re.compile(r"(`{3,})[^`\n]*\n(.*)\n\1", re.DOTALL).fullmatch


class Section(Struct, frozen=True):
    """A section of a saved transcript: its heading on ``line``, and ``text`` from line ``text_line`` on.

    ``number`` is that of its event, 0 for a new one of ``kind``. ``text`` has no newlines around it. ``folded``: the
    heading is all that there is.
    """

    number: int
    heading: str
    line: int
    kind: Kind = Kind.RECORD
    text: str = ""
    text_line: int = 0
    folded: bool = False

    @property
    def whole(self) -> str:
        """The section as :func:`bare` returns it of a drawn one, if it is that."""
        return f"{self.heading}\n\n{self.text}" if self.text else self.heading


class Saved(Struct, frozen=True):
    """A saved transcript: the lines above the first section, and the sections in their order."""

    head: Sequence[str]
    sections: Sequence[Section]


def bare(section: bytes) -> str:
    """Return a drawn section without the newlines around it."""
    heading, _, text = section.decode().strip("\n").partition("\n")
    heading, text = heading.rstrip(), text.strip("\n")
    return f"{heading}\n\n{text}" if text else heading


def read(data: bytes, folded: Mapping[int, str]) -> Saved:
    """Take a saved transcript apart; ``folded`` are the lines of folded events, by number. Raises ParseError."""
    text = text_of(data)
    found = list(_beginning.finditer(text))
    numbers = {int(one[1]) for one in found if one[1]}
    starts = [one.start() for one in found] or [len(text)]
    head, *sections = _with_folded(Section(0, "", 1, text=text[: starts[0]], text_line=1), 0, folded, numbers)
    line, counted = 1, 0
    for one, (start, end) in zip(found, pairwise([*starts, len(text)]), strict=False):
        line += text.count("\n", counted, start)
        counted = start
        # a new one has no number: it stands behind the one before it
        after = int(one[1] or next((other.number for other in reversed(sections) if other.number), 0))
        sections += _with_folded(_section(int(one[1] or 0), text[start:end], line), after, folded, numbers)
    return Saved(head.text.split("\n"), sections)


def _section(number: int, text: str, line: int) -> Section:
    heading, _, below = text.partition("\n")
    heading = heading.rstrip()
    stripped = below.lstrip("\n")
    kind = Kind.RECORD
    if not number:
        named = _new(heading)
        if named is None:
            reason = f"{shorten(heading)} is the heading of no event: within a text, write three # or more"
            raise ParseError(line, f"{reason}; for a new event, {HEADING}user or the like")
        kind = _KINDS[named[1]]
    text_line = line + 1 + len(below) - len(stripped)
    return Section(number, heading, line, kind, stripped, text_line)


def _with_folded(
    section: Section, after: int, folded: Mapping[int, str], numbers: Collection[int]
) -> list[Section]:
    """Return a section, and those of the folded events behind it.

    They are behind event ``after``; ``numbers`` are those of all other sections.
    """
    text, behind = section.text.rstrip("\n"), list[Section]()
    while (last := _last_folded(text)) and folded.get(number := int(last[2])) == last[1]:
        # a text may quote such a line
        if number < after or any(after < other < number for other in numbers):
            break
        line = section.text_line + text.count("\n", 0, last.start(1))
        behind.append(Section(number, last[1], line, folded=True))
        text = text[: last.start()].rstrip("\n")
    return [replace(section, text=text), *reversed(behind)]


# -- the head ----------------------------------------------------------------------------------------------------------


def new_title(saved: Sequence[str], conversation: Conversation) -> tuple[str, int]:
    """Return the title that the lines above the first section give a conversation, and its line; "" if it stays.

    They may be as the conversation was called before. Raises ParseError where all else is not as it is drawn.
    """
    drawn = _head(conversation)
    if list(saved) == drawn:
        return "", 0
    at = next((at for at, line in enumerate(saved) if line.startswith(TITLE)), len(saved))
    if beyond := next((line for line in range(at + 2, len(saved) + 1) if saved[line - 1]), 0):
        raise ParseError(beyond, f"this belongs to no event: write it below a heading, such as {HEADING}user")
    title = prose.read_line(saved[at][len(TITLE) :].strip()) if at < len(saved) else ""
    earlier = called_before(conversation.metadata)
    calls = (conversation, *(replace(conversation, project=project, name=name) for project, name in earlier))
    for called, was in product(calls, (conversation.title, title)):
        if title and _head(replace(called, title=was))[:-1] == list(saved[:at]):
            stays = saved[at] == drawn[-1] or (called is not conversation and was == title)
            return ("", 0) if stays else (title, at + 1)
    pairs = zip(drawn, [*saved, *[""] * len(drawn)], strict=False)
    line = next(line for line, (old, new) in enumerate(pairs, 1) if old != new)
    reason = f"the head is drawn: write back {drawn[line - 1] or 'an empty line'}"
    raise ParseError(min(line, len(saved)), f"{reason}, and change nothing in it but the title, {TITLE}…")


def _head(conversation: Conversation) -> list[str]:
    return transcript.head(conversation).decode().rstrip("\n").split("\n")


# -- which events the sections are -------------------------------------------------------------------------------------


def numbered(sections: Sequence[Section], shown: Mapping[int, Kind]) -> list[int]:
    """Return the number of each section's event, 0 for a new one; ``shown`` are the kinds of those that were drawn.

    A section without a number is the event that is missing in its place, if one of its kind is: an editor that goes on
    after a save still has the new event without a number. Raises ParseError where a number stands twice.
    """
    found = [section.number for section in sections]
    lines: dict[int, int] = {}
    for section in sections:
        if section.number and (line := lines.setdefault(section.number, section.line)) != section.line:
            reason = f"event {section.number} stands on line {line} already: head a new one with its kind alone"
            raise ParseError(section.line, f"{reason}, such as {HEADING}user")
    before, missing = 0, [number for number in shown if number not in lines]
    for at, section in enumerate(sections):
        if section.number:
            before = section.number
            continue
        beyond = next((number for number in found[at:] if number), max(shown, default=0) + 1)
        here = (number for number in missing if before < number < beyond and shown[number] is section.kind)
        if number := next(here, 0):
            missing.remove(number)
            found[at] = before = number
    return found


def check_missing(folded: Mapping[int, str], lines: Sequence[str], line: int) -> None:
    """Refuse changed lines, from line ``line`` on, where one of them was that of a folded event that is missing."""
    for at, one in enumerate(lines, line):
        number = _folded_number(one)
        if number and (drawn := folded.get(int(number[1]))):
            reason = f"the text of event {number[1]} is in its own file: write back {drawn}"
            raise ParseError(at, f"{reason}, with nothing but empty lines below it")


# -- what a section changes --------------------------------------------------------------------------------------------


def new_text(section: Section) -> str:
    """Return the text of a new event."""
    if not section.text.strip():
        raise ParseError(section.line, "a new event has a text: write one below this line")
    if transcript.is_said(section.kind):
        return prose.read(section.text)
    fenced = _only_fence(section.text)
    return prose.read_code(fenced[2]) if fenced else section.text


def edit_of(number: int, event: Event, section: Section) -> EventEdit:
    """Return the edit that leads from event ``number``, as it is drawn, to a section; raises ParseError."""
    if section.folded or section.whole == bare(transcript.section(number, event)):
        return EventEdit()
    if event.lossy:
        reason = f"event {number} is read-only, its record is not valid Unicode or JSON: take the change back"
        raise ParseError(section.line, reason)
    fields = () if not section.number else tuple(_tool(number, event, section))
    return to_texts(event, EventEdit(tuple(_texts(number, event, section)), fields))


def _tool(number: int, event: Event, section: Section) -> Iterator[FieldEdit]:
    """Yield the change of a heading's tool, if it is changed."""
    drawn = transcript.heading(number, event).strip("\n")
    if section.heading == drawn.rstrip():
        return
    word, tool, time = transcript.heading_parts(number, event)
    told = section.heading.removeprefix(word)
    if told == section.heading or not told.endswith(time):
        raise ParseError(section.line, f"only the tool can be changed in a heading: write back {drawn}")
    told = told[: len(told) - len(time)].strip()
    if not tool or not told:
        raise ParseError(section.line, f"an event with a tool has one, and no other: write back {drawn}")
    yield FieldEdit("tool", prose.read_line(told))


def _texts(number: int, event: Event, section: Section) -> Iterator[BlockEdit]:
    """Yield the changes of texts, which stand between what is only drawn."""
    frame, texts = [""], list[Part]()
    for part in transcript.parts(number, event, transcript.blob_target):
        if _can_change(part, event):
            frame[-1] += f"\n{part.before}"
            texts.append(part)
            frame.append(part.after)
        else:
            frame[-1] += f"\n{part.before}{part.text}{part.after}"
    framed = _Framed(number, frame, [part.text for part in texts], section)
    for part, (text, line) in zip(texts, framed.texts(), strict=True):
        if text != part.text:
            yield from _text(event, part, text, line)


def _can_change(part: Part, event: Event) -> bool:
    """Return whether a part is a text of the event, and nothing is lost where it is drawn."""
    if part.argument is not None:
        return _holder(part.argument, event) is not None
    return part.block is not None and _read(part, part.text) == part.block.text


def _read(part: Part, drawn: str) -> str:
    return prose.read(drawn) if part.is_prose else prose.read_code(drawn)


def _holder(argument: str, event: Event) -> BlockEdit | None:
    """Return an edit that changes nothing of the only block that is an argument, or JSON with it as a value."""
    found = [block for block in event.blocks if block.type == "text" and block.text == argument]
    found += [block for block in event.blocks if block.type == "json" and argument in _members(block.text).values()]
    if len(found) != 1 or (found[0].type == "json" and [*_members(found[0].text).values()].count(argument) != 1):
        return None
    return block_edit(found[0], found[0].text or "", 0)


def _members(document: str | None) -> dict[str, object]:
    decoded = decode((document or "").encode(errors="replace"))
    return dict(as_object(decoded.value)) if decoded else {}


def _text(event: Event, part: Part, drawn: str, line: int) -> Iterator[BlockEdit]:
    text = _read(part, drawn)
    if part.argument is None:
        if part.block is not None and text != part.block.text:
            yield block_edit(part.block, text, line - 1 if part.block.type == "json" else line)
        return
    edit = _holder(part.argument, event)
    text += "\n" * part.argument.endswith("\n")
    if edit is not None and text != part.argument:
        if edit.type == "json":
            members = _members(edit.text)
            text = pretty({key: text if value == part.argument else value for key, value in members.items()})
        yield replace(edit, text=text)


class _Framed:
    """A section's texts in what is drawn around them: ``frame[0]``, the first text, ``frame[1]``, and so on."""

    def __init__(self, number: int, frame: Sequence[str], texts: Sequence[str], section: Section) -> None:
        whole = "".join(one + text for one, text in zip(frame, (*texts, ""), strict=True))
        begin = len(whole) - len(whole.lstrip("\n")) if whole.strip("\n") else min(len(whole), 1)
        self._number = number
        self._frame = frame
        self._drawn = texts
        self._whole = whole
        self._saved = whole[:begin] + section.text + whole[max(begin, len(whole.rstrip("\n"))) :]
        self._line = section.line
        self._first_line = section.text_line - begin

    def texts(self) -> list[tuple[str, int]]:
        """Return the texts, each with its line; raises ParseError."""
        saved = self._saved
        return [(saved[start:end], self._first_line + saved.count("\n", 0, start)) for start, end in self._spans()]

    def _spans(self) -> list[tuple[int, int]]:
        frame, drawn, saved = self._frame, self._drawn, self._saved
        first, last, start, end = 0, len(drawn), 0, len(saved)
        if not drawn and saved == frame[0]:
            return []
        # what stands as it stood, from the beginning and from the end; the changed ones are between
        left, right = list[tuple[int, int]](), list[tuple[int, int]]()
        while first < last - 1 and saved.startswith(frame[first] + drawn[first] + frame[first + 1], start):
            begin = start + len(frame[first])
            start = begin + len(drawn[first])
            left.append((begin, start))
            first += 1
        while last > first + 1 and saved.endswith(frame[last - 1] + drawn[last - 1] + frame[last], start, end):
            beyond = end - len(frame[last])
            end = beyond - len(drawn[last - 1])
            right.append((end, beyond))
            last -= 1
        begin, beyond = start + len(frame[first]), end - len(frame[last])
        is_framed = saved.startswith(frame[first], start) and saved.endswith(frame[last], start, end)
        if not drawn or not is_framed or begin > beyond:
            raise self._refused()
        return [*left, *self._split(frame[first + 1 : last], begin, beyond), *reversed(right)]

    def _split(self, between: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of the texts from ``start`` to ``end``, which have something between them."""
        starts, ends = [start], list[int]()
        for drawn in between:
            if (at := self._saved.find(drawn, starts[-1], end)) < 0:
                raise self._refused()
            ends.append(at)
            starts.append(at + len(drawn))
        beyond = end
        for drawn, at in zip(reversed(between), reversed(ends), strict=True):
            if (beyond := self._saved.rfind(drawn, start, beyond)) != at:
                reason = f"event {self._number} has several texts, and where one ends can be seen in two ways"
                raise ParseError(self._line, f"{reason}: save one change after the other")
        return [*zip(starts, [*ends, end], strict=True)]

    def _refused(self) -> ParseError:
        """Return the error for the first line that is only drawn and does not stand there as it stood."""
        drawn, saved = self._whole.split("\n"), self._saved.split("\n")
        is_text = [False] * len(drawn)
        at = 0
        for frame, text in zip(self._frame, self._drawn, strict=False):
            at += frame.count("\n")
            is_text[at : at + text.count("\n") + 1] = [True] * (text.count("\n") + 1)
            at += text.count("\n")
        for same, old, beyond, new, _end in SequenceMatcher(None, drawn, saved).get_opcodes():
            lost = [line for line in range(old, beyond) if not is_text[line]]
            added = old == beyond and not any(is_text[max(old - 1, 0) : old + 1])
            if same != "equal" and (lost or added):
                what = f"write back {shorten(drawn[lost[0]])}" if lost else "take this out"
                reason = f"this is drawn, and no text of event {self._number}: {what}"
                return ParseError(self._first_line + new, f"{reason}, or change events/{self._number:05}-*.md")
        return ParseError(self._line, f"event {self._number} is not as it is drawn: change only its texts")
