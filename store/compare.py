"""The comparison of two states of conversations: event by event, and line by line.

Sequences (of lines, or of records) are compared by patience, as Bram Cohen described it: first the elements that occur
once in either, and of these the longest run in the same order; then the same between them. If no element occurs only
once, and few are left, ``difflib`` compares them, which is slow for many. So the time grows with the length of the
sequences, and moved or rewritten parts come out as people would describe them.

Events of two branches are paired by content, by likeness, by number. An edit appends the later records again, with
other turns but the same payloads, so most of what two versions share is known without reading any. The events in
between are read and compared as shown: by their contents and, if one conversation derives from the other, by their
heads; sessions that merely say the same have other ids and times. The rest are paired if they are of the same kind and
share many words, or, if one conversation derives from the other, by number.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from blake3 import blake3
from msgspec import Struct

from store.conversations.library import Library
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.ids import Hash

_FEW_ELEMENTS = 1 << 16
"""The most pairs of elements that ``difflib`` compares."""


class Match(NamedTuple):
    """``length`` elements that are the same from ``a`` on in the one, and from ``b`` on in the other sequence."""

    a: int
    b: int
    length: int


def matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Match]:
    """Return the matches of two sequences, in order; neighbours are one match."""
    found: list[Match] = []
    waiting = [(0, len(a), 0, len(b))]
    while waiting:
        a_first, a_end, b_first, b_end = waiting.pop()
        start = a_first
        while a_first < a_end and b_first < b_end and a[a_first] == b[b_first]:
            a_first, b_first = a_first + 1, b_first + 1
        if a_first > start:
            found.append(Match(start, b_first - (a_first - start), a_first - start))
        end = a_end
        while a_first < a_end and b_first < b_end and a[a_end - 1] == b[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
        if a_end < end:
            found.append(Match(a_end, b_end, end - a_end))
        if a_first == a_end or b_first == b_end:
            continue
        anchors = _anchors(a[a_first:a_end], b[b_first:b_end])
        if anchors:
            before = (a_first, b_first)
            for a_at, b_at in anchors:
                # what follows an anchor begins with it: it is the beginning of what is the same there
                waiting.append((before[0], a_first + a_at, before[1], b_first + b_at))
                before = (a_first + a_at, b_first + b_at)
            waiting.append((before[0], a_end, before[1], b_end))
        elif (a_end - a_first) * (b_end - b_first) <= _FEW_ELEMENTS:
            matcher = SequenceMatcher(None, a[a_first:a_end], b[b_first:b_end], autojunk=False)
            found += (
                Match(a_first + block.a, b_first + block.b, block.size)
                for block in matcher.get_matching_blocks()
                if block.size
            )
    return list(_joined(sorted(found)))


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of elements that occur once in either sequence: the longest run in the same order."""
    counts = Counter(a)
    places = {element: place for place, element in enumerate(b)}
    once = {element for element, count in Counter(b).items() if count == 1 and counts[element] == 1}
    pairs = [(place, places[element]) for place, element in enumerate(a) if element in once]
    # the longest rising part: the last pair of the best one of each length, and which pair came before each
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_place, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        ends[length : length + 1] = [there]
        last[length : length + 1] = [number]
        before.append(last[length - 1] if length else -1)
    found: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _joined(found: Sequence[Match]) -> Iterator[Match]:
    current = Match(0, 0, 0)
    for match in found:
        if (current.a + current.length, current.b + current.length) == match[:2]:
            current = current._replace(length=current.length + match.length)
            continue
        if current.length:
            yield current
        current = match
    if current.length:
        yield current


class _Change(NamedTuple):
    """The part of a sequence from ``a`` to ``a_end``, which became that of another from ``b`` to ``b_end``."""

    a: int
    a_end: int
    b: int
    b_end: int


def _changes(same: Sequence[Match], old: int, new: int) -> Iterator[_Change]:
    """Yield the parts between matches of sequences of the given lengths, if there are any."""
    a = b = 0
    for match in (*same, Match(old, new, 0)):
        if a < match.a or b < match.b:
            yield _Change(a, match.a, b, match.b)
        a, b = match.a + match.length, match.b + match.length


_FEW = 1 << 12
"""The most pairs of events that are compared for likeness; beyond that, numbers alone decide."""
_WORDS = 2000
"""The words of an event that are compared."""
_TEXT = 32 << 10
_ALIKE = 0.4
"""The share of common words above which an event is the same one, changed."""
_NUMBERED = 0.5
"""The weight of equal numbers in the likeness of two events."""

Pair = tuple[EventRow | None, EventRow | None]
"""An event of one branch and its partner in the other; None if only the other has one."""


class Branch(Struct, frozen=True):
    """The branch whose tip is ``head`` (0: it is empty), of a conversation with the id ``context``."""

    context: int
    head: int


def pairs(library: Library, a: Branch, b: Branch) -> Iterator[Pair]:
    """Yield the events that differ between the branches, in order. Bookkeeping is left out."""
    old, new = _events(library, a), _events(library, b)
    shared = 0
    for before, after in zip(old, new, strict=False):
        if before.turn != after.turn:
            break
        shared += 1
    old, new = old[shared:], new[shared:]
    same = matches(_payloads(library, a, old), _payloads(library, b, new))
    related = bool(a.context == b.context or shared or same)
    for change in _changes(same, len(old), len(new)):
        a_rows, b_rows = old[change.a : change.a_end], new[change.b : change.b_end]
        shown = matches(_contents(library, a_rows, heads=related), _contents(library, b_rows, heads=related))
        for rest in _changes(shown, len(a_rows), len(b_rows)):
            yield from _told(library, a_rows[rest.a : rest.a_end], b_rows[rest.b : rest.b_end], related)


