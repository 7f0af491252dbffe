"""Ways of programs to save, as the calls that strace shows, each telling what it was told.

A program is killed off by the first call that fails, as a program is that does not know what to do then; whoever
started it sees the error.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.editors import saver

_ACL = b"\2\0\0\0\1\0\6\0\377\377\377\377\4\0\4\0\377\377\377\377 \0\4\0\377\377\377\377"

_SLOWLY_SECONDS = 0.8
"""Longer than the daemons of these tests wait before they remove what does not come back."""

SAVED, SYNCED = "saved", "synced"
"""The program was told that what it wrote is saved; that what it wrote so far is on the disk."""


class Here:
    """Where a program works: ``file`` is what it changes in ``events``, ``text`` what that is to hold.

    ``old`` is what it holds. ``tell`` is told of every promise that was made.
    """

    def __init__(self, events: Path, name: str, text: bytes, tell: Callable[[object], object]) -> None:
        self.events = events
        self.conversation = events.parent
        self.name = name
        self.file = events / name
        self.text = text
        self.tell = tell
        self.old = self.file.read_bytes() if name else b""

    def beside(self, name: str) -> Path:
        """Return the path of another file in the same directory."""
        return self.events / name

    def has(self, name: str, data: bytes) -> None:
        """Note that there is a file beside with some content now, and that this is certain."""
        self.tell({"has": name, "data": data.decode("latin1")})

    def goes(self, name: str) -> None:
        """Note that nothing is certain of a file beside any more."""
        self.tell({"goes": name})


def twice(old: bytes) -> bytes:
    """Return what is saved first of two times."""
    return old.replace(b"Hello", b"Hello and goodbye")


def senseless(old: bytes) -> bytes:
    """Return what no event can become."""
    return old.replace(b"event: 1", b"event: 8")


PROGRAMS: dict[str, Callable[[Here], None]] = {}


def program(work: Callable[[Here], None]) -> Callable[[Here], None]:
    PROGRAMS[work.__name__.replace("_", " ")] = work
    return work


@contextlib.contextmanager
def opened(path: Path, flags: int, mode: int = 0o600) -> Iterator[int]:
    """Open a file; closing it is a call that may fail."""
    fd = os.open(path, flags, mode)
    try:
        yield fd
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)


def put(path: Path, data: bytes, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode: int = 0o600) -> None:
    with opened(path, flags, mode) as fd:
        saver.write_all(fd, data)


def new(path: Path, data: bytes, mode: int = 0o600) -> None:
    put(path, data, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def set_acl(file: Path | int) -> None:
    """Do as programs do that keep a file's access rights. Where there are none, that does not matter to them."""
    with contextlib.suppress(OSError):
        os.setxattr(file, "system.posix_acl_access", _ACL)


def copy_range(source: int, target: int) -> None:
    while os.copy_file_range(source, target, 1 << 30):
        pass


def sync_directory(path: Path) -> None:
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)


