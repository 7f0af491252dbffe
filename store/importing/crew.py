"""Helpers that prepare the records of sessions, while the process that imports brings in what came before.

Each (``store.helper``) gets sessions, and answers each with the records of it (``store.importing.prepared``), a message
a chunk. Sessions are asked for in the order in which they were given, so little has to wait: of each helper, some MB.
One that ends leaves its sessions unprepared, and the import does by itself what is left.
"""

import threading
from collections import deque
from pathlib import Path

import msgspec

from store.formats.core.format import Source
from store.helper import Helper
from store.importing.prepared import LAST, Chunk, Whole

_HELD_BYTES = 8 << 20
"""The bytes of answers of one helper that wait; it goes on when they are fewer."""

_decode = msgspec.msgpack.Decoder(Chunk).decode


class Records:
    """The prepared records of one session, in order. For one thread."""

    def __init__(self, member: "_Member", job: int) -> None:
        self._member = member
        self._job = job
        self._ahead: Chunk | None = None
        """The first records, until they are taken."""
        self.whole: Whole | None = None
        """The session, once all its records are here; None if it could not be prepared to its end."""

    def at_once(self) -> Whole | None:
        """Return the session if all its records are here, waiting for the first ones: those of a short one are."""
        if self.whole is None and self._ahead is None:
            self._ahead = self._next()
        return self.whole

    def take(self) -> Chunk:
        """Return the next records, waiting for them; none if there are no more, or they could not be prepared."""
        ahead, self._ahead = self._ahead, None
        return ahead or self._next()

    def _next(self) -> Chunk:
        answer = self._member.answer(self._job)
        if answer is None:
            return Chunk([])
        self.whole = answer.whole
        return answer


class Crew:
    """Some helpers; ``limit`` and ``scratch`` as of :class:`store.importing.prepared.Preparer`. For one thread.

    ``formats`` is the directory of the formats that users describe. OSError where none can be started.
    """

    def __init__(self, count: int, limit: int, scratch: Path, formats: Path) -> None:
        setting = (formats, limit, scratch)
        self._members: list[_Member] = []
        self._given: deque[tuple[Source, Records]] = deque()
        """Sessions that nobody has asked for yet."""
        try:
            for _ in range(count):
                self._members.append(_Member(setting))
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> int:
        """The number of processes that have ended by themselves."""
        return sum(member.ended for member in self._members)

    def give(self, source: Source, size: int) -> None:
        """Have a session prepared, of about so many bytes."""
        member = min((one for one in self._members if not one.ended), key=lambda one: one.waiting, default=None)
        if member is not None:
            self._given.append((source, Records(member, member.give(source, size))))

    def of(self, source: Source) -> Records | None:
        """Return what is prepared of a session, None if it was not given. Those given before it are not needed."""
        if not any(given is source for given, _records in self._given):
            return None
        while True:
            given, records = self._given.popleft()
            if given is source:
                return records

    def close(self) -> None:
        """End the processes, whatever they do."""
        for member in self._members:
            member.close()


class _Member:
    """One of the helpers, and a thread that reads its answers."""

    def __init__(self, setting: tuple[object, ...]) -> None:
        self._helper = Helper("store.importing.prepared", setting)
        self._changed = threading.Condition()
        self._held: deque[tuple[int, bytes]] = deque()
        self._held_bytes = 0
        self._sizes: dict[int, int] = {}
        """The sessions that it has not prepared yet, and their bytes."""
        self._jobs = 0
        self._wanted = 0
        """The session that is asked for: what is held of those before it is dropped."""
        self._closing = False
        self.ended = False
        """True once the process has ended by itself."""
        self._reader = threading.Thread(target=self._read, name="convfs-crew", daemon=True)
        self._reader.start()

    @property
    def waiting(self) -> int:
        """The bytes of the sessions that it has not prepared yet."""
        with self._changed:
            return sum(self._sizes.values())

    def give(self, source: Source, size: int) -> int:
        """Have a session prepared; return its number."""
        self._jobs += 1
        with self._changed:
            self._sizes[self._jobs] = size
        self._helper.give(self._jobs, source)
        return self._jobs

    def answer(self, job: int) -> Chunk | None:
        """Return the next records of a session, waiting for them; None if there are no more, or no process."""
        with self._changed:
            self._wanted = job
            self._changed.notify_all()
            while True:
                while self._held and self._held[0][0] < job:
                    self._let_go()
                if self._held or self.ended or job not in self._sizes:
                    break
                self._changed.wait()
            data = self._let_go() if self._held and self._held[0][0] == job else None
        return None if data is None else _decode(data)

    def _let_go(self) -> bytes:
        _job, data = self._held.popleft()
        self._held_bytes -= len(data)
        self._changed.notify_all()
        return data

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._helper.end(self._reader)

    def _read(self) -> None:
        for job, what, data in self._helper.answers():
            with self._changed:
                while self._held_bytes > _HELD_BYTES and self._held[0][0] >= self._wanted and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                self._held.append((job, data))
                self._held_bytes += len(data)
                if what == LAST:
                    self._sizes.pop(job, None)
                self._changed.notify_all()
        with self._changed:
            self.ended = not self._closing
            self._changed.notify_all()
