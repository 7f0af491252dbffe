"""Single calls whose outcome in a mount must be what it is on a plain disk: the disk says what is right.

Each gets a directory that :func:`prepare` has filled, and returns what is to be compared; an errno is compared, too.
After the idea of pjdfstest.
"""

import ctypes
import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

Compared = Callable[[Path], object]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.opendir.restype = ctypes.c_void_p
_libc.telldir.restype = ctypes.c_long
_AT_FDCWD, _UTIME_NOW, _UTIME_OMIT = -100, (1 << 30) - 1, (1 << 30) - 2


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def prepare(at: Path, *, chained: bool = False) -> Path:
    """Make a directory with something of each sort in it; ``chained``: more links to links, too, than are followed."""
    at.mkdir()
    at.chmod(0o755)
    (at / "file").write_bytes(b"data")
    (at / "other").write_bytes(b"other")
    (at / "empty").mkdir()
    (at / "full").mkdir()
    (at / "full/below").mkdir()
    (at / "full/file").write_bytes(b"in it")
    (at / "to-file").symlink_to("file")
    (at / "to-empty").symlink_to("empty")
    (at / "to-nowhere").symlink_to("nowhere")
    (at / "loop").symlink_to("loop")
    (at / "ping").symlink_to("pong")
    (at / "pong").symlink_to("ping")
    for number in range(45 * chained):
        (at / f"chain{number}").symlink_to(f"chain{number + 1}" if number < 44 else "file")
    os.mkfifo(at / "pipe")
    return at


def outcome(call: Compared, at: Path) -> object:
    """Return what a call returns, or the name of its errno."""
    try:
        return call(at)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def opened(at: Path, name: str, flags: int) -> None:
    """Open a name, and close it."""
    os.close(os.open(f"{at}/{name}", flags, 0o600))


# names of every sort, and the calls that each is tried with
NAMES = [
    *(
        "file",
        "empty",
        "full",
        "to-file",
        "to-empty",
        "to-nowhere",
        "loop",
        "ping",
        "chain0",
        "chain10",
        "pipe",
        "none",
    ),
    *("file/", "empty/", "full/", "to-file/", "to-empty/", "to-nowhere/", "loop/", "none/", "pipe/"),
    *(".", "..", "empty/.", "empty/..", "full/below/..", "file/.", "file/below", "none/below", "loop/below"),
    *("x" * 255, "x" * 256, "x" * 256 + "/below", "x" * 256 + "/", "empty/" + "./" * 2100, "y/" * 2100),
]
OF_NAMES: dict[str, Callable[[Path, str], object]] = {
    "stat": lambda at, name: stat.S_IFMT(os.stat(f"{at}/{name}").st_mode),
    "lstat": lambda at, name: stat.S_IFMT(os.lstat(f"{at}/{name}").st_mode),
    "readlink": lambda at, name: os.readlink(f"{at}/{name}"),
    "unlink": lambda at, name: os.unlink(f"{at}/{name}"),
    "rmdir": lambda at, name: os.rmdir(f"{at}/{name}"),
    "mkdir": lambda at, name: os.mkdir(f"{at}/{name}"),
    "symlink": lambda at, name: os.symlink("nowhere", f"{at}/{name}"),
    "link": lambda at, name: os.link(f"{at}/other", f"{at}/{name}"),
    "link of": lambda at, name: os.link(f"{at}/{name}", f"{at}/new", follow_symlinks=False),
    "mkfifo": lambda at, name: os.mkfifo(f"{at}/{name}"),
    "mknod": lambda at, name: os.mknod(f"{at}/{name}", stat.S_IFREG | 0o600),
    "rename a file": lambda at, name: os.rename(f"{at}/other", f"{at}/{name}"),
    "rename a directory": lambda at, name: os.rename(f"{at}/full", f"{at}/{name}"),
    "rename a link": lambda at, name: os.rename(f"{at}/to-nowhere", f"{at}/{name}"),
    "rename to a file": lambda at, name: os.rename(f"{at}/{name}", f"{at}/new"),
    "rename onto a file": lambda at, name: os.rename(f"{at}/{name}", f"{at}/other"),
    "rename onto a directory": lambda at, name: os.rename(f"{at}/{name}", f"{at}/empty"),
    "rename into itself": lambda at, name: os.rename(f"{at}/{name}", f"{at}/{name}/below/itself"),
    "truncate": lambda at, name: os.truncate(f"{at}/{name}", 1),
    "truncate below nothing": lambda at, name: os.truncate(f"{at}/{name}", -1),
    "chmod": lambda at, name: os.chmod(f"{at}/{name}", 0o750),
    "chdir into": lambda at, name: opened(at, name, os.O_PATH | os.O_DIRECTORY),
    "list": lambda at, name: len(os.listdir(f"{at}/{name}")) if name != ".." else None,
    "utime": lambda at, name: os.utime(f"{at}/{name}", ns=(5, 7)),
    "open": lambda at, name: opened(at, name, os.O_RDONLY | os.O_NONBLOCK),
    "open to write": lambda at, name: opened(at, name, os.O_RDWR | os.O_NONBLOCK),
    "create": lambda at, name: opened(at, name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK),
    "create anew": lambda at, name: opened(at, name, os.O_RDWR | os.O_CREAT | os.O_EXCL),
    "cut": lambda at, name: opened(at, name, os.O_RDWR | os.O_TRUNC | os.O_NONBLOCK),
    "open a directory": lambda at, name: opened(at, name, os.O_RDONLY | os.O_DIRECTORY),
    "open no link": lambda at, name: opened(at, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK),
}


