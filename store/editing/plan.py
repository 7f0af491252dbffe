"""What a branch is to become: which records stay, in which order, and what is new between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from store.commit.request import ContextHead, NewTurn
from store.conversations import branch
from store.disk.turn_format import Turn
from store.events.deletion import Content
from store.index.views import Run
from store.store import Append


class Changed(Struct, frozen=True):
    """Record ``number`` of the branch with other content."""

    number: int
    content: Content


Item = int | Changed | Append
"""A record of the branch to be: one that is there, by number; one that is there, changed; a new one."""


class Kept(Struct, frozen=True):
    """``count`` records as they are, from number ``first`` of the branch that was."""

    first: int
    count: int


class Fresh(Struct, frozen=True):
    """A record to be written, in the place of record ``replaces`` (0: of none).

    ``payload`` is its content, None where the store has that already.
    """

    turn: NewTurn | Turn
    replaces: int = 0
    payload: bytes | None = None


Piece = Kept | Fresh


class Base(Struct, frozen=True):
    """The branch that was."""

    head: ContextHead
    runs: tuple[Run, ...]
    length: int


class Plan:
    """A branch to be, in pieces. Its first ``prefix`` records are those of the branch that was, turns and all."""

    def __init__(self, base: Base, pieces: Iterable[Piece]) -> None:
        self.base = base
        joined = list(_joined(pieces))
        first = joined[0] if joined else None
        self.prefix = first.count if isinstance(first, Kept) and first.first == 1 else 0
        self.pieces: Sequence[Piece] = joined[1:] if self.prefix else joined
        """What follows the prefix."""
        self.length = self.prefix + sum(piece.count if isinstance(piece, Kept) else 1 for piece in self.pieces)

    @property
    def changes_nothing(self) -> bool:
        """Whether the branch stays what it was."""
        return not self.pieces and self.prefix == self.base.length

    @property
    def in_place(self) -> bool:
        """Whether all records stay where they are, and none is added or taken out."""
        return self.length == self.base.length and all(
            number == (piece.first if isinstance(piece, Kept) else piece.replaces) for number, piece in self.numbered()
        )

    @property
    def payloads(self) -> list[bytes]:
        """What content is new."""
        return [piece.payload for piece in self.pieces if isinstance(piece, Fresh) and piece.payload is not None]

    def numbered(self) -> Iterator[tuple[int, Piece]]:
        """Yield the pieces after the prefix, each with the number of its first record."""
        number = self.prefix + 1
        for piece in self.pieces:
            yield number, piece
            number += piece.count if isinstance(piece, Kept) else 1

    def superseded(self) -> list[tuple[int, int, int]]:
        """Return what becomes of the turns after the prefix: (first turn, how many, new number or 0 for nothing)."""
        found: list[tuple[int, int, int]] = []
        at = self.prefix + 1
        places = [
            (piece.first, piece.count, number) if isinstance(piece, Kept) else (piece.replaces, 1, number)
            for number, piece in self.numbered()
        ]
        for first, count, number in [*sorted(places), (self.base.length + 1, 0, 0)]:
            if first > at:
                found += self._turns(at, first - at, 0)
                at = first
            # of a record that is there twice, its first place counts
            ahead = first + count - at
            if ahead > 0:
                found += self._turns(at, ahead, number + count - ahead)
                at += ahead
        return found

    def _turns(self, first: int, count: int, number: int) -> Iterator[tuple[int, int, int]]:
        for turn, length in branch.part(branch.plain(self.base.runs), first - 1, count):
            yield turn, length, number
            number += length if number else 0


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces, those that continue each other as one."""
    kept: Kept | None = None
    for piece in pieces:
        if isinstance(piece, Kept):
            if kept is not None and piece.first == kept.first + kept.count:
                kept = Kept(kept.first, kept.count + piece.count)
                continue
            if kept is not None and kept.count:
                yield kept
            kept = piece
            continue
        if kept is not None and kept.count:
            yield kept
        kept = None
        yield piece
    if kept is not None and kept.count:
        yield kept
