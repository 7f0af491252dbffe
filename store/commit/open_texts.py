"""The turns that are being written, piece by piece, as far as they are durable."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable

from msgspec import Struct

from store.content.veil import veil
from store.disk.file_header import Damage
from store.disk.head_format import Frame
from store.disk.note_format import Closed, Opened, TextAdded
from store.ids import hash_bytes


class OpenText(Struct, frozen=True):
    """What there is of an open turn: its context, type tag and codec, when it was opened, and its text so far.

    ``damaged`` says that something of the text behind it is lost.
    """

    number: int
    context_id: int
    tag: int
    codec: int
    opened_ms: int
    text: bytes
    damaged: bool = False


class _Open:
    """One open turn. Who adds to it, or closes it, holds its ``lock`` meanwhile."""

    __slots__ = ("context", "damaged", "lock", "opened", "text")

    def __init__(self, context: int, opened: Opened) -> None:
        self.context = context
        self.opened = opened
        self.text = bytearray()
        self.damaged = False
        self.lock = threading.Lock()


class OpenTexts:
    """Follows the frames of the head log. One thread applies them; any may ask."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._of: dict[int, list[int]] = {}
        self.size = 0
        """How many bytes all texts have together."""

    def __len__(self) -> int:
        return len(self._open)

    def replay(self, frames: Iterable[Frame | Damage]) -> None:
        """Apply the frames of a log."""
        for frame in frames:
            if isinstance(frame, Frame):
                self.apply(frame)

    def apply(self, frame: Frame) -> None:
        """Take note of one frame."""
        body = frame.body
        if isinstance(body, TextAdded):
            found = self._open.get(body.number)
            if found is not None:
                if body.offset == len(found.text):
                    found.text += veiled(body.number, body.offset, body.text)
                    self.size += len(body.text)
                else:
                    found.damaged = True
        elif isinstance(body, Opened):
            self._open[frame.seq] = _Open(frame.context, body)
            self._of[frame.context] = [*self._of.get(frame.context, ()), frame.seq]
        elif isinstance(body, Closed):
            closed = self._open.pop(body.number, None)
            if closed is not None:
                self.size -= len(closed.text)
                self._of[closed.context] = [number for number in self._of[closed.context] if number != body.number]
                if not self._of[closed.context]:
                    del self._of[closed.context]

    def state(self, number: int) -> _Open | None:
        """Return an open turn, None if there is none of that number."""
        return self._open.get(number)

    def of(self, context: int) -> list[OpenText]:
        """Return the open turns of a context, or of all (0), in the order in which they were opened."""
        numbers = self._of.get(context, ()) if context else list(self._open)
        return [text for number in numbers if (text := self.get(number)) is not None]

    def get(self, number: int) -> OpenText | None:
        """Return what there is of an open turn, None if there is none of that number."""
        one = self._open.get(number)
        if one is None:
            return None
        opened = one.opened
        return OpenText(number, one.context, opened.tag, opened.codec, opened.time_ms, bytes(one.text), one.damaged)


def veiled(number: int, offset: int, text: bytes) -> bytes:
    """Return the text of an open turn as the head log has it, or what it was before that."""
    return veil(text, hash_bytes(struct.pack("<QQ", number, offset)))
