"""A space: what several machines share of one store, and how a replica finds it.

A space is three nouns, and all else is made of them:

- The **log** (:class:`Log`): the entries, in order. It grows by compare-and-append: an entry is put behind the one that
  its machine has last, or refused. So who appends has applied all that is there. What all machines must know before
  they go on (packs that are about to go, a redaction) is therefore best told by an entry: nobody appends behind it
  without having applied it, and no server need know what it says.
- The **records** (:class:`Records`): small values under keys, changed by compare-and-swap: the replicas that have
  joined (``machine/…``), the packs (``pack/…``), leases and the like. A record says what is so now; what must be so at
  a certain commit is told by an entry.
- The **bucket** (:class:`Bucket`): objects under keys, written whole and read by range: packs, old entries.

Each is in a directory (``store.shared.directory``), or the first two are in PostgreSQL (``store.shared.postgres``) and
the bucket in S3 (``store.shared.bucket``). All are safe to share between threads, and every method raises Unreachable
where it cannot ask. A change may then have been made: appending the same entry once more says whether it has.

The file ``space`` of a replica is JSON: the name and the id of the space, the name of the machine and the number of the
replica, and the place where the space is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from store import paths, typed
from store.disk import durable
from store.errors import ConvfsError, DamageError, NotFound, Unreachable
from store.shared.entry import Entry

FORMAT = 3
"""The version of the formats of a space."""
ENCRYPTED = "generation"
"""The record that an encrypted space has from its beginning (``store.shared.access``), JSON with ``generation``."""
ARCHIVE = "archive"
"""The record of the entries that are in objects (``store.shared.archive``), JSON with ``seq``."""
ANOTHER = "make another replica with convfs remote join; what this one has can still be read"
"""The advice where a replica can go on no more."""
LOGS_BACK = "convfs remote repair puts it back from the space"
"""The advice where a log of a replica is damaged or gone."""
_TRACES = (paths.PUBLISHED, paths.KEYS, paths.DOOMED, paths.CACHE)
"""Files and a directory that only a replica has."""


class Outdated(ConvfsError):
    """An entry was sealed with a key that is not the one which is used now."""


class Behind(Unreachable):
    """The log has entries behind a commit, but not the next one: that is in the archive, or lost."""


class Place(Struct, frozen=True, omit_defaults=True):
    """Where spaces are: in a directory, or on servers, of which there are the URLs, perhaps with secrets."""

    directory: str = ""
    postgres: str = ""
    objects: str = ""


class Membership(Struct, frozen=True):
    """A replica's part in a space."""

    space: str
    """The name of the space."""
    id: str
    """Its id, in hex; also that of the files of each replica."""
    machine: str
    """The name of the machine, which stands with what it imports."""
    number: int
    """The number of the replica in the space."""
    place: Place
    format: int = 1
    only_follows: bool = False
    """True of a replica that commits nothing, made to be copied."""

    @property
    def files_id(self) -> bytes:
        """The id that the files of the replica have in their headers."""
        return bytes.fromhex(self.id)

    def write(self, root: Path) -> None:
        """Write the file of the replica at ``root``."""
        durable.write_whole(root / paths.SPACE, msgspec.json.format(msgspec.json.encode(self)) + b"\n")


def membership(root: Path) -> Membership | None:
    """Return the membership of the store at ``root``; None if it is in no space.

    DamageError if that cannot be read, or is gone: without it, what is committed would be told to nobody. NotFound
    where a machine that asked to be let in has not been yet.
    """
    path = root / paths.SPACE
    try:
        found = typed.decode(path.read_bytes(), Membership)
        bytes.fromhex(found.id)
        return found
    except FileNotFoundError:
        traces = [name for name in _TRACES if (root / name).exists()]
        if traces == [paths.KEYS] and not (root / paths.TURNS).exists():
            raise NotFound(
                f"{root} is no replica yet: convfs remote join has not ended there; run it again, once convfs remote"
                " approve has let this machine in"
            ) from None
        if traces:
            raise DamageError(
                f"{path} is gone, which says of which space this store is a replica: put it back from a backup, or make"
                " another replica with convfs remote join, since the space has all that was committed here"
            ) from None
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise DamageError(f"{path}: it cannot be read which space this store is of: {error}") from None


