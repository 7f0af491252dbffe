"""The side that gives: what a store offers, and what of that another one lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from store.conversations import branch
from store.disk.head_format import HeadFrame
from store.errors import ConvfsError, NotFound, UsageError
from store.events.conversation import CAME_FROM
from store.formats.core.format import Format, Source
from store.formats.registry import format_named
from store.ids import HASH_SIZE, Hash, turn_of
from store.importing.provenance import ImportedFile, read_as
from store.importing.snapshot import text_path
from store.index.catalogue import ContextEntry
from store.store import Store
from store.transfer import metadata as meta
from store.transfer.parcel import Known, Need, Offer, Parcel, Piece, Position, Row, Side
from store.transfer.states import State, born_of, earlier_states

if TYPE_CHECKING:
    from store.transfer.hiding import Hiding

PIECE_BYTES = 8 << 20
"""The most bytes of a piece of a blob."""

_AT_ONCE = 256
_EDITS = ("edit ", "delete ", "restore ")

Alias = tuple[str, bytes, bytes]
"""A content that a record names by a digest of another algorithm: that, the digest, and its own name."""


def position(store: Store) -> Position:
    """Return how far the store has come."""
    with store.writer.commit_lock:
        return Position(store.writer.seq, store.files.heads.length)


def changed(store: Store, since: Position | None) -> set[int] | None:
    """Return the contexts that have changed since a position; None for all, where that cannot be told."""
    if since is None or since.length > store.files.heads.length:
        return None
    found: set[int] = set()
    seq = since.seq
    for frame in store.files.heads.frames(since.length):
        if not isinstance(frame, HeadFrame) or frame.seq != seq + 1:
            return None
        seq = frame.seq
        found.add(frame.context)
    return None if seq < since.seq or (not found and seq != store.writer.seq) else found - {0}


def chosen(
    store: Store, contexts: Sequence[int], projects: Sequence[str], labels: Sequence[str], among: set[int] | None
) -> list[ContextEntry]:
    """Return the conversations that are named, of one of the projects, or have one of the labels; all, without any.

    None that is in the trash. ``among``: only these. Subagents' conversations go with those that started them. What
    stands for a file of many goes only where all of these are chosen: it tells of each of them.
    """
    catalogue = store.catalogue
    wanted: set[int] | None
    some: Iterable[int]
    if contexts or projects or labels:
        ids = [context for label in labels for context in (one.id for one in catalogue.labelled(label))]
        ids += [context for project in projects for context, _tip, _records in catalogue.heads_in(project)]
        wanted = set(contexts) | set(ids)
        todo = list(wanted)
        while todo:
            inner = {entry.id for entry in catalogue.subagents(todo.pop())} - wanted
            wanted |= inner
            todo += inner
        some = wanted if among is None else wanted & among
    elif among is None:
        entries = [entry for entry in catalogue.page() if not entry.is_file]
        return _with_files(store, sorted(entries, key=lambda entry: entry.id), None)
    else:
        wanted, some = None, among
    entries = [entry for entry in map(catalogue.by_id, sorted(some)) if entry is not None and entry.name]
    return _with_files(store, entries, wanted)


def _with_files(store: Store, entries: Sequence[ContextEntry], chosen: set[int] | None) -> list[ContextEntry]:
    files = {file for entry in entries if isinstance(file := entry.metadata.get("file"), int)}
    found = [entry for entry in map(store.catalogue.by_id, sorted(files)) if entry is not None and entry.is_file]
    # a layout names conversations, which come first
    return [*entries, *(file for file in found if chosen is None or _owners(store, file) <= chosen)]


def _owners(store: Store, file: ContextEntry) -> set[int]:
    """Return the conversations that are in a file of many, those that are no more left out."""
    imported = read_as(file.metadata, ImportedFile)
    places = imported.read_layout(store).places if imported is not None else ()
    return {place.context for place in places if store.contexts.exists(place.context)}


def offers(store: Store, entries: Iterable[ContextEntry], *, redacted: bool = False) -> Iterator[Offer]:
    """Yield what is told of conversations first; ``redacted``: without secrets. One that cannot be read is left out."""
    for entry in entries:
        try:
            hiding = _hiding(store, entry) if redacted and not entry.is_file else None
            state = State(store, entry.head, hiding.row if hiding else None)
        except ConvfsError:
            continue
        yield _offer(store, entry, state, hiding)


def _offer(store: Store, entry: ContextEntry, state: State, hiding: Hiding | None, tip: int = 0) -> Offer:
    metadata = entry.metadata if hiding is None else hiding.metadata(entry)
    return Offer(
        entry.id,
        born_of(store, entry),
        len(state),
        state.name(len(state)),
        state.name(min(len(state), 1)),
        str(metadata.get("project", "")),
        str(metadata.get("name", "")),
        {"layout": _short(metadata.get("layout"))} if entry.is_file else meta.told(metadata),
        entry.is_file,
        tip,
    )


def earlier(store: Store, need: Need, *, redacted: bool = False) -> list[Offer]:
    """Return the earlier states of a conversation, as offers, oldest first: those behind what is known of it."""
    entry = store.catalogue.by_id(need.context)
    if entry is None or entry.is_file:
        return []
    tips = [version.head for version in store.catalogue.versions(entry.id) if version.head not in (0, entry.head)]
    hiding = _hiding(store, entry, tips) if redacted else None
    found: list[State] = []
    known_to = -1
    for state in reversed(earlier_states(store, entry.id, hiding.row if hiding else None)):
        if state.tip in tips:
            found.append(state)
            if any(one.records == len(state) and state.begins_with(one.records, one.chain) for one in need.known):
                known_to = len(found) - 1
    if need.known and known_to < 0:
        return []
    return [_offer(store, entry, state, hiding, state.tip) for state in found[known_to + 1 :]]


def _hiding(store: Store, entry: ContextEntry, tips: Sequence[int] = ()) -> Hiding:
    """Return what hides the secrets of a conversation, or of a file of many with all that are in it.

    ``tips`` are further states of it that leave.
    """
    # what it looks for takes a while to compile, and most transfers hide nothing
    from store.transfer.hiding import Hiding

    owners = [store.catalogue.by_id(context) for context in sorted(_owners(store, entry))] if entry.is_file else []
    entries = [entry, *(owner for owner in owners if owner is not None)]
    named = [
        Hash(blob)
        for one in entries
        for _algorithm, _digest, blob in _aliases(store, one, State(store, one.head).rows if one.head else ())
    ]
    return Hiding(store, entries, named, tips)


def _short(layout: object) -> str:
    """Return what a layout is known by elsewhere: not as a blob."""
    return str(layout)[:HASH_SIZE]


def parcels(store: Store, needs: Iterable[Need], *, redacted: bool = False) -> Iterator[Parcel]:
    """Yield what is needed of conversations; ``redacted``: without secrets, whose contents are made anew here."""
    for need in needs:
        entry = store.catalogue.by_id(need.context)
        if entry is not None:
            hiding = _hiding(store, entry, [need.tip] if need.tip else []) if redacted else None
            if entry.is_file:
                yield _file(store, entry, hiding)
            else:
                yield _Packing(store, entry, hiding, need.tip).parcel(need)


def _file(store: Store, entry: ContextEntry, hiding: Hiding | None) -> Parcel:
    metadata = meta.leaving(entry.metadata if hiding is None else hiding.metadata(entry), is_file=True)
    parts: list[object] = []
    imported = read_as(entry.metadata, ImportedFile)
    if imported is not None:
        layout = imported.read_layout(store)
        metadata["layout_of"] = _path(store, entry, "layout_of")
        metadata["layout_came"] = _short(imported.layout)
        for place in layout.places:
            owner = store.catalogue.by_id(place.context)
            born = born_of(store, owner) if owner is not None else ""
            shown = None if hiding is None or owner is None else _hiding(store, owner).row
            tip = State(store, place.tip, shown) if owner is not None and place.tip else None
            parts.append([born, len(tip) if tip else 0, tip.name(len(tip)).hex() if tip else ""])
        metadata["layout_parts"] = parts
        text = layout.encode()
        metadata["layout_text"] = (text if hiding is None else hiding.text(text)).decode()
    if hiding is not None:
        hiding.sync()
    named = tuple(_there(store, meta.blobs_of({**metadata, "layout_text": "", "layout_parts": []})))
    return Parcel(
        entry.id,
        born_of(store, entry),
        meta.machine(store.catalogue.machine),
        store.store_id.hex(),
        "",
        "",
        0,
        bytes(HASH_SIZE),
        0,
        0,
        (),
        metadata | {CAME_FROM: _came_from(store, entry, "layout_of")},
        {},
        blobs=named,
        is_file=True,
    )


def _came_from(store: Store, entry: ContextEntry, key: str) -> object:
    """Return where a conversation came from, as every store that it goes to keeps it."""
    known = entry.metadata.get(CAME_FROM)
    if known is not None:
        return known
    path = entry.metadata.get(key)
    came = {"store": store.store_id.hex(), "machine": _imported_on(store, entry)}
    return came | ({"path": path} if isinstance(path, str) else {})


def _path(store: Store, entry: ContextEntry, key: str) -> str:
    path = str(entry.metadata.get(key, ""))
    return path if CAME_FROM in entry.metadata else meta.path_there(path, _imported_on(store, entry))


def _imported_on(store: Store, entry: ContextEntry) -> str:
    """Return the machine that paths in the metadata mean: of a space, that which has imported the conversation."""
    return meta.machine(str(entry.metadata.get("machine", "")) or store.catalogue.machine)


def _there(store: Store, digests: Sequence[Hash]) -> Iterator[Hash]:
    """Yield those of some names that are blobs of the store: metadata may hold other hashes."""
    for digest in digests:
        try:
            store.blobs.size(digest)
        except NotFound:
            continue
        yield digest


class _Packing:
    """Makes the parcel of one conversation."""

    def __init__(self, store: Store, entry: ContextEntry, hiding: Hiding | None, tip: int) -> None:
        self._store = store
        self._entry = entry
        self._tip = tip or entry.head
        self._hiding = hiding
        self._shown = hiding.row if hiding else None
        self._state = State(store, self._tip, self._shown)

    def parcel(self, need: Need) -> Parcel:
        store, entry, state = self._store, self._entry, self._state
        extends, base, shared = self._extended(need.known)
        moved = list(self._moved(0, base, shared)) if base is not None else []
        side = None
        if self._tip == entry.head and entry.imported_head and (imported := self._imported()) is not None:
            common = branch.shared(imported.runs, state.runs)
            side = Side(common, tuple(imported.rows[common:]))
            moved += self._moved(1, imported, common)
        told = entry.metadata if self._hiding is None else self._hiding.metadata(entry)
        metadata = meta.leaving(told, is_file=False)
        if self._hiding is not None:
            self._hiding.sync()
        if isinstance(entry.metadata.get("source"), str):
            metadata["source"] = _path(store, entry, "source")
        metadata[CAME_FROM] = _came_from(store, entry, "source")
        rows = tuple(state.rows[shared:])
        every = (*rows, *(side.rows if side else ()))
        aliases = self._named(every)
        named = [*_there(store, meta.blobs_of(metadata)), *(Hash(blob) for _algorithm, _digest, blob in aliases)]
        return Parcel(
            entry.id,
            born_of(store, entry),
            meta.machine(store.catalogue.machine),
            store.store_id.hex(),
            str(told.get("project", "")),
            str(told.get("name", "")),
            len(state),
            state.name(len(state)),
            extends,
            shared,
            rows,
            metadata,
            {str(tag): store.contents.type_name(tag) for tag in dict.fromkeys(row.tag for row in every)},
            side,
            tuple(moved),
            aliases,
            tuple(dict.fromkeys(named)),
            self._parent(),
            self._file(),
            action=self._action(),
        )

    def _action(self) -> str:
        """Return the action of an edit, so that it is known there as such; "" for what is none there."""
        actions = {version.head: version.action for version in self._store.catalogue.versions(self._entry.id)}
        action = actions.get(self._tip, "")
        return action if action.startswith(_EDITS) else ""

    def _extended(self, known: Sequence[Known]) -> tuple[int, State | None, int]:
        """Return which known conversation this one was like, its state here, and how many turns both have."""
        state = self._state
        # the nearest one
        for one in sorted(known, key=lambda one: -one.records):
            if state.begins_with(one.records, one.chain):
                return one.context, None, one.records
        for one in sorted(known, key=lambda one: -one.records):
            for earlier in earlier_states(self._store, self._entry.id, self._shown):
                if earlier.begins_with(one.records, one.chain):
                    tip = earlier.turn(one.records)
                    base = earlier if _patched(earlier) else State(self._store, tip, self._shown)
                    shared = min(branch.shared(base.runs, state.runs), one.records)
                    return one.context, base, shared
        return 0, None, 0

    def _moved(self, which: int, base: State, shared: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield where the turns of an earlier branch, behind its first ``shared``, now are."""
        for number, here, count in self._store.library.lineage.places(
            self._entry.id, base.runs, branch.plain(self._state.runs)
        ):
            skipped = max(0, shared - number + 1)
            if skipped < count:
                yield which, number + skipped, here + skipped, count - skipped

    def _imported(self) -> State | None:
        try:
            return State(self._store, self._entry.imported_head, self._shown)
        except ConvfsError:
            return None

    def _parent(self) -> tuple[str, int] | None:
        forked = self._entry.metadata.get("forked_from")
        if not isinstance(forked, dict):
            return None
        context, turn = forked.get("context"), forked.get("turn")
        parent = self._store.catalogue.by_id(context) if isinstance(context, int) else None
        if parent is None or not isinstance(turn, int):
            return None
        try:
            records = self._store.turns.get(turn_of(turn)).depth + 1 if turn_of(turn) else 0
        except ConvfsError:
            return None
        return born_of(self._store, parent), records

    def _file(self) -> str:
        file = self._entry.metadata.get("file")
        entry = self._store.catalogue.by_id(file) if isinstance(file, int) else None
        return born_of(self._store, entry) if entry is not None else ""

    def _named(self, rows: Sequence[Row]) -> tuple[Alias, ...]:
        found, hiding = _aliases(self._store, self._entry, rows), self._hiding
        # what is told by a digest of what it was would not be that any more
        return found if hiding is None else tuple(one for one in found if hiding.blob(one[2]) == one[2])


