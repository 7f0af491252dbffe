"""Processes that prepare the records of sessions, while another one brings in what they have prepared before.

Each is a Python process of its own with two pipes, started, not forked: the process that imports may have threads. It
gets sessions, and answers each with the records of it (``store.importing.prepared``), a message a chunk. Sessions are
asked for in the order in which they were given, so little has to wait: of each process, some MB. A process that ends
leaves its sessions unprepared, and the import does by itself what is left; one that lacks a module says so and ends.
"""

import fcntl
import gc
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO

import msgspec

from store.events.conversation import Renderer
from store.formats.core.format import Source
from store.formats.registry import learn
from store.importing.prepared import Chunk, Filing, Prepared, Preparer, Whole
from store.index.views import Run
from store.search.documents import Gathered, Key
from store.texts import Block

_MOST_PROCESSES = 8
_HELD_BYTES = 8 << 20
"""The bytes of answers of one process that wait; it goes on when they are fewer."""
_OBJECTS = 20_000
"""The new objects after which Python looks for garbage among them: there is hardly any, and looking takes a tenth."""
_PIPE_BYTES = 1 << 20
"""The most that a pipe holds where anybody may have it: fewer turns of who writes and who reads."""
_START = "import sys; sys.path[:] = sys.argv[1:]; from store.importing.crew import main; main()"

_size = struct.Struct("<I")


_head = struct.Struct("<IIB")
"""Before an answer: the number of the session, the bytes that follow, and what they are."""
_MORE, _LAST, _FILING = range(3)
"""A chunk of the session, one that ends it, and a filing, of this session and those before."""

_decode = msgspec.msgpack.Decoder(Chunk).decode
_decode_filing = msgspec.msgpack.Decoder(Filing).decode
_encode = msgspec.msgpack.Encoder().encode