# -- editors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def swap(here: Here) -> Iterator[None]:
    """Keep a swap file for the time of the block, as vim does."""
    name = f".{here.name}.swp"
    for ending in ("swp", "swx"):
        new(here.beside(f".{here.name}.{ending}"), b"")
    for ending in ("swx", "swp"):
        os.unlink(here.beside(f".{here.name}.{ending}"))
    with opened(here.beside(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as fd:
        os.write(fd, b"b0VIM 9.0".ljust(4096, b"\0"))
        os.chmod(here.beside(name), 0o600)
        os.write(fd, here.old.ljust(4096, b"\0"))
        os.fsync(fd)
        here.has(name, b"b0VIM 9.0".ljust(4096, b"\0") + here.old.ljust(4096, b"\0"))
        yield
        here.goes(name)
    os.unlink(here.beside(name))


def vim_writes(here: Here) -> None:
    with opened(here.file, os.O_WRONLY | os.O_CREAT, 0o644) as fd:
        os.ftruncate(fd, 0)
        saver.write_all(fd, here.text)
        os.fsync(fd)
        here.tell(SYNCED)
        os.fchmod(fd, 0o600)
    here.tell(SAVED)


@program
def vim(here: Here) -> None:
    """Move the old one away, write a new one."""
    backup = f"{here.name}~"
    with swap(here):
        put(here.beside("4913"), b"", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        os.unlink(here.beside("4913"))
        os.rename(here.file, here.beside(backup))
        here.has(backup, here.old)
        vim_writes(here)
        set_acl(here.file)
        here.goes(backup)
        os.unlink(here.beside(backup))


@program
def vim_slowly(here: Here) -> None:
    """Move the old one away, and come to write a new one when that has become a removal."""
    os.rename(here.file, here.beside(f"{here.name}~"))
    here.has(f"{here.name}~", here.old)
    time.sleep(_SLOWLY_SECONDS)
    vim_writes(here)
    here.goes(f"{here.name}~")
    os.unlink(here.beside(f"{here.name}~"))


@program
def vim_backupcopy(here: Here) -> None:
    """Copy the old one, write in place."""
    backup = f"{here.name}~"
    with swap(here):
        put(here.beside(backup), here.old, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        os.utime(here.beside(backup), (1, 1))
        set_acl(here.beside(backup))
        here.has(backup, here.old)
        vim_writes(here)
        here.goes(backup)
        os.unlink(here.beside(backup))


@program
def vim_twice(here: Here) -> None:
    """Save, and save again with one word more."""
    text = here.text
    with swap(here):
        for once in (twice(here.old), text):
            here.text = once
            os.rename(here.file, here.beside(f"{here.name}~"))
            vim_writes(here)
            os.unlink(here.beside(f"{here.name}~"))


@program
def nano(here: Here) -> None:
    """Write in place."""
    with opened(here.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666) as fd:
        saver.write_all(fd, here.text)
        os.fsync(fd)
        here.tell(SYNCED)
    here.tell(SAVED)


@program
def emacs(here: Here) -> None:
    """Move the old one away, write a new one, open it once more."""
    lock = here.beside(f".#{here.name}")
    os.symlink("ada@home.1234", lock)
    os.rename(here.file, here.beside(f"{here.name}~"))
    here.has(f"{here.name}~", here.old)
    put(here.file, here.text, mode=0o666)
    here.tell(SAVED)
    put(here.file, b"", os.O_WRONLY)
    os.unlink(lock)
    os.chmod(here.file, 0o600)
    set_acl(here.file)


@program
def emacs_precious(here: Here) -> None:
    """Copy the old one, write beside it, rename."""
    lock, beside, backup = here.beside(f".#{here.name}"), here.beside("tmpSIguBH"), here.beside(f"{here.name}~")
    os.symlink("ada@home.1234", lock)
    with opened(here.file, os.O_RDONLY) as source, opened(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
        copy_range(source, target)
        os.utime(target, (1, 1))
    here.has(f"{here.name}~", here.old)
    new(beside, b"")
    put(beside, here.text)
    put(beside, b"", os.O_WRONLY)
    os.unlink(lock)
    os.rename(beside, here.file)
    here.tell(SAVED)
    os.chmod(here.file, 0o600)
    set_acl(here.file)


@program
def ed(here: Here) -> None:
    put(here.file, here.text, mode=0o666)
    here.tell(SAVED)


# -- programs that change a file without asking ------------------------------------------------------------------------


@program
def sed_i(here: Here, backup: str = "") -> None:
    beside = here.beside("sed4NdwAA")
    with opened(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL) as fd:
        os.fchown(fd, os.getuid(), os.getgid())
        set_acl(fd)
        saver.write_all(fd, here.text)
    here.has(beside.name, here.text)
    if backup:
        os.rename(here.file, here.beside(here.name + backup))
        here.has(here.name + backup, here.old)
    here.goes(beside.name)
    os.rename(beside, here.file)
    here.tell(SAVED)


@program
def sed_i_bak(here: Here) -> None:
    sed_i(here, ".bak")


@program
def perl_pi(here: Here) -> None:
    with opened(here.file, os.O_RDONLY):
        with opened(here.beside("XXJHbiMk"), os.O_RDWR | os.O_CREAT | os.O_EXCL) as fd:
            os.fchmod(fd, 0o600)
            saver.write_all(fd, here.text)
        os.rename(here.beside("XXJHbiMk"), here.file)
    here.tell(SAVED)


@program
def rsync(here: Here) -> None:
    beside = here.beside(f".{here.name}.sEVBoN")
    with opened(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as fd:
        os.fchmod(fd, 0o600)
        saver.write_all(fd, here.text)
    os.utime(beside, (1, 1))
    os.chmod(beside, 0o600)
    os.rename(beside, here.file)
    here.tell(SAVED)


def copy_in(here: Here, flags: int) -> None:
    source = os.memfd_create("source")
    os.write(source, here.text)
    os.lseek(source, 0, os.SEEK_SET)
    with opened(here.file, flags) as target:
        try:
            copy_range(source, target)
        except OSError:
            # between two file systems it may not be done; cp goes on like this
            saver.write_all(target, here.text)
        os.utime(target, (1, 1))
        set_acl(target)
    os.close(source)
    here.tell(SAVED)


@program
def cp_a(here: Here) -> None:
    copy_in(here, os.O_WRONLY | os.O_TRUNC)


@program
def install(here: Here) -> None:
    os.unlink(here.file)
    copy_in(here, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.chmod(here.file, 0o600)


@program
def tar(here: Here) -> None:
    os.unlink(here.file)
    with opened(here.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_NONBLOCK) as fd:
        saver.write_all(fd, here.text)
        os.utime(fd, (1, 1))
        os.fchown(fd, os.getuid(), os.getgid())
        os.fchmod(fd, 0o600)
    here.tell(SAVED)


@program
def redirected(here: Here) -> None:
    """``> FILE``: the shell opens, and hands the descriptor on."""
    fd = os.open(here.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    other = os.dup(fd)
    os.close(fd)
    os.write(other, here.text)
    os.close(other)
    here.tell(SAVED)


@program
def appended(here: Here) -> None:
    """``>> FILE``, what is new in two writes through two descriptors."""
    more = here.text.removeprefix(here.old)
    fd = os.open(here.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    other = os.dup(fd)
    os.write(other, more[:5])
    os.close(other)
    os.write(fd, more[5:])
    os.close(fd)
    here.tell(SAVED)


@program
def tee_a(here: Here) -> None:
    put(here.file, here.text.removeprefix(here.old), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    here.tell(SAVED)


def as_saver(how: str) -> Callable[[Here], None]:
    def work(here: Here) -> None:
        os.chdir(here.events)
        try:
            saver.HOW[how](here.name, here.text)
        except AssertionError as error:
            # it was not the one who could not write
            raise OSError(errno.EIO, str(error)) from error
        # what is written through memory after the file was closed is synced, but nobody is asked to save it
        here.tell(SYNCED if how == "mapped" else SAVED)

    return work


ALIKE = {"mapped_lazily", "parent_and_child", "vscode_atomic"}
"""These ask the mount for what others here ask."""

PROGRAMS |= {how.replace("_", " "): as_saver(how) for how in saver.HOW if how not in ALIKE}


@program
def mapped_lazily(here: Here) -> None:
    """Write through memory and sync nothing: nobody is told anything, and nothing is certain."""
    fd = os.open(here.file, os.O_RDWR)
    os.ftruncate(fd, len(here.text))
    with mmap.mmap(fd, len(here.text)) as memory:
        memory[:] = here.text
    os.close(fd)


# -- names -------------------------------------------------------------------------------------------------------------


@program
def new_event(here: Here) -> None:
    """``echo > user.md``."""
    put(here.beside("user.md"), here.text)
    here.tell(SAVED)


@program
def new_event_renamed(here: Here) -> None:
    """Write beside and rename, as careful programs do."""
    new(here.beside("tmp"), here.text)
    os.rename(here.beside("tmp"), here.beside("00120-user.md"))
    here.tell(SAVED)


@program
def removed(here: Here) -> None:
    """``rm``: gone after a while."""
    os.unlink(here.file)


@program
def removed_and_synced(here: Here) -> None:
    os.unlink(here.file)
    sync_directory(here.events)
    here.tell(SAVED)


@program
def renamed_onto(here: Here) -> None:
    """``mv``, as it is done with a file of its own in the same directory, durably."""
    beside = here.beside("draft of mine")
    with opened(beside, os.O_WRONLY | os.O_CREAT) as fd:
        saver.write_all(fd, here.text)
        os.fsync(fd)
    sync_directory(here.events)
    here.has(beside.name, here.text)
    here.goes(beside.name)
    no_replace = ctypes.CDLL(None, use_errno=True).renameat2(-100, bytes(beside), -100, bytes(here.file), 1)
    assert no_replace == -1
    os.rename(beside, here.file)
    here.tell(SAVED)


@program
def forked(here: Here) -> None:
    os.mkdir(here.conversation / "forks" / "another@00002")
    here.tell(SAVED)


@program
def begun(here: Here) -> None:
    """Make a project, a conversation in it, and its first event."""
    project = here.conversation.parent.parent / "fresh"
    os.mkdir(project)
    os.mkdir(project / "talk")
    put(project / "talk" / "events" / "user.md", here.text)
    here.tell(SAVED)


@program
def moved(here: Here) -> None:
    """``mv`` of a conversation to another name and project."""
    here.tell({"moves": True})
    os.mkdir(here.conversation.parent.parent / "other")
    os.rename(here.conversation, here.conversation.parent.parent / "other" / "renamed")
    here.tell(SAVED)


@program
def removed_as_a_whole(here: Here) -> None:
    """``rm -r`` of a conversation."""
    for directory, directories, names in os.walk(here.conversation, topdown=False):
        for name in names:
            os.unlink(os.path.join(directory, name))
        for name in directories:
            path = os.path.join(directory, name)
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    os.rmdir(here.conversation)
    here.tell(SAVED)


@program
def brought_back(here: Here) -> None:
    """``mv`` out of the trash."""
    trash = here.conversation.parent.parent.parent / ".convfs" / "trash"
    (name,) = os.listdir(trash)
    os.rename(trash / name, here.conversation.parent / "back")
    here.tell(SAVED)


@program
def scratch(here: Here) -> None:
    """Work with files of its own: directories, links, hard links."""
    directory = here.beside("work")
    os.mkdir(directory)
    new(directory / "lock", b"one\n")
    os.link(directory / "lock", directory / "linked")
    os.symlink("linked", directory / "link")
    os.rename(directory / "lock", here.beside("renamed"))
    here.has("renamed", b"one\n")
    here.has("work/link", b"one\n")
    os.setxattr(here.beside("renamed"), "user.note", b"mine")
    here.goes("renamed")
    here.goes("work/link")
    os.truncate(directory / "linked", 2)
    here.has("renamed", b"on")


@program
def refused(here: Here) -> None:
    """Save what makes no sense. It is refused, so that is no success; but it is kept."""
    with contextlib.suppress(OSError):
        put(here.file, senseless(here.old))
        raise AssertionError("that was taken")
    draft = here.beside(f"{here.name}.draft")
    if draft.exists():
        here.has(draft.name, senseless(here.old))
