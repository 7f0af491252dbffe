"""Making spaces, joining them, who may, and looking at them."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from store import paths
from store.disk import durable, identity
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import Commit, HeadFrame
from store.disk.head_log import HeadLog
from store.errors import Conflict, DamageError, UsageError
from store.shared import generations, roster, snapshot
from store.shared.archive import Archive
from store.shared.connect import connect, create, enter, need_cryptography
from store.shared.invitation import Invitation
from store.shared.roster import Member
from store.shared.space import ENCRYPTED, Membership, Place, Space, membership

if TYPE_CHECKING:
    from store.shared.access import Access, Role, Standing

_LOOK_BYTES = 64 << 10
_LOOK_SECONDS = 0.2


class MemberStatus(Struct, frozen=True):
    """One replica of a space. ``joined_ms`` in Unix milliseconds."""

    number: int
    machine: str
    joined_ms: int
    own: bool
    role: str = "writer"
    key: int = 0
    """The last key that it was given; 0 if the space is not encrypted."""
    revoked_ms: int = 0
    seen_ms: int = 0
    """When it was last there; 0 if it never was."""
    redactions: int = 0
    """How many of the space's redactions it has applied."""
    collected: int = 0
    """The last commit with which the space has dropped something of which it has nothing left."""


class Status(Struct, frozen=True):
    """The state of a replica. ``commit`` is the ``seq`` that it has reached, ``behind`` how many entries it lacks."""

    space: str
    where: str
    number: int
    machine: str
    commit: int
    behind: int
    members: list[MemberStatus]
    key: int = 0
    """The key that is used now; 0 if the space is not encrypted."""
    redactions: int = 0
    """How often something was redacted in the space."""
    cached_bytes: int = 0
    """How much of what only the space has whole is here."""
    dropped: int = 0
    """The last commit by which the space has dropped something."""
    archived: int = 0
    """The commit up to which the space has all in its archive; 0 if nothing is there."""
    archived_bytes: int = 0


def init(place: Place, name: str, *, plain: bool = False) -> None:
    """Make an empty space, encrypted unless it is to be ``plain``. Raises Unreachable.

    UsageError if there is one of that name, it can have no such name, or what encrypts is not installed.
    """
    check_name(name)
    if plain:
        if not place.directory:
            raise UsageError("a space on servers is always encrypted: only one in a directory can be plain")
        create(place, name, {})
        return
    need_cryptography()
    from store.shared import access

    create(place, name, access.without_key())


def join(place: Place, name: str, root: Path, machine: str = "") -> Membership:
    """Make a replica of a space in the new directory ``root``; the first opening fills it. Raises UsageError, NotFound.

    The first replica of an encrypted space makes its key; for others there are :func:`invite` and :func:`accept`.
    ``machine`` is the name of this machine, if it is not that which the system has.
    """
    check_name(name)
    _check_new(root)
    machine = machine or _machine()
    with closing(connect(place, name)) as space:
        if space.records.record(ENCRYPTED).version:
            need_cryptography()
            from store.shared import access

            _make(root)
            login = ""
            if space.logins is not None:
                # of its own: that which made the space may do more than a machine should be able to
                login, server = space.logins.make_login("admin")
                place = structs.replace(place, postgres=server)
            try:
                number = access.found(space.records, space.id, name, machine, login, root)
            except UsageError:
                if space.logins is not None:
                    space.logins.lock_login(login)
                raise
        else:
            _make(root)
            number = roster.join(space.records, machine).number
        made = Membership(name, space.id.hex(), machine, number, place)
    return _begun(root, made)


def _begun(root: Path, made: Membership) -> Membership:
    """Fetch what a replica begins with; last comes the file that makes it one."""
    space, _access = enter(root, made)
    with closing(space):
        snapshot.fetch(space, root)
    made.write(root)
    return made


