"""Outcomes of calls: every call with every sort of file, noted as a line that can be compared.

``python outcomes.py DIRECTORY HOW`` prints the outcomes of all cases. HOW is ``below``: each is tried in a directory of
its own below DIRECTORY; or ``beside``: in DIRECTORY itself; or ``events``: there too, and the files are the events that
are in DIRECTORY, each for one case. After the idea of pjdfstest, but without a table of what is right: that is what
another file system does.
"""

import ctypes
import errno
import itertools
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

SORTS = ["missing", "file", "empty", "full", "link", "dirlink", "dangling", "loop", "pipe"]
"""The sorts of file that there may be under a name."""

EVENT = "event"
"""The sort that there may be besides."""

RENAME_FLAGS = {"": 0, "noreplace": 1, "exchange": 2}
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Case:
    """A call: what it is called, what there is under each of its names, and the call itself, which gets these."""

    name: str
    sorts: tuple[str, ...]
    call: Callable[..., object]

    @property
    def key(self) -> str:
        return f"{self.name}: {', '.join(self.sorts)}"


def make(name: str, sort: str) -> None:
    """Make ``name`` what it is to be; what it leads to is beside it."""
    match sort:
        case "file":
            write(name, f"this is {name}")
        case "empty":
            os.mkdir(name)
        case "full":
            os.mkdir(name)
            write(f"{name}/inside", "inside")
        case "link":
            write(f"{name}.to", f"what {name} leads to")
            os.symlink(f"{name}.to", name)
        case "dirlink":
            os.mkdir(f"{name}.to")
            write(f"{name}.to/inside", "inside")
            os.symlink(f"{name}.to", name)
        case "dangling":
            os.symlink("nowhere", name)
        case "loop":
            os.symlink(name, name)
        case "pipe":
            os.mkfifo(name)


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def look(path: str) -> object:
    """Return all that there is under a path, in words."""
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    shown: list[object] = [stat.filemode(status.st_mode)]
    if kind == stat.S_IFDIR:
        return [*shown, {name: look(f"{path}/{name}") for name in sorted(os.listdir(path))}]
    if kind == stat.S_IFLNK:
        return [*shown, os.readlink(path)]
    if kind == stat.S_IFREG:
        with open(path, "rb") as file:
            shown.append(file.read().decode())
    return [*shown, status.st_nlink]


def outcome(call: Callable[[], object]) -> str:
    """Return what comes of a call: what it returns, or the name of its errno."""
    try:
        return f"returns {call()!r}"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


# -- the calls ---------------------------------------------------------------------------------------------------------


def rename(old: str, new: str, flags: int = 0) -> None:
    if _libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def opened(path: str, flags: int) -> object:
    """Open, write at the end and read what may be, and close."""
    file = os.open(path, flags | os.O_NONBLOCK, 0o640)
    try:
        kind, size = stat.S_IFMT(os.fstat(file).st_mode), os.fstat(file).st_size
        return kind, size, outcome(lambda: os.pwrite(file, b"written", size)), outcome(lambda: os.read(file, 100))
    finally:
        os.close(file)


def chmod_and_back(path: str) -> str:
    os.chmod(path, 0o751)
    return stat.filemode(os.stat(path).st_mode)


def touched(path: str, *, follow: bool) -> object:
    os.utime(path, ns=(1_600_000_000_000_000_007, 1_500_000_000_000_000_009), follow_symlinks=follow)
    return os.stat(path, follow_symlinks=follow).st_mtime_ns


def truncated(path: str, size: int) -> int:
    os.truncate(path, size)
    return os.stat(path).st_size


def attribute(path: str) -> object:
    os.setxattr(path, "user.x", b"value")
    return os.getxattr(path, "user.x"), os.listxattr(path)


ONE: dict[str, Callable[[str], object]] = {
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir": partial(os.mkdir, mode=0o750),
    "mkfifo": partial(os.mkfifo, mode=0o640),
    "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o640),
    "symlink": lambda path: os.symlink("anywhere", path),
    "symlink to nothing": lambda path: os.symlink("", path),
    "readlink": os.readlink,
    "listdir": lambda path: sorted(os.listdir(path)),
    "stat": lambda path: stat.filemode(os.stat(path).st_mode),
    "lstat": lambda path: stat.filemode(os.lstat(path).st_mode),
    "access": lambda path: os.access(path, os.R_OK | os.W_OK),
    "chmod": chmod_and_back,
    "chown": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "lchown": lambda path: os.lchown(path, -1, -1),
    "utime": partial(touched, follow=True),
    "utime of a link": partial(touched, follow=False),
    "truncate 0": partial(truncated, size=0),
    "truncate 3": partial(truncated, size=3),
    "truncate 9000": partial(truncated, size=9000),
    "truncate -1": partial(truncated, size=-1),
    "truncate beyond": partial(truncated, size=(1 << 63) - 1),
    "attribute": attribute,
    "rename onto itself": lambda path: rename(path, path),
    "rename below itself": lambda path: rename(path, f"{path}/below"),
    "rename onto what it is in": lambda path: rename(f"{path}/inside", path),
    "link to itself": lambda path: os.link(path, path),
}

