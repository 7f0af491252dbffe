"""The turns that are being written, piece by piece, as far as they are durable."""

import struct
import threading
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from store.content.zstd import veil
from store.disk.file_header import Damage
from store.disk.head_format import TEXT_NOTES, Closed, Deleted, HeadFrame, HeadMoved, Patched, TextAdded, TurnOpened
from store.ids import hash_bytes


class OpenText(Struct, frozen=True):
    """A snapshot of an open turn: its context, type tag and codec, when it was opened, and its text so far.

    ``damaged`` means that some of its text, after this, may be lost. ``touched_ms`` is the time at which it was opened
    or last added to.
    """

    number: int
    context_id: int
    tag: int
    codec: int
    opened_ms: int
    text: bytes
    damaged: bool = False
    touched_ms: int = 0


FOLLOWED = (*TEXT_NOTES, HeadMoved, Patched, Deleted)
"""The notes that open turns depend on."""


class OpenState(Struct, eq=False):
    """One open turn. Its ``lock`` is held while it is added to or closed."""

    context: int
    opened: TurnOpened
    touched: int
    """The seq of the frame that opened it, or last added to it."""
    touched_ms: int
    text: bytearray = field(default_factory=bytearray)
    damaged: bool = False
    seen: OpenText | None = None
    """The snapshot that was last returned, while it still holds."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class OpenTexts:
    """Follows the frames of the head log. One thread applies them; any may ask."""

    def __init__(self) -> None:
        self._open: dict[int, OpenState] = {}
        self._of: dict[int, list[int]] = {}
        self._moved: dict[int, int] = {}
        """The seq at which a context's head last moved while it had open turns, by context that has any."""
        self.size = 0
        """The total size of all texts, in bytes."""

    def __len__(self) -> int:
        return len(self._open)

    def replay(self, frames: Iterable[HeadFrame | Damage], known: Mapping[int, int]) -> None:
        """Apply the frames of a log; ``known`` are those turns that are open in the end, and their contexts."""
        for frame in frames:
            if isinstance(frame, HeadFrame):
                self.apply(frame)
                continue
            # what is lost may have been of any of them
            for one in self._open.values():
                one.damaged = True
        for number in [number for number in self._open if number not in known]:
            self._close(number)
        for number, context in known.items():
            if number not in self._open:
                self._add(number, context, TurnOpened(0, 0, 0), number).damaged = True

    def apply(self, frame: HeadFrame) -> None:
        """Apply one frame."""
        body = frame.body
        if isinstance(body, TextAdded):
            found = self._open.get(body.number)
            if found is not None:
                if body.offset == len(found.text):
                    found.text += veiled(body.number, body.offset, body.text)
                    self.size += len(body.text)
                else:
                    found.damaged = True
                found.touched = frame.seq
                found.touched_ms = body.time_ms
        elif isinstance(body, TurnOpened):
            self._add(frame.seq, frame.context, body, frame.seq)
        elif isinstance(body, Closed):
            self._close(body.number)
        elif isinstance(body, Deleted):
            for number in self._of.get(frame.context, ()):
                self._close(number)
        elif isinstance(body, HeadMoved | Patched) and frame.context in self._of:
            self._moved[frame.context] = frame.seq

    def _add(self, number: int, context: int, opened: TurnOpened, seq: int) -> OpenState:
        added = self._open[number] = OpenState(context, opened, seq, opened.time_ms)
        self._of[context] = [*self._of.get(context, ()), number]
        return added

    def _close(self, number: int) -> None:
        closed = self._open.pop(number, None)
        if closed is not None:
            self.size -= len(closed.text)
            self._of[closed.context] = [other for other in self._of[closed.context] if other != number]
            if not self._of[closed.context]:
                del self._of[closed.context]
                self._moved.pop(closed.context, None)

    def blank(self, number: int, start: int, text: bytes) -> None:
        """Overwrite the text of an open turn from ``start`` on with ``text``, which is as long."""
        one = self._open.get(number)
        if one is not None:
            one.text[start : start + len(text)] = text
            one.seen = None

    def state(self, number: int) -> OpenState | None:
        """Return an open turn, None if there is none of that number."""
        return self._open.get(number)

    def of(self, context_id: int = 0, most: int = -1) -> list[OpenText]:
        """Return the open turns of a context, or of all (0), in the order in which they were opened.

        With ``most``, only the first ``most`` of them.
        """
        numbers = self._of.get(context_id, ()) if context_id else list(self._open)
        some = numbers if most < 0 else numbers[:most]
        return [text for number in some if (text := self.get(number)) is not None]

    def has(self, context: int) -> bool:
        """Return whether a context has open turns."""
        return context in self._of

    def leading(self, context: int) -> int:
        """Return the open turn of a context that its conversation goes on with, 0 if there is none.

        It is the first to be opened of those that have been opened, or added to, since the last record came and since
        another was opened: one whose client has died is not in the way of others.
        """
        numbers = self._of.get(context, ())
        since = max(self._moved.get(context, 0), numbers[-1] if numbers else 0)
        return next((number for number in numbers if self._open[number].touched >= since), 0)

    def get(self, number: int) -> OpenText | None:
        """Return what there is of an open turn, None if there is none of that number."""
        one = self._open.get(number)
        if one is None:
            return None
        seen = one.seen
        # it never changes but by growing
        if seen is None or len(seen.text) != len(one.text) or seen.damaged != one.damaged:
            opened = (one.opened.tag, one.opened.codec, one.opened.time_ms)
            seen = one.seen = OpenText(number, one.context, *opened, bytes(one.text), one.damaged, one.touched_ms)
        return seen


def veiled(number: int, offset: int, text: bytes) -> bytes:
    """Return the text of an open turn as the head log has it, or what it was before that."""
    return veil(text, hash_bytes(struct.pack("<QQ", number, offset)))