def _events(library: Library, branch: Branch) -> list[EventRow]:
    return [row for row in library.records.rows(branch.head) if row.kind is not Kind.RECORD] if branch.head else []


def _payloads(library: Library, branch: Branch, rows: Sequence[EventRow]) -> list[tuple[Kind, str, Hash]]:
    if not rows:
        return []
    turns = library.turns.range_to(branch.head, rows[0].number - 1, rows[-1].number - rows[0].number + 1)
    hashes = {turn.turn_id: turn.payload_hash for turn in turns}
    return [(row.kind, row.tool, hashes[row.turn]) for row in rows]


def _contents(library: Library, rows: Sequence[EventRow], *, heads: bool) -> list[bytes]:
    """Return hashes of events as shown, without their numbers; an unreadable event equals no other."""
    found = []
    for row, event in library.viewer.events(rows):
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


def _told(library: Library, old: Sequence[EventRow], new: Sequence[EventRow], related: bool) -> Iterator[Pair]:
    a = b = 0
    for a_at, b_at in (*_alike(library, old, new, related), (len(old), len(new))):
        yield from ((row, None) for row in old[a:a_at])
        yield from ((None, row) for row in new[b:b_at])
        if a_at < len(old) and b_at < len(new):
            yield old[a_at], new[b_at]
        a, b = a_at + 1, b_at + 1


def _alike(library: Library, old: Sequence[EventRow], new: Sequence[EventRow], related: bool) -> list[tuple[int, int]]:
    if not old or not new:
        return []
    if len(old) * len(new) > _FEW:
        return _numbered(old, new) if related else []
    words = [[_words_of(event) for _row, event in library.viewer.events(rows)] for rows in (old, new)]

    def likeness(a: int, b: int) -> float:
        if (old[a].kind, old[a].tool) != (new[b].kind, new[b].tool):
            return 0.0
        one, other = words[0][a], words[1][b]
        alike = 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0
        if related and old[a].number == new[b].number:
            return alike + _NUMBERED
        return alike if alike > _ALIKE else 0.0

    return _best(len(old), len(new), likeness)


def _numbered(old: Sequence[EventRow], new: Sequence[EventRow]) -> list[tuple[int, int]]:
    places = {(row.number, row.kind, row.tool): place for place, row in enumerate(new)}
    found = ((place, places.get((row.number, row.kind, row.tool))) for place, row in enumerate(old))
    return [(place, there) for place, there in found if there is not None]


def _words_of(event: Event | ConvfsError) -> frozenset[str]:
    blocks = () if isinstance(event, ConvfsError) else event.blocks
    return frozenset([word for block in blocks for word in (block.text or "")[:_TEXT].split()][:_WORDS])


def _best(a: int, b: int, likeness: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Return the pairing of ``a`` things with ``b`` others, in order, that maximizes their likeness."""
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


CONTEXT = 3
"""The equal lines that are shown around differences."""

NOTHING = "/dev/null"
"""The name that stands for a missing file."""

_NO_NEWLINE = "\n\\ No newline at end of file\n"


class Diff(Struct, frozen=True):
    """A difference of texts: lines as ``patch`` reads them ("": none), and the counts ``added`` and ``removed``."""

    text: str
    added: int
    removed: int


def unified(before: str, after: str, before_name: str, after_name: str) -> Diff:
    """Return the difference of two texts, with their names above it."""
    old, new = _lines(before), _lines(after)
    changes = list(_changes(matches(old, new), len(old), len(new)))
    if not changes:
        return Diff("", 0, 0)
    text = f"--- {_name(before_name)}\n+++ {_name(after_name)}\n" + "".join(_hunks(old, new, changes))
    removed = sum(change.a_end - change.a for change in changes)
    return Diff(text, sum(change.b_end - change.b for change in changes), removed)


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with its newline; nothing else ends one."""
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _name(name: str) -> str:
    """Return a name as programs read it: without the tab, they would take the part after a space for a time."""
    return f"{name}\t" if " " in name else name


def _hunks(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> Iterator[str]:
    start = 0
    for end in range(1, len(changes) + 1):
        if end == len(changes) or changes[end].a - changes[end - 1].a_end > 2 * CONTEXT:
            yield from _hunk(old, new, changes[start:end])
            start = end


def _hunk(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> Iterator[str]:
    first, last = changes[0], changes[-1]
    lead = min(CONTEXT, first.a)
    trail = min(CONTEXT, len(old) - last.a_end)
    a, b = first.a - lead, first.b - lead
    yield f"@@ -{_range(a, last.a_end + trail)} +{_range(b, last.b_end + trail)} @@\n"
    for change in changes:
        yield from _marked(" ", old[a : change.a])
        yield from _marked("-", old[change.a : change.a_end])
        yield from _marked("+", new[change.b : change.b_end])
        a = change.a_end
    yield from _marked(" ", old[a : a + trail])


def _range(first: int, end: int) -> str:
    """Return lines as the head of a hunk tells them: the first counts from 1; of none, the one before them."""
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + (line if line.endswith("\n") else line + _NO_NEWLINE)