# -- what else changes -------------------------------------------------------------------------------------------------


def _moved(path: Path, act: Callable[[], object]) -> tuple[bool, bool]:
    """Say whether the mtime and the ctime of something move when something is done."""
    before = path.lstat()
    time.sleep(0.02)
    act()
    after = path.lstat()
    return after.st_mtime_ns > before.st_mtime_ns, after.st_ctime_ns > before.st_ctime_ns


def times_of_directories(at: Path) -> object:
    """Whatever makes or removes a name changes the directory, and nothing else does."""
    empty, full = at / "empty", at / "full"
    return [
        _moved(empty, lambda: (empty / "new").write_bytes(b"")),
        _moved(empty, lambda: (empty / "new").write_bytes(b"more")),
        _moved(empty, lambda: (empty / "new").chmod(0o640)),
        _moved(empty, lambda: os.link(empty / "new", empty / "linked")),
        _moved(empty, lambda: (empty / "dir").mkdir()),
        _moved(empty, lambda: (empty / "dir" / "below").mkdir()),
        _moved(empty, lambda: (empty / "link").symlink_to("x")),
        _moved(empty, lambda: os.mkfifo(empty / "pipe")),
        _moved(empty, lambda: (empty / "new").rename(empty / "newer")),
        _moved(empty, lambda: (empty / "newer").rename(full / "newer")),
        _moved(full, lambda: (full / "newer").rename(empty / "newer")),
        _moved(empty, lambda: (full / "file").rename(empty / "file")),
        _moved(empty, lambda: (empty / "file").unlink()),
        _moved(empty, lambda: (empty / "dir" / "below").rmdir()),
        _moved(empty, lambda: (empty / "dir").rmdir()),
        _moved(empty, lambda: (empty / "linked").read_bytes()),
        _moved(empty, lambda: os.listdir(empty)),
    ]


def times_of_files(at: Path) -> object:
    file = at / "file"
    return [
        _moved(file, lambda: file.chmod(0o640)),
        _moved(file, lambda: os.link(file, at / "linked")),
        _moved(file, lambda: (at / "linked").unlink()),
        _moved(file, lambda: os.truncate(file, 2)),
        _moved(file, lambda: file.write_bytes(b"more")),
        _moved(file, lambda: os.chown(file, os.getuid(), os.getgid())),
        _moved(file, lambda: os.setxattr(file, "user.note", b"x")),
    ]


