"""A file of many conversations on its way in: each becomes one of its own, and the file's layout is kept beside them.

A context without a name stands for the file: its metadata holds the layout. A conversation that comes again in another
file is the same, by the tool's id of it, and belongs to that file from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.commit.request import Request
from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.formats.format import Format, Part, Source, Span
from store.ids import Hash, hash_bytes
from store.importing.cursor import Cursor, Stamp, stamp, stamps_beside
from store.importing.describing import clean, introduction, news
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.group import Group
from store.importing.imported import ImportedFile, read_file
from store.importing.layout import Layout, Place, levels, positions, runs_of, settled
from store.importing.original import has_copies, keep, rendition, state
from store.importing.paths import path_text
from store.importing.records import Records
from store.importing.session import Done
from store.importing.sidecars import bring_sidecars
from store.importing.snapshot import Snapshot
from store.index.catalogue import Entry
from store.store import Store

_DESCRIBED_BY = 200
_HASHED_AT_ONCE = 4 << 20
_TOUCHED = frozenset(("file", "updated_ms"))
"""What changes in the metadata of a conversation that came in another file and says the same."""


class _Brought(Struct):
    """A conversation of the file that has been gone through, or left out: then it has no ``tip``."""

    done: Done
    known: Entry | None
    incomplete: bool
    context: int = 0
    tip: int = 0


_NOTHING = Done("", "", False, 0, 0, 0, [])


class PartedImport:
    """Imports a file of many conversations into ``store``; ``file`` is the context that stands for it. Used once.

    ``by_hand``: of a file that is rendered, the original is to be kept. ``pruned``: also conversations that were here
    and were deleted for good are brought in.
    """

    def __init__(
        self,
        store: Store,
        format_: Format,
        source: Source,
        file: Entry | None,
        *,
        by_hand: bool = True,
        pruned: bool = False,
    ) -> None:
        self._store = store
        self._group = Group(store)
        self._format = format_
        self._source = source
        self._by_hand = by_hand
        self._with_pruned = pruned
        self._scratch = store.root / "scratch"
        self._file = file.id if file else 0
        self._imported = read_file(file.metadata) if file else None
        self._brought: list[_Brought] = []
        self._redacted = False
        """Whether the file has records that were redacted since."""
        self._waiting: list[tuple[_Brought, Records]] = []
        self.problems: list[str] = []
        """What was left out, or could not be brought in, a line each."""
        self.left_out = 0
        """How many conversations were left out since they had been deleted."""

    def run(self, progress: Callable[[int, str], None] | None) -> list[Done] | None:
        """Bring in what is new, and return what came of each conversation; nothing if the file is as it was.

        None, and nothing has been done, if the format says that the file's records are but one conversation.
        """
        source, imported = self._source, self._imported
        # before anything is read: what changes after this is looked at again next time
        before = state(source)
        modified = os.stat(source.main).st_mtime_ns // 1_000_000
        main, beside = stamp(source.main), stamps_beside(source)
        with (
            rendition(self._store, self._format, source) as rendered,
            Snapshot(rendered or source.main, self._scratch) as snapshot,
        ):
            data, prefix = snapshot.data, _hash_of(snapshot)
            as_it_was = imported and not imported.incomplete and imported.cursor.prefix == prefix
            if imported and as_it_was and not self._with_pruned:
                cursor = msgspec.structs.replace(imported.cursor, stamp=main)
                now = msgspec.structs.replace(imported, cursor=cursor, beside=beside, sidecars=self._sidecars(beside))
                self._note(self._with_original(now, rendered, before))
                return []
            spans = list(self._format.spans(data, 0))
            parts = self._parts(data, spans, rendered)
            if parts is None:
                return None
            if not self._file:
                pruned = sum(1 for part in parts if self._pruned(part))
                if pruned and pruned == len(parts):
                    # of all that it holds nothing is to be here
                    self.left_out = pruned
                    return []
                self._file = self._stand_for()
            places = self._bring(snapshot, spans, parts, modified, progress)
            layout = Layout(_between(snapshot, spans, positions(parts)), tuple(places))
            # the hash of what was redacted since would tell of that
            cursor = Cursor(len(data), "" if self._redacted else prefix, layout.count, main)
            # where one conversation could not be brought in, the file is looked at again next time
            if all(place.context for place in places):
                now = ImportedFile(
                    main="" if source.main == source.path else path_text(source.main.name),
                    layout=self._keep_layout(layout).hex(),
                    sidecars=self._sidecars(beside),
                    cursor=cursor,
                    beside=beside,
                    incomplete=any(brought.incomplete for brought in self._brought),
                    rendered=rendered is not None,
                    original=imported.original if imported else {},
                    original_of=imported.original_of if imported else "",
                )
                self._note(self._with_original(now, rendered, before))
        return [brought.done for brought in self._brought]

    def survey(self) -> list[Done] | None:
        """Return what :meth:`run` would, and bring in nothing: of names and sizes, nothing is told."""
        with (
            rendition(self._store, self._format, self._source) as rendered,
            Snapshot(rendered or self._source.main, self._scratch) as snapshot,
        ):
            spans = list(self._format.spans(snapshot.data, 0))
            parts = self._parts(snapshot.data, spans, rendered)
            if parts is None:
                return None
            left = [part for part in parts if not self._pruned(part)]
            self.left_out = len(parts) - len(left)
            return [self._surveyed(snapshot.data, spans, part) for part in left]

    def _parts(self, data: memoryview, spans: Sequence[Span], rendered: Path | None) -> list[Part] | None:
        """Return the conversations of the file, None if its records are but one."""
        told = self._format.parts(self._source, data, spans)
        if told is None and rendered is not None:
            first = [bytes(data[span.start : span.end]) for span in spans[:_DESCRIBED_BY]]
            about = self._format.about(self._source, first)
            told = [Part(path_text(self._source.path), range(len(spans)), about)]
        return None if told is None else settled(told, len(spans))

    def _known(self, part: Part) -> Entry | None:
        """Return the conversation that a part of the file is."""
        return next(iter(self._store.by_origin("part", self._source.format, clean(part.key))), None)

    def _pruned(self, part: Part) -> int:
        """Return the id that a part of the file had which is to be left out, since it was deleted; 0 for another."""
        if self._with_pruned or self._known(part) is not None:
            return 0
        return self._store.pruned("part", self._source.format, clean(part.key))

    def _surveyed(self, data: memoryview, spans: Sequence[Span], part: Part) -> Done:
        """Say whether a conversation is new, or has other records than it had, or another last one."""
        known = self._known(part)
        count = part.shared + len(part.records)
        changed = known is None or branch.length(self._store.runs(known.imported_head)) != count
        if known is not None and not changed and part.records:
            span = spans[part.records[-1]]
            last = self._store.turn(known.imported_head).payload_hash
            changed = last != hash_bytes(bytes(data[span.start : span.end]))
        return Done("", "", changed, 0, 0, 0, [], known is None)

    # -- the conversations -----------------------------------------------------------------------------------------

    def _bring(
        self,
        snapshot: Snapshot,
        spans: Sequence[Span],
        parts: Sequence[Part],
        modified_ms: int,
        progress: Callable[[int, str], None] | None,
    ) -> list[Place]:
        """Bring in the conversations, those that others branch from first; return what the file holds of each."""
        at = positions(parts)
        found: dict[int, _Brought] = {}
        label = path_text(self._source.path.name)
        for level in levels(parts):
            for number in level:
                part = parts[number]
                base = found[part.base] if part.base >= 0 else None
                if base is not None and not base.context:
                    # what could not be brought in has said why
                    found[number] = base
                    continue
                gone = self._pruned(part)
                if base is not None and not base.tip and self._known(part) is None:
                    # what it begins with was deleted
                    gone = base.context
                if gone:
                    found[number] = _Brought(_NOTHING, None, False, gone)
                    self.left_out += 1
                    continue
                found[number] = brought = self._part(snapshot, spans, part, base, modified_ms)
                self._brought.append(brought)
                if progress:
                    progress(sum(spans[record].end - spans[record].start for record in part.records), label)
                if self._group.full:
                    self._commit()
            # what branches off these follows turns that have been committed
            self._commit()
        return [
            Place(
                clean(part.key),
                found[number].context,
                found[number].tip,
                runs_of([at[record] for record in part.records]),
                part.base,
                part.shared,
            )
            for number, part in enumerate(parts)
        ]

    def _part(
        self, snapshot: Snapshot, spans: Sequence[Span], part: Part, base: _Brought | None, modified_ms: int
    ) -> _Brought:
        """Go through one conversation; what is new of it waits to be committed."""
        store, source, key = self._store, self._source, clean(part.key)
        known = self._known(part)
        records = Records(store, self._group, self._format, source, known)
        shared: tuple[tuple[int, int], ...] = ()
        if base is not None:
            # where that was deleted, what branched off from it still has what they shared
            above = base.tip or (known.imported_head if known else 0)
            shared = tuple(branch.part(store.runs(above), 0, part.shared))
            records.follow(shared)
        size = 0
        for record in part.records:
            span = spans[record]
            size += span.end - span.start
            records.take(self._format.main_type, snapshot.data[span.start : span.end], _nowhere)
            snapshot.passed(span.start)
        elsewhere = known is not None and known.metadata.get("file") != self._file
        if known is not None and elsewhere and not records.added and 0 < records.number < records.kept:
            # an older file than the one that it came from last
            brought = _Brought(_done(known.metadata, records, size, changed=False), known, bool(records.missing))
            self._waiting.append((brought, records))
            return brought
        records.look_again()
        self._redacted = self._redacted or bool(records.redacted)
        changes: dict[str, object]
        if known is not None:
            changes = news(part.about, known)
        else:
            session = part.about.session_id or part.key
            changes = introduction(store, self._group.names, part.about, source, session, modified_ms)
            changes["part"] = key
            if base is not None and base.context:
                changes["forked_from"] = {"context": base.context, "turn": branch.position(shared, part.shared)}
        before = known.metadata if known else {}
        more: dict[str, object] = {"file": self._file, "missing": records.missing or None}
        changes |= {name: value for name, value in more.items() if before.get(name) != value}
        changed = records.moved or not changes.keys() <= _TOUCHED
        done = _done(before or changes, records, size, changed=changed, new=known is None)
        brought = _Brought(done, known, bool(records.missing))
        records.end(changes)
        self._waiting.append((brought, records))
        return brought

    def _commit(self) -> None:
        """Commit the conversations that wait, and take note of where they ended."""
        waiting, self._waiting = self._waiting, []
        errors = iter(self._group.commit())
        for brought, records in waiting:
            error = next(errors) if records.ended else None
            if error is not None:
                self.problems.append(f"{brought.done.project}/{brought.done.name}: {error}")
                continue
            brought.context = brought.known.id if brought.known else _context(records)
            brought.tip = records.tip

    # -- the file --------------------------------------------------------------------------------------------------

    def _with_original(self, now: ImportedFile, rendered: Path | None, before: object) -> ImportedFile:
        """Return ``now`` with the file itself, if that is to be kept; ``before`` is the state that it was read in."""
        if rendered is None or not self._by_hand or self._redacted:
            # of what was redacted, the file itself would bring the secret back
            return now
        blobs = keep(self._source, rendered, self._group.load.huge)
        if not has_copies(rendered) and state(self._source) != before:
            self.problems.append(
                f"{path_text(self._source.path)}: it was written to while it was read: its conversations are here,"
                " but not the file itself"
            )
            return now
        return msgspec.structs.replace(now, original=blobs, original_of=now.layout)

    def _stand_for(self) -> int:
        """Make the context that stands for the file."""
        described = {"layout_of": path_text(self._source.path), "format": self._source.format}
        request = Request(None, changes=msgspec.json.encode(described), move_head=False)
        return self._store.submit(request).head.context

    def _note(self, imported: ImportedFile) -> None:
        self._group.load.sync()
        changes = imported.changes(self._store.entry(self._file).metadata)
        if changes:
            self._store.submit(Request(self._file, changes=msgspec.json.encode(changes), move_head=False))

    def _sidecars(self, beside: dict[str, Stamp]) -> dict[str, str]:
        imported = self._imported
        found, known = (imported.sidecars, imported.beside) if imported else ({}, {})
        sidecars, problems = bring_sidecars(self._source, beside, found, known, self._keep, self._scratch)
        self.problems += problems
        return sidecars

    @property
    def arrived(self) -> set[bytes]:
        """The foreign digests that records name and whose content the store has."""
        return self._group.arrived

    def _keep(self, data: memoryview, passed: Callable[[int], None]) -> Hash:
        return self._group.load.huge(data, passed) if len(data) > MAX_CUT_BYTES else self._group.load.blob(bytes(data))

    def _keep_layout(self, layout: Layout) -> Hash:
        """Store the layout; what it has in common with the one before is not stored again."""
        encoded = layout.encode()
        if len(encoded) > MAX_CUT_BYTES:
            return self._keep(memoryview(encoded), _nowhere)
        digest, before = hash_bytes(encoded), self._imported.layout if self._imported else ""
        earlier = {digest: Hash(bytes.fromhex(before))} if before else {}
        return self._group.load.payloads([encoded], earlier)[0]


def _between(snapshot: Snapshot, spans: Sequence[Span], at: dict[int, int]) -> Envelope:
    """Return what stands between the spans that belong to conversations; the others are part of that."""
    builder, end, data = EnvelopeBuilder(), 0, snapshot.data
    for record, span in enumerate(spans):
        if record in at:
            builder.gap(bytes(data[end : span.start]))
            end = span.end
            snapshot.passed(end)
    return builder.close(bytes(data[end:]))


def _hash_of(snapshot: Snapshot) -> str:
    whole = blake3()
    for start in range(0, len(snapshot.data), _HASHED_AT_ONCE):
        whole.update(snapshot.data[start : start + _HASHED_AT_ONCE])
        snapshot.passed(start)
    return whole.hexdigest()


def _done(metadata: dict[str, object], records: Records, size: int, *, changed: bool, new: bool = False) -> Done:
    appender = records.appender
    return Done(
        str(metadata.get("project", "")),
        str(metadata.get("name", "")),
        changed,
        records.added,
        appender.opaque if appender else 0,
        size,
        list(appender.problems) if appender else [],
        new,
        list(appender.missing) if appender else [],
    )


def _context(records: Records) -> int:
    return records.appender.context if records.appender else 0


def _nowhere(_offset: int) -> None:
    """Take no notice of how far reading has come."""