class Log(Protocol):
    """The entries of a space."""

    def append(self, entry: Entry) -> Sequence[Entry]:
        """Put an entry behind the one that it follows. Returns () if it is in place, and then it is durable.

        Else others were first: returns entries that follow ``entry.prev``, in order, some of them. An entry with the
        token of one that is in place already is in place. Unreachable if the space does not have ``entry.prev``,
        Behind if it has no longer what follows that; Outdated if the record ENCRYPTED has a later generation than the
        entry.
        """

    def entries(self, after: int) -> Sequence[Entry]:
        """Return entries that follow the one whose ``seq`` is ``after``, in order: some, as long as there are any.

        They are durable. DamageError if the next one is damaged; Behind.
        """

    def old(self, keep: int, seconds: float) -> tuple[int, int]:
        """Return how many entries are neither among the last ``keep`` nor younger, and the ``seq`` of the last of them.

        The last of all is never among them. (0, 0) if there are none, or the server knows no archive.
        """

    def trim(self) -> None:
        """Remove the entries that the record ARCHIVE says are in objects. The last of all stays."""

    def replace(self, entry: Entry) -> None:
        """Put an entry in the place of the one that has its ``prev`` and its ``seq``, durably. For redaction.

        In an encrypted space it is sealed with the key of its generation.
        """

    def turn(self) -> AbstractContextManager[None]:
        """Have others wait a little with their entries while the block runs: for who was refused repeatedly."""

    def wait(self, seconds: float) -> None:
        """Return when something may have come, or :meth:`wake` was called, and after so many seconds at the latest."""

    def listen(self) -> None:
        """Have :meth:`wait` told of what comes from now on, at once: somebody is shown it."""

    def wake(self) -> None:
        """End the current :meth:`wait`, and all later ones."""


class LogOver:
    """A log over another one: what it does not change is passed on."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def old(self, keep: int, seconds: float) -> tuple[int, int]:
        return self._log.old(keep, seconds)

    def trim(self) -> None:
        self._log.trim()

    def turn(self) -> AbstractContextManager[None]:
        return self._log.turn()

    def wait(self, seconds: float) -> None:
        self._log.wait(seconds)

    def listen(self) -> None:
        self._log.listen()

    def wake(self) -> None:
        self._log.wake()


class Record(NamedTuple):
    """A value as it was at one time. ``version`` rises by one with each change; 0: there never was one."""

    key: str
    version: int
    value: bytes


class Generation(Struct, frozen=True):
    """As much of the record ENCRYPTED as a server must understand."""

    generation: int


class ArchiveEnd(Struct, frozen=True):
    """As much of the record ARCHIVE as a server must understand: entries up to the commit ``seq`` are in objects."""

    seq: int = 0


class Records(Protocol):
    """Small values of a space, up to some KB each, under keys like ``machine/000003``.

    A value that was removed is ``b""``, and its versions go on.
    """

    def record(self, key: str) -> Record:
        """Return what is under a key now; version 0 and ``b""`` where there never was anything."""

    def records(self, prefix: str, after: str = "") -> list[Record]:
        """Return what is under the keys that begin with ``prefix`` and are behind ``after``, in order of the keys.

        Values that were removed are not among them.
        """

    def swap(self, key: str, version: int, value: bytes) -> bool:
        """Change the value of ``key`` if its version is still ``version``, durably; return whether it was.

        Where this raises Unreachable, look at the record: it may have been changed.
        """


class Bucket(Protocol):
    """Objects of a space, under keys like ``packs/3f…``."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whole and durably; one that has the key is replaced."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return an object, or ``length`` bytes from ``start`` on, fewer where it ends. Missing if there is none."""

    def delete(self, key: str) -> None:
        """Remove an object, with all its versions; nothing happens if there is none."""

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the keys that begin with ``prefix``, and the lengths of the objects, in any order."""


class Logins(Protocol):
    """The logins of machines, where a server looks at who asks."""

    def make_login(self, role: str) -> tuple[str, str]:
        """Make a login; return its name, and the place of the server for who uses it. Needs the role admin."""

    def lock_login(self, login: str) -> None:
        """Have a login serve no more. Needs the role admin."""


class Space:
    """An open space: its parts, by name."""

    def __init__(
        self,
        id: bytes,
        where: str,
        log: Log,
        records: Records,
        bucket: Bucket,
        close: Callable[[], None],
        logins: Logins | None = None,
        sealed_with: Callable[[str], int] = lambda _key: 0,
    ) -> None:
        self.id = id
        """16 bytes, also in the headers of the files of each replica."""
        self.where = where
        """Its place, for people: without secrets."""
        self.log = log
        self.records = records
        self.bucket = bucket
        self.close = close
        """Lets go of everything."""
        self.logins = logins
        """None where a machine needs no login."""
        self.sealed_with = sealed_with
        """Returns the generation of the key that an object is sealed with, 0 in a plain space. Missing, DamageError."""

    def key_in_use(self) -> int:
        """Return the generation of the key that is used now, 0 in a plain space. Raises Unreachable."""
        record = self.records.record(ENCRYPTED)
        return typed.decode(record.value, Generation).generation if record.value else 0