ACCESS = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR}
MORE = {
    "creat": os.O_CREAT,
    "excl": os.O_CREAT | os.O_EXCL,
    "trunc": os.O_TRUNC,
    "creat trunc": os.O_CREAT | os.O_TRUNC,
    "append": os.O_APPEND,
    "directory": os.O_DIRECTORY,
    "nofollow": os.O_NOFOLLOW,
    "creat nofollow": os.O_CREAT | os.O_NOFOLLOW,
    "path": os.O_PATH,
    "": 0,
}
PATHS = {"": "{}", "with a slash": "{}/", "below": "{}/x", "inside": "{}/inside", "with a dot": "{}/.", "up": "{}/.."}

OPENED = ("", "with a slash", "below")
"""How files are opened; nothing else comes of the other ways."""

WITHIN = ("below", "inside", "with a dot", "up")
"""Of these, all that happens is within a directory, wherever that is."""


def cases(*, of_events: bool) -> Iterator[Case]:
    """Yield all cases; those of events have at least one in each."""
    sorts = [EVENT] if of_events else SORTS
    for (spelled, pattern), sort in itertools.product(PATHS.items(), sorts):
        for name, one in ONE.items():
            yield Case(f"{name} {spelled}".strip(), (sort,), partial(spelling, pattern, one))
        opens = itertools.product(ACCESS.items(), MORE.items()) if spelled in OPENED else ()
        for (how, access), (more, flags) in opens:
            call = partial(spelling, pattern, partial(opened, flags=access | flags))
            yield Case(f"open {how} {more} {spelled}".strip(), (sort,), call)
    others = [*SORTS, EVENT] if of_events else SORTS
    for (old, new), (name, two) in itertools.product(itertools.product(others, others), TWO.items()):
        if not of_events or EVENT in (old, new):
            yield Case(name, (old, new), two)


def spelling(pattern: str, call: Callable[[str], object], path: str) -> object:
    return call(pattern.format(path))


def second_name(old: str, new: str) -> object:
    """Rename a name of a file onto another name of it, and onto something else."""
    os.link(old, "c", follow_symlinks=False)
    rename(old, "c")
    rename("c", new)
    return os.lstat(new).st_nlink


TWO: dict[str, Callable[[str, str], object]] = {
    **{f"rename {name}".strip(): partial(rename, flags=flags) for name, flags in RENAME_FLAGS.items()},
    "rename with slashes": lambda old, new: rename(f"{old}/", f"{new}/"),
    "rename what is inside onto": lambda old, new: rename(f"{old}/inside", new),
    "rename into": lambda old, new: rename(old, f"{new}/new"),
    "rename onto what is inside": lambda old, new: rename(old, f"{new}/inside"),
    "rename a second name": second_name,
    "link": partial(os.link, follow_symlinks=False),
    "link what it leads to": partial(os.link, follow_symlinks=True),
    "link into": lambda old, new: os.link(old, f"{new}/new", follow_symlinks=False),
}


def run(case: Case, events: Iterator[str]) -> str:
    """Return the outcome of a case, and all that there is afterwards, as one line."""
    names = {}
    for name, sort in zip("ab", case.sorts, strict=False):
        names[name] = next(events) if sort == EVENT else name
        make(name, sort)
    came = outcome(partial(case.call, *names.values()))
    shown = sorted(name for name in os.listdir(".") if name[0] in "abcn" or name in names.values())
    letters = {name: letter for letter, name in names.items()}
    said = f"{came} {json.dumps({letters.get(name, name): look(name) for name in shown}, sort_keys=True)}"
    for name, letter in letters.items():
        said = said.replace(name, letter) if len(name) > 1 else said
    return said


def sweep() -> None:
    """Remove all that a case has left, but for events."""
    for name in os.listdir("."):
        if name.partition(".")[0] in ("a", "b", "c", "nowhere", "anywhere"):
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name)
            else:
                os.unlink(name)


def main(directory: str, how: str) -> None:
    os.umask(0o022)
    os.chdir(directory)
    events = iter(sorted(os.listdir(".")))
    for number, case in enumerate(cases(of_events=how == "events")):
        if how == "beside" and case.name.endswith(WITHIN):
            continue
        if how == "below":
            os.mkdir(f"case-{number}")
            os.chdir(f"case-{number}")
        print(case.key, run(case, events), sep="\t", flush=True)
        if how == "below":
            os.chdir("..")
        else:
            sweep()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
