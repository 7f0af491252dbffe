"""Making spaces, joining them, and looking at them."""

import os
import platform
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from store import paths
from store.disk import identity
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import Commit, HeadFrame
from store.disk.head_log import HeadLog
from store.errors import UsageError
from store.shared import roster
from store.shared.connect import connect, create
from store.shared.space import Membership, Place, membership

_LOOK_BYTES = 64 << 10


class MemberStatus(Struct, frozen=True):
    """One replica of a space. ``joined_ms`` in Unix milliseconds."""

    number: int
    machine: str
    joined_ms: int
    own: bool


class Status(Struct, frozen=True):
    """The state of a replica. ``commit`` is the ``seq`` that it has reached, ``behind`` how many entries it lacks."""

    space: str
    where: str
    number: int
    machine: str
    commit: int
    behind: int
    members: list[MemberStatus]


def init(place: Place, name: str) -> None:
    """Make an empty space. Raises UsageError if there is one of that name, or it can have no such name; Unreachable."""
    check_name(name)
    create(place, name)


def join(place: Place, name: str, root: Path, machine: str = "") -> Membership:
    """Make a replica of a space in the new directory ``root``; the first opening fills it. Raises UsageError, NotFound.

    ``machine`` is the name of this machine, if it is not that which the system has.
    """
    check_name(name)
    known = membership(root)
    if known is not None:
        raise UsageError(f"{root}: this is a replica of the space {known.space} already")
    if identity.files_id(root) is not None:
        raise UsageError(f"{root}: there is a store already: a replica begins in a directory of its own")
    space = connect(place, name)
    try:
        machine = machine or platform.node() or "machine"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(root, 0o700)
        made = Membership(name, space.id.hex(), machine, roster.join(space.records, machine).number, place)
    finally:
        space.close()
    made.write(root)
    return made


def status(root: Path) -> Status:
    """Return the state of the replica at ``root``, whether or not somebody has it open.

    Raises UsageError if it is none, Unreachable, DamageError, and OSError if it cannot be read.
    """
    member = membership(root)
    if member is None:
        raise UsageError(f"{root}: this store is of no space: convfs remote join makes a replica of one")
    commit = _last_commit(root, member.files_id)
    space = connect(member.place, member.space)
    try:
        behind, reached = 0, commit
        while entries := space.log.entries(reached):
            behind += len(entries)
            reached = entries[-1].seq
        members = [
            MemberStatus(one.number, one.machine, one.joined_ms, one.number == member.number)
            for one in roster.members(space.records)
        ]
    finally:
        space.close()
    return Status(
        member.space, space.where, member.number, member.machine, commit, behind, members
    )


def _last_commit(root: Path, files_id: bytes) -> int:
    path = root / paths.HEAD_LOG
    if not path.exists():
        # it has not been opened yet
        return 0
    with closing(HeadLog(path, files_id, read_only=True)) as log:
        back = _LOOK_BYTES
        while True:
            start = max(log.length - back, HEADER_SIZE)
            frames = [one for one in log.frames(start) if isinstance(one, HeadFrame) and isinstance(one.body, Commit)]
            if frames or start == HEADER_SIZE:
                return frames[-1].seq if frames else 0
            back *= 4


def check_name(name: str) -> None:
    """Raise UsageError unless a space can have this name."""
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise UsageError(f"a space is called by letters, digits, '-', '_' and '.', and {name!r} has others")
