"""A regular expression in a process of its own, which ends if it takes too long: see ``store.search.patterns``."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
import weakref
from array import array

from store.errors import UsageError
from store.search import patterns
from store.search.patterns import BEGINNING, LENGTH

_SECONDS = 5.0
"""How long one text may take; a hundred times what the largest that is shown takes where nothing is wrong."""


class Apart:
    """Finds the lines of texts that a pattern is on. For one thread at a time; the process ends with this object."""

    def __init__(self, pattern: str, *, ignore_case: bool, seconds: float = _SECONDS) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def lines(self, text: str) -> array[int]:
        """Return the lines, the first of all is 0, in order. UsageError where that takes too long."""
        process = self._process or self._start()
        data = text.encode()
        assert process.stdin is not None
        try:
            process.stdin.write(LENGTH.pack(len(data)) + data)
            process.stdin.flush()
            until = time.monotonic() + self._seconds
            (count,) = LENGTH.unpack(self._read(process, LENGTH.size, until))
            return array("Q", self._read(process, 8 * count, until))
        except (TimeoutError, OSError) as error:
            self._process = None
            _end(process)
            raise UsageError(
                f"/{self._pattern}/ takes too long on some line: have it repeat less, or search for words"
            ) from error

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", patterns.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        weakref.finalize(self, _end, process)
        pattern = self._pattern.encode()
        assert process.stdin is not None
        process.stdin.write(BEGINNING.pack(self._ignore_case, len(pattern)) + pattern)
        return process

    def _read(self, process: subprocess.Popen[bytes], size: int, until: float) -> bytes:
        assert process.stdout is not None
        handle = process.stdout.fileno()
        pieces: list[bytes] = []
        while size:
            if not select.select([handle], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError
            piece = os.read(handle, min(size, 1 << 20))
            if not piece:
                raise BrokenPipeError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
