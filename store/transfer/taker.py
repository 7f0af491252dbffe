"""The side that takes: what it lacks of an offer, and how that becomes its own.

A conversation is taken by one commit, which expects what the comparison saw. What is interrupted before it has left
turns and blobs that nothing names; another run finds the blobs, and commits.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct, structs

from store.commit.intake import Load
from store.commit.request import NewTurn, Request
from store.conversations import branch
from store.disk import durable
from store.disk.turn_format import NO_PAYLOAD, REDACTED
from store.errors import ConvfsError, NotFound, UsageError
from store.events.conversation import CAME_FROM
from store.filenames import unique
from store.ids import HASH_SIZE, Hash, hash_bytes, turn_of
from store.importing.envelope import Layout, read_layout
from store.importing.likeness import is_of
from store.index.catalogue import ContextEntry
from store.index.frames import day_of
from store.index.views import Run
from store.store import Store
from store.transfer import metadata as meta
from store.transfer.giver import PIECE_BYTES
from store.transfer.parcel import Known, Need, Offer, Outcome, Parcel, Piece, Row, Side
from store.transfer.states import (
    BORN,
    DIVERGED,
    ROOT,
    State,
    chained,
    earlier_states,
    is_gone,
    of_birth,
)
from store.upkeep.remembered import Remembered

ACTION = "pull"
"""The action of the versions that a transfer makes."""


def compare(store: Store, offers: Sequence[Offer], *, named: bool = False) -> tuple[list[Need], list[Outcome]]:
    """Return what is needed of offers, and the outcome of the others.

    What was deleted for good here does not come back, unless conversations were ``named``.
    """
    needs: list[Need] = []
    done: list[Outcome] = []
    for offer in offers:
        mine = of_birth(store, offer.born) or _copied(store, offer)
        if not mine:
            if not named and is_gone(store, offer.born):
                done.append(Outcome(offer.context, "gone", f"{offer.project}/{offer.name}"))
            else:
                needs.append(Need(offer.context))
            continue
        if offer.is_file:
            layouts = [entry.metadata.get("layout_came") for entry in mine]
            if offer.told.get("layout") in layouts or BORN not in mine[0].metadata:
                done.append(Outcome(offer.context, "same"))
            else:
                needs.append(Need(offer.context, (Known(mine[0].id, 0, ROOT),)))
            continue
        holder = _holder(store, mine, offer.records, offer.chain)
        if holder is not None and not _lacks(holder, offer.told):
            done.append(Outcome(offer.context, "same", f"{holder.project}/{holder.name}"))
        else:
            needs.append(Need(offer.context, tuple(_known(store, entry) for entry in mine)))
    return needs, done


def _known(store: Store, entry: ContextEntry) -> Known:
    state = State(store, entry.head)
    return Known(entry.id, len(state), state.name(len(state)))


def _holder(store: Store, mine: Sequence[ContextEntry], records: int, chain: bytes) -> ContextEntry | None:
    """Return the conversation that is in a state, or has been, or has gone on from it; that which is, first."""
    for entry in mine:
        if entry.records == records and State(store, entry.head).begins_with(records, chain):
            return entry
    for entry in mine:
        if any(state.begins_with(records, chain) for state in (State(store, entry.head), *_earlier(store, entry))):
            return entry
    return None


def _earlier(store: Store, entry: ContextEntry) -> Iterable[State]:
    return earlier_states(store, entry.id)


def _lacks(entry: ContextEntry, told: dict[str, object]) -> bool:
    return bool(meta.described(entry.metadata, told))


def _copied(store: Store, offer: Offer) -> list[ContextEntry]:
    """Return the conversation of that name that begins with the very same turn: the store was copied once."""
    entry = store.catalogue.by_name(offer.project, offer.name) if offer.name and offer.records else None
    if entry is None or not entry.head:
        return []
    return [entry] if State(store, entry.head).begins_with(1, offer.first) else []


def wanted(store: Store, digests: Sequence[bytes]) -> list[bytes]:
    """Return those of some blobs that the store does not hold, but for those that were redacted in it."""
    gone = Remembered(store.root)
    asked = [Hash(digest) for digest in dict.fromkeys(digests) if gone.instead(digest) is None]
    held = store.intake.held(asked, store.intake.reliance.region())
    return [digest for digest in asked if digest not in held]


def put(store: Store, some: Iterable[Piece]) -> None:
    """Store blobs that came, durably. UsageError for bytes that are not what they are called."""
    gone = Remembered(store.root)
    load = store.intake.load()
    payloads: list[bytes] = []
    whole: list[Hash] = []
    for piece in some:
        if gone.instead(piece.digest) is not None:
            continue
        if len(piece.data) < piece.size:
            _put_part(store, load, piece)
        else:
            if hash_bytes(piece.data) != piece.digest:
                raise UsageError(f"what came as {piece.digest.hex()} is something else: check the other store")
            if piece.is_payload:
                payloads.append(piece.data)
            else:
                load.blob(piece.data)
        whole.append(Hash(piece.digest))
    if payloads:
        load.payloads(payloads)
    load.sync()
    for digest in whole:
        store.intake.reliance.last(digest)


def _put_part(store: Store, load: Load, piece: Piece) -> None:
    """Put a part of a large blob beside the others, in a file; store it with its last part."""
    folder = store.files.aside.scratch
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f".taken-{piece.digest.hex()}"
    with open(durable.open_file(path, create=True), "r+b") as file:
        file.seek(piece.offset)
        file.write(piece.data)
        if piece.offset + len(piece.data) < piece.size:
            return
        file.truncate(piece.size)
        file.seek(0)
        digest, _size = load.stream(iter(lambda: file.read(PIECE_BYTES), b""))
    path.unlink()
    if digest != piece.digest:
        raise UsageError(f"what came as {piece.digest.hex()} is something else: check the other store")


class _Waiting(Struct):
    """A conversation that is about to be committed."""

    parcel: Parcel
    request: Request
    what: str
    name: str


class Taking:
    """Takes parcels, many with one sync. For one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gone = Remembered(store.root)
        self._waiting: list[_Waiting] = []
        self._births: set[str] = set()
        """The conversations that wait."""
        self._names: dict[str, set[str]] = {}
        self._cleaned: set[str] = set()
        """The conversations that hold elsewhere what was redacted here."""
        self._outcomes: list[Outcome] = []

    def run(self, parcels: Sequence[Parcel]) -> list[Outcome]:
        """Take parcels, and return what became of each. Raises StoreFailed."""
        store = self._store
        with store.importing, store.intake.reliance.relying() as region:
            for parcel in parcels:
                parcel = self._without_what_is_gone(parcel)
                asked = [Hash(digest) for digest in _digests(parcel)]
                held = store.intake.held(asked, region)
                if lost := tuple(digest for digest in asked if digest not in held):
                    self._lost(parcel, lost)
                    continue
                # what is in the same batch may be its parent, or the same
                if {parcel.born, parcel.parent[0] if parcel.parent else ""} & self._births or parcel.is_file:
                    self._commit()
                try:
                    self._take(parcel)
                except ConvfsError as error:
                    self._outcomes.append(Outcome(parcel.context, "refused", _called(parcel), str(error)))
            self._commit()
        return self._outcomes

    def _lost(self, parcel: Parcel, lost: tuple[bytes, ...]) -> None:
        if any(digest in self._gone.replacements for digest in lost):
            why = "it holds what was redacted here"
            self._outcomes.append(Outcome(parcel.context, "refused", _called(parcel), why))
        else:
            self._outcomes.append(Outcome(parcel.context, "wanted", _called(parcel), wanted=lost))

    def _without_what_is_gone(self, parcel: Parcel) -> Parcel:
        """Return a parcel that names what was redacted here as it is here."""
        if not self._gone:
            return parcel
        instead = {Hash(name): new for name in _digests(parcel) if (new := self._gone.instead(name)) is not None}
        if not instead:
            return parcel
        self._cleaned.add(parcel.born)

        def clean(rows: Iterable[Row]) -> tuple[Row, ...]:
            return tuple(
                structs.replace(row, payload=instead[Hash(row.payload)], flags=row.flags | REDACTED)
                if Hash(row.payload) in instead
                else row
                for row in rows
            )

        side = parcel.imported
        return structs.replace(
            parcel,
            rows=clean(parcel.rows),
            imported=structs.replace(side, rows=clean(side.rows)) if side else None,
            metadata=meta.renamed(parcel.metadata, instead),
            aliases=tuple(alias for alias in parcel.aliases if Hash(alias[2]) not in instead),
            blobs=tuple(dict.fromkeys(instead.get(Hash(blob), blob) for blob in parcel.blobs)),
        )

    # -- one conversation ------------------------------------------------------------------------------------------

    def _take(self, parcel: Parcel) -> None:
        if parcel.is_file:
            self._take_file(parcel)
            return
        store = self._store
        mine = of_birth(store, parcel.born)
        for entry in mine:
            parcel = self._as_it_is_here(parcel, entry)
        known = next((entry for entry in (store.catalogue.by_id(parcel.extends),) if entry), None)
        if known is not None and known not in mine and mine:
            known = None
        if parcel.extends and known is None:
            self._again(parcel)
            return
        if known is not None:
            before = State(store, known.head)
            if parcel.shared > len(before):
                self._again(parcel)
                return
            names = chained(parcel.rows, before.name(parcel.shared))
            if (names[-1] if names else before.name(parcel.shared)) == before.name(len(before)) and (
                parcel.shared + len(parcel.rows) == len(before)
            ):
                self._describe(parcel, known)
            else:
                self._extend(parcel, known, before)
            return
        names = chained(parcel.rows)
        if mine and (holder := _holder(store, mine, len(names), names[-1] if names else ROOT)) is not None:
            self._describe(parcel, holder)
            return
        if mine:
            # what was redacted on one side only may have made them differ
            for entry in mine:
                before = State(store, entry.head)
                common = before.shared(names)
                if common == len(before):
                    rows = parcel.rows[common:]
                    self._extend(structs.replace(parcel, extends=entry.id, shared=common, rows=rows), entry, before)
                    return
            self._diverge(parcel, mine, names)
            return
        self._make(parcel, names, _came(parcel), "new")

    def _as_it_is_here(self, parcel: Parcel, entry: ContextEntry) -> Parcel:
        """Return a parcel with the turns of a conversation that is here, where one of both only lacks a secret."""
        mine = State(self._store, entry.head).rows
        rows = self._alike(parcel.rows, mine[parcel.shared :])
        side = parcel.imported
        if side is not None and entry.imported_head:
            imported = State(self._store, entry.imported_head).rows
            side = structs.replace(side, rows=self._alike(side.rows, imported[side.shared :]))
        return structs.replace(parcel, rows=rows, imported=side)

    def _alike(self, rows: Sequence[Row], mine: Sequence[Row]) -> tuple[Row, ...]:
        def is_redacted(row: Row, own: Row) -> bool:
            lacks = bool((row.flags | own.flags) & REDACTED) and row.payload != own.payload
            return lacks and (row.tag, row.codec) == (own.tag, own.codec)

        found, pairs = list(rows), list(zip(rows, mine, strict=False))
        if not any(is_redacted(*pair) for pair in pairs):
            return tuple(rows)
        from store.transfer.hiding import secrets_in

        every = dict.fromkeys(Hash(row.payload) for pair in pairs for row in pair if not row.flags & REDACTED)
        secrets = secrets_in(self._store.blobs.blob(digest) for digest in every)

        def is_without(kept: Row, other: Row) -> bool:
            text, whole = (self._store.blobs.blob(Hash(one.payload)) for one in (kept, other))
            return is_of(text, whole) or secrets.removed(whole) == text

        for at, (row, own) in enumerate(pairs):
            if is_redacted(row, own) and (is_without(row, own) or is_without(own, row)):
                found[at] = own
        return tuple(found)

    def _again(self, parcel: Parcel) -> None:
        why = "it has changed here meanwhile: do it once more"
        self._outcomes.append(Outcome(parcel.context, "refused", _called(parcel), why))

    def _describe(self, parcel: Parcel, known: ContextEntry) -> None:
        changes = meta.described(known.metadata, parcel.metadata)
        name = f"{known.project}/{known.name}"
        if not changes:
            self._outcomes.append(Outcome(parcel.context, "same", name))
            return
        self._wait(parcel, Request(known.id, changes=msgspec.json.encode(changes)), "described", name)

    def _extend(self, parcel: Parcel, known: ContextEntry, before: State) -> None:
        """Move a conversation on to what has become of it elsewhere."""
        store = self._store
        changes = meta.arriving(known.metadata, _came(parcel))
        own = CAME_FROM not in known.metadata and "source" in known.metadata
        goes_on = parcel.shared == len(before)
        if not goes_on and branch.plain(before.runs) != tuple(before.runs):
            # what is seen through patches is appended as it is seen: no patch holds for the new branch
            moved = (*parcel.moved, (0, 1, 1, parcel.shared), (1, 1, 1, parcel.shared))
            rows = (*before.rows[: parcel.shared], *parcel.rows)
            parcel = structs.replace(parcel, shared=0, rows=rows, moved=moved)
        runs = tuple(branch.part(branch.plain(before.runs), 0, parcel.shared))
        gone = [before.turn(number) for number in range(parcel.shared + 1, len(before) + 1)]
        superseded = _superseded(parcel, runs, 0, parcel.shared, gone)
        if own and known.imported_head:
            changes["imported_head"] = known.imported_head
        elif parcel.imported is not None:
            moved_too, changes["imported_head"] = self._side(parcel, parcel.imported, runs, known)
            superseded += moved_too
        request = Request(
            known.id,
            parent=0 if goes_on else before.turn(parcel.shared) or None,
            turns=self._turns(parcel.rows),
            changes=msgspec.json.encode(changes) if changes else None,
            action=parcel.action or ACTION,
            types=store.writer.types_for(parcel.types.values()),
            aliases=_aliases(parcel),
            expected_head=known.head,
            superseded=tuple(sorted(superseded)),
            patch=None if goes_on else 0,
        )
        self._settle(request, parcel)
        self._wait(parcel, request, "grown", f"{known.project}/{known.name}")

    def _diverge(self, parcel: Parcel, mine: Sequence[ContextEntry], names: Sequence[bytes]) -> None:
        """Keep a conversation as it is, and what another store has made of it as a fork."""
        nearest = max(mine, key=lambda entry: State(self._store, entry.head).shared(names))
        metadata = _came(parcel)
        metadata["labels"] = meta.with_labels(nearest.labels, DIVERGED)
        name = f"{mine[0].name}~{parcel.machine}"
        metadata |= {"project": nearest.project, "name": name, "naming": None}
        path = str(metadata.pop("source", ""))
        metadata.pop("session", None)
        if not metadata.keys().isdisjoint(("envelope", "envelope_blob")):
            metadata["exported_as"] = name + ("" if "main" in metadata else PurePosixPath(path).suffix)
        self._make(parcel, names, metadata, "diverged", nearest)

    def _make(
        self,
        parcel: Parcel,
        names: Sequence[bytes],
        metadata: dict[str, object],
        what: str,
        nearest: ContextEntry | None = None,
    ) -> None:
        store = self._store
        shared = 0
        family = [nearest] if nearest else of_birth(store, parcel.parent[0]) if parcel.parent else []
        best: State | None = None
        for entry in family:
            for state in (State(store, entry.head), *_earlier(store, entry)):
                common = state.shared(names)
                if common > shared and branch.plain(state.runs) == tuple(state.runs):
                    best, shared = state, common
        runs = tuple(branch.part(best.runs, 0, shared)) if best is not None else ()
        fork_of = nearest or (family[0] if family else None)
        if fork_of is not None:
            records = shared if nearest else parcel.parent[1] if parcel.parent else 0
            metadata["forked_from"] = {
                "context": fork_of.id,
                "turn": branch.position(runs, min(records, shared)) if shared else 0,
            }
        if parcel.file:
            file = of_birth(store, parcel.file)
            metadata["file"] = file[0].id if file else self._file_to_be(parcel)
        superseded: list[tuple[int, int, int]] = []
        cut = structs.replace(parcel, rows=parcel.rows[shared:], shared=shared)
        if parcel.imported is not None:
            superseded, metadata["imported_head"] = self._side(cut, parcel.imported, runs, None)
        if parcel.born in self._cleaned:
            # titles and names are made of what was said, and nobody knows here what is gone
            words = f"{day_of(parcel.rows[0].created_ms) if parcel.rows else ''}-redacted".lstrip("-")
            metadata |= {"title": None, "own_title": None, "called": None, "naming": None}
            if nearest is None:
                metadata["name"] = words
                if "exported_as" in metadata:
                    metadata["exported_as"] = words + PurePosixPath(str(metadata["exported_as"])).suffix
        project, name = self._named(metadata)
        metadata |= {"project": project, "name": name}
        request = Request(
            None,
            parent=best.turn(shared) if best is not None else 0,
            turns=self._turns(cut.rows),
            changes=msgspec.json.encode({key: value for key, value in metadata.items() if value is not None}),
            action=parcel.action or ACTION,
            types=store.writer.types_for(parcel.types.values()),
            aliases=_aliases(parcel),
            superseded=tuple(sorted(superseded)),
            name=(project, name),
        )
        self._settle(request, cut)
        self._wait(parcel, request, what, f"{project}/{name}")

    def _named(self, metadata: Mapping[str, object]) -> tuple[str, str]:
        project = str(metadata.get("project") or "unnamed")
        wish = str(metadata.get("name") or "conversation")
        taken = self._names.setdefault(project, set())
        taken |= self._store.catalogue.names_like(project, wish)
        name = unique(wish, taken)
        taken.add(name)
        return project, name

    def _turns(self, rows: Iterable[Row]) -> list[NewTurn]:
        return [NewTurn(Hash(row.payload), row.tag, row.codec, row.flags, row.created_ms) for row in rows]

    def _side(
        self, parcel: Parcel, side: Side, runs: tuple[Run, ...], known: ContextEntry | None
    ) -> tuple[list[tuple[int, int, int]], int | None]:
        """Append the branch that imports have made, where it is not a part of the one to be shown, as turns that none
        shows.

        ``runs`` are the turns of the latter that are here. Returns what became of its turns, and its end: a turn, None
        where it is that of the branch itself, or its number there, negative, where that is yet to be appended.
        """
        if not side.rows:
            if side.shared == parcel.records:
                return [], None
            return [], branch.position(runs, side.shared) if side.shared <= parcel.shared else -side.shared
        # turns of the branch to be shown that are yet to be appended are appended for this one, too
        start = min(side.shared, parcel.shared)
        rows = [*parcel.rows[: side.shared - start], *side.rows]
        if known is not None and (imported := known.imported_head):
            was = State(self._store, imported)
            before = State(self._store, branch.position(runs, start)).name(start) if start else ROOT
            if len(was) == start + len(rows) and was.name(len(was)) == chained(rows, before)[-1]:
                return [], imported
        written = self._ahead(rows, branch.position(runs, start) if start else 0, parcel)
        return _superseded(parcel, runs, 1, start, written), written[-1]

    def _ahead(self, rows: Sequence[Row], parent: int, parcel: Parcel) -> list[int]:
        """Append turns behind another (0: none) that no branch shows yet; return their ids."""
        written: list[int] = []
        writer = self._store.writer
        types = writer.types_for(parcel.types.values())
        for start in range(0, len(rows), writer.turns_at_once):
            turns = self._turns(rows[start : start + writer.turns_at_once])
            ahead = writer.submit(Request(0, parent=parent or None, turns=turns, types=types, move_head=False))
            written += [turn.turn_id for turn in ahead.written]
            parent, types = written[-1], ()
        return written

    def _settle(self, request: Request, parcel: Parcel) -> None:
        """Append the turns of a request ahead where they are too many for it, or metadata must name one of them."""
        changes = msgspec.json.decode(request.changes) if request.changes else {}
        head = changes.get("imported_head")
        waits = head if isinstance(head, int) and head < 0 else 0
        if not waits and len(request.turns) <= self._store.writer.turns_at_once:
            return
        parent = request.parent or 0
        if request.context and request.parent == 0:
            parent = turn_of(request.expected_head or 0)
        written = self._ahead(parcel.rows, parent, parcel)
        if waits:
            changes["imported_head"] = written[-waits - parcel.shared - 1]
            request.changes = msgspec.json.encode(changes)
        request.turns, request.types, request.parent = [], (), written[-1]
        request.superseded = tuple(
            (old, written[-1 - new] if new < 0 else new, count) for old, new, count in request.superseded
        )

    # -- files of many ---------------------------------------------------------------------------------------------

    def _file_to_be(self, parcel: Parcel) -> int:
        """Make the context of a file whose description comes behind its conversations."""
        request = Request(None, changes=msgspec.json.encode({BORN: parcel.file}), action="create")
        return self._store.writer.submit(request).head.context

    def _take_file(self, parcel: Parcel) -> None:
        store = self._store
        mine = of_birth(store, parcel.born)
        metadata = dict(parcel.metadata) | {BORN: parcel.born}
        parts, text = metadata.pop("layout_parts", []), metadata.pop("layout_text", "")
        if not mine or not isinstance(text, str) or not isinstance(parts, list):
            # none of its conversations came
            self._outcomes.append(Outcome(parcel.context, "same"))
            return
        layout = read_layout(text.encode())
        places = []
        for place, (born, records, chain) in zip(layout.places, parts, strict=True):
            context, tip = 0, 0
            for entry in of_birth(store, born) if born else []:
                if records and entry.imported_head:
                    state = State(store, entry.imported_head)
                    if state.begins_with(records, bytes.fromhex(chain)):
                        context, tip = entry.id, state.turn(records)
                        break
            places.append(structs.replace(place, context=context, tip=tip))
        load = store.intake.load()
        digest = load.blob(Layout(layout.envelope, tuple(places)).encode())
        load.sync()
        metadata["layout"] = digest.hex()
        self._wait(parcel, Request(mine[0].id, changes=msgspec.json.encode(metadata)), "described", "")

    # -- commits ---------------------------------------------------------------------------------------------------

    def _wait(self, parcel: Parcel, request: Request, what: str, name: str) -> None:
        # types are told of before all that use them
        if request.types:
            self._store.writer.submit(Request(0, types=request.types, move_head=False))
            request.types = ()
        self._births.add(parcel.born)
        self._waiting.append(_Waiting(parcel, request, what, name))

    def _commit(self) -> None:
        waiting, self._waiting, self._births = self._waiting, [], set()
        self._store.writer.submit_all([one.request for one in waiting])
        for one in waiting:
            error, context = one.request.error, one.parcel.context
            if error is None:
                self._outcomes.append(Outcome(context, one.what, one.name))
            elif isinstance(error, UsageError | NotFound):
                self._outcomes.append(Outcome(context, "refused", one.name, f"{error}"))
            else:
                raise error


