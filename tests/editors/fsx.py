"""Exercises one file with operations chosen at random and compares it with a model: ``python fsx.py FILE COUNT SEED``.

After the idea of fsx, the file system exerciser of NeXT and Apple. With ``keep`` as a fourth argument the file is never
closed in between, and at the end it holds what it held at first.
"""

import mmap
import os
import random
import sys
from collections import deque
from collections.abc import Callable

LIMIT = 300_000


class Exercise:
    """A file, what it should hold, and how to do something to both."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.done: deque[str] = deque(maxlen=30)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.model = bytearray(os.pread(self.file, LIMIT, 0))

    # -- the operations --------------------------------------------------------------------------------------------

    def read(self) -> None:
        at, size = self._part()
        self._same(os.pread(self.file, size, at), at, size)

    def read_mapped(self) -> None:
        at, size = self._part()
        if at < len(self.model):
            with mmap.mmap(self.file, len(self.model), prot=mmap.PROT_READ) as memory:
                self._same(memory[at : at + size], at, size)

    def read_anew(self) -> None:
        other = os.open(self.path, os.O_RDONLY)
        at, size = self._part()
        self._same(os.pread(other, size, at), at, size)
        os.close(other)

    def read_directly(self) -> None:
        """Read past the page cache, which may hold what was written through memory."""
        at, size = self._part()
        at -= at % mmap.PAGESIZE
        other = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, size + -size % mmap.PAGESIZE) as memory:
            read = os.preadv(other, [memory], at)
            self._same(memory[:read], at, len(memory))
        os.close(other)

    def write(self) -> None:
        at, size = self._part()
        data = self._data(size)
        assert os.pwrite(self.file, data, at) == size
        self._wrote(at, data)

    def write_mapped(self) -> None:
        if self.model:
            at, size = self._part()
            at %= len(self.model)
            data = self._data(min(size, len(self.model) - at))
            with mmap.mmap(self.file, len(self.model)) as memory:
                memory[at : at + len(data)] = data
                if self.random.random() < 0.3:
                    memory.flush()
            self._wrote(at, data)

    def write_through_another(self) -> None:
        at, size = self._part()
        data = self._data(size)
        other = os.open(self.path, os.O_WRONLY)
        assert os.pwrite(other, data, at) == size
        os.close(other)
        self._wrote(at, data)

    def append(self) -> None:
        data = self._data(self.random.randrange(4000))
        if len(self.model) + len(data) <= LIMIT:
            other = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            assert os.write(other, data) == len(data)
            os.close(other)
            self._wrote(len(self.model), data)

    def copy_within(self) -> None:
        source, size = self._part()
        target = self.random.randrange(LIMIT)
        size = min(size, max(len(self.model) - source, 0), LIMIT - target)
        if size and abs(source - target) >= size:
            copied = os.copy_file_range(self.file, self.file, size, source, target)
            self._wrote(target, bytes(self.model[source : source + copied]))

    def allocate(self) -> None:
        """Have room made, which writes no byte but may lengthen the file."""
        at = self.random.randrange(LIMIT)
        size = self.random.randrange(1, min(LIMIT - at, 20_000) + 1)
        self._tell(f"at {at}, {size} bytes")
        os.posix_fallocate(self.file, at, size)
        self._wrote(at + size, b"")

    def cut(self) -> None:
        self._resize(self.random.randrange(len(self.model) + 1))

    def lengthen(self) -> None:
        self._resize(self.random.randrange(len(self.model), LIMIT + 1))

    def cut_by_name(self) -> None:
        size = self.random.randrange(LIMIT)
        os.truncate(self.path, size)
        self._resized(size)

    def sync(self) -> None:
        self.random.choice([os.fsync, os.fdatasync])(self.file)

    def reopen(self) -> None:
        os.close(self.file)
        flags = os.O_RDWR
        if self.random.random() < 0.1:
            flags |= os.O_TRUNC
            self.model.clear()
        self.file = os.open(self.path, flags)

    # -- what they have in common ----------------------------------------------------------------------------------

    def _part(self) -> tuple[int, int]:
        at = self.random.randrange(LIMIT)
        size = self.random.choice([1, 100, 4096, 5000, 65536, 150_000])
        if self.random.random() < 0.3:
            at -= at % 4096
        size = self.random.randrange(1, size + 1)
        self._tell(f"at {at}, {size} bytes")
        return at, min(size, LIMIT - at)

    def _data(self, size: int) -> bytes:
        return self.random.randbytes(64) * (size // 64) + self.random.randbytes(size % 64)

    def _wrote(self, at: int, data: bytes) -> None:
        self.model.extend(bytes(max(at - len(self.model), 0)))
        self.model[at : at + len(data)] = data

    def _resize(self, size: int) -> None:
        os.ftruncate(self.file, size)
        self._resized(size)

    def _resized(self, size: int) -> None:
        self._tell(f"to {size}")
        del self.model[size:]
        self.model.extend(bytes(size - len(self.model)))

    def _same(self, data: bytes, at: int, size: int) -> None:
        expected = self.model[at : at + size]
        if data != expected:
            shorter = min(len(data), len(expected))
            first = next((here for here in range(shorter) if data[here] != expected[here]), shorter)
            raise AssertionError(f"{len(data)} bytes at {at}, should be {len(expected)}; they differ at {at + first}")

    def _tell(self, what: str) -> None:
        self.done[-1] += f" {what}"

    def run(self, count: int, operations: list[Callable[[], None]]) -> None:
        """Do ``count`` operations, checking the size after each, and all of the file now and then."""
        for number in range(count):
            operation = self.random.choice(operations)
            self.done.append(f"{number} {operation.__name__}")
            try:
                operation()
                for size in (os.fstat(self.file).st_size, os.stat(self.path).st_size):
                    assert size == len(self.model), f"the size is {size}, should be {len(self.model)}"
                if number % 100 == 99:
                    self._same(os.pread(self.file, LIMIT, 0), 0, LIMIT)
            except BaseException:
                print("\n".join(self.done), file=sys.stderr)
                raise


def main(path: str, count: int, seed: int, *, keep: bool) -> None:
    exercise = Exercise(path, seed)
    first = bytes(exercise.model)
    one = exercise
    reads = [one.read, one.read_mapped, one.read_anew, one.read_directly]
    writes = [one.write, one.write_mapped, one.copy_within, one.allocate, one.cut, one.lengthen, one.sync]
    others = [one.write_through_another, one.append, one.cut_by_name, one.reopen]
    exercise.run(count, [*reads, *writes] if keep else [*reads, *writes, *others])
    if keep:
        os.ftruncate(exercise.file, 0)
        os.pwrite(exercise.file, first, 0)
    os.close(exercise.file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), keep=sys.argv[4:] == ["keep"])
