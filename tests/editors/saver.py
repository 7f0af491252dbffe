"""Saves a file with the system calls that some program makes: ``python saver.py HOW FILE``, the content on stdin.

With ``tolerant`` as a third argument it goes on where a close says that what was written so far makes no sense.
"""

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

tolerant = False


def close(file: int) -> None:
    try:
        os.close(file)
    except OSError as error:
        if not tolerant or error.errno != errno.EINVAL:
            raise


def write_all(file: int, data: bytes, at: int = 0) -> None:
    while at < len(data):
        at += os.pwrite(file, data[at : at + 60_000], at)


def vscode(path: str, data: bytes) -> None:
    """Open for reading and writing, cut to nothing, write, and sync before closing."""
    file = os.open(path, os.O_RDWR)
    os.ftruncate(file, 0)
    write_all(file, data)
    os.fdatasync(file)
    close(file)


def vscode_atomic(path: str, data: bytes) -> None:
    """Write a file with a name of its own, sync it, and rename it onto the old one."""
    beside = f"{path}.vsctmp"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.stat(path).st_mode & 0o777)
    write_all(file, data)
    os.fdatasync(file)
    close(file)
    os.rename(beside, path)


def sync_often(path: str, data: bytes) -> None:
    """Sync after every few bytes, when most of what is there makes no sense yet."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    step = max(len(data) // 7, 1)
    for at in range(0, len(data), step):
        os.pwrite(file, data[at : at + step], at)
        os.fsync(file)
    close(file)


def cut_after(path: str, data: bytes) -> None:
    """Write over what is there, then cut off what is left of it."""
    file = os.open(path, os.O_RDWR)
    write_all(file, data)
    os.ftruncate(file, len(data))
    close(file)


def cut_by_name(path: str, data: bytes) -> None:
    """Cut the file by its name while it is open."""
    file = os.open(path, os.O_RDWR)
    os.truncate(path, 0)
    write_all(file, data)
    close(file)


def backwards(path: str, data: bytes) -> None:
    """Write the pieces from the last to the first: until then there is a hole of zeros."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    step = max(len(data) // 5, 1)
    for at in reversed(range(0, len(data), step)):
        os.pwrite(file, data[at : at + step], at)
    close(file)


def mapped(path: str, data: bytes) -> None:
    """Write through memory. The handle is closed before the mapping, and the file is read in between."""
    file = os.open(path, os.O_RDWR)
    os.ftruncate(file, len(data))
    memory = mmap.mmap(file, len(data))
    close(file)
    memory[:] = data
    memory.flush()
    assert Path(path).read_bytes() == data, "what was written through memory is not read"
    memory.close()


def mapped_lazily(path: str, data: bytes) -> None:
    """Write through memory, and sync nothing: the kernel writes when the mapping goes."""
    file = os.open(path, os.O_RDWR)
    os.ftruncate(file, len(data))
    memory = mmap.mmap(file, len(data))
    memory[:] = data
    memory.close()
    close(file)


def duplicated(path: str, data: bytes) -> None:
    """Write through a second name of the handle after the first was closed."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    other = os.dup(file)
    write_all(file, data[: len(data) // 2])
    close(file)
    write_all(other, data, len(data) // 2)
    close(other)


def inherited(path: str, data: bytes) -> None:
    """Have a child write the second half, after this process has closed its own handle."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    half = len(data) // 2
    os.write(file, data[:half])
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file) as child:
        close(file)
        child.communicate(data[half:])
    assert child.returncode == 0


def parent_and_child(path: str, data: bytes) -> None:
    """Have a child write the second half through the same handle, which the parent has closed by then."""
    file = os.open(path, os.O_WRONLY | os.O_TRUNC)
    half = len(data) // 2
    write_all(file, data[:half])
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            os.close(go)
            os.read(wait, 1)
            write_all(file, data, half)
            os.close(file)
            failed = 0
        finally:
            os._exit(failed)
    try:
        close(file)
    finally:
        os.close(go)
        os.close(wait)
        status = os.waitpid(child, 0)[1]
    assert status == 0, "the child could not write"


def beside_and_rename(path: str, data: bytes) -> None:
    """Write a new file and rename it onto the old one, syncing both file and directory."""
    beside = f"{path}.{os.getpid()}.tmp"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    write_all(file, data)
    os.fsync(file)
    close(file)
    os.rename(beside, path)
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    close(directory)


def rename_while_open(path: str, data: bytes) -> None:
    """Rename a new file onto the old one before its handle is closed, and write the rest through it."""
    beside = f".{path}.swx"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    write_all(file, data)
    os.rename(beside, path)
    close(file)


HOW = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and name not in {"close", "write_all"}
}

HALF_CLOSED = {"duplicated", "inherited", "parent_and_child", "mapped"}
"""These close a descriptor before all is written: what is there by then may make no sense, and they are told so."""

if __name__ == "__main__":
    tolerant = sys.argv[3:] == ["tolerant"]
    HOW[sys.argv[1]](sys.argv[2], sys.stdin.buffer.read())
