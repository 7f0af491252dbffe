"""The head log: ``heads.log``, frames one after another past the file header. Offsets are those in the file."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from isal.isal_zlib import crc32

from store.disk import head_format
from store.disk.file_header import HEAD_LOG, HEADER_SIZE, Damage
from store.disk.files import BLOCK, Window, next_sound
from store.disk.head_format import COMMIT_SIZE, MIN_FRAME, SOUND, Body, Commit, HeadFrame, possible_frames
from store.disk.log_file import LogFile
from store.errors import DamageError, UsageError

_SEARCH = 1 << 20
_READ_THROUGH = 64 << 10


class HeadLog(LogFile):
    """The frames of one store."""

    def __init__(self, path: Path, store_id: bytes, *, read_only: bool = False) -> None:
        """As of :class:`LogFile`."""
        super().__init__(path, HEAD_LOG, store_id, read_only=read_only)
        self.length = max(self._size, HEADER_SIZE)
        """The end of the log: the offset of the next frame."""

    def append(self, frames: bytes) -> int:
        """Append encoded frames, unsynced (:class:`LogFile`); return the offset of the first."""
        offset = self.length
        self._write(frames, offset)
        self.length = offset + len(frames)
        return offset

    def frames(self, start: int | None = None) -> Iterator[HeadFrame | Damage]:
        """Yield the frames from the offset ``start`` (None: the first) to the end as it now is.

        A damaged part is one Damage, and reading goes on behind it. A frame that is cut off at the end is one too.
        """
        offset, end = HEADER_SIZE if start is None else start, self.length
        window = Window(self._read)
        while offset < end:
            try:
                size, frame = self._frame(window, offset, end)
            except DamageError as error:
                sound = partial(self._sound, Window(self._read, BLOCK), end)
                behind = next_sound(self._read_around, offset + 1, end, MIN_FRAME, possible_frames, sound)
                damage = Damage(offset, behind - offset, str(error))
                offset += damage.length
                yield damage
                continue
            offset += size
            yield frame

    def sound_until(self, start: int, beyond: int) -> int:
        """Return where the first frame begins that is damaged, or does not end by ``beyond``; one begins at ``start``.

        Looks at checksums alone, some million a second.
        """
        beyond = min(beyond, self.length)
        try:
            data = memoryview(self._read_around(max(beyond - start, 0), start))
        except OSError:
            return start
        at, end = 0, len(data)
        while at + MIN_FRAME <= end:
            size = head_format.frame_length(data, at)
            if not size or at + size > end or crc32(data[at : at + size]) != SOUND:
                break
            at += size
        return start + at

    def group_at(self, seq: int) -> tuple[int, list[HeadFrame]]:
        """Return the group that the frame ``seq`` is of: how many turns there were before, and its frames up to that.

        No frames where ``seq`` ends a group, or is beyond the last. Reads a small part of the log, however long it is.
        DamageError where something of the group is lost.
        """
        start, turns, end = HEADER_SIZE, 0, self.length
        step = _READ_THROUGH
        while end - start > _READ_THROUGH:
            # what is asked for is most often near the end, and a group may be long
            middle = max(end - step, (start + end) // 2)
            step *= 2
            found = next((frame for frame in self.frames(middle) if _tells(frame, seq)), None)
            if isinstance(found, HeadFrame) and isinstance(found.body, Commit) and found.seq <= seq:
                start, turns = found.offset + COMMIT_SIZE, found.body.turn_count
            else:
                end = middle
        group: list[HeadFrame] = []
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

    def groups(self, start: int) -> Iterator[tuple[HeadFrame, bytes]]:
        """Yield each group from offset ``start`` on, as (its COMMIT, all of its bytes). DamageError."""
        for frame in self.frames(start):
            if isinstance(frame, Damage):
                raise DamageError(f"heads.log, offset {frame.offset}: {frame.reason}: see convfs fsck")
            if isinstance(frame.body, Commit):
                end = frame.offset + COMMIT_SIZE
                yield frame, self._read(end - start, start)
                start = end

    def last_commit(self) -> tuple[HeadFrame, int] | None:
        """Return the last COMMIT and the offset of its end, None if there is none. Reads the whole log."""
        last = None
        for frame in self.frames():
            if isinstance(frame, HeadFrame) and isinstance(frame.body, Commit):
                last = frame
        if last is None:
            return None
        return last, last.offset + len(head_format.encode(last.seq, last.context, last.body))

    def cut(self, length: int) -> int:
        """Make the log end at ``length``; return how many bytes went (negative: how many were missing).

        Missing bytes read as damage from then on, so that later offsets stay valid.
        """
        went = self._cut(length)
        self.length = length
        return went

    def rewrite(self, change: Callable[[HeadFrame], Body], blank: Callable[[bytes], bytes]) -> None:
        """Replace all frames by others of the same lengths; durable when it returns. Nothing may be appended meanwhile.

        ``change`` returns the body that a frame is to have, ``blank`` as many bytes for damaged ones. The old ones stay
        on the disk until :meth:`erase_old`. Raises UsageError, and changes nothing, for a body of another length.
        """
        self._replace(self._rewritten(change, blank))

    def _rewritten(self, change: Callable[[HeadFrame], Body], blank: Callable[[bytes], bytes]) -> Iterator[bytes]:
        pieces = [self._read_around(HEADER_SIZE, 0)]
        size = 0
        for frame in self.frames():
            if isinstance(frame, Damage):
                piece = blank(self._read_around(frame.length, frame.offset))
            else:
                length = head_format.frame_length(self._read_around(4, frame.offset))
                body = change(frame)
                if body is frame.body:
                    piece = self._read_around(length, frame.offset)
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

    def _frame(self, window: Window, offset: int, end: int) -> tuple[int, HeadFrame]:
        size = head_format.frame_length(window.view(offset, 4))
        if not size:
            raise DamageError("the length of a frame cannot be true")
        if offset + size > end:
            raise DamageError(f"a frame of {size} bytes is cut off after {end - offset}")
        return size, head_format.decode(window.view(offset, size), offset)

    def _sound(self, window: Window, end: int, offset: int) -> bool:
        try:
            self._frame(window, offset, end)
        except DamageError:
            return False
        return True


def _tells(frame: HeadFrame | Damage, seq: int) -> bool:
    """Return whether a frame shows on which side of it the frame ``seq`` lies."""
    return isinstance(frame, HeadFrame) and (frame.seq > seq or isinstance(frame.body, Commit))
