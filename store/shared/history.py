"""The history of a replica: the chain (``store.shared.entry``) of what it has, worked out from its logs.

A place that was reached is kept in the file ``published``, so that only what came behind it is read when a store is
opened. Where the logs no longer have what was committed, as turns were reclaimed since, the chain is unknown.
"""

from msgspec import Struct

from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import Commit
from store.disk.head_log import HeadLog
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound
from store.shared.entry import BEGINNING, link


class Reached(Struct, frozen=True):
    """A place in the logs, behind a commit: its ``seq``, how many turns and bytes of frames there are, its chain."""

    seq: int = 0
    turns: int = 0
    heads: int = HEADER_SIZE
    chain: str = BEGINNING.hex()


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
