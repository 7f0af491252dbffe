"""One file being imported: the part that the store has already, and the rest, as one conversation or as many.

A session is a file of one part: it is read from where the last import ended, and its conversation remembers that. A
file of many parts is read as a whole, and a context without a name stands for it: its metadata holds the layout. A
conversation that comes again in another file, by the tool's id of it, is the same if it goes on from what is known, and
belongs to that file from then on. If it does not, it stands beside that one as a conversation of its own.
"""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from store.commit.request import Request
from store.content.cuts import MAX_CUT_BYTES
from store.conversations import branch
from store.errors import Conflict, ConvfsError, DamageError, UsageError, told
from store.events.conversation import CAME_FROM, NAMING
from store.formats.core.budget import BETWEEN, LEAST_BETWEEN, MOST_RECORDS
from store.formats.core.format import About, Format, Mark, Part, Source, Span
from store.ids import Hash, hash_bytes, now_ms, patch_of
from store.importing.crew import Records
from store.importing.description import claimed, clean, introduction, may_be_renamed, news, on_machine
from store.importing.envelope import (
    Envelope,
    EnvelopeBuilder,
    Layout,
    Share,
    families,
    levels,
    positions,
    runs_of,
    settled,
)
from store.importing.group import MUCH_BYTES, Group, stored
from store.importing.likeness import Continuation, Spelling, begins_with
from store.importing.prepared import Whole
from store.importing.provenance import Imported, ImportedFile, changes_of, main_name, read_as
from store.importing.reading import FIRST_RECORDS, LOOKED_AT, Reading, beginning, shifted
from store.importing.records import Diverged, Done, RecordIntake, recalled
from store.importing.snapshot import (
    Cursor,
    Snapshot,
    Stamps,
    file_state,
    has_copies,
    hash_of_large,
    keep_original,
    path_text,
    rendition,
    stamps_of,
    stamps_of_first,
)
from store.importing.unclaimed import Overtaken, Unclaimed
from store.importing.unseen import Unseen
from store.index.catalogue import ContextEntry
from store.store import Store

_LARGEST_ENVELOPE = 16 << 10
_DATABASE_LOG = "-wal"

Progress = Callable[[int, str], None]
"""Takes the number of bytes dealt with since the last call, and what they were of."""


class Written(Struct, frozen=True):
    """A session without a file: :attr:`open` gives what its tool has written of it.

    ``path`` is where it will be known, ``time_ns`` when it was written, in Unix nanoseconds. ``goes_on``: the content
    goes on from the last import. ``anew``: it replaces what people have made of the session.
    """

    path: Path
    time_ns: int
    open: Callable[[], Snapshot]
    goes_on: bool = False
    anew: bool = False


class Ahead:
    """The main file of a session as it was read before any import waited for that; ``known`` is its conversation.

    Raises UsageError, DamageError or OSError as :class:`Snapshot` and :func:`stamps_of` do.
    """

    def __init__(self, source: Source, known: ContextEntry | None, scratch: Path) -> None:
        self.source = source
        imported = read_as(known.metadata, Imported) if known else None
        self._cursor = imported.cursor if imported else None
        self.stamps = stamps_of(source)
        self._snapshot: Snapshot | None = Snapshot(source.main, scratch, self._cursor)

    def taken(self, cursor: Cursor | None) -> Snapshot | None:
        """Return what was read, once, if a cursor is the one from which on that was."""
        snapshot, self._snapshot = (self._snapshot, None) if cursor == self._cursor else (None, self._snapshot)
        return snapshot

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()


def unpacked_path(format_: Format, path: Path) -> Path:
    """Return the path by which the conversation of a session's file is known: without the suffix of compressed ones."""
    return path.with_suffix("") if format_.unpacked else path


