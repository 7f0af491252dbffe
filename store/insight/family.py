"""The family of a conversation: what it branched off, what branched off that, and its own earlier versions."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from store.errors import ConvfsError, NotFound
from store.events.conversation import Version
from store.ids import turn_of
from store.index.catalogue import Entry
from store.index.views import Run
from store.store import Store

_DEEPEST = 64
"""So many conversations back its oldest ancestor is looked for."""


class Line(Struct, frozen=True):
    """A conversation, or an earlier version of one, as it grew: ``records`` long.

    Its first ``shared`` records are those of line ``parent`` (-1: it begins by itself). ``version`` and ``action`` are
    what it was and what made it so, 0 and "" for a conversation as it is now.
    """

    context: int
    project: str
    name: str
    title: str
    records: int
    time_ms: int
    parent: int = -1
    shared: int = 0
    version: int = 0
    action: str = ""


class Family(Struct, frozen=True):
    """Lines, each behind the one that it branches off, if that is there; ``own`` is that of the conversation itself.

    ``left_out`` are so many more forks and versions.
    """

    lines: list[Line]
    own: int
    left_out: int


def family(store: Store, context: int, most: int = 40) -> Family:
    """Return the family of a conversation, of up to ``most`` forks and as many versions. NotFound if it is gone."""
    lines: list[Line] = []
    own = store.entry(context)
    root = own
    for _ in range(_DEEPEST):
        parent = _parent(store, root)
        if parent is None:
            break
        root = parent
    waiting: list[tuple[Entry, int]] = [(root, -1)]
    seen = {root.id}
    place = -1
    while waiting:
        entry, parent_line = waiting.pop()
        # the conversation itself is always among those that are shown
        if len(lines) >= most and entry.id != context:
            continue
        shared = min(_shared(store, entry), entry.records) if parent_line >= 0 else 0
        at = len(lines)
        lines.append(_line(entry, parent_line, shared))
        if entry.id == context:
            place = at
        further = [fork for fork in store.forks(entry.id) if fork.id not in seen]
        seen.update(fork.id for fork in further)
        # what branched off last is drawn first, so that no line crosses another
        waiting += sorted(((fork, at) for fork in further), key=lambda pair: _shared(store, pair[0]))
    if place < 0:
        place = len(lines)
        lines.append(_line(own, -1, 0))
    left_out = len(seen | {context}) - len(lines)
    versions = list(_versions(store, own, place))
    return Family([*lines, *versions[-most:]], place, left_out + len(versions[:-most]))


def _line(entry: Entry, parent: int, shared: int) -> Line:
    title = entry.title or entry.name
    return Line(entry.id, entry.project, entry.name, title, entry.records, entry.updated_ms, parent, shared)


def _parent(store: Store, entry: Entry) -> Entry | None:
    said = entry.metadata.get("forked_from")
    parent = said.get("context") if isinstance(said, dict) else None
    try:
        return store.entry(parent) if isinstance(parent, int) and parent < entry.id else None
    except NotFound:
        return None


def _shared(store: Store, fork: Entry) -> int:
    """Return how many records a fork began with."""
    said = fork.metadata.get("forked_from")
    turn = said.get("turn") if isinstance(said, dict) else None
    if not isinstance(turn, int) or not turn_of(turn):
        return 0
    try:
        return store.turns.get(turn_of(turn)).depth + 1
    except ConvfsError:
        return 0


def _versions(store: Store, own: Entry, place: int) -> Iterator[Line]:
    """Yield the earlier versions, each with what it has in common with the conversation as it is now."""
    now = store.runs(own.head) if own.head else ()
    for version in store.versions(own.id)[:-1]:
        try:
            then = store.runs(version.head) if version.head else ()
        except ConvfsError:
            continue
        yield _version_line(own, version, place, _in_common(then, now))


def _version_line(own: Entry, version: Version, place: int, shared: int) -> Line:
    return Line(
        own.id,
        own.project,
        own.name,
        "",
        version.records,
        version.time_ms,
        place,
        shared,
        version.number,
        version.action,
    )


def _in_common(one: tuple[Run, ...], other: tuple[Run, ...]) -> int:
    """Return how many records two branches begin with that are the same."""
    count = 0
    for (first, length), (begins, reaches) in zip(one, other, strict=False):
        if first != begins:
            return count
        count += min(length, reaches)
        if length != reaches:
            return count
    return count
