"""The order of entries: who says which entry of the journal follows which.

Every commit is one entry (``store.disk.journal_format``). It is put in its place first, and only then published to the
logs and the index of this machine. Of a store that one machine has, the writer's own lock says the order
(:class:`Alone`). A *space* is a store that several machines have, each with a *replica* of it: there an entry is put
behind the last one by compare-and-append, and a machine that is refused applies what came before, and drafts again.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

NOWHERE = (1, 32)
"""The place in the packs that entries of a space name: machines have packs of their own, but all the same logs."""


class Order(Protocol):
    """The entries of one store. Safe to share between threads.

    Every method raises Unreachable where the space cannot be asked. An entry that was to be appended may then have
    been: it is among the next :meth:`entries`.
    """

    shared: bool
    """True if other machines append, too."""
    away: str
    """The reason why the space could not be asked the last time, "" if it could."""

    def append(self, expected: int, entry: bytes) -> bool:
        """Put an encoded entry behind the one whose ``seq`` is ``expected``; False if that is not the last one.

        The entry is durable when this returns True.
        """

    def entries(self, after: int) -> Sequence[bytes]:
        """Return entries that follow the one whose ``seq`` is ``after``, in order: some, as long as there are any.

        The blobs that they name are in these entries or earlier ones, or in the packs of this machine.
        """

    def renew(self) -> None:
        """Do what a redaction on another machine asks for (Unredacted); return when it is done. Raises StoreFailed."""

    def turn(self) -> AbstractContextManager[None]:
        """Have others wait a little with their entries while the block runs: for who was refused repeatedly."""

    def alone(self, work: str) -> AbstractContextManager[bool]:
        """Hold some work while the block runs, which one machine at a time does; yields False if another holds it."""

    def is_left(self, seq: int) -> bool:
        """Return whether what the frame ``seq`` has begun is for this machine to end: its own, or of one that is away.

        Raises DamageError where the log of this machine does not say what the frame is of.
        """


class Alone:
    """The order of a store that one machine has: whoever holds the writer's lock is next."""

    shared = False
    away = ""

    def append(self, expected: int, entry: bytes) -> bool:
        return True

    def entries(self, after: int) -> Sequence[bytes]:
        return ()

    def renew(self) -> None:
        return

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def alone(self, work: str) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def is_left(self, seq: int) -> bool:
        return True
