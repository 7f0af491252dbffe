"""Processes that help: each does pure work for the process that has the store, over two pipes.

A helper is a Python process of its own, started, not forked: the process that it helps may have threads. It ends with
that one, at once, whatever it is doing.
"""

import fcntl
import gc
import importlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from typing import IO

MOST = 8
"""The most processes that are worth it: one commits what they do."""
_NICENESS = 10
_OBJECTS = 20_000
"""The new objects after which Python looks for garbage among them: there is hardly any, and looking takes a tenth."""
_PIPE_BYTES = 1 << 20
"""The most that a pipe holds where anybody may have it: fewer turns of who writes and who reads."""
_START = "import sys; sys.path[:] = sys.argv[1:]; from store.helper import main; main()"

_size = struct.Struct("<I")
_head = struct.Struct("<IIB")
"""Before an answer: the number of the job, the bytes that follow, and what they are."""

Answer = tuple[int, bytes]
"""The kind of an answer, and its bytes."""

Work = Callable[[int, object], Iterator[Answer]]
"""Does a job, with its number, and yields the answers."""


def processes() -> int:
    """Return how many processes help: none where there is one processor only."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, MOST) if cores > 1 else 0


def give_way() -> None:
    """Have this process, a helper of which nobody waits for the answers, run after those that somebody waits for."""
    os.nice(_NICENESS)


class Helper:
    """One such process. ``work`` names a module, whose function ``work`` makes of ``setting`` what does the jobs."""

    def __init__(self, work: str, setting: tuple[object, ...]) -> None:
        words = [sys.executable, "-P", "-c", _START, *sys.path]
        # apart from the terminal: Ctrl-C is for the process that is helped, whose end is theirs
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
        self._send((work, setting))

    def give(self, number: int, job: object) -> None:
        """Have a job done; of one that has ended, nothing comes."""
        self._send((number, job))

    def answers(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield all answers to its jobs: the number of the job, what it is, and its bytes; until it ends."""
        while (head := _exactly(self._answers, _head.size)) is not None:
            number, size, what = _head.unpack(head)
            if (data := _exactly(self._answers, size)) is None:
                return
            yield number, what, data

    def end(self, reader: threading.Thread) -> None:
        """End it, whatever it does, and the thread that reads its answers."""
        with suppress(OSError):
            self._orders.close()
        self._process.kill()
        reader.join()
        self._answers.close()
        self._process.wait()

    def _send(self, message: object) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        # that one has ended is found out by who reads its answers
        with suppress(OSError):
            _write(self._orders, _size.pack(len(data)), data)


def _write(pipe: IO[bytes] | FileIO, *parts: bytes) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


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


def _message(pipe: FileIO) -> bytes | None:
    head = _exactly(pipe, _size.size)
    return _exactly(pipe, *_size.unpack(head)) if head is not None else None


def main() -> None:
    """Do the jobs that come over standard input, until that ends."""
    orders, answers = FileIO(0, "rb"), FileIO(1, "wb")
    module, setting = pickle.loads(_message(orders) or b"")  # noqa: S301  (from the process that started this one)
    try:
        work: Work = importlib.import_module(module).work(*setting)
    except ImportError as error:
        sys.exit(f"a process that was to help cannot: {error}")
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
            number, job = pickle.loads(waiting.get())  # noqa: S301  (as above)
            try:
                for what, data in work(number, job):
                    _write(answers, _head.pack(number, len(data), what), data)
            except ImportError as error:
                # nothing could be done of the others, either
                sys.exit(f"a process that was to help cannot: {error}")