class _Import:
    """An import of one file, the session ``source``, into ``store``."""

    def __init__(self, store: Store, group: Group, format_: Format, source: Source) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._source = source
        self._imported: Imported | ImportedFile | None = None
        """The file as it was imported before."""

    def _sidecars(self, stamps: Stamps, problems: list[str]) -> dict[str, str]:
        """Store new and changed files beside a session; return the blobs, in hex by name, of all that belong to it."""
        blobs = dict(self._imported.sidecars) if self._imported else {}
        known = self._imported.beside if self._imported else {}
        there = {path_text(name) for name, _path in self._source.sidecars}
        # a database's log that has gone is in the database: with an older one beside it, that would be older, too
        replaced = ("",) if self._format.replaces_files else (_DATABASE_LOG,)
        blobs = {name: held for name, held in blobs.items() if name in there or not name.endswith(replaced)}
        for name, path in self._source.sidecars:
            key, where = path_text(name), path_text(path)
            if key in blobs and where in stamps.beside and known.get(where) == stamps.beside[where]:
                continue
            try:
                with Snapshot(path, self._store.files.aside.scratch) as snapshot:
                    blobs[key] = stored(self._group.load, snapshot.data, snapshot.passed).hex()
            except UsageError as error:
                problems.append(str(error))
        return blobs


