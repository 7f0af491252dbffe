"""Calls on events, and on what is drawn of them, that are refused on purpose: with what, and why."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.editors.calls import EXCHANGE, NOREPLACE, renameat2
from tests.editors.place import MountedPlace
from tests.editors.sessions import ANSWER, USER


@dataclass(frozen=True)
class Refused:
    """A call, the errno that it fails with, and the reason why it is not done."""

    name: str
    call: Callable[[MountedPlace], object]
    code: int
    reason: str


def event(here: MountedPlace) -> Path:
    return here.directory / ANSWER


def old_event(here: MountedPlace) -> Path:
    return here.version(0) / "events" / ANSWER


def scratch(here: MountedPlace) -> Path:
    path = here.directory / "scratch"
    path.write_bytes(b"---\nnonsense")
    return path


def directory(here: MountedPlace) -> Path:
    path = here.directory / "a directory"
    path.mkdir(exist_ok=True)
    return path


def link(here: MountedPlace) -> Path:
    path = here.directory / "a link"
    path.symlink_to("nowhere")
    return path


def write(path: Path, flags: int = os.O_WRONLY) -> None:
    os.close(os.open(path, flags, 0o600))


ONE_NAME = "an event has one name, and its number is it"
NO_FILE = "an event is text: nothing but a file can become one"
HISTORY = "what was does not change"
DRAWN = "it is drawn from the events: edit them"

REFUSED_OF_EVENTS = [
    Refused("link to an event", lambda here: os.link(event(here), here.directory / "x"), errno.EPERM, ONE_NAME),
    Refused("link onto an event", lambda here: os.link(scratch(here), event(here)), errno.EEXIST, "as anywhere"),
    Refused(
        "move an event onto another", lambda here: event(here).rename(here.directory / USER), errno.EROFS, ONE_NAME
    ),
    Refused(
        "move an event onto a directory", lambda here: event(here).rename(directory(here)), errno.EISDIR, "as anywhere"
    ),
    Refused("move a directory onto an event", lambda here: directory(here).rename(event(here)), errno.ENOTDIR, NO_FILE),
    Refused("move a link onto an event", lambda here: link(here).rename(event(here)), errno.EPERM, NO_FILE),
    Refused("make a link of an event's name", lambda here: event(here).symlink_to("x"), errno.EEXIST, "as anywhere"),
    Refused("make a directory of its name", lambda here: event(here).mkdir(), errno.EEXIST, "as anywhere"),
    Refused("make a pipe of its name", lambda here: os.mkfifo(event(here)), errno.EEXIST, "as anywhere"),
    Refused(
        "move without replacing",
        lambda here: renameat2(scratch(here), event(here), NOREPLACE),
        errno.EEXIST,
        "asked for",
    ),
    Refused(
        "exchange a file and an event",
        lambda here: renameat2(scratch(here), event(here), EXCHANGE),
        errno.EINVAL,
        "two edits in one could not be told apart; programs that ask for it can do without",
    ),
    Refused(
        "move nonsense onto an event",
        lambda here: scratch(here).rename(event(here)),
        errno.EINVAL,
        "what cannot be read is no event; the file stays where it is",
    ),
    Refused(
        "give an event away", lambda here: os.chown(event(here), 1, 1), errno.EPERM, "the mount is its owner's alone"
    ),
    Refused(
        "set an attribute of an event",
        lambda here: os.setxattr(event(here), "user.note", b"x"),
        errno.EOPNOTSUPP,
        "there is nowhere to keep it; programs that copy attributes take this for an answer",
    ),
    Refused(
        "change what an attribute says",
        lambda here: os.setxattr(event(here), "user.convfs.turn", b"7"),
        errno.EOPNOTSUPP,
        "it says what is so",
    ),
    Refused("a size that no disk has", lambda here: os.truncate(event(here), 10**15), errno.EFBIG, "at once, too"),
    Refused("write an earlier event", lambda here: write(old_event(here)), errno.EROFS, HISTORY),
    Refused("cut an earlier event", lambda here: os.truncate(old_event(here), 0), errno.EROFS, HISTORY),
    Refused("remove an earlier event", lambda here: old_event(here).unlink(), errno.EROFS, HISTORY),
    Refused("move onto an earlier event", lambda here: scratch(here).rename(old_event(here)), errno.EROFS, HISTORY),
    Refused(
        "make a file in an earlier version", lambda here: (here.version(0) / "events/x").touch(), errno.EROFS, HISTORY
    ),
    Refused("make a directory in one", lambda here: (here.version(0) / "x").mkdir(), errno.EROFS, HISTORY),
    Refused("remove a version", lambda here: here.version(0).rmdir(), errno.EROFS, HISTORY),
    Refused("make a version", lambda here: (here.conversation / ".versions/0002-x").mkdir(), errno.EROFS, HISTORY),
    Refused(
        "write a record",
        lambda here: write(here.conversation / ".records/00001.json"),
        errno.EROFS,
        "its file is edited",
    ),
    Refused(
        "write a web page", lambda here: write(here.mount.root / "html/index.html"), errno.EACCES, DRAWN
    ),
    Refused("make a file in .convfs", lambda here: (here.mount.root / ".convfs/x").touch(), errno.EPERM, DRAWN),
    Refused("make a file among dates", lambda here: (here.mount.root / "by-date/x").touch(), errno.EPERM, DRAWN),
]
