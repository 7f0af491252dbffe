"""Saves an event again and again, often with what is no event: ``python doubtful.py FILE COUNT SEED``.

Each time the file is cut, written, lengthened at random through one or two handles, and closed. What cannot be read
must be refused at a close, and then the file must hold what it held before; else it must hold what was written. Says
how often something else was saved, and what was refused, one after the other: a line of hexadecimal digits each.
"""

import errno
import os
import random
import sys
from pathlib import Path

BROKEN = (b"\xff\xfe", b"\0\xc3", b"\x80")
"""Bytes that no text has in it, and an event is text."""


class Exercise:
    """A file, what it should hold, and what was saved or refused so far."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.holds = Path(path).read_bytes()
        self.head = self.holds[: self.holds.index(b"\n---\n") + len(b"\n---\n")]
        self.saved = 0
        self.refused: list[bytes] = []

    def run(self, count: int) -> None:
        """Save ``count`` times."""
        for number in range(count):
            data = self._text(number)
            breaks = self.random.random() < 0.5
            if breaks:
                at = self.random.randrange(len(self.head), len(data))
                data = data[:at] + self.random.choice(BROKEN) + data[at:]
            told = self._write(data)
            assert told == breaks, f"{number}: what {'is no' if breaks else 'is an'} event is told to be {told}"
            if breaks:
                self.refused.append(data)
            else:
                self.saved += data != self.holds
                self.holds = data
            read = Path(self.path).read_bytes()
            assert read == self.holds, f"{number}: {read!r} is read, {self.holds!r} should be"
            assert os.stat(self.path).st_size == len(self.holds)

    def _text(self, number: int) -> bytes:
        lines = [f"{number} {'word ' * self.random.randrange(1, 9)}" for _ in range(self.random.randrange(1, 60))]
        return self.head + "\n".join(lines).encode() + b"\n"

    def _write(self, data: bytes) -> bool:
        """Write the file, in some way; say whether a close tells that it cannot be."""
        anew = self.random.random() < 0.5
        file = os.open(self.path, os.O_RDWR | (os.O_TRUNC if anew else 0))
        if not anew:
            os.ftruncate(file, self.random.choice([0, 10, len(data), len(data) + 5000]))
        step = self.random.randrange(1, len(data) + 1)
        parts = list(range(0, len(data), step))
        self.random.shuffle(parts)
        for at in parts:
            os.pwrite(file, data[at : at + step], at)
            if self.random.random() < 0.1:
                os.fsync(file)
        os.ftruncate(file, len(data))
        files = [file]
        if self.random.random() < 0.3:
            files.append(os.dup(file))
        closed = [self._close(file) for file in files]
        return any(closed)

    def _close(self, file: int) -> bool:
        try:
            os.close(file)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return True
        return False


if __name__ == "__main__":
    exercise = Exercise(sys.argv[1], int(sys.argv[3]))
    exercise.run(int(sys.argv[2]))
    print(exercise.saved)
    for text in exercise.refused:
        print(text.hex())
