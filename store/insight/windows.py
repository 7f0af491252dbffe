"""Which turns came since, and whose they were first.

The head log says it in the order in which it happened: a turn belongs to the first context whose state it was part of.
Later ones that have it too, as forks do, share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from msgspec import Struct

from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import (
    Commit,
    ContextCreated,
    Deleted,
    Frame,
    HeadMoved,
    Metadata,
    Patched,
    Reclaimed,
    Superseded,
)
from store.ids import turn_of
from store.insight.ledger import Followed
from store.store import Store

_MOST_TURNS = 1 << 15
_LINKS_AT_ONCE = 4096


class Window(Struct):
    """The turns behind ``after`` up to ``last``, as far as the head log tells of them up to ``end``.

    ``owners`` has the context of each, 0 where none has it, ``firsts`` the first turn of each context; ``replacing``
    says which turns took the place of others in an edit. ``moved`` are the contexts that changed, in order. ``gone``:
    contexts were deleted, or turns reclaimed, that may have been counted.
    """

    after: int
    last: int
    end: int
    owners: array[int]
    firsts: dict[int, int]
    replacing: bytearray
    moved: list[int]
    gone: bool

    def owned(self, first: int, last: int) -> list[int]:
        """Return which of the turns ``first`` to ``last`` belong to anyone."""
        return [turn for turn in range(first, last + 1) if self.owners[turn - self.after - 1]]


def window_after(store: Store, followed: Followed) -> Window | None:
    """Return what has come since the head log was followed, or a good part of it; None if nothing has."""
    after, end = followed.turn, store.files.heads.length
    if followed.heads >= end:
        return None
    tips: dict[int, list[int]] = {}
    order: list[tuple[int, int]] = []
    replacing: list[tuple[int, int, int]] = []
    last, reached, gone = after, end, False
    for frame in store.files.heads.frames(followed.heads or HEADER_SIZE):
        if not isinstance(frame, Frame):
            continue
        if frame.offset >= end or last - after >= _MOST_TURNS:
            reached = frame.offset
            break
        match frame.body:
            case ContextCreated(base_turn=tip) | HeadMoved(tip=tip):
                known = tips.setdefault(frame.context, [])
                # what is appended goes on from what was there, and belongs where that does in the order
                if not (known and isinstance(frame.body, HeadMoved) and frame.body.action == "append"):
                    order.append((frame.context, len(known)))
                    known.append(0)
                known[-1] = turn_of(tip)
                # the end of its group may be lost
                last = max(last, min(turn_of(tip), store.files.turns.count))
            case Patched() | Metadata():
                tips.setdefault(frame.context, [])
            case Superseded(turns=turns):
                replacing += [step for step in turns if step[1]]
            case Commit(turn_count=count):
                last = max(last, count)
            case Deleted() | Reclaimed():
                gone = gone or frame.offset >= followed.anew
    there = store.context_ids()
    owners = array("Q", bytes(8 * (last - after)))
    parents = _parents(store, after, last)
    for context, place in order:
        if context in there:
            _claim(owners, parents, after, tips[context][place], context)
    firsts: dict[int, int] = {}
    for turn, owner in enumerate(owners, after + 1):
        firsts.setdefault(owner, turn)
    moved = [context for context in tips if context in there]
    return Window(after, last, reached, owners, firsts, _replacing(replacing, owners, after), moved, gone)


def _replacing(steps: Iterable[tuple[int, int, int]], owners: array[int], after: int) -> bytearray:
    """Return 1 for those of the turns behind ``after`` that took the place of ones which somebody has, else 0.

    ``steps`` say that the turns ``old``, ``old + 1`` … became ``new``, ``new + 1`` …, so many of them.
    """
    marks = bytearray(len(owners))
    for old, new, count in steps:
        for was, now in zip(range(old, old + count), range(new, new + count), strict=True):
            # a version that was brought back was there before
            if was < now <= after + len(marks) and now > after and (was <= after or owners[was - after - 1]):
                marks[now - after - 1] = 1
    return marks


def _parents(store: Store, after: int, last: int) -> array[int]:
    """Return the parents of turns, 0 of those that are damaged."""
    parents = array("Q")
    log = store.files.turns
    while (first := after + 1 + len(parents)) <= last:
        parents.extend(link[0] if link else 0 for link in log.links(first, min(last + 1 - first, _LINKS_AT_ONCE)))
    return parents


def _claim(owners: array[int], parents: array[int], after: int, turn: int, context: int) -> None:
    """Give a context the turns of its branch that nobody has."""
    while after < turn <= after + len(owners) and not owners[turn - after - 1]:
        owners[turn - after - 1] = context
        turn = parents[turn - after - 1]