def _called(parcel: Parcel) -> str:
    return f"{parcel.project}/{parcel.name}"


def _came(parcel: Parcel) -> dict[str, object]:
    return dict(parcel.metadata) | {BORN: parcel.born}


def _aliases(parcel: Parcel) -> tuple[tuple[str, bytes, Hash], ...]:
    return tuple((algorithm, digest, Hash(blob)) for algorithm, digest, blob in parcel.aliases)


def _digests(parcel: Parcel) -> list[bytes]:
    rows = (*parcel.rows, *(parcel.imported.rows if parcel.imported else ()))
    found = dict.fromkeys([row.payload for row in rows])
    found |= dict.fromkeys(parcel.blobs)
    return [digest for digest in found if len(digest) == HASH_SIZE and digest != NO_PAYLOAD]


def _superseded(
    parcel: Parcel, runs: tuple[Run, ...], which: int, shared: int, turns: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Return what became of turns that stood behind the first ``shared`` of a branch: (turn, new one, 1) each.

    The new one is a turn of ``runs``, one of the request's own, which are counted from -1 down, or 0 for none.
    """
    here: dict[int, int] = {}
    for one, number, now, count in parcel.moved:
        if one == which:
            here |= zip(range(number, number + count), range(now, now + count), strict=True)
    if which and parcel.imported is not None:
        here |= {number: number for number in range(1, parcel.imported.shared + 1)}
    found: list[tuple[int, int, int]] = []
    for number, turn in enumerate(turns, shared + 1):
        now = here.get(number, 0)
        own = parcel.shared - now
        found.append((turn, own if own < 0 else branch.position(runs, now) if now else 0, 1))
    return found