def counts_of_links(at: Path) -> object:
    file = at / "file"
    counts = [file.stat().st_nlink]
    fd = os.open(file, os.O_RDONLY)
    try:
        for act in (
            lambda: os.link(file, at / "empty/linked"),
            lambda: os.link(at / "empty/linked", at / "third"),
            lambda: os.rename(at / "third", at / "empty/third"),
            lambda: os.rename(at / "other", at / "empty/third"),
            lambda: os.unlink(file),
            lambda: os.unlink(at / "empty/linked"),
        ):
            act()
            counts.append(os.fstat(fd).st_nlink)
        return counts, os.pread(fd, 10, 0)
    finally:
        os.close(fd)


def set_times(path: Path, accessed: int, modified: int) -> tuple[bool, ...]:
    """Set times by ``utimensat`` with nanoseconds that may mean now, or nothing; say which are the old, 5 s and 7 s."""
    os.utime(path, ns=(5_000_000_000, 7_000_000_000))
    times = (_Time * 2)(_Time(1, accessed), _Time(2, modified))
    if _libc.utimensat(_AT_FDCWD, os.fsencode(path), times, 0) != 0:
        raise OSError(ctypes.get_errno(), "utimensat")
    status = path.stat()
    recent = time.time_ns() - 60_000_000_000
    return (
        *(status.st_atime_ns == 5_000_000_000, status.st_mtime_ns == 7_000_000_000),
        *(status.st_atime_ns > recent, status.st_mtime_ns > recent, status.st_ctime_ns > recent),
    )


def times_now_and_left_out(at: Path) -> object:
    words = (_UTIME_NOW, _UTIME_OMIT, 0, 999_999_999)
    found = [set_times(at / name, one, two) for name in ("file", "empty") for one in words for two in words]
    return found, outcome(lambda at: set_times(at / "file", 1_000_000_000, 0), at)


def modes_that_are_inherited(at: Path) -> object:
    """A directory that sets the group hands that on; and all bits of a mode are kept.

    The group itself is not compared: everything in a mount belongs to who mounted it.
    """
    folder = at / "empty"
    folder.chmod(0o2775)
    (folder / "file").write_bytes(b"")
    (folder / "dir").mkdir()
    os.mkfifo(folder / "pipe")
    made = (folder, folder / "file", folder / "dir", folder / "pipe")
    found: list[object] = [stat.S_ISGID & path.stat().st_mode for path in made]
    for mode in (0o1777, 0o3770, 0o6755, 0o7777, 0o0000):
        folder.chmod(mode)
        (at / "file").chmod(mode)
        found += [stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE((at / "file").stat().st_mode)]
    folder.chmod(0o700)
    return found


def bits_that_a_change_takes_away(at: Path) -> object:
    """A file that is written to, cut, or given away no longer runs as its owner."""
    file, found = at / "file", []
    for act in (
        lambda: file.write_bytes(b"new"),
        lambda: os.truncate(file, 1),
        lambda: os.chown(file, os.getuid(), os.getgid()),
    ):
        for mode in (0o4755, 0o2755, 0o6755, 0o2644):
            file.chmod(mode)
            act()
            found.append(oct(file.stat().st_mode))
    return found


def going_back_in_a_listing(at: Path) -> object:
    """A place in a listing is good however many names before it have gone."""
    folder = at / "empty"
    for number in range(300):
        (folder / f"a-rather-long-name-{number}").write_bytes(b"")
    listing = ctypes.c_void_p(_libc.opendir(os.fsencode(folder)))
    _libc.readdir.restype = ctypes.c_void_p
    try:
        for _ in range(100):
            assert _libc.readdir(listing)
        place = _libc.telldir(listing)
        left = 0
        while _libc.readdir(listing):
            left += 1
        for path in list(folder.iterdir())[:50]:
            path.unlink()
        _libc.seekdir(listing, ctypes.c_long(place))
        again = 0
        while _libc.readdir(listing):
            again += 1
        return left, again <= left, again >= left - 50
    finally:
        _libc.closedir(listing)


OTHERS: list[Compared] = [
    times_of_directories,
    times_of_files,
    counts_of_links,
    times_now_and_left_out,
    modes_that_are_inherited,
    bits_that_a_change_takes_away,
    going_back_in_a_listing,
]