@contextmanager
def observing(root: Path, aside: Path) -> Iterator[Callable[[int], None]]:
    """Make the new directory ``aside`` a replica of the space of ``root`` that only follows, and nobody knows.

    Yields a function that puts its files into the space as a snapshot, once it is closed, given the commit that it has
    reached. Raises UsageError, Unreachable, DamageError; Conflict if another snapshot was made meanwhile, or something
    was redacted.
    """
    member = membership_of(root)
    space, _access = enter(root, member)
    with closing(space):
        _known, before = snapshot.latest(space)
        _follow(space, root, member, aside)

        def publish(seq: int) -> None:
            if not snapshot.publish(space, aside, member.machine, seq, before):
                raise Conflict(f"the space {member.space} got another snapshot, or a redaction, meanwhile: try again")

        yield publish


def follow(root: Path, aside: Path) -> None:
    """Make the new directory ``aside`` a replica of the space of ``root`` that only follows, and nobody knows.

    Raises as :func:`observing`.
    """
    member = membership_of(root)
    space, _access = enter(root, member)
    with closing(space):
        _follow(space, root, member, aside)


def _follow(space: Space, root: Path, member: Membership, aside: Path) -> None:
    aside.mkdir(mode=0o700)
    snapshot.fetch(space, aside)
    if (root / paths.KEYS).exists():
        durable.write_whole(aside / paths.KEYS, (root / paths.KEYS).read_bytes())
    structs.replace(member, only_follows=True).write(aside)


def invite(root: Path, role: Role = "writer", objects: str = "") -> Invitation:
    """Return an invitation to the space of the replica at ``root``, for one machine and a day.

    On servers it has a login of its own, and reaches the bucket by the URL ``objects``, or as this replica does.
    Raises as :func:`status`, and UsageError if the space is not encrypted, or this replica is no admin of it.
    """
    member = membership_of(root)
    with _entered(root, member) as (space, access):
        if space.logins is None:
            return Invitation(member.place, member.space, space.id.hex(), access.invite(role).hex())
        login, server = space.logins.make_login(role)
        place = structs.replace(member.place, postgres=server, objects=objects or member.place.objects)
        return Invitation(place, member.space, space.id.hex(), access.invite(role, login).hex())


def accept(invitation: Invitation, root: Path, machine: str = "", seconds: float = 0) -> Membership | None:
    """Make a replica in the new directory ``root`` with an invitation; None if nobody let it in within ``seconds``.

    It can be accepted again then, with the same directory. Raises UsageError, NotFound, Unreachable, DamageError.
    """
    need_cryptography()
    from store.shared import access

    _check_new(root)
    name, code, machine = invitation.space, bytes.fromhex(invitation.code), machine or _machine()
    ends = time.monotonic() + seconds
    with closing(connect(invitation.place, name)) as space:
        if space.id.hex() != invitation.id:
            raise DamageError(f"the space {name} there is another one than that of the invitation")
        _make(root)
        access.ask(space.records, space.id, name, code, machine, root)
        while not (number := access.answered(space.records, space.id, name, code, root)):
            if time.monotonic() >= ends:
                return None
            time.sleep(_LOOK_SECONDS)
    return _begun(root, Membership(name, invitation.id, machine, number, invitation.place))


def approve(root: Path) -> list[str]:
    """Let in who has come with an invitation; return the names of their machines. Raises as :func:`invite`."""
    with _entered(root, membership_of(root)) as (_space, access):
        return access.approve()


def revoke(root: Path, machine: str) -> int:
    """Give a machine no more keys; return the generation of the key that is used from now on. Raises as :func:`invite`.

    It is called by its name or the number of its replica.
    """
    with _entered(root, membership_of(root)) as (space, access):
        other = access.other(machine)
        if space.logins is not None and other.login:
            space.logins.lock_login(other.login)
        return access.revoke(other.number)


def rotate(root: Path) -> int:
    """Have a new key used from now on; return its generation. Raises as :func:`invite`."""
    with _entered(root, membership_of(root)) as (_space, access):
        return access.rotate()


def _check_new(root: Path) -> None:
    if (root / paths.SPACE).exists():
        raise UsageError(f"{root}: this is a replica of the space {membership_of(root).space} already")
    if identity.files_id(root) is not None:
        raise UsageError(f"{root}: there is a store already: a replica begins in a directory of its own")
    there = set(os.listdir(root) if root.exists() else ())
    # but for what an earlier try has left, and what the user wrote for it
    if there - {paths.SETTINGS, paths.FORMATS} and paths.KEYS not in there:
        raise UsageError(f"{root}: this directory is not empty: a replica begins in a new one")


