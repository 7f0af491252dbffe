"""The head log: ``heads.log``, frames one after another past the file header. Offsets are those in the file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from store.disk import durable, file_header, head_format, replacing
from store.disk.file_header import HEAD_LOG, HEADER_SIZE, Damage
from store.disk.head_format import COMMIT_SIZE, MIN_FRAME, Body, Commit, Frame
from store.disk.reading import BLOCK, Window, pread_around
from store.errors import DamageError, UsageError

_SEARCH = 1 << 20
_READ_THROUGH = 64 << 10


class HeadLog:
    """The frames of one store. One thread appends; any number read meanwhile, without locks.

    ``damage`` says what is wrong with the file header, if anything; the frames are readable in spite of it.
    """

    def __init__(self, path: Path, store_id: bytes) -> None:
        """Open the log, or make an empty one. Raises FormatTooNew, and DamageError for another store's file."""
        self._path = path
        if not path.exists():
            file_header.create(path, HEAD_LOG, store_id)
        self._fd = durable.open_file(path)
        try:
            self.damage = file_header.check(self._fd, HEAD_LOG, store_id, path)
        except BaseException:
            os.close(self._fd)
            raise
        self._length = max(os.fstat(self._fd).st_size, HEADER_SIZE)

    @property
    def length(self) -> int:
        """Where the log ends: the offset at which the next frame will lie."""
        return self._length

    def append(self, frames: bytes) -> int:
        """Write encoded frames at the end, without syncing them; return the offset of the first."""
        offset = self._length
        durable.pwrite_all(self._fd, frames, offset)
        self._length = offset + len(frames)
        return offset

    def frames(self, start: int | None = None) -> Iterator[Frame | Damage]:
        """Yield the frames from the offset ``start`` (None: the first) to the end as it now is.

        What is damaged is one Damage, and reading goes on behind it. A frame that is cut off at the end is one too.
        """
        offset, end = HEADER_SIZE if start is None else start, self._length
        window = Window(self._fd)
        while offset < end:
            try:
                size, frame = self._frame(window, offset, end)
            except DamageError as error:
                damage = Damage(offset, self._next_frame(offset, end) - offset, str(error))
                offset += damage.length
                yield damage
                continue
            offset += size
            yield frame

    def group_at(self, seq: int) -> tuple[int, list[Frame]]:
        """Return the group that the frame ``seq`` is of: how many turns there were before, and its frames up to that.

        No frames where ``seq`` ends a group, or is beyond the last. Reads a small part of the log, however long it is.
        DamageError where something of the group is lost.
        """
        start, turns, end = HEADER_SIZE, 0, self._length
        while end - start > _READ_THROUGH:
            middle = (start + end) // 2
            found = next((frame for frame in self.frames(middle) if _tells(frame, seq)), None)
            if isinstance(found, Frame) and isinstance(found.body, Commit) and found.seq <= seq:
                start, turns = found.offset + COMMIT_SIZE, found.body.turn_count
            else:
                end = middle
        group: list[Frame] = []
        reached, damage = 0, None
        for frame in self.frames(start):
            if isinstance(frame, Damage):
                damage = damage if reached == seq else frame
                continue
            if frame.seq > seq:
                break
            reached = frame.seq
            group.append(frame)
            if isinstance(frame.body, Commit):
                turns, group, damage = frame.body.turn_count, [], None
        if damage is not None:
            raise DamageError(f"heads.log, offset {damage.offset}: {damage.reason}: see convfs fsck")
        return turns, group

    def last_commit(self) -> tuple[Frame, int] | None:
        """Return the last COMMIT and the offset of its end, None if there is none. Reads the whole log."""
        last = None
        for frame in self.frames():
            if isinstance(frame, Frame) and isinstance(frame.body, Commit):
                last = frame
        if last is None:
            return None
        return last, last.offset + len(head_format.encode(last.seq, last.context, last.body))

    def sync(self) -> None:
        """Return when everything appended before is on disk."""
        durable.fdatasync(self._fd)

    def cut(self, length: int) -> int:
        """Make the log end at ``length``; return how many bytes went (negative: how many were missing).

        What was missing reads as damage from then on, so that offsets behind it stay true.
        """
        went = os.fstat(self._fd).st_size - length
        if went:
            durable.truncate(self._fd, length)
        self._length = length
        return went

    def rewrite(self, change: Callable[[Frame], Body], blank: Callable[[bytes], bytes]) -> None:
        """Put other frames, each as long, in the place of all; durable when it returns. Nothing may be appended.

        ``change`` returns the body that a frame is to have, ``blank`` as many bytes for damaged ones. The old ones stay
        on the disk until :meth:`erase_old`. Raises UsageError, and changes nothing, for a body of another length.
        """
        replacing.replace(self._path, self._fd, self._rewritten(change, blank))

    def _rewritten(self, change: Callable[[Frame], Body], blank: Callable[[bytes], bytes]) -> Iterator[bytes]:
        pieces = [pread_around(self._fd, HEADER_SIZE, 0)]
        size = 0
        for frame in self.frames():
            if isinstance(frame, Damage):
                piece = blank(pread_around(self._fd, frame.length, frame.offset))
            else:
                length = head_format.frame_length(pread_around(self._fd, 4, frame.offset))
                body = change(frame)
                if body is frame.body:
                    piece = pread_around(self._fd, length, frame.offset)
                else:
                    piece = head_format.encode(frame.seq, frame.context, body)
                    if len(piece) != length:
                        raise UsageError(f"{len(piece)} bytes cannot take the place of {length}, seq {frame.seq}")
            pieces.append(piece)
            size += len(piece)
            if size >= _SEARCH:
                yield b"".join(pieces)
                pieces, size = [], 0
        yield b"".join(pieces)

    def erase_old(self) -> None:
        """Leave nothing on the disk of what :meth:`rewrite` has put other frames in the place of."""
        replacing.erase_replaced(self._path)

    def close(self) -> None:
        """Close the file; nothing may read afterwards."""
        os.close(self._fd)

    def _frame(self, window: Window, offset: int, end: int) -> tuple[int, Frame]:
        size = head_format.frame_length(window.view(offset, 4))
        if not size:
            raise DamageError("the length of a frame cannot be true")
        if offset + size > end:
            raise DamageError(f"a frame of {size} bytes is cut off after {end - offset}")
        return size, head_format.decode(window.view(offset, size), offset)

    def _next_frame(self, damaged: int, end: int) -> int:
        """Return where the first sound frame after the one at ``damaged`` begins, or ``end``."""
        # not by its length, which may be what is damaged
        probe = Window(self._fd, BLOCK)
        start = damaged + 1
        while start + MIN_FRAME <= end:
            data = pread_around(self._fd, min(_SEARCH, end - start), start)
            for place in head_format.possible_frames(data):
                if self._sound(probe, start + place, end):
                    return start + place
            # a frame may begin in the last bytes, too few to tell
            start += max(len(data) - MIN_FRAME, 1)
        return end

    def _sound(self, window: Window, offset: int, end: int) -> bool:
        try:
            self._frame(window, offset, end)
        except DamageError:
            return False
        return True


def _tells(frame: Frame | Damage, seq: int) -> bool:
    """Say whether a frame tells on which side of it the frame ``seq`` is to be looked for."""
    return isinstance(frame, Frame) and (frame.seq > seq or isinstance(frame.body, Commit))
