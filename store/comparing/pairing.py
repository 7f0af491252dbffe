"""Which event of one branch is which of another: by what they say, by their likeness, by their numbers.

Edits append the records behind them again, with other turns but the same payloads, so most of what two versions have in
common is known without reading any. What lies between is read, and compared as it is shown: by its contents and, where
one conversation comes from the other, by its head; sessions that only say the same have other ids and times. Of what is
left, an event of the one is that of the other if it is of the same kind and has many of its words, or else, where one
comes from the other, its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from blake3 import blake3
from msgspec import Struct

from store.comparing.sequences import Match, matches
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.ids import Hash
from store.store import Store

_FEW = 1 << 12
"""So many pairs of events are looked at for their likeness; where there are more, numbers alone tell."""
_WORDS = 2000
"""Of an event's words so many are looked at."""
_TEXT = 32 << 10
_ALIKE = 0.4
"""What has a larger part of its words in common than this is the same event, changed."""
_NUMBERED = 0.5
"""How much it counts for likeness that two events have the same number."""

Pair = tuple[EventRow | None, EventRow | None]
"""An event of the one branch and what it is in the other; None where only the other has one."""


class Branch(Struct, frozen=True):
    """The branch whose tip is ``head`` (0: it is empty), of a conversation with the id ``context``."""

    context: int
    head: int


def pairs(store: Store, a: Branch, b: Branch) -> Iterator[Pair]:
    """Yield the events that are not the same in both branches, in order. Bookkeeping is left out."""
    old, new = _events(store, a), _events(store, b)
    shared = 0
    for before, after in zip(old, new, strict=False):
        if before.turn != after.turn:
            break
        shared += 1
    old, new = old[shared:], new[shared:]
    same = matches(_payloads(store, a, old), _payloads(store, b, new))
    related = bool(a.context == b.context or shared or same)
    for a_rows, b_rows in _between(same, old, new):
        shown = matches(_contents(store, a_rows, heads=related), _contents(store, b_rows, heads=related))
        for a_rest, b_rest in _between(shown, a_rows, b_rows):
            yield from _told(store, a_rest, b_rest, related)


def _events(store: Store, branch: Branch) -> list[EventRow]:
    return [row for row in store.rows(branch.head) if row.kind is not Kind.RECORD] if branch.head else []


def _payloads(store: Store, branch: Branch, rows: Sequence[EventRow]) -> list[tuple[Kind, str, Hash]]:
    if not rows:
        return []
    turns = store.range_to(branch.head, rows[0].number - 1, rows[-1].number - rows[0].number + 1)
    hashes = {turn.turn_id: turn.payload_hash for turn in turns}
    return [(row.kind, row.tool, hashes[row.turn]) for row in rows]


def _between(
    same: Sequence[Match], old: Sequence[EventRow], new: Sequence[EventRow]
) -> Iterator[tuple[Sequence[EventRow], Sequence[EventRow]]]:
    """Yield the rows between matches, where there are any."""
    a = b = 0
    for match in (*same, Match(len(old), len(new), 0)):
        if a < match.a or b < match.b:
            yield old[a : match.a], new[b : match.b]
        a, b = match.a + match.length, match.b + match.length


def _contents(store: Store, rows: Sequence[EventRow], *, heads: bool) -> list[bytes]:
    """Return what events show, but for the numbers, as hashes; what cannot be read is like nothing else."""
    found = []
    for row, event in store.events(rows):
        if isinstance(event, ConvfsError):
            found.append(b"%d" % row.turn)
            continue
        head = (event.header, event.time_ms) if heads else ()
        told = blake3(repr((row.kind, row.tool, *head)).encode(errors="surrogatepass"))
        for block in event.blocks:
            told.update(repr((block.type, block.name, block.uri, block.mime)).encode(errors="surrogatepass"))
            content = block.data if block.text is None else block.text.encode(errors="surrogatepass")
            told.update(blake3(content or b"").digest())
        found.append(told.digest())
    return found


# -- what is left ------------------------------------------------------------------------------------------------------


def _told(store: Store, old: Sequence[EventRow], new: Sequence[EventRow], related: bool) -> Iterator[Pair]:
    """Yield which of some events are which of others, and those that are none of them, in order."""
    a = b = 0
    for a_at, b_at in (*_alike(store, old, new, related), (len(old), len(new))):
        yield from ((row, None) for row in old[a:a_at])
        yield from ((None, row) for row in new[b:b_at])
        if a_at < len(old) and b_at < len(new):
            yield old[a_at], new[b_at]
        a, b = a_at + 1, b_at + 1


def _alike(store: Store, old: Sequence[EventRow], new: Sequence[EventRow], related: bool) -> list[tuple[int, int]]:
    if not old or not new:
        return []
    if len(old) * len(new) > _FEW:
        return _numbered(old, new) if related else []
    words = (_words(store, old), _words(store, new))

    def likeness(a: int, b: int) -> float:
        if (old[a].kind, old[a].tool) != (new[b].kind, new[b].tool):
            return 0.0
        alike = _in_common(words[0][a], words[1][b])
        if related and old[a].number == new[b].number:
            return alike + _NUMBERED
        return alike if alike > _ALIKE else 0.0

    return _best(len(old), len(new), likeness)


def _numbered(old: Sequence[EventRow], new: Sequence[EventRow]) -> list[tuple[int, int]]:
    places = {(row.number, row.kind, row.tool): place for place, row in enumerate(new)}
    found = ((place, places.get((row.number, row.kind, row.tool))) for place, row in enumerate(old))
    return [(place, there) for place, there in found if there is not None]


def _words(store: Store, rows: Sequence[EventRow]) -> list[frozenset[str]]:
    return [_words_of(event) for _row, event in store.events(rows)]


def _words_of(event: Event | ConvfsError) -> frozenset[str]:
    blocks = () if isinstance(event, ConvfsError) else event.blocks
    return frozenset([word for block in blocks for word in (block.text or "")[:_TEXT].split()][:_WORDS])


def _in_common(a: frozenset[str], b: frozenset[str]) -> float:
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


def _best(a: int, b: int, likeness: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Return which of ``a`` things are which of ``b`` others, in order, so that they are most alike altogether."""
    total = [[0.0] * (b + 1) for _ in range(a + 1)]
    for i in range(a - 1, -1, -1):
        for j in range(b - 1, -1, -1):
            alike = likeness(i, j)
            paired = total[i + 1][j + 1] + alike if alike else 0.0
            total[i][j] = max(paired, total[i + 1][j], total[i][j + 1])
    found = []
    i = j = 0
    while i < a and j < b:
        if total[i][j] == total[i + 1][j]:
            i += 1
        elif total[i][j] == total[i][j + 1]:
            j += 1
        else:
            found.append((i, j))
            i, j = i + 1, j + 1
    return found