class SessionImport(_Import):
    """Imports one session; ``known`` is its conversation as imported before. Used once.

    At the end, the rest waits in ``group`` for a commit. For a session that was ``written`` into a mount, no file is
    touched. ``prepared`` are its records, of a new one, and ``ahead`` is what was read of it.
    """

    _imported: Imported | None

    def __init__(
        self,
        store: Store,
        group: Group,
        format_: Format,
        source: Source,
        known: ContextEntry | None,
        written: Written | None = None,
        prepared: Records | None = None,
        unclaimed: Unclaimed | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        super().__init__(store, group, format_, source)
        self._written = written
        self._ahead = ahead
        self._path = written.path if written else unpacked_path(format_, source.path)
        """The path of the session that its conversation records."""
        self._known = known
        self._unclaimed = unclaimed
        self.records = RecordIntake(store, group, format_, source, known, Unseen(), unclaimed)
        self._prepared = prepared
        # if the conversation's records cannot be determined, all of the session is brought in anew
        self._imported = read_as(known.metadata, Imported) if known and not self.records.lost else None
        self._envelope = EnvelopeBuilder()
        self._goes_on = False
        """True if what is read goes on from the last import."""
        self._titled: tuple[int, ...] = ()
        """Numbers of records before those that are read, see :class:`Imported`."""
        if written and written.anew and known:
            # patches cannot be continued from a record in the middle
            self.records.replace(known.head, () if patch_of(known.head) else store.records.runs(known.head))

    def run(self, progress: Progress | None) -> Done:
        known = self._known
        whole = self._take_prepared(progress)
        if whole is None:
            try:
                whole = self._take(progress)
            except Diverged:
                self.records.replace(self.records.head, ())
                self._imported, self._titled, self._envelope = None, (), EnvelopeBuilder()
                whole = self._take(progress)
        records = self.records
        records.look_again()
        changes = changes_of(self._files(whole), known.metadata if known else {})
        waits = known is not None and records.begun < FIRST_RECORDS and may_be_renamed(known)
        anew = known is None or not known.title or not self._goes_on
        if waits or anew or records.samples.tell or self._format.sums_up or "sidecars" in changes:
            changes |= self._describe(whole)
        if known and known.source != path_text(self._path):
            changes["source"] = path_text(self._path)
        if known and "part" in known.metadata:
            # it came in compressed, as the only one of its file, and lies there as lines now
            changes |= {"part": None, "file": None, "format": self._format.name}
        if known:
            changes |= claimed(self._store, known)
        return records.end(changes, whole.size)

    def _take_prepared(self, progress: Progress | None) -> Whole | None:
        """Take a session that was prepared; None if there is none, or it must be read all the same."""
        prepared, label = self._prepared, path_text(self._source.path.name)
        if prepared is None:
            return None
        told = 0

        def passed(size: int) -> None:
            nonlocal told
            if progress:
                progress(size - told, label)
            told = size

        if not self._source.first:
            self.records.look_for_likes(alone=False)
        if self.records.take_prepared(prepared, passed) and prepared.whole is not None:
            passed(prepared.whole.size)
            return prepared.whole
        passed(0)
        self.records = RecordIntake(
            self._store, self._group, self._format, self._source, None, Unseen(), self._unclaimed
        )
        return None

    def _stamps(self) -> Stamps:
        if self._written is None:
            stamps = self._ahead.stamps if self._ahead else stamps_of(self._source)
            # of files that are read, each has its own
            if self._imported is None:
                return stamps
            return msgspec.structs.replace(stamps, beside=stamps_of_first(self._source) | stamps.beside)
        # those of files that were imported stay as they were: whatever lies there has not changed by this
        imported = self._imported
        return Stamps(now_ms(), imported.cursor.stamp, imported.beside) if imported else Stamps(now_ms(), (0, 0), {})

    def _take(self, progress: Progress | None) -> Whole:
        """Read what is new, and take it."""
        records, label = self.records, path_text(self._source.path.name)
        stamps, scratch = self._stamps(), self._store.files.aside.scratch
        with (
            rendition(scratch, self._format, self._source) if self._format.unpacked else nullcontext() as unpacked,
            self._open(stamps, unpacked or self._source.main) as snapshot,
        ):
            self._goes_on = snapshot.start > 0
            if not (self._goes_on or self._source.first):
                # what a tool writes line by line is read back by offset all the time
                records.look_for_likes(alone=self._written is not None)
            reading = Reading(self._format, self._source, snapshot, scratch, self._envelope)
            told = 0
            for type_name, data, passed in reading.records():
                records.take(type_name, data, passed)
                if records.redacted == records.count:
                    reading.leave_out()
                if progress:
                    progress(reading.passed - told, label)
                    told = reading.passed
            stamps, cursor, rest = reading.end(records.count, stamps)
            records.finish()
            titled = records.samples.titled(self._titled)
            return Whole(stamps, cursor, self._envelope.close(rest), len(snapshot.data) - snapshot.start, titled)

    def _open(self, stamps: Stamps, main: Path) -> Snapshot:
        """Open the main file: at the end of the last import if all before that is unchanged, else at its beginning."""
        scratch, imported = self._store.files.aside.scratch, self._imported
        if self._written is not None:
            if self._written.goes_on and imported is not None:
                self._go_on(imported, imported.read_envelope(self._store))
            return self._written.open()
        if imported is None or not self.records.has(imported.cursor.records) or not self._has_first(imported, stamps):
            return (self._ahead and self._ahead.taken(None)) or Snapshot(main, scratch)
        snapshot = (self._ahead and self._ahead.taken(imported.cursor)) or Snapshot(main, scratch, imported.cursor)
        if not snapshot.start:
            return snapshot
        following = next(iter(self._format.spans(snapshot.data, snapshot.start)), None)
        try:
            envelope = imported.read_envelope(self._store)
        except ConvfsError:
            envelope = None
        if envelope is None or (following is not None and following.start == snapshot.start):
            # the last record itself went on, or how records are parted is lost
            snapshot.close()
            return Snapshot(main, scratch)
        self._go_on(imported, envelope)
        return snapshot

    def _go_on(self, imported: Imported, envelope: Envelope) -> None:
        count = imported.cursor.records
        self.records.begin(count)
        self._titled = tuple(number for number in imported.titled if number <= count)
        self._envelope = EnvelopeBuilder(envelope, count - len(imported.first))

    def _has_first(self, imported: Imported, stamps: Stamps) -> bool:
        if imported.first != _names_of_first(self._source):
            return False
        paths = map(path_text, self._source.first)
        return all(stamps.beside.get(path) == imported.beside.get(path) for path in paths)

    def _files(self, whole: Whole) -> Imported:
        encoded = msgspec.json.encode(whole.envelope)
        large = len(encoded) > _LARGEST_ENVELOPE
        records = self.records
        return Imported(
            cursor=whole.cursor,
            written_ns=self._written.time_ns if self._written else None,
            main=main_name(self._source),
            envelope=None if large else whole.envelope,
            envelope_blob=stored(self._group.load, memoryview(encoded)).hex() if large else "",
            first=_names_of_first(self._source),
            sidecars=self._sidecars(whole.stamps, records.problems),
            beside=whole.stamps.beside,
            titled=whole.titled,
            missing=records.missing,
            copied=records.copied,
        )

    def _describe(self, whole: Whole) -> dict[str, object]:
        source, known, records = self._source, self._known, self.records
        about = whole.about or self._about()
        repositories, names = self._group.repositories, self._group.names
        if known is not None:
            told = news(self._store, repositories, names, about, source, known)
            if NAMING in known.metadata and (session := clean(about.session_id)) != known.metadata.get("session"):
                told["session"] = session
        else:
            modified_ms = whole.stamps.modified_ms
            session = about.session_id
            told = introduction(self._store, repositories, names, about, source, session, modified_ms)
            # what lies in a file a record is looked for by nothing that copies it, but may be moved
            begins = records.begins or whole.begins
            begins = begins or [beginning(one, self._format) for one in records.samples.records[:LOOKED_AT]]
            told |= {"begins": begins, "source": path_text(self._path)}
        if about.forked_from and (known is None or "forked_from" not in known.metadata):
            for entry in self._store.catalogue.by_origin("session", source.format, clean(about.forked_from), most=1):
                # the number of records that a new session shares with another
                shared = records.kept if known is None else 0
                turn = branch.position(records.runs, shared) if shared else 0
                told["forked_from"] = {"context": entry.id, "turn": turn}
        return told

    def _about(self) -> About:
        records = self.records
        earlier: Iterable[bytes] = ()
        if records.begun:
            spelling = Spelling(self._store, records.copied)
            earlier = recalled(self._store, records.runs, spelling, records.begun, self._titled)
        return self._format.about(self._source, [*earlier, *records.samples.records])


def _names_of_first(source: Source) -> tuple[str, ...]:
    folder = source.path.parent if source.main == source.path else source.path
    beginning = os.path.join(folder, "")
    # there may be thousands, nearly all of them in the folder
    return tuple(
        path_text(text.removeprefix(beginning) if text.startswith(beginning) else os.path.relpath(text, folder))
        for text in source.first
    )


# -- files of many conversations -----------------------------------------------------------------------------------

_DESCRIBED_BY = 200


class _Brought(Struct):
    """A conversation of the file that has been read, or left out: then it has no ``tip``."""

    done: Done
    known: ContextEntry | None = None
    incomplete: bool = False
    context: int = 0
    tip: int = 0


class _Parts:
    """The conversations in a file, whose context is ``file`` (0: none yet), and their counterparts in the store."""

    def __init__(
        self, store: Store, format_: Format, data: memoryview, spans: Sequence[Span], parts: Sequence[Part], file: int
    ) -> None:
        self.parts = parts
        self.spans = spans
        self._store = store
        self._format = format_
        self._data = data
        self._file = file
        self._family = {at: family for family in families(part.base for part in parts) for at in family}
        self._found: dict[int, ContextEntry | None] = {}

    def key(self, at: int) -> str:
        return clean(self.parts[at].key)

    def size(self, at: int) -> int:
        return sum(self.spans[record].end - self.spans[record].start for record in self.parts[at].records)

    def record(self, number: int) -> bytes:
        span = self.spans[number]
        return bytes(self._data[span.start : span.end])

    def known(self, at: int) -> ContextEntry | None:
        """Return the conversation that the part at a position is, None if it is a new one."""
        if at not in self._found:
            self._found[at] = self._find(at)
        return self._found[at]

    def _find(self, at: int) -> ContextEntry | None:
        catalogue, names = self._store.catalogue, ("part", self._format.name, self.key(at))
        entries = [*catalogue.by_origin(*names, most=-1), *catalogue.elsewhere(*names)]
        for entry in entries:
            if entry.metadata.get("file") == self._file:
                return entry
        if not entries:
            return None
        family = [self.parts[other] for other in self._family[at]]
        now = Continuation(
            self._store, self._format, lambda: (self.record(number) for part in family for number in part.records)
        )
        digests = self._digests(at)
        for entry in entries:
            if now.goes_on_from(entry) or (digests and begins_with(self._store, entry, digests)):
                return entry
        return None

    def _digests(self, at: int) -> list[Hash]:
        records: list[int] = []
        end = len(self.parts[at].records) + self.parts[at].shared
        while at >= 0:
            part = self.parts[at]
            records[:0] = part.records[: max(end - part.shared, 0)]
            at, end = part.base, min(end, part.shared)
        return [hash_bytes(self.record(record)) for record in records]


class NothingNew(Struct, frozen=True):
    """A look at a file of many conversations, which found what was there before.

    ``imported`` is what was known of it, ``marks`` are those reached, and ``lines`` is the hash of what was read.
    """

    imported: ImportedFile
    marks: Mapping[str, Mark]
    lines: Hash


_Steps = Generator[Request | None, None, list[Done] | None]
"""Yields what is to be submitted before the next step, when all that waits in the group is committed."""


class FileImport(_Import):
    """Imports a file of many conversations; ``file`` is the context of the file. Used once.

    What is new goes in step by step: each ends with what must be committed before the next, so that others may go with
    it. Only such files wait in ``group``. ``by_hand``: the original of a rendered file is kept. ``pruned``:
    conversations that were here and were deleted for good are brought in, too. ``scratch`` returns where a rendition is
    made.
    """

    _imported: ImportedFile | None

    def __init__(
        self,
        store: Store,
        group: Group,
        format_: Format,
        source: Source,
        file: ContextEntry | None,
        unclaimed: Unclaimed | None = None,
        *,
        by_hand: bool = True,
        pruned: bool = False,
        scratch: Callable[[], Path] | None = None,
        look: NothingNew | None = None,
    ) -> None:
        super().__init__(store, group, format_, source)
        self.look = look
        """The last look at what has changed, if it found nothing."""
        self._scratch = scratch or (lambda: store.files.aside.scratch)
        self._by_hand = by_hand
        self._with_pruned = pruned
        self._file = file.id if file else 0
        self._unclaimed = unclaimed
        self.overtaken = False
        """True if another machine has brought in some of it meanwhile: it is to be imported once more."""
        self.put_off = 0.0
        """The seconds in which to look again for what a look at a database has put off, 0 if that is nothing."""
        self._imported = read_as(file.metadata, ImportedFile) if file else None
        self._heads: dict[str, int] = {}
        """The tips, by conversation, whose records are in the file instead of those that were imported from it."""
        self.keys: frozenset[str] = frozenset()
        """The keys of its conversations, once it has been read."""
        self.request: Request | None = None
        """The request to submit before the next step, when all that waits in the group is committed."""
        self.found: list[Done] | None = None
        """The outcome for each conversation, after the last step; None: its records are a single one."""
        self._steps: _Steps | None = None
        self._brought: list[_Brought] = []
        self._redacted = False
        """True if the file has records that were redacted since."""
        self._waiting: list[tuple[_Brought, RecordIntake]] = []
        self.unseen = Unseen()
        """The texts of the file that no event shows."""
        self.problems: list[str] = []
        """Conversations and files that were left out, or could not be brought in, a line each."""
        self.left_out = 0
        """The number of conversations that were left out because they had been deleted."""

    def run(self, progress: Progress | None, *, dry_run: bool = False) -> list[Done] | None:
        """Bring in what is new, and return the outcome for each conversation; nothing if the file is unchanged.

        Returns None, and does nothing, if the format says that the file's records are a single conversation.
        ``dry_run``: bring in nothing; then names and sizes are not reported.
        """
        goes_on = self.begin(progress, dry_run=dry_run)
        while goes_on:
            self._group.commit()
            if self.request is not None:
                self._store.writer.submit_all([self.request])
            goes_on = self.go_on()
        return self.found

    def begin(self, progress: Progress | None, *, dry_run: bool = False) -> bool:
        """Do the first step of :meth:`run`; return whether there is another."""
        self._steps = self._in_steps(progress, dry_run=dry_run)
        return self.go_on()

    def go_on(self) -> bool:
        """Do the next step; return whether there is another."""
        assert self._steps is not None
        try:
            self.request = next(self._steps)
        except StopIteration as end:
            self.found = end.value
            return False
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Bring in no more of it: what waits for its commit does not come."""
        if self._steps is not None:
            self._steps.close()
        self._group.drop([records.ending for _brought, records in self._waiting if records.ending is not None])

    def _in_steps(self, progress: Progress | None, *, dry_run: bool) -> _Steps:
        source, imported = self._source, self._imported
        if imported and not (dry_run or self._by_hand or self._with_pruned):
            done = yield from self._take_changed(imported, progress)
            if done is not None:
                return done
        before = file_state(source)
        stamps = stamps_of(source)
        marks = {} if dry_run else self._format.reached(source)
        with (
            rendition(self._scratch(), self._format, source) as rendered,
            Snapshot(rendered or source.main, self._store.files.aside.scratch, own=rendered is not None) as snapshot,
        ):
            prefix = "" if dry_run else hash_of_large(snapshot.data, snapshot.passed).hex()
            as_it_was = imported and not imported.incomplete and prefix in imported.states
            if imported and as_it_was and not (self._with_pruned or dry_run):
                cursor = msgspec.structs.replace(imported.cursor, stamp=stamps.main)
                sidecars = self._sidecars(stamps, self.problems)
                now = msgspec.structs.replace(
                    imported, cursor=cursor, beside=stamps.beside, sidecars=sidecars, marks=marks
                )
                yield from self._note(self._with_original(now, rendered, before))
                return []
            parts = self._parts(snapshot.data, rendered)
            if parts is None:
                return None
            self._group.measures = self._group.measures and len(snapshot.data) < MUCH_BYTES
            count = len(parts.parts)
            if dry_run or not self._file:
                left = [at for at in range(count) if not self._pruned(parts, at)]
                if dry_run or (not left and (count or rendered)):
                    # or a database holds nothing yet, or nothing that it holds may be here
                    self.left_out = count - len(left)
                    return [self._surveyed(parts, at) for at in left]
                self.keys = frozenset(map(parts.key, range(count)))
                yield (standing := self._stand_for())
                if isinstance(standing.error, Conflict):
                    self.overtaken = True
                    return []
                self._file = _done(standing).head.context
            self._heads = imported.heads(snapshot.data) if imported else {}
            places = yield from self._bring(snapshot, parts, stamps, progress)
            layout = Layout(_between(snapshot, parts), tuple(places))
            # if a conversation could not be brought in, the file is looked at again next time
            if all(place.context for place in places):
                unwanted = self._redacted and self._format.replaces_files
                now = ImportedFile(
                    main=main_name(source),
                    layout=self._keep_layout(layout).hex(),
                    marks=marks,
                    # those that a rendition is of would bring a redacted secret back
                    sidecars={} if unwanted else self._sidecars(stamps, self.problems),
                    # the hash of records that were redacted since would reveal them
                    cursor=Cursor(len(snapshot.data), "" if self._redacted else prefix, layout.count, stamps.main),
                    beside=stamps.beside,
                    incomplete=any(brought.incomplete for brought in self._brought),
                    rendered=rendered is not None,
                    original=imported.original if imported else {},
                    original_of=imported.original_of if imported else "",
                )
                yield from self._note(self._with_original(now, rendered, before))
        return [brought.done for brought in self._brought]

    def _take_changed(self, imported: ImportedFile, progress: Progress | None) -> _Steps:
        """Bring in what has changed since the marks of the last import; None if all of the file must be read."""
        source, scratch = self._source, self._store.files.aside.scratch
        if not imported.marks or imported.incomplete:
            return None
        stamps = stamps_of(source)
        scratch.mkdir(mode=0o700, exist_ok=True)
        again = self.look is not None and self.look.imported == imported
        found = self._format.changed(source, imported.marks, scratch, again=again)
        if found is None:
            return None
        self.put_off = self._format.put_off(source.main)
        rendered, marks = found
        try:
            with Snapshot(rendered, scratch, own=True) as snapshot:
                if not snapshot.data:
                    return []
                look = NothingNew(imported, marks, hash_of_large(snapshot.data, snapshot.passed))
                if look == self.look:
                    return []
                parts = self._parts(snapshot.data, rendered)
                places = (yield from self._bring(snapshot, parts, stamps, progress)) if parts else []
        finally:
            rendered.unlink()
        # the layout of thousands of conversations is large
        is_news = marks != imported.marks or any(brought.done.changed for brought in self._brought)
        if is_news and places and all(place.context for place in places):
            known = imported.read_layout(self._store)
            if (layout := known.renewed(places)) != known:
                # the hash of the whole is not known now
                cursor = Cursor(imported.cursor.offset, "", layout.count, stamps.main)
                kept = self._keep_layout(layout).hex()
                yield from self._note(
                    msgspec.structs.replace(imported, layout=kept, marks=marks, cursor=cursor, beside=stamps.beside)
                )
        done = [brought.done for brought in self._brought if brought.done.changed]
        # the last row is read at every look
        self.look = None if done or self.problems or self.left_out or self.overtaken else look
        return done

    def _parts(self, data: memoryview, rendered: Path | None) -> _Parts | None:
        spans = list(islice(self._format.spans(data, 0), MOST_RECORDS + 1))
        if len(spans) > MOST_RECORDS:
            raise DamageError(f"it has more than {MOST_RECORDS} records, which is too many for one file; split it")
        told = self._format.parts(self._source, data, spans)
        if told is None and rendered is not None:
            first = [bytes(data[span.start : span.end]) for span in spans[:_DESCRIBED_BY]]
            about = self._format.about(self._source, first)
            told = [Part(path_text(self._source.path), range(len(spans)), about)]
        if told is None:
            return None
        parts = _Parts(self._store, self._format, data, spans, settled(told, len(spans)), self._file)
        between = len(data) - sum(map(parts.size, range(len(parts.parts))))
        if between > max(LEAST_BETWEEN, len(data) // BETWEEN):
            raise DamageError(f"{between} of its {len(data)} bytes are no conversations; it is not read")
        return parts

    def _pruned(self, parts: _Parts, at: int) -> int:
        """Return the old id of the part at a position if it is left out because it was deleted, else 0."""
        if self._with_pruned or parts.known(at) is not None:
            return 0
        return self._store.catalogue.pruned("part", self._source.format, parts.key(at))

    def _surveyed(self, parts: _Parts, at: int) -> Done:
        """Return the expected outcome for a conversation: whether it is new, has other records, or another last one."""
        part, known = parts.parts[at], parts.known(at)
        count = part.shared + len(part.records)
        changed = known is None or branch.length(self._store.records.runs(known.imported_head)) != count
        if known is not None and not changed and part.records:
            last = self._store.turns.get(known.imported_head).payload_hash
            changed = last != hash_bytes(parts.record(part.records[-1]))
        return Done(changed=changed, new=known is None)

    def _bring(
        self, snapshot: Snapshot, parts: _Parts, stamps: Stamps, progress: Progress | None
    ) -> Generator[Request | None, None, list[Share]]:
        """Bring in the conversations, bases before their branches; return the file's share of each."""
        at = positions(parts.parts)
        found: dict[int, _Brought] = {}
        label = path_text(self._source.path.name)
        for level in levels(parts.parts):
            for number in level:
                part = parts.parts[number]
                base = found[part.base] if part.base >= 0 else None
                if base is not None and not base.context:
                    # the failure has been reported
                    found[number] = base
                    continue
                gone = self._pruned(parts, number)
                if base is not None and not base.tip and parts.known(number) is None:
                    # what it begins with was deleted
                    gone = base.context
                if gone:
                    found[number] = _Brought(Done(), context=gone)
                    self.left_out += 1
                    continue
                try:
                    brought = self._part(snapshot, parts, number, base, stamps.modified_ms)
                except (ConvfsError, OSError):
                    raise
                except Exception as error:
                    # the other conversations of the file are as good as ever
                    self.problems.append(f"{path_text(self._source.path)}: {parts.key(number)}: {told(error)}")
                    found[number] = _Brought(Done())
                    continue
                found[number] = brought
                self._brought.append(brought)
                if progress:
                    progress(parts.size(number), label)
                if self._group.full:
                    self._group.commit()
                    self._settle()
            # what branches off these follows turns that have been committed
            yield None
            self._settle()
        return [
            Share(
                parts.key(number),
                found[number].context,
                found[number].tip,
                runs_of([at[record] for record in part.records]),
                part.base,
                part.shared,
            )
            for number, part in enumerate(parts.parts)
        ]

    def _part(self, snapshot: Snapshot, parts: _Parts, at: int, base: _Brought | None, modified_ms: int) -> _Brought:
        """Read one conversation; its new part waits for a commit."""
        store, source, part, known = self._store, self._source, parts.parts[at], parts.known(at)
        records = RecordIntake(store, self._group, self._format, source, known, self.unseen, self._unclaimed)
        if known is not None and (tip := self._heads.get(str(known.id))):
            # what was pruned since is not compared with
            with suppress(ConvfsError):
                # patches cannot be continued from a record in the middle
                records.replace(tip, () if patch_of(tip) else store.records.runs(tip))
        shared: tuple[tuple[int, int], ...] = ()
        if base is not None:
            # if the base was deleted, its branches still have the shared records
            above = base.tip or (known.imported_head if known else 0)
            shared = tuple(branch.part(store.records.runs(above), 0, part.shared))
            records.follow(shared)
        for record in part.records:
            span = parts.spans[record]
            data = snapshot.data[span.start : span.end]
            records.take(self._format.main_type, data, shifted(snapshot.passed, span.start))
            snapshot.passed(span.start)
        size = parts.size(at)
        elsewhere = known is not None and known.metadata.get("file") != self._file
        # the same as in a file of another machine is no news either; of what came from another store, this is the file
        of_others = known is not None and CAME_FROM not in known.metadata and bool(claimed(store, known))
        news_from = records.kept + int(of_others)
        if elsewhere and not records.added and 0 < records.number < news_from:
            # an older file than the one that it came from last
            done = records.done({}, size, changed=False)
        else:
            records.look_again()
            self._redacted = self._redacted or bool(records.redacted)
            repositories, names = self._group.repositories, self._group.names
            if known is not None:
                changes = news(store, repositories, names, part.about, source, known)
            else:
                session = part.about.session_id or part.key
                changes = introduction(store, repositories, names, part.about, source, session, modified_ms)
                changes["part"] = parts.key(at)
                if base is not None and base.context:
                    changes["forked_from"] = {"context": base.context, "turn": branch.position(shared, part.shared)}
            more: dict[str, object] = {"file": self._file, "missing": records.missing or None}
            if known is not None:
                more |= claimed(store, known)
                if CAME_FROM in known.metadata:
                    more["source"] = path_text(source.path)
            before = known.metadata if known else {}
            changes |= {name: value for name, value in more.items() if before.get(name) != value}
            done = records.end(changes, size)
        brought = _Brought(done, known, bool(records.missing))
        self._waiting.append((brought, records))
        return brought

    def _settle(self) -> None:
        """Take the outcomes of what has been committed."""
        waiting, self._waiting = self._waiting, []
        for brought, records in waiting:
            error = records.ending.error if records.ending else None
            self.overtaken = self.overtaken or isinstance(error, Overtaken)
            if error is not None:
                self.problems.append(f"{brought.done.project}/{brought.done.name}: {told(error)}")
                continue
            appended = records.appender.context if records.appender else 0
            brought.context = brought.known.id if brought.known else appended
            brought.tip = records.tip

    def _with_original(self, now: ImportedFile, rendered: Path | None, before: object) -> ImportedFile:
        """Return ``now`` with the file itself, if that must be kept; ``before`` is the state in which it was read."""
        if rendered is None or not (self._by_hand or self._format.keeps_file) or self._redacted:
            # the file itself would bring a redacted secret back
            return now
        blobs = keep_original(self._source, rendered, self._group.load)
        if not has_copies(rendered) and file_state(self._source) != before:
            self.problems.append(
                f"{path_text(self._source.path)}: it was written to while it was read: its conversations are here,"
                " but not the file itself"
            )
            return now
        return msgspec.structs.replace(now, original=blobs, original_of=now.layout)

    def _stand_for(self) -> Request:
        described = {"layout_of": path_text(self._source.path), "format": self._source.format} | on_machine(self._store)
        still = self._unclaimed.still(described) if self._unclaimed else None
        return Request(None, changes=msgspec.json.encode(described), move_head=False, still=still)

    def _note(self, imported: ImportedFile) -> Generator[Request | None, None, None]:
        changes = changes_of(imported, self._store.catalogue.entry(self._file).metadata)
        if changes:
            noting = Request(self._file, changes=msgspec.json.encode(changes), move_head=False)
            yield noting
            _done(noting)

    def _keep_layout(self, layout: Layout) -> Hash:
        """Store the layout; the part in common with the one before is not stored again."""
        encoded = layout.encode()
        if len(encoded) > MAX_CUT_BYTES:
            return stored(self._group.load, memoryview(encoded))
        before = self._imported.layout if self._imported else ""
        earlier = {hash_bytes(encoded): Hash(bytes.fromhex(before))} if before else {}
        return self._group.load.payloads([encoded], earlier)[0]


def _done(request: Request) -> Request:
    if request.error is not None:
        raise request.error
    return request


def _between(snapshot: Snapshot, parts: _Parts) -> Envelope:
    """Return the bytes between the spans of conversations; the other spans are part of them."""
    builder, end, data = EnvelopeBuilder(), 0, snapshot.data
    for record in positions(parts.parts):
        span = parts.spans[record]
        builder.gap(bytes(data[end : span.start]))
        end = span.end
        snapshot.passed(end)
    return builder.close(bytes(data[end:]))