def _make(root: Path) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(root, 0o700)


def _machine() -> str:
    return platform.node() or "machine"


@contextmanager
def _entered(root: Path, member: Membership) -> Iterator[tuple[Space, Access]]:
    """Enter an encrypted space. UsageError if it is plain."""
    space, access = enter(root, member)
    with closing(space):
        if access is None:
            raise UsageError(f"the space {member.space} is not encrypted: who can reach it may join it by its name")
        yield space, access


def adopt(root: Path, machine: str = "") -> Membership:
    """Make the replica at ``root``, a copy of another or one that was copied, a replica of its own.

    Raises UsageError if it is none, or no admin of a space that is encrypted; StoreBusy while it is open, Unreachable.
    """
    member = membership_of(root)
    with ExitStack() as held:
        held.callback(os.close, durable.lock_directory(root))
        space, access = enter(root, member)
        held.callback(space.close)
        if access is not None and access.role != "admin":
            raise UsageError(
                f"this machine is a {access.role} of the space {member.space}: have an admin invite it once more"
                " (convfs remote invite), join with another directory (convfs remote join), and convfs push what is"
                " here to it"
            )
        machine = machine or member.machine
        place, login = member.place, ""
        if access is not None and space.logins is not None:
            login, server = space.logins.make_login(access.role)
            place = structs.replace(place, postgres=server)
        number = _new_number(space, access, member, machine, login, root)
        made = structs.replace(member, number=number, machine=machine, place=place)
        made.write(root)
    return made


def _new_number(
    space: Space, access: Access | None, member: Membership, machine: str, login: str, root: Path
) -> int:
    """Have a replica join once more; return its new number. In an encrypted space it gets keys of its own."""
    if access is None:
        return roster.join(space.records, machine).number
    from store.shared import access as accesses

    # as if another machine had come with an invitation
    own = root / paths.ADOPTING
    shutil.rmtree(own, ignore_errors=True)
    _make(own)
    code = access.invite(access.role, login)
    accesses.ask(space.records, space.id, member.space, code, machine, own)
    access.approve()
    number = accesses.answered(space.records, space.id, member.space, code, own)
    os.replace(own / paths.KEYS, root / paths.KEYS)
    shutil.rmtree(own)
    return number


def status(root: Path) -> Status:
    """Return the state of the replica at ``root``, whether or not somebody has it open.

    Raises UsageError if it is none, Unreachable, DamageError, and OSError if it cannot be read.
    """
    member = membership_of(root)
    commit = _last_commit(root, member.files_id)
    space, access = enter(root, member)
    with closing(space):
        behind, reached = 0, commit
        while entries := space.log.entries(reached):
            behind += len(entries)
            reached = entries[-1].seq
        standing = {one.number: one for one in access.members()} if access else {}
        members = [_status(one, standing.get(one.number), member.number) for one in roster.members(space.records)]
        key = max(access.keys) if access else 0
        known, redactions = generations.seen(space.records), generations.current(space.records).generation
        archived = Archive(space).now()
    for number, one in enumerate(members):
        if (said := known.get(one.number)) is not None:
            members[number] = structs.replace(
                one, seen_ms=said.ms, redactions=said.generation, collected=said.collected
            )
    return Status(
        member.space,
        space.where,
        member.number,
        member.machine,
        commit,
        behind,
        members,
        key,
        redactions,
        sum(path.stat().st_size for path in (root / paths.CACHE).glob("*")),
        generations.last_drop(known.values()),
        archived.seq,
        sum(segment.length for segment in archived.segments),
    )


def _status(member: Member, standing: Standing | None, own: int) -> MemberStatus:
    if standing is None:
        return MemberStatus(member.number, member.machine, member.joined_ms, member.number == own)
    return MemberStatus(
        member.number,
        standing.machine,
        member.joined_ms,
        member.number == own,
        standing.role,
        max(standing.generations, default=0),
        standing.revoked_ms,
    )


def membership_of(root: Path) -> Membership:
    """Return the membership of the replica at ``root``. UsageError if it is none."""
    found = membership(root)
    if found is None:
        raise UsageError(f"{root}: this store is of no space: convfs remote join makes a replica of one")
    return found


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
