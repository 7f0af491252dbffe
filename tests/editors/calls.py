"""Single calls and what must come of them, for scratch files: on a plain disk, so in a mount.

Each is a function that gets a directory, empty but for events, and asserts. After the idea of pjdfstest.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.editors.sessions import EVENTS

Call = Callable[[Path], None]
CALLS: list[Call] = []

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4


def call(function: Call) -> Call:
    CALLS.append(function)
    return function


@contextlib.contextmanager
def fails(*codes: int) -> Iterator[None]:
    """Check that the block fails with one of some errnos."""
    came = 0
    try:
        yield
    except OSError as error:
        came = error.errno or 0
    expected = [errno.errorcode[code] for code in codes]
    assert came in codes, f"{errno.errorcode.get(came, 'it works')}, should be {expected}"


def renameat2(old: Path, new: Path, flags: int) -> None:
    done = _libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags)
    if done != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def make(path: Path, data: bytes = b"data") -> Path:
    path.write_bytes(data)
    return path


def names(directory: Path) -> list[str]:
    return sorted(set(os.listdir(directory)) - set(EVENTS))


# -- rename ------------------------------------------------------------------------------------------------------------


@call
def rename_replaces(at: Path) -> None:
    one, two = make(at / "one", b"1"), make(at / "two", b"2")
    number = one.stat().st_ino
    one.rename(two)
    assert names(at) == ["two"]
    assert two.read_bytes() == b"1"
    assert two.stat().st_ino == number


@call
def rename_to_a_new_name(at: Path) -> None:
    make(at / "one").rename(at / "two")
    assert names(at) == ["two"]
    with fails(errno.ENOENT):
        (at / "one").stat()


@call
def rename_onto_itself(at: Path) -> None:
    one = make(at / "one")
    one.rename(one)
    assert one.read_bytes() == b"data"


@call
def rename_between_names_of_one_file(at: Path) -> None:
    one = make(at / "one")
    os.link(one, at / "two")
    one.rename(at / "two")
    assert names(at) == ["one", "two"]


@call
def rename_of_nothing(at: Path) -> None:
    with fails(errno.ENOENT):
        (at / "none").rename(at / "new")


@call
def rename_a_file_onto_a_directory(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.EISDIR):
        make(at / "one").rename(at / "dir")


@call
def rename_a_directory_onto_a_file(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.ENOTDIR):
        (at / "dir").rename(make(at / "one"))


@call
def rename_a_directory_onto_an_empty_one(at: Path) -> None:
    (at / "dir").mkdir()
    make(at / "dir/file")
    (at / "empty").mkdir()
    (at / "dir").rename(at / "empty")
    assert names(at) == ["empty"]
    assert names(at / "empty") == ["file"]


@call
def rename_a_directory_onto_a_full_one(at: Path) -> None:
    (at / "dir").mkdir()
    (at / "full").mkdir()
    make(at / "full/file")
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        (at / "dir").rename(at / "full")


@call
def rename_a_directory_into_itself(at: Path) -> None:
    (at / "dir/below").mkdir(parents=True)
    with fails(errno.EINVAL):
        (at / "dir").rename(at / "dir/below/dir")


@call
def rename_into_another_directory(at: Path) -> None:
    (at / "from/dir").mkdir(parents=True)
    (at / "to").mkdir()
    make(at / "from/dir/file", b"1")
    make(at / "from/file", b"2").rename(at / "to/file")
    (at / "from/dir").rename(at / "to/dir")
    assert (at / "to/dir/file").read_bytes() == b"1"
    assert (at / "to/file").read_bytes() == b"2"
    assert (at / "to/dir/..").stat().st_ino == (at / "to").stat().st_ino
    assert names(at / "from") == []


@call
def rename_without_replacing(at: Path) -> None:
    one, two = make(at / "one", b"1"), make(at / "two", b"2")
    with fails(errno.EEXIST):
        renameat2(one, two, NOREPLACE)
    assert two.read_bytes() == b"2"
    renameat2(one, at / "three", NOREPLACE)
    assert names(at) == ["three", "two"]


@call
def rename_what_is_open(at: Path) -> None:
    with open(at / "one", "w+b", buffering=0) as file:
        file.write(b"before, ")
        (at / "one").rename(at / "two")
        file.write(b"after")
        assert (at / "two").read_bytes() == b"before, after"
        make(at / "three").rename(at / "two")
        file.seek(0)
        assert file.read() == b"before, after"
        file.write(b", gone")
        assert os.fstat(file.fileno()).st_size == len(b"before, after, gone")
        assert os.fstat(file.fileno()).st_nlink == 0
    assert (at / "two").read_bytes() == b"data"


@call
def rename_a_link(at: Path) -> None:
    (at / "link").symlink_to("nowhere")
    (at / "link").rename(at / "other")
    assert os.readlink(at / "other") == "nowhere"


# -- unlink, rmdir -----------------------------------------------------------------------------------------------------


@call
def unlink_what_is_open(at: Path) -> None:
    with open(at / "file", "w+b", buffering=0) as file:
        file.write(b"some")
        (at / "file").unlink()
        assert names(at) == []
        file.write(b" more")
        file.seek(0)
        assert file.read() == b"some more"
        os.ftruncate(file.fileno(), 2)
        os.fchmod(file.fileno(), 0o640)
        status = os.fstat(file.fileno())
        assert (status.st_size, status.st_nlink, stat.S_IMODE(status.st_mode)) == (2, 0, 0o640)
        make(at / "file", b"another")
        assert os.pread(file.fileno(), 100, 0) == b"so"


@call
def unlink_nothing(at: Path) -> None:
    with fails(errno.ENOENT):
        (at / "none").unlink()


@call
def unlink_a_directory(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.EISDIR, errno.EPERM):
        (at / "dir").unlink()


@call
def rmdir_what_is_not_empty(at: Path) -> None:
    (at / "dir").mkdir()
    make(at / "dir/file")
    with fails(errno.ENOTEMPTY):
        (at / "dir").rmdir()
    (at / "dir/file").unlink()
    (at / "dir").rmdir()
    assert names(at) == []


@call
def rmdir_a_file(at: Path) -> None:
    with fails(errno.ENOTDIR):
        make(at / "file").rmdir()


@call
def remove_the_directory_one_is_in(at: Path) -> None:
    (at / "dir").mkdir()
    script = "cd dir && rmdir ../dir && ls -A && ! touch file 2>&1"
    done = subprocess.run(["bash", "-c", script], cwd=at, capture_output=True, text=True, timeout=20, check=False)
    assert "No such file or directory" in done.stdout, done


@call
def remove_while_listing(at: Path) -> None:
    """Every name is listed once, whatever was removed on the way."""
    for number in range(1500):
        make(at / f"a-rather-long-name-of-a-file-{number}", b"")
    seen = []
    with os.scandir(at) as listing:
        for entry in listing:
            if entry.name not in EVENTS:
                seen.append(entry.name)
                os.unlink(entry.path)
    assert len(seen) == len(set(seen)) == 1500
    assert names(at) == []


@call
def make_while_listing(at: Path) -> None:
    """A name that was there all the time is listed exactly once, whatever is made on the way."""
    for number in range(1000):
        make(at / f"a-rather-long-name-of-a-file-{number}", b"")
    seen = []
    with os.scandir(at) as listing:
        for number, entry in enumerate(listing):
            seen.append(entry.name)
            if number < 1000:
                make(at / f"new-{number}", b"")
    old = [name for name in seen if name.startswith("a-")]
    assert len(old) == len(set(old)) == 1000


# -- link --------------------------------------------------------------------------------------------------------------


@call
def link_is_the_same_file(at: Path) -> None:
    one = make(at / "one")
    os.link(one, at / "two")
    first, second = one.stat(), (at / "two").stat()
    assert (first.st_ino, first.st_nlink) == (second.st_ino, second.st_nlink)
    assert first.st_nlink == 2
    (at / "two").write_bytes(b"changed through the other")
    assert one.read_bytes() == b"changed through the other"
    one.unlink()
    assert (at / "two").stat().st_nlink == 1
    assert (at / "two").read_bytes() == b"changed through the other"


@call
def link_into_another_directory(at: Path) -> None:
    (at / "dir").mkdir()
    os.link(make(at / "one"), at / "dir/two")
    assert (at / "dir/two").read_bytes() == b"data"


@call
def link_onto_what_is_there(at: Path) -> None:
    one, two = make(at / "one"), make(at / "two", b"2")
    with fails(errno.EEXIST):
        os.link(one, two)
    assert two.read_bytes() == b"2"


@call
def link_a_directory(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.EPERM):
        os.link(at / "dir", at / "other")


@call
def link_nothing(at: Path) -> None:
    with fails(errno.ENOENT):
        os.link(at / "none", at / "other")


@call
def link_a_link(at: Path) -> None:
    (at / "link").symlink_to("nowhere")
    os.link(at / "link", at / "other", follow_symlinks=False)
    assert os.readlink(at / "other") == "nowhere"


# -- symlink -----------------------------------------------------------------------------------------------------------


@call
def symlink_leads_somewhere(at: Path) -> None:
    make(at / "file")
    (at / "link").symlink_to("file")
    assert (at / "link").read_bytes() == b"data"
    assert (at / "link").lstat().st_size == len("file")
    assert stat.S_ISLNK((at / "link").lstat().st_mode)
    (at / "link").write_bytes(b"new")
    assert (at / "file").read_bytes() == b"new"


@call
def symlink_leads_nowhere(at: Path) -> None:
    for number, target in enumerate(["nowhere", "/absolute/../x", "x" * 4000, "ada@host.123:1700000000", "ümlaut"]):
        (at / f"link{number}").symlink_to(target)
        assert os.readlink(at / f"link{number}") == target
    with fails(errno.ENOENT):
        (at / "link0").read_bytes()


@call
def symlink_onto_what_is_there(at: Path) -> None:
    with fails(errno.EEXIST):
        make(at / "file").symlink_to("nowhere")


@call
def symlink_to_itself(at: Path) -> None:
    (at / "link").symlink_to("link")
    with fails(errno.ELOOP):
        (at / "link").read_bytes()


# -- open, create ------------------------------------------------------------------------------------------------------


@call
def create_anew(at: Path) -> None:
    os.close(os.open(at / "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    with fails(errno.EEXIST):
        os.open(at / "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    (at / "dangling").symlink_to("none")
    with fails(errno.EEXIST):
        os.open(at / "dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@call
def create_with_a_mode(at: Path) -> None:
    before = os.umask(0)
    try:
        for mode in (0o600, 0o644, 0o755, 0o400, 0o000, 0o777, 0o4711):
            file = os.open(at / f"{mode:o}", os.O_CREAT | os.O_RDWR | os.O_EXCL, mode)
            # whoever makes a file may write it, whatever its mode
            os.write(file, b"data")
            os.close(file)
            assert stat.S_IMODE((at / f"{mode:o}").stat().st_mode) == mode, oct(mode)
        os.umask(0o027)
        os.close(os.open(at / "masked", os.O_CREAT | os.O_WRONLY, 0o666))
        (at / "dir").mkdir(0o777)
        assert stat.S_IMODE((at / "masked").stat().st_mode) == 0o640
        assert stat.S_IMODE((at / "dir").stat().st_mode) == 0o750
    finally:
        os.umask(before)


@call
def open_and_cut(at: Path) -> None:
    file = make(at / "file", b"x" * 10_000)
    os.close(os.open(file, os.O_WRONLY | os.O_TRUNC))
    assert file.read_bytes() == b""
    assert file.stat().st_size == 0


@call
def open_what_is_no_directory(at: Path) -> None:
    make(at / "file")
    (at / "dir").mkdir()
    (at / "link").symlink_to("file")
    with fails(errno.ENOTDIR):
        os.open(at / "file", os.O_RDONLY | os.O_DIRECTORY)
    with fails(errno.EISDIR):
        os.open(at / "dir", os.O_WRONLY)
    with fails(errno.ELOOP):
        os.open(at / "link", os.O_RDONLY | os.O_NOFOLLOW)
    with fails(errno.ENOTDIR):
        os.open(at / "file/below", os.O_RDONLY)
    with fails(errno.ENOENT):
        os.open(at / "none", os.O_RDONLY)
    with fails(errno.ENOENT):
        os.open(at / "none/file", os.O_WRONLY | os.O_CREAT)


@call
def names_of_all_lengths_and_bytes(at: Path) -> None:
    spelled = [b"x" * 255, b"\xff\xfe not UTF-8", "naïve ☃".encode(), b"new\nline", b" ", b"...", b"-rf", b"a\\b", b"~"]
    for name in spelled:
        with open(os.fsencode(at) + b"/" + name, "wb") as file:
            file.write(name)
    assert names(at) == sorted(os.fsdecode(name) for name in spelled)
    for name in spelled:
        with open(os.fsencode(at) + b"/" + name, "rb") as file:
            assert file.read() == name
    for name in (b"x" * 256, b"x" * 1000):
        with fails(errno.ENAMETOOLONG):
            os.open(os.fsencode(at) + b"/" + name, os.O_WRONLY | os.O_CREAT)
        with fails(errno.ENAMETOOLONG):
            os.mkdir(os.fsencode(at) + b"/" + name)
        with fails(errno.ENAMETOOLONG):
            os.rename(os.fsencode(at) + b"/~", os.fsencode(at) + b"/" + name)


@call
def append_through_two_handles(at: Path) -> None:
    one = os.open(at / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    two = os.open(at / "file", os.O_WRONLY | os.O_APPEND)
    for number in range(100):
        os.write(one, b"one %d\n" % number)
        os.write(two, b"two %d\n" % number)
    os.close(one)
    os.close(two)
    assert (at / "file").read_bytes() == b"".join(b"one %d\ntwo %d\n" % (number, number) for number in range(100))


@call
def append_from_many_processes(at: Path) -> None:
    script = "for i in $(seq 50); do echo $1 $i >> file; done"
    running = [subprocess.Popen(["bash", "-c", script, "bash", str(number)], cwd=at) for number in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    lines = (at / "file").read_text().splitlines()
    assert sorted(lines) == sorted(f"{number} {line}" for number in range(4) for line in range(1, 51))


@call
def write_beyond_the_end(at: Path) -> None:
    file = os.open(at / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"far", 100_000)
    assert os.pread(file, 200_000, 0) == bytes(100_000) + b"far"
    os.close(file)


@call
def write_in_pieces_and_in_one(at: Path) -> None:
    data = os.urandom(3_000_001)
    (at / "one").write_bytes(data)
    with open(at / "two", "wb", buffering=0) as file:
        file.writelines(data[start : start + 777_777] for start in range(0, len(data), 777_777))
    assert (at / "one").read_bytes() == (at / "two").read_bytes() == data


@call
def write_through_what_may_only_read(at: Path) -> None:
    make(at / "file")
    file = os.open(at / "file", os.O_RDONLY)
    with fails(errno.EBADF):
        os.write(file, b"x")
    os.close(file)


# -- truncate ----------------------------------------------------------------------------------------------------------


@call
def truncate_both_ways(at: Path) -> None:
    file = make(at / "file", b"0123456789")
    os.truncate(file, 4)
    assert file.read_bytes() == b"0123"
    os.truncate(file, 8)
    assert file.read_bytes() == b"0123\0\0\0\0"
    with open(file, "r+b", buffering=0) as opened:
        os.ftruncate(opened.fileno(), 5000)
        assert os.fstat(opened.fileno()).st_size == 5000
        assert file.stat().st_size == 5000
        os.ftruncate(opened.fileno(), 0)
        opened.write(b"new")
    assert file.read_bytes() == b"new"


@call
def truncate_what_cannot_be(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.EISDIR):
        os.truncate(at / "dir", 0)
    with fails(errno.ENOENT):
        os.truncate(at / "none", 0)
    with fails(errno.EINVAL):
        os.truncate(make(at / "file"), -1)
    file = os.open(at / "file", os.O_RDONLY)
    with fails(errno.EINVAL, errno.EBADF):
        os.ftruncate(file, 0)
    os.close(file)
    assert (at / "file").read_bytes() == b"data"


@call
def truncate_to_a_size_that_no_disk_has(at: Path) -> None:
    with fails(errno.EFBIG):
        os.truncate(make(at / "file"), 10**15 * 9)
    assert (at / "file").read_bytes() == b"data"


@call
def allocate(at: Path) -> None:
    file = os.open(at / "file", os.O_RDWR | os.O_CREAT)
    os.write(file, b"data")
    os.posix_fallocate(file, 0, 100_000)
    assert os.pread(file, 200_000, 0) == b"data" + bytes(100_000 - 4)
    os.close(file)


# -- modes, owners, times, attributes ----------------------------------------------------------------------------------


@call
def change_modes(at: Path) -> None:
    file = make(at / "file")
    (at / "dir").mkdir()
    for path in (file, at / "dir"):
        for mode in (0o700, 0o640, 0o751):
            path.chmod(mode)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    with open(file, "rb") as opened:
        os.fchmod(opened.fileno(), 0o600)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@call
def change_owner_to_oneself(at: Path) -> None:
    file = make(at / "file")
    os.chown(file, os.getuid(), os.getgid())
    os.chown(file, -1, -1)
    assert (file.stat().st_uid, file.stat().st_gid) == (os.getuid(), os.getgid())


@call
def change_times(at: Path) -> None:
    (at / "dir").mkdir()
    for path in (make(at / "file"), at / "dir"):
        os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
        assert path.stat().st_mtime_ns == 1_500_000_000_987_654_321
        os.utime(path, (1, 2))
        assert path.stat().st_mtime_ns == 2_000_000_000


@call
def times_pass(at: Path) -> None:
    file = make(at / "file")
    os.utime(file, (1, 1))
    before = file.stat()
    with open(file, "ab") as opened:
        opened.write(b"x")
    assert file.stat().st_mtime_ns > before.st_mtime_ns
    (at / "dir").mkdir()
    os.utime(at / "dir", (1, 1))
    make(at / "dir/new")
    assert (at / "dir").stat().st_mtime > 1


@call
def extended_attributes(at: Path) -> None:
    file = make(at / "file")
    os.setxattr(file, "user.note", b"hello")
    os.setxattr(file, "user.empty", b"")
    assert os.getxattr(file, "user.note") == b"hello"
    assert {"user.note", "user.empty"} <= set(os.listxattr(file))
    with fails(errno.EEXIST):
        os.setxattr(file, "user.note", b"x", os.XATTR_CREATE)
    os.setxattr(file, "user.note", b"changed", os.XATTR_REPLACE)
    assert os.getxattr(file, "user.note") == b"changed"
    os.removexattr(file, "user.note")
    with fails(errno.ENODATA):
        os.getxattr(file, "user.note")
    with fails(errno.ENODATA):
        os.removexattr(file, "user.note")


# -- other kinds of files, locks, room ---------------------------------------------------------------------------------


@call
def directories(at: Path) -> None:
    (at / "dir").mkdir()
    with fails(errno.EEXIST):
        (at / "dir").mkdir()
    with fails(errno.ENOENT):
        (at / "none/dir").mkdir()
    deep = at / "/".join(["d"] * 60)
    deep.mkdir(parents=True)
    make(deep / "file")
    assert (deep / "file").read_bytes() == b"data"
    subprocess.run(["rm", "-r", at / "d"], check=True, timeout=20)
    assert names(at) == ["dir"]


@call
def pipes(at: Path) -> None:
    os.mkfifo(at / "pipe")
    assert stat.S_ISFIFO((at / "pipe").stat().st_mode)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((at / "pipe").read_bytes()))
    reader.start()
    (at / "pipe").write_bytes(b"through")
    reader.join(10)
    assert got == [b"through"]


@call
def sockets(at: Path) -> None:
    here = os.getcwd()
    os.chdir(at)  # for the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("socket")
            server.listen()
            client.connect("socket")
    finally:
        os.chdir(here)
    assert stat.S_ISSOCK((at / "socket").stat().st_mode)


@call
def locks_of_whole_files(at: Path) -> None:
    make(at / "file")
    with open(at / "file") as one, open(at / "file") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        with fails(errno.EWOULDBLOCK):
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(one, fcntl.LOCK_UN)
        fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)


@call
def locks_of_ranges(at: Path) -> None:
    make(at / "file", b"x" * 100)
    attempt = (
        "import fcntl, sys; file = open('file', 'r+b')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, int(sys.argv[1]))\n"
        "except OSError: sys.exit(3)"
    )
    with open(at / "file", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 20)
        for start, code in ((0, 0), (25, 3), (30, 0)):
            done = subprocess.run([sys.executable, "-c", attempt, str(start)], cwd=at, timeout=20, check=False)
            assert done.returncode == code, start


@call
def run_a_program(at: Path) -> None:
    script = make(at / "script", b"#!/bin/sh\necho it runs\n")
    script.chmod(0o700)
    assert subprocess.run([script], capture_output=True, timeout=20, check=True).stdout == b"it runs\n"


@call
def a_writer_that_is_killed(at: Path) -> None:
    with subprocess.Popen(["bash", "-c", "echo begun > file; cat >> file"], cwd=at, stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"and written\n" * 10)
        writer.stdin.flush()
        while not (at / "file").exists() or (at / "file").read_bytes().count(b"written") < 10:
            pass
        writer.send_signal(signal.SIGKILL)
    assert (at / "file").read_bytes() == b"begun\n" + b"and written\n" * 10


@call
def room(at: Path) -> None:
    status = os.statvfs(at)
    assert status.f_namemax == 255
    assert status.f_bavail * status.f_frsize > 0


# -- what a plain disk does and a mount does not -----------------------------------------------------------------------


def exchange(at: Path) -> None:
    renameat2(make(at / "one"), make(at / "two"), EXCHANGE)


def whiteout(at: Path) -> None:
    renameat2(make(at / "one"), at / "two", WHITEOUT)


def open_without_a_name(at: Path) -> None:
    os.close(os.open(at, os.O_TMPFILE | os.O_RDWR))


def access_list(at: Path) -> None:
    entries = b"\x02\0\0\0" + b"".join(
        bytes([tag, 0, 6, 0]) + (0 if tag == 2 else 0xFFFF_FFFF).to_bytes(4, "little") for tag in (1, 2, 4, 16, 32)
    )
    os.setxattr(make(at / "file"), "system.posix_acl_access", entries)


def allocate_blocks(at: Path) -> None:
    with open(at / "file", "w+b") as file:
        done = _libc.fallocate(file.fileno(), 1, ctypes.c_int64(0), ctypes.c_int64(4096))
        if done != 0:
            raise OSError(ctypes.get_errno(), "fallocate")


def device(at: Path) -> None:
    os.mknod(at / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))


REFUSED: list[tuple[Call, int, str]] = [
    (exchange, errno.EINVAL, "an exchange of an event with a file is no edit that could be told; programs fall back"),
    (whiteout, errno.EINVAL, "only overlayfs asks for it, and an upper layer should not lie in a mount"),
    (open_without_a_name, errno.EOPNOTSUPP, "pyfuse3 has no such request; programs make a temporary name instead"),
    (access_list, errno.EOPNOTSUPP, "the mount is its owner's alone, so a mode says it all"),
    (allocate_blocks, errno.EOPNOTSUPP, "pyfuse3 has no such request; posix_fallocate writes zeros instead"),
    (device, errno.EPERM, "a mount is nodev, and no tool needs one beside a conversation"),
]
"""Calls that work on a plain disk and are refused in a mount on purpose: with what, and why."""