def _aliases(store: Store, entry: ContextEntry, rows: Sequence[Row]) -> tuple[Alias, ...]:
    """Return the contents that records name by digests of other algorithms, as far as the store has them."""
    try:
        format_ = format_named(entry.format)
    except UsageError:
        return ()
    if type(format_).blobs is Format.blobs:
        return ()
    path = text_path(entry.source)
    source = Source(format_.name, path, path)
    found: dict[tuple[str, bytes], bytes] = {}
    for start in range(0, len(rows), _AT_ONCE):
        some = [Hash(row.payload) for row in rows[start : start + _AT_ONCE]]
        for payload in store.blobs.blobs(some).values():
            for named in format_.blobs(source, payload) if isinstance(payload, bytes) else ():
                if (blob := store.contents.alias(named.algorithm, named.digest)) is not None:
                    found[named.algorithm, named.digest] = blob
    return tuple((algorithm, digest, blob) for (algorithm, digest), blob in found.items())


def _patched(state: State) -> bool:
    return branch.plain(state.runs) != tuple(state.runs)


def pieces(store: Store, payloads: Sequence[bytes], blobs: Sequence[bytes]) -> Iterator[Piece]:
    """Yield the payloads of turns, and other blobs, in pieces. Raises DamageError for one that cannot be read."""
    for is_payload, digests in ((True, payloads), (False, blobs)):
        for start in range(0, len(digests), _AT_ONCE):
            small: list[Hash] = []
            some = [*map(Hash, digests[start : start + _AT_ONCE])]
            places = store.files.index.locate(some)
            shared = Counter(place[:2] for found in places.values() for place in found)
            for digest in some:
                # what lies in a group is small, and its size would take reading that
                in_group = any(shared[place[:2]] > 1 for place in places.get(digest, ()))
                if in_group or (size := store.blobs.size(digest)) <= PIECE_BYTES:
                    small.append(digest)
                    continue
                yield from _in_pieces(store, digest, size, is_payload=is_payload)
            for name, data in store.blobs.blobs(small).items():
                if isinstance(data, ConvfsError):
                    raise data
                yield Piece(name, data, 0, len(data), is_payload)


def _in_pieces(store: Store, digest: Hash, size: int, *, is_payload: bool) -> Iterator[Piece]:
    at = 0
    for data in store.blobs.pieces(digest):
        for start in range(0, len(data), PIECE_BYTES):
            part = data[start : start + PIECE_BYTES]
            yield Piece(digest, part, at, size, is_payload)
            at += len(part)
