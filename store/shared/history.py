"""The history of a replica: the chain (``store.shared.entry``) of what it has, worked out from its logs.

A place that was reached is kept in the file ``published``, so that only what came behind it is read when a store is
opened. Where the logs no longer have what was committed, as turns were reclaimed since, the chain is unknown.
"""

from store.disk import durable
from store.disk.head_format import Commit
from store.disk.head_log import HeadLog
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound
from store.shared.entry import BEGINNING, link
from store.shared.published import PublishedFile, Reached


class History:
    """The chain of a replica with these logs, as far as it has come."""

    def __init__(self, published: PublishedFile, turns: TurnLog, heads: HeadLog) -> None:
        self._published = published
        self._turns = turns
        self._heads = heads
        self._seq = 0
        self.chain = BEGINNING
        """The chain of the last entry that was appended or read."""

    def is_at(self, seq: int) -> bool:
        """Return whether ``chain`` is that of the commit ``seq``."""
        return self._seq == seq

    def reach(self, seq: int, chain: bytes) -> None:
        """Go on behind the commit ``seq``, with its chain."""
        self._seq, self.chain = seq, chain

    def forget(self) -> None:
        """Have the chain worked out, or asked for, once more."""
        self._seq = -1

    def logged(self, seq: int, *, anew: bool = False) -> bytes:
        """Return the chain of the commit ``seq``, from the logs; ``b""`` if it is unknown.

        ``anew`` works it out without the place that was kept.
        """
        return chain_at(seq, Reached() if anew else self._published.now.reached, self._turns, self._heads)

    def keep(self, seq: int) -> None:
        """Keep the place that the logs have reached: the commit ``seq`` is the last one in them."""
        if self.is_at(seq):
            try:
                self._published.note(reached=self.place(seq, self.chain))
            except OSError as error:
                # without room for it, what comes is worked out from an earlier one
                if error.errno not in durable.FULL:
                    raise

    def place(self, seq: int, chain: bytes) -> Reached:
        """Return the place that the logs have reached, with the commit ``seq`` and its chain."""
        return Reached(seq, self._turns.count, self._heads.length, chain.hex())


def chain_at(seq: int, known: Reached, turns: TurnLog, heads: HeadLog) -> bytes:
    """Return the chain of the commit ``seq``, going by an earlier place if one is known; ``b""`` if it is unknown."""
    if known.seq > seq or known.heads > heads.length:
        # the logs are older than what was noted
        known = Reached()
    chain, count = bytes.fromhex(known.chain), known.turns
    reached = known.seq
    try:
        for commit, frames in heads.groups(known.heads) if reached < seq else ():
            assert isinstance(commit.body, Commit)
            added = range(count + 1, commit.body.turn_count + 1)
            if any(turn.reclaimed for turn in (turns.range(added.start, len(added)) if added else ())):
                return b""
            chain = link(chain, (turns.records(added.start, len(added)) if added else b"") + frames)
            count, reached = commit.body.turn_count, commit.seq
            if reached >= seq:
                break
    except (DamageError, NotFound):
        return b""
    return chain if reached == seq else b""
