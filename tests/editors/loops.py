"""Saves a file again and again, and has another process read it after every close: ``python loops.py FILE COUNT``.

Each time other bytes are written, of the same size and of others; they must be read at once, whole.
"""

import os
import subprocess
import sys
from pathlib import Path

TURNS = ("first", "again", "yet again", "x")


def contents(drawn: bytes, count: int) -> list[bytes]:
    """Return what is saved, one after the other."""
    return [drawn[:-1] + b"\n%s %d\n" % (TURNS[number % 4].encode(), number) for number in range(count)]


def read(path: str) -> None:
    """Answer every line of standard input with the size of the file, read to its end, and its last line."""
    for _ in sys.stdin:
        data = Path(path).read_bytes()
        print(len(data), os.stat(path).st_size, data.splitlines()[-1].decode(), flush=True)


def write(path: str, count: int) -> None:
    """Save ``count`` times; after every close, have the reader read."""
    drawn = Path(path).read_bytes()
    with subprocess.Popen(
        [sys.executable, __file__, path, "read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for data in contents(drawn, count):
            file = os.open(path, os.O_WRONLY | os.O_TRUNC)
            os.write(file, data)
            os.close(file)
            reader.stdin.write("now\n")
            reader.stdin.flush()
            expected = f"{len(data)} {len(data)} {data.splitlines()[-1].decode()}"
            said = reader.stdout.readline().strip()
            assert said == expected, f"{said!r} is read where {expected!r} was written"


if __name__ == "__main__":
    if sys.argv[2] == "read":
        read(sys.argv[1])
    else:
        write(sys.argv[1], int(sys.argv[2]))
