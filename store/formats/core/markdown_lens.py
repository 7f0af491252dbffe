"""Lenses for passages of Markdown files: a passage is shown as the text that it holds.

The text is spelled between a head and a tail, each of its lines after a mark (``> ``, ``#### ``) and before an ending.
"""

import re
from abc import abstractmethod

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Block, Event, EventEdit, Kind
from store.formats.core.editing import Lens, check_field
from store.formats.core.lens import CODE_ERRORS, Before, Header, Value, at_fault
from store.formats.core.splices import encoded

_line_end = re.compile(r"\r?\n").search


class Passage(Struct, frozen=True):
    """A passage of a file: ``head``, the lines of ``body`` as they stand there, ``tail``; joined they are all of it.

    A line of the text is the part between ``mark`` and ``ending``, as far as a line has these.
    """

    kind: Kind
    body: str
    head: str = ""
    tail: str = ""
    mark: str = ""
    ending: str = ""
    tool: str = ""
    header: Header = {}
    time_ms: int = 0

    @property
    def text(self) -> str:
        """The text that the passage holds."""
        return "\n".join(map(self._said, self.body.split("\n"))) if self.mark or self.ending else self.body

    def spelled(self, text: str) -> str:
        """Return the passage with another text; lines at its beginning and end that stay keep their bytes."""
        written = self.body.split("\n")
        old, new = [self._said(line) for line in written], text.split("\n")
        alike = min(len(old), len(new))
        head = next((at for at in range(alike) if old[at] != new[at]), alike)
        tail = next((at for at in range(alike - head) if old[-1 - at] != new[-1 - at]), alike - head)
        end = "\r" if (found := _line_end(self.body)) and found[0] == "\r\n" else ""
        marked = ((self.mark if line else self.mark.rstrip()) + line for line in new[head : len(new) - tail])
        middle = [f"{line}{self.ending}{end}" for line in marked]
        if middle and not tail and not written[-1].endswith("\r"):
            middle[-1] = middle[-1].removesuffix("\r")
        return self.head + "\n".join((*written[:head], *middle, *written[len(written) - tail :])) + self.tail

    def _said(self, line: str) -> str:
        line = line.removesuffix("\r")
        mark = self.mark if line.startswith(self.mark) else self.mark.rstrip()
        said = line.removeprefix(mark).removesuffix(self.ending)
        return said if said.strip() else ""


class MarkdownLens(Lens):
    """A lens for passages of a file of Markdown."""

    @abstractmethod
    def passage(self, text: str) -> Passage:
        """Return the contents of a passage."""

    def with_field(self, text: str, key: str, value: Value) -> str | None:
        """Return a passage with another value for a field of the head, None where it holds no such field."""
        return None

    def check_new(self, kind: Kind, text: str) -> None:
        super().check_new(kind, text.strip())

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a passage tells of; one without text is bookkeeping."""
        try:
            passage = self.passage(payload.decode("utf-8", "replace"))
        except CODE_ERRORS as error:
            return at_fault(payload, error)
        text = passage.text
        lossy = "\ufffd" in text and passage.spelled(text).encode() != payload
        if not text.strip() or passage.kind is Kind.RECORD:
            return Event(Kind.RECORD, time_ms=passage.time_ms, lossy=lossy)
        blocks = (Block("text", text),)
        return Event(passage.kind, passage.tool, passage.header, blocks, passage.time_ms, lossy=lossy)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        for field in edit.fields:
            text = payload.decode("utf-8", "replace")
            changed = self.with_field(text, field.key, field.value)
            if changed is None or text.encode() != payload:
                raise UsageError(f"{field.key!r} is nothing that this passage holds: it cannot be changed here")
            payload = changed.encode()
            check_field(self.view(payload, before), field.key, field.value)
        if edit.order is not None:
            raise UsageError("a passage is one text: write this as a part of it, or as an event of its own")
        edited = payload
        for change in edit.blocks:
            passage = self.passage(payload.decode("utf-8", "replace"))
            if change.path or change.type != "text":
                raise UsageError("the passage has no such part: read it again, then edit")
            if change.text == passage.text:
                continue
            if passage.spelled(passage.text).encode("utf-8", "replace") != payload:
                raise UsageError("the passage is no valid Unicode, so it can only be read")
            encoded(change.text)
            edited = passage.spelled(change.text).encode()
            now = self.passage(edited.decode())
            if not change.text.strip():
                raise UsageError("an empty text would not be shown any more: write something, or delete the event")
            if now.text != change.text:
                raise UsageError("the text begins as another part of the file does: indent its first line")
        return edited
