"""The family of a conversation: its ancestors, their branches, and its own earlier versions."""

from collections.abc import Iterator

from msgspec import Struct

from store.conversations import branch
from store.conversations.library import Library
from store.errors import ConvfsError, NotFound
from store.ids import turn_of
from store.index.catalogue import ContextEntry

_DEEPEST = 64
"""The most generations back that its oldest ancestor is looked for."""


class FamilyLine(Struct, frozen=True):
    """A conversation, or an earlier version of one, as it grew: ``records`` long.

    Its first ``shared`` records are those of line ``parent`` (-1: it begins by itself). ``version`` and ``action``
    are its version number and how it was made, 0 and "" for a conversation as it is now.
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
    """Lines, each behind the one it branches off; ``own`` is that of the one asked for, ``left_out`` counts others."""

    lines: list[FamilyLine]
    own: int
    left_out: int


def family(library: Library, context: int, most: int = 40) -> Family:
    """Return the family of a conversation, of up to ``most`` forks and as many versions. NotFound if it is gone."""
    lines: list[FamilyLine] = []
    own = library.catalogue.entry(context)
    root = own
    for _ in range(_DEEPEST):
        if (parent := _parent(library, root)) is None:
            break
        root = parent
    waiting: list[tuple[ContextEntry, int]] = [(root, -1)]
    seen = {root.id}
    place = -1
    while waiting:
        entry, parent_line = waiting.pop()
        # the conversation itself is always among those shown
        if len(lines) >= most and entry.id != context:
            continue
        shared = min(_shared(library, entry), entry.records) if parent_line >= 0 else 0
        at = len(lines)
        lines.append(_line(entry, parent_line, shared))
        if entry.id == context:
            place = at
        further = [fork for fork in library.catalogue.forks(entry.id) if fork.id not in seen]
        seen.update(fork.id for fork in further)
        # the latest branch is drawn first, so that no line crosses another
        waiting += sorted(((fork, at) for fork in further), key=lambda pair: _shared(library, pair[0]))
    if place < 0:
        place = len(lines)
        lines.append(_line(own, -1, 0))
    left_out = len(seen | {context}) - len(lines)
    versions = list(_versions(library, own, place))
    return Family([*lines, *versions[-most:]], place, left_out + len(versions[:-most]))


def _line(entry: ContextEntry, parent: int, shared: int) -> FamilyLine:
    title = entry.title or entry.name
    return FamilyLine(entry.id, entry.project, entry.name, title, entry.records, entry.updated_ms, parent, shared)


def _forked_from(entry: ContextEntry, key: str) -> object:
    said = entry.metadata.get("forked_from")
    return said.get(key) if isinstance(said, dict) else None


def _parent(library: Library, entry: ContextEntry) -> ContextEntry | None:
    parent = _forked_from(entry, "context")
    try:
        return library.catalogue.entry(parent) if isinstance(parent, int) and parent < entry.id else None
    except NotFound:
        return None


def _shared(library: Library, fork: ContextEntry) -> int:
    turn = _forked_from(fork, "turn")
    if not isinstance(turn, int) or not turn_of(turn):
        return 0
    try:
        return library.turns.get(turn_of(turn)).depth + 1
    except ConvfsError:
        return 0


def _versions(library: Library, own: ContextEntry, place: int) -> Iterator[FamilyLine]:
    """Yield the earlier versions, each with its common part with the conversation as it is now."""
    now = library.records.runs(own.head) if own.head else ()
    for version in library.catalogue.versions(own.id)[:-1]:
        try:
            then = library.records.runs(version.head) if version.head else ()
        except ConvfsError:
            continue
        shared, made = branch.shared(then, now), version.time_ms
        names = own.id, own.project, own.name, ""
        yield FamilyLine(*names, version.records, made, place, shared, version.number, version.action)
