"""Making spaces, joining them, and looking at them."""

import os
import platform
from pathlib import Path

from msgspec import Struct

from store.disk import identity
from store.errors import UsageError
from store.shared.connect import connect
from store.shared.directory import create as create_directory
from store.shared.space import Membership, Place, membership


class MemberStatus(Struct, frozen=True):
    """One replica of a space. ``joined_ms`` in Unix milliseconds."""

    number: int
    machine: str
    joined_ms: int
    own: bool


class Status(Struct, frozen=True):
    """The state of a replica. ``behind`` is how many commits it has not applied yet."""

    space: str
    where: str
    machine: str
    commit: int
    behind: int
    members: list[MemberStatus]


def where(place: Place) -> str:
    """Return in words where a space is, without passwords."""
    return place.directory


def init(place: Place, name: str) -> None:
    """Make an empty space. Raises UsageError if there is one of that name, or it can have no such name; Unreachable."""
    check_name(name)
    create_directory(Path(place.directory) / name)


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
        made = Membership(name, space.files_id.hex(), machine, space.join(machine), place)
    finally:
        space.close()
    made.write(root)
    return made


def status(member: Membership, commit: int) -> Status:
    """Return the state of the replica that has applied everything up to ``commit``. Raises Unreachable."""
    space = connect(member.place, member.space)
    try:
        behind, reached = 0, commit
        while entries := space.entries(reached):
            behind += len(entries)
            reached = int.from_bytes(entries[-1][:8], "little")
        members = [
            MemberStatus(one.number, one.machine, one.joined_ms, one.number == member.number)
            for one in space.members()
        ]
    finally:
        space.close()
    return Status(member.space, where(member.place), member.machine, commit, behind, members)


def check_name(name: str) -> None:
    """Raise UsageError unless a space can have this name."""
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name.startswith("."):
        raise UsageError(f"a space is called by letters, digits, '-', '_' and '.', and {name!r} has others")
