"""A log that is plain text: what somebody copied out of a terminal or a chat window.

A line that begins with a speaker's name and a colon (``User: ``, ``Assistant: ``), or holds a name alone as a heading,
begins a passage, which goes on to the next one. A file without such lines is one note.
"""

import re
from collections.abc import Iterator, Sequence

from store.events.event import Kind
from store.formats.core.composing import Particulars
from store.formats.core.format import About, Format, Source, Span, first_line, without_endings
from store.formats.core.markdown_lens import MarkdownLens, Passage

_NAMES = {
    Kind.USER: "user|you|me|human|prompt|question",
    Kind.ASSISTANT: "assistant|ai|model|bot|answer|claude|chatgpt|gpt|gemini|copilot|cursor|codex",
    Kind.SYSTEM: "system",
    Kind.TOOL_RESULT: "tool|output|result",
}
_ANY = "|".join(_NAMES.values())
_BEGINNING = rf"(?:[#>*_ \t-]{{0,6}})(?P<name>{_ANY})(?:[*_]{{0,2}}(?: said)?:[*_]{{0,2}}[ \t]*|[ \t]*\r?\n)"
_begins = re.compile(rf"^{_BEGINNING}".encode(), re.IGNORECASE | re.MULTILINE).finditer
_head = re.compile(rf"{_BEGINNING}\n?", re.IGNORECASE).match
_tail = re.compile(r"\s*\Z").search
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split("|")}
_WROTE = {Kind.USER: "User", Kind.ASSISTANT: "Assistant", Kind.SYSTEM: "System"}
_ENDINGS = b"\r\n"


class TextLogLens(MarkdownLens):
    """Sees one passage."""

    type_name = "text-log.passage.v1"
    writes = tuple(_WROTE)

    def passage(self, text: str) -> Passage:
        """Return the text after the speaker's name; a passage without one is a note."""
        found = _head(text)
        head = found[0] if found else ""
        tail = _tail(text, len(head))
        end = tail.start() if tail else len(text)
        kind = _KINDS[found["name"].lower()] if found else Kind.NOTE
        return Passage(kind, text[len(head) : end], head, text[end:])

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        return f"{_WROTE[kind]}: {text}".encode()


class TextLog(Format):
    """Plain text. It claims nothing: only who names a file can say that it is a log."""

    name = "text-log"
    lenses = (TextLogLens(),)
    main_type = TextLogLens.type_name
    joints = (b"", b"\n\n", b"\n")

    def in_lines(self, head: object) -> bool:
        """Return false: a passage may have many lines."""
        return False

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the passages, without the ends of lines after them."""
        text = bytes(data)
        starts = [found.start() for found in _begins(text, start)]
        if not starts or text[start : starts[0]].strip():
            starts.insert(0, start)
        for at, begin in enumerate(starts):
            end = starts[at + 1] if at + 1 < len(starts) else len(text)
            end = without_endings(data, begin, end, _ENDINGS)
            if end > begin:
                yield Span(begin, end)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        lens = self.lenses[0]
        passages = [lens.passage(record.decode("utf-8", "replace")) for record in records]
        asked = next((one.text for one in passages if one.kind is Kind.USER), "")
        first = asked or next((one.text for one in passages), "")
        return About(title=first_line(first), session_id=source.path.stem)