def processes() -> int:
    """Return how many processes help an import: none where there is one processor only."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, _MOST_PROCESSES) if cores > 1 else 0


class Records:
    """The prepared records of one session, in order. For one thread."""

    def __init__(self, member: "_Member", job: int) -> None:
        self._member = member
        self._job = job
        self.whole: Whole | None = None
        """The session, once all its records were taken; None if it could not be prepared to its end."""
        self.texts: list[Block] = []
        """The texts of the records that were taken, and of some that follow them, by number."""
        self.turns: list[Run] = []
        """The turns that the records have become, from the first on."""

    def begin(self) -> None:
        """Note that these are asked for, and not those of sessions before."""
        self._member.note(self._job, self)

    def take(self) -> list[Prepared]:
        """Return the next records, waiting for them; none if there are no more, or they could not be prepared."""
        answer = self._member.answer(self._job)
        if answer is None:
            return []
        self.texts += answer.texts
        self.whole = answer.whole
        return answer.records


class Crew:
    """Some processes, with ``renderer`` to draw with and settings of the store. For one thread.

    ``formats`` is the directory of the formats that users describe. OSError where none can be started.
    """

    def __init__(self, count: int, renderer: Renderer, limit: int, scratch: Path, formats: Path) -> None:
        setting = pickle.dumps((formats, renderer, limit, scratch))
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
                records.begin()
                return records

    def filings(self) -> Iterator[tuple[Gathered, dict[int, Key]]]:
        """Yield documents for the search index, and which turns show them, each once.

        They are of sessions that have been asked for, all of which must be done with by now.
        """
        for member in self._members:
            yield from member.filings()

    def finish(self) -> None:
        """Have :meth:`filings` yield all that is left for the search index: nothing is given any more."""
        for member, session in [(member, member.give(None, 0)) for member in self._members]:
            member.note(session)
            member.answer(session)

    def close(self) -> None:
        """End the processes, whatever they do."""
        for member in self._members:
            member.close()


class _Member:
    """One of the processes, and a thread that reads its answers."""

    def __init__(self, setting: bytes) -> None:
        words = [sys.executable, "-P", "-c", _START, *sys.path]
        # apart from the terminal: Ctrl-C is for the process that imports, whose end is theirs
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        # a user who has many pipes already has smaller ones
        with suppress(OSError):
            fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._changed = threading.Condition()
        self._held: deque[tuple[int, bytes]] = deque()
        self._held_bytes = 0
        self._sizes: dict[int, int] = {}
        """The sessions that it has not prepared yet, and their bytes."""
        self._jobs = 0
        self._wanted = 0
        """The session that is asked for: what is held of those before it is dropped."""
        self._filings: deque[Filing] = deque()
        self._records: dict[int, Records] = {}
        """The sessions that were asked for, while filings may be of them, by number."""
        self._noted = 0
        """The last of them."""
        self._closing = False
        self.ended = False
        """True once the process has ended by itself."""
        self._send(setting)
        self._reader = threading.Thread(target=self._read, name="convfs-crew", daemon=True)
        self._reader.start()

    @property
    def waiting(self) -> int:
        """The bytes of the sessions that it has not prepared yet."""
        with self._changed:
            return sum(self._sizes.values())

    def give(self, source: Source | None, size: int) -> int:
        """Have a session prepared, or for None all filed that is left; return its number."""
        self._jobs += 1
        with self._changed:
            self._sizes[self._jobs] = size
        self._send(pickle.dumps((self._jobs, source)))
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

    def note(self, job: int, records: Records | None = None) -> None:
        """Note that a session is asked for, and none before it any more."""
        self._noted = job
        if records is not None:
            self._records[job] = records

    def filings(self) -> Iterator[tuple[Gathered, dict[int, Key]]]:
        """Yield what :meth:`Crew.filings` does, of this process."""
        while self._filings and self._filings[0].shows[-1][0] <= self._noted:
            filing = self._filings.popleft()
            shown: dict[int, Key] = {}
            for job, some in groupby(filing.shows, itemgetter(0)):
                runs = records.turns if (records := self._records.get(job)) is not None else ()
                turns = [turn for first, count in runs for turn in range(first, first + count)]
                shown.update((turns[number - 1], key) for _job, number, key in some if number <= len(turns))
            yield filing.gathered, shown
            last = filing.shows[-1][0]
            for job in [job for job in self._records if job < last]:
                del self._records[job]

    def _let_go(self) -> bytes:
        _job, data = self._held.popleft()
        self._held_bytes -= len(data)
        self._changed.notify_all()
        return data

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        with suppress(OSError):
            self._orders.close()
        self._process.kill()
        self._reader.join()
        self._answers.close()
        self._process.wait()

    def _send(self, message: bytes) -> None:
        # one that has ended is found out by the reader
        with suppress(OSError):
            self._orders.write(_size.pack(len(message)) + message)

    def _read(self) -> None:
        for job, data, what in self._messages():
            if what == _FILING:
                self._filings.append(_decode_filing(data))
                continue
            with self._changed:
                while self._held_bytes > _HELD_BYTES and self._held[0][0] >= self._wanted and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                self._held.append((job, data))
                self._held_bytes += len(data)
                if what == _LAST:
                    self._sizes.pop(job, None)
                self._changed.notify_all()
        with self._changed:
            self.ended = not self._closing
            self._changed.notify_all()

    def _messages(self) -> Iterator[tuple[int, bytes, int]]:
        while (head := _exactly(self._answers, _head.size)) is not None:
            job, size, what = _head.unpack(head)
            data = _exactly(self._answers, size)
            if data is None:
                return
            yield job, data, what


def _exactly(pipe: IO[bytes] | FileIO, size: int) -> bytes | None:
    """Return so many bytes from a pipe, None if it ends before."""
    pieces: list[bytes] = []
    while size > 0:
        piece = pipe.read(size)
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def main() -> None:
    """Prepare what is asked for over standard input, until that ends."""
    orders, answers = FileIO(0, "rb"), FileIO(1, "wb")
    formats, *setting = pickle.loads(_message(orders) or b"")  # noqa: S301  (from the process that started this one)
    # who imports tells of pages that are wrong
    learn(formats)
    preparer = Preparer(*setting)
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        while (order := _message(orders)) is not None:
            waiting.put(order)
        # nobody reads the answers any more
        os._exit(0)

    # always: who asks must never have to wait for what is being answered
    threading.Thread(target=listen, name="listening", daemon=True).start()
    # whoever asked has gone, or has enough
    with suppress(BrokenPipeError):
        while True:
            job, source = pickle.loads(waiting.get())  # noqa: S301  (as above)
            _prepare(preparer, answers, job, source)


def _prepare(preparer: Preparer, answers: FileIO, job: int, source: Source | None) -> None:
    chunks = preparer.chunks(job, source) if source is not None else iter(())
    what = _MORE
    while what == _MORE:
        chunk = Chunk([], [])
        try:
            chunk = next(chunks, chunk)
        except ImportError as error:
            # no file is to blame: nothing could be prepared of the others, either
            sys.exit(f"a process that was to help with the import cannot: {error}")
        except Exception:  # noqa: S110  (what is wrong with a file is told by the one that imports it)
            pass
        what = _MORE if chunk.records and chunk.whole is None else _LAST
        if (preparer.is_full or source is None) and (filing := preparer.filing()) is not None:
            _answer(answers, job, _encode(filing), _FILING)
        _answer(answers, job, _encode(chunk), what)


def _message(pipe: FileIO) -> bytes | None:
    head = _exactly(pipe, _size.size)
    return _exactly(pipe, *_size.unpack(head)) if head is not None else None


def _answer(pipe: FileIO, job: int, data: bytes, what: int) -> None:
    for part in (_head.pack(job, len(data), what), data):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]
