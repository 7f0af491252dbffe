"""A space as a replica needs it, and the file in which the replica keeps which space that is.

The file ``space`` of a replica is JSON: the name and the id of the space, the name of the machine and the number of the
replica, and the ``directory`` where the space is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from store import paths, typed
from store.commit.order import Order
from store.disk import durable
from store.errors import DamageError

FORMAT = 1
"""The version of the formats of a space."""


class Place(Struct, frozen=True, omit_defaults=True):
    """Where spaces are: in a directory."""

    directory: str


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
    format: int = FORMAT

    @property
    def files_id(self) -> bytes:
        """The id that the files of the replica have in their headers."""
        return bytes.fromhex(self.id)

    def write(self, root: Path) -> None:
        """Write the file of the replica at ``root``."""
        durable.write_whole(root / paths.SPACE, msgspec.json.format(msgspec.json.encode(self)) + b"\n")


class Member(Struct, frozen=True):
    """A replica as the space knows it."""

    number: int
    machine: str
    joined_ms: int


class Space(Order, Protocol):
    """A space: its entries and its packs. Safe to share between threads; raises Unreachable."""

    files_id: bytes
    """The id that the files of each replica have."""

    def publish(self, records: Sequence[bytes]) -> int:
        """Bring encoded blob records into the space, durably, as a pack; return its number."""

    def packs(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the packs with numbers above ``after``, in order: (number, the pack's bytes)."""

    def wait(self, seconds: float) -> None:
        """Return when something may have come, or :meth:`wake` was called, and after so many seconds at the latest."""

    def wake(self) -> None:
        """End the current :meth:`wait`, and all later ones."""

    def join(self, machine: str) -> int:
        """Note one more replica; return its number."""

    def members(self) -> list[Member]:
        """Return the replicas that have joined."""

    def close(self) -> None:
        """Let go of everything."""


def membership(root: Path) -> Membership | None:
    """Return the membership of the store at ``root``; None if it is in no space. DamageError if that cannot be read."""
    path = root / paths.SPACE
    try:
        return typed.decode(path.read_bytes(), Membership)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(f"{path}: it cannot be read which space this store is of: {error}") from None
