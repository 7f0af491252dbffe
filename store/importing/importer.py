"""Importing sessions: the new part of each, whole or not at all.

A session's records go in as turns that no branch shows yet, a batch at a time; its conversation appears (or grows)
with one last commit that moves the head and keeps the cursor; those of small sessions are made together. Interrupted
anywhere, the next import begins that session again and finds its content already there.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct, UnsetType, field, structs

from store import paths as paths_of_store
from store.content import zstd
from store.disk.files import temporary_folder
from store.errors import ConvfsError, Fault, Gone, StoreFailed, told
from store.formats.core import sqlite
from store.formats.core.format import Format, Source
from store.formats.core.look import Look, read_head
from store.formats.registry import FORMATS, WITH_GUESSES, format_named, is_guess, learn, learned, packing
from store.helper import processes
from store.importing import cxdb
from store.importing.crew import Crew, Records
from store.importing.group import GROUP_BYTES, GROUP_FILES, MUCH_BYTES, Group
from store.importing.identity import Known, Moved, Sureness
from store.importing.provenance import Imported, ImportedFile, missing_of, read_as
from store.importing.records import Done, RecordIntake
from store.importing.session import Ahead, FileImport, NothingNew, Progress, SessionImport, unpacked_path
from store.importing.snapshot import is_rendered, path_text, rendition, text_path, unchanged
from store.importing.unclaimed import Overtaken, Unclaimed
from store.importing.unseen import Unseen
from store.importing.walk import Found, Skipped, Unreadable, is_empty, oldest_first, walk
from store.index.catalogue import ContextEntry
from store.store import Store

_LOG = logging.getLogger(__name__)


_Offered = tuple[Sequence[Format], list[Format]]
"""Formats, and those among them that users described then: to tell, none of the others need be loaded."""


class _Seen(Struct, frozen=True):
    """A file of many conversations that has no text: its format, out of those it was offered to, and the last look."""

    format: Format
    offered: _Offered
    look: NothingNew | None


_seen: WeakKeyDictionary[Store, dict[Path, _Seen]] = WeakKeyDictionary()
"""The databases that are looked at again and again, by store."""

_AHEAD_BYTES = 64 << 20
_AHEAD = 1024
"""The bytes of the sessions, and the number of files, that are found ahead of those that are imported."""
_SAMPLED = 16
"""Of a session of thousands of files, about so many tell how large they all are."""
_PATIENCE = 8
"""How often a session is looked for, while other machines bring it in."""


class Counts(Struct):
    """How many conversations of one tool an import brought, or found unchanged."""

    imported: int = 0
    grown: int = 0
    unchanged: int = 0


class Planned(Struct, frozen=True):
    """The outcome that an import of one file would have: how many conversations of it are ``new``, or have ``grown``.

    ``name`` is that of the conversation, "" for a new one, and for several.
    """

    path: str
    format: str
    new: int
    grown: int
    name: str = ""


class ImportReport(Struct):
    """The outcome of an import: counts of sessions, but ``skipped`` of files and ``records`` of records.

    ``pruned`` counts those that were here, were deleted for good, and so were left out.
    ``opaque`` counts records too large to be looked into. ``errors`` lists, a line each, what could not be imported, or
    was left out of a session that was; ``warnings``, a line a session, missing content that it refers to, which stays a
    reference, or that much of its text is in no event. ``conversations`` are the names of the new and changed ones.
    ``tools`` are the counts by format; ``planned`` is what a dry run would have brought. ``put_off``: in so many
    seconds, a database that is watched is to be looked at again, for what was left out as it costs much.
    """

    imported: int = 0
    grown: int = 0
    unchanged: int = 0
    skipped: int = 0
    records: int = 0
    opaque: int = 0
    bytes_read: int = 0
    errors: list[str] = []
    conversations: list[str] = []
    warnings: list[str] = []
    pruned: int = 0
    tools: dict[str, Counts] | UnsetType = UNSET
    planned: list[Planned] | UnsetType = UNSET
    put_off: float | UnsetType = UNSET


class Importer:
    """Imports sessions into one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(
        self,
        paths: Sequence[Path],
        *,
        format_name: str | None = None,
        dry_run: bool = False,
        by_hand: bool = True,
        pruned: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import the sessions at or under ``paths``; ``dry_run`` only counts them.

        ``format_name`` is the only format to look for ("" or None: all); a file that is named itself is taken for
        that, whatever it looks like.

        ``by_hand``: databases and archives are kept whole, so that an export gives back the very same file. Not for
        what is imported again and again as it grows. ``pruned``: also what was here and was deleted for good.

        Each failure is an entry in the report's ``errors`` and stops nothing else, except StoreFailed: after that,
        nothing more can be imported.
        """
        # a page may have been written since the store was opened
        wrong = learn(self._store.root / paths_of_store.FORMATS)
        formats: Sequence[Format] = (format_named(format_name),) if format_name else FORMATS
        teller = _Told(progress) if progress else None
        run = _Run(self._store, formats, teller, dry_run, by_hand, pruned, Group(self._store), Moved(self._store))
        run.seen = _seen.setdefault(self._store, {})
        try:
            for path in paths:
                try:
                    if not format_name and cxdb.is_data(path):
                        run.take_data(path)
                    else:
                        run.take_all(path, guess=bool(format_name))
                except (ConvfsError, OSError):
                    raise
                except Exception as error:
                    run.failed(path, error)
            run.take_later()
            run.commit()
            run.show_arrived()
        finally:
            run.release()
            run.dismiss()
            run.kept_open.close()
        run.report.warnings.extend(wrong)
        return structs.replace(run.report, tools=run.tools, planned=run.planned if dry_run else UNSET)


class _Told:
    """Tells the progress of an import. What that raises, ``error``, ends it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.error: Exception | None = None

    def __call__(self, size: int, session: str) -> None:
        try:
            self._progress(size, session)
        except Exception as error:
            self.error = error
            raise


class _File(Struct):
    """A file of many conversations that is being imported, of so many bytes; ``known`` is its context before that."""

    source: Source
    format: Format
    known: ContextEntry | None
    steps: FileImport
    size: int


class _Run(Struct):
    """One import. While sessions wait for their commit, no other import of the store runs."""

    store: Store
    formats: Sequence[Format]
    progress: _Told | None
    dry_run: bool
    by_hand: bool
    pruned: bool
    group: Group
    moved: Moved
    report: ImportReport = field(default_factory=ImportReport)
    tools: dict[str, Counts] = {}
    planned: list[Planned] = []
    later: list[Source] = []
    """Sessions that another machine may have imported, and that are looked for once more in the end."""
    waiting: dict[Path, tuple[Source, Done, RecordIntake]] = {}
    """The outcomes of the sessions that wait for their commit, by path."""
    files: dict[Path, _File] = {}
    """The new files of many conversations that wait for their next step, by path: while sessions wait, none does."""
    holds: bool = False
    crew: Crew | None = None
    """The processes that help."""
    new_bytes: int = 0
    """The bytes of new sessions, and new files of many, that were found."""
    alone: bool = False
    """True if there are none, and are to be none."""
    scratch: Path | None = None
    """The folder for what is written of files that are no text, made once there is one: each costs a process."""
    packed: dict[str, list[str]] = {}
    """By the name of a format, those of the formats of files that hold such sessions compressed."""
    kept_open: ExitStack = field(default_factory=ExitStack)
    seen: dict[Path, _Seen] = {}
    ahead: Ahead | None = None
    """The session that was read while no other import waited for this one."""

    def take_all(self, path: Path, *, guess: bool) -> None:
        """Import the sessions at or under ``path``; with ``guess``, a file is a session of the first of the formats."""
        if not guess and self._rests(path):
            return
        report = self.report
        nothing = True
        apart = frozenset([Path(os.path.abspath(self.store.root))])
        # what is named itself may be of a tool that nobody knows
        formats = self.formats if guess or not path.is_file() else WITH_GUESSES
        if not guess and (seen := self.seen.get(path)) is not None and seen.offered == (self.formats, learned()):
            formats = (seen.format, *formats)
        every = walk(path, formats, lambda at: self._as_it_was(at, self._known(at)), apart, guess=guess)
        for found in self._ahead(oldest_first(every)):
            if isinstance(found, Skipped):
                report.skipped += 1
                continue
            nothing = False
            if isinstance(found, Source) and self._has_not_begun(found):
                report.skipped += 1
            elif isinstance(found, Source):
                self._take(found)
            elif isinstance(found, Unreadable):
                report.errors.append(f"{path_text(found.path)}: {found.reason}")
            else:
                known = self._known(found.path) or self._file(found.path)
                self._unchanged(known.format if known else "")
        if nothing:
            # imported here, as few files are named that hold nothing, and to read archives takes megabytes
            from store.formats.core.archives import is_archive
            from store.importing.skipped import reason

            of = self.formats[0].name if len(self.formats) == 1 else "a tool that is known (`convfs formats`)"
            head = read_head(path) or b"\0"
            more = "; --as-text takes a plain log" if len(self.formats) > 1 and b"\0" not in head else ""
            more = f": {reason(path)}" if is_archive(head) else more
            report.errors.append(f"{path_text(path)}: holds no session of {of}{more}")

    def _rests(self, path: Path) -> bool:
        """Return whether a database, in which the last look found nothing new, seems to be as it was then."""
        seen = self.seen.get(path)
        if seen is None or seen.look is None or self.by_hand or self.pruned or self.dry_run:
            return False
        file = self._file(path)
        if file is None or read_as(file.metadata, ImportedFile) != seen.look.imported:
            return False
        if seen.offered != (self.formats, learned()) or not seen.format.rests(path, seen.look.imported.marks):
            return False
        self._put_off(seen.format.put_off(path))
        self._unchanged(seen.format.name)
        return True

    def _put_off(self, seconds: float) -> None:
        if seconds:
            self.report.put_off = seconds

    def take_later(self) -> None:
        """Import the sessions that were left for the end, in the order in which it is sure what they are."""
        for least in (Sureness.BY_RECORDS, Sureness.BY_ID):
            self.commit()
            self.moved.least = least
            later, self.later = self.later, []
            for source in later:
                self._take(source)

    def _ahead(self, all_found: Iterator[Found]) -> Iterator[Found]:
        """Yield what was found, a little later: meanwhile other processes prepare what is new."""
        waiting: deque[tuple[Found, int]] = deque()
        total = 0
        for found in all_found:
            size = self._size_for_others(found) if isinstance(found, Source) else 0
            waiting.append((found, size))
            total += size
            if self.crew is not None:
                self._give(found, size)
            elif total >= MUCH_BYTES and not self.alone:
                self._begin_crew()
                for earlier in waiting:
                    self._give(*earlier)
            while total > _AHEAD_BYTES or len(waiting) > _AHEAD:
                first, size = waiting.popleft()
                total -= size
                yield first
        while waiting:
            yield waiting.popleft()[0]

    def _size_for_others(self, source: Source) -> int:
        """Count what is new; return the bytes of a new session that others can prepare, 0 if none can."""
        has_parts = _may_have_parts(format_named(source.format), source)
        if self.dry_run or (self._file if has_parts else self._known)(source.path) is not None:
            return 0
        try:
            size = _size_of(source)
        except OSError:
            return 0
        self.new_bytes += size
        if self.group.measures and self.new_bytes >= MUCH_BYTES:
            self.group.measures = False
            self.kept_open.enter_context(self.store.files.index.gathering())
        return 0 if has_parts or self.alone else size

    def _begin_crew(self) -> None:
        try:
            if count := processes():
                formats, scratch = self.store.root / paths_of_store.FORMATS, self.store.files.aside.scratch
                self.crew = Crew(count, self.store.intake.inline_limit, scratch, formats)
        except OSError as error:
            _LOG.info("the import goes on in one process: %s", error)
        self.alone = self.crew is None

    def _give(self, found: Found, size: int) -> None:
        if self.crew is not None and size and isinstance(found, Source):
            self.crew.give(found, size)

    def dismiss(self) -> None:
        """End the processes that help."""
        if self.crew is not None:
            if lost := self.crew.lost:
                self.report.warnings.append(
                    f"{lost} of the processes that help with the import ended before it: it went on without them"
                )
            self.crew.close()

    def take_data(self, path: Path) -> None:
        """Take over a data directory of CXDB's server."""
        self.commit()
        try:
            with self.store.importing:
                taken = cxdb.take(self.store, path, dry_run=self.dry_run)
        except OSError as error:
            self.failed(path, error)
            return
        report, own = self.report, self.tools.setdefault("cxdb", Counts())
        for counts in (report, own):
            counts.imported += taken.imported
            counts.grown += taken.grown
            counts.unchanged += taken.unchanged
        report.records += taken.turns
        report.errors += taken.errors

    def commit(self) -> None:
        self._commit_waiting()
        self.release()

    def _commit_waiting(self) -> None:
        self._finish_files()
        for count in range(_PATIENCE):
            waiting, self.waiting = self.waiting, {}
            self.group.commit()
            for path, (source, done, records) in waiting.items():
                error = records.ending.error if records.ending else None
                if error is None:
                    self._came(source, done, records.unseen)
                elif isinstance(error, Overtaken) and count + 1 < _PATIENCE:
                    self._try(source)
                else:
                    self.failed(path, error)
            if not self.waiting:
                break

    def _finish_files(self) -> None:
        """Do the further steps of the files that wait, each of all of them together."""
        files, self.files = [*self.files.values()], {}
        while files:
            try:
                self.group.commit()
                self.store.writer.submit_all([file.steps.request for file in files if file.steps.request is not None])
            except Exception as error:
                for file in files:
                    file.steps.close()
                    self.failed(file.source.path, error)
                return
            files = [file for file in files if self._goes_on(file)]

    def _goes_on(self, file: _File) -> bool:
        """Do the next step of a file; return whether there is another."""
        path = file.source.path
        try:
            with suppress(Gone):
                if file.steps.go_on():
                    return True
                if not file.steps.overtaken:
                    self._file_came(file)
                    return False
            # another machine was first, or has deleted what was found: it is read once more
            self._import_parts(file.source, file.format, alone=True)
        except Exception as error:
            self.failed(path, error)
        return False

    def show_arrived(self) -> None:
        """Redraw the conversations that refer to content which was missing and is now here."""
        arrived = {digest.hex() for digest in self.group.arrived}
        for entry in self.store.catalogue.having("missing") if arrived else ():
            missing = missing_of(entry.metadata)
            left = {digest: number for digest, number in missing.items() if digest not in arrived}
            if len(left) < len(missing):
                self.store.records.forget(entry)
                self.store.texts.drop(self.store.records.runs(entry.head))
                self.store.contexts.set_metadata(entry.id, {"missing": left or None})

    def _take(self, source: Source) -> None:
        if source.path in self.waiting or source.path in self.files:
            self.commit()
        # two imports at once would both find a session new, or take the same name
        if not self.holds:
            self.ahead = self._read_ahead(source)
            self.store.importing.acquire()
            self.holds = True
        self._try(source)
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None
        files = self.files.values()
        if self.group.full or len(files) >= GROUP_FILES or sum(file.size for file in files) >= GROUP_BYTES:
            self.commit()
        elif not (self.waiting or self.files):
            self.release()

    def _read_ahead(self, source: Source) -> Ahead | None:
        """Read the main file of a session, which may take long; None for what is read otherwise."""
        format_, known = format_named(source.format), self._known(source.path)
        has_parts = _may_have_parts(format_, source) and not (known and format_.once_whole)
        if has_parts or format_.unpacked or self.dry_run or self.crew is not None:
            return None
        if self._as_it_was(source.path, known) is not None:
            return None
        try:
            return Ahead(source, known, self.store.files.aside.scratch)
        except (ConvfsError, OSError):
            # importing it tells why
            return None

    def _try(self, source: Source) -> None:
        for count in range(_PATIENCE):
            try:
                self._import(source, format_named(source.format))
            except Gone as error:
                # what another machine has deleted meanwhile is read once more
                if count + 1 == _PATIENCE:
                    self.failed(source.path, error)
            except Exception as error:
                self.failed(source.path, error)
                return
            else:
                return

    def _import(self, source: Source, format_: Format) -> None:
        unclaimed = Unclaimed.now(self.store, path_text(source.path))
        known = self._known(source.path)
        if self._as_it_was(source.path, known) is not None:
            self._unchanged(source.format)
            return
        own_path = path_text(unpacked_path(format_, source.path))
        if known is None and not self.pruned and self.store.catalogue.pruned("source", own_path):
            self.report.pruned += 1
            return
        goes_on = known is not None and format_.once_whole
        found = self._before_packing(source, format_) if format_.unpacked and known is None else None
        goes_on = goes_on or bool(format_.unpacked and (known or found))
        if _may_have_parts(format_, source) and not goes_on and self._import_parts(source, format_):
            return
        self._finish_files()
        prepared = self.crew.of(source) if self.crew is not None and known is None else None
        if known is None and (found := found or self._known_elsewhere(source, format_, prepared)):
            if found.later:
                self.later.append(source)
                return
            if found.older:
                self._unchanged(source.format)
                return
            known = found.entry
        if self.dry_run:
            self._count(source, Done(changed=True, new=known is None))
            name = f"{known.project}/{known.name}" if known and known.name else ""
            counts = (int(known is None), int(known is not None))
            self.planned.append(Planned(path_text(source.path), source.format, *counts, name))
            return
        prepared = prepared if known is None else None
        ahead = self.ahead if self.ahead and self.ahead.source is source else None
        session = SessionImport(
            self.store, self.group, format_, source, known, prepared=prepared, unclaimed=unclaimed, ahead=ahead
        )
        done = session.run(self.progress)
        if session.records.ending:
            self.waiting[source.path] = source, done, session.records
        else:
            self._came(source, done, session.records.unseen)

    def _before_packing(self, source: Source, format_: Format) -> Known | None:
        """Return the conversation of a compressed session that came in before it was compressed."""
        # its lines may have come in a moment ago
        self._commit_waiting()
        with rendition(self._scratch(), format_, source) as unpacked:
            return self.moved.to(format_named(format_.unpacked), source, unpacked)

    def _known_elsewhere(self, source: Source, format_: Format, prepared: Records | None) -> Known | None:
        """Return the conversation of a session that came in compressed, and lies there as lines, or was elsewhere."""
        path = path_text(source.path.with_name(source.path.name + zstd.SUFFIX))
        if (packed := self.packed.get(format_.name)) is None:
            packed = self.packed[format_.name] = packing(format_.name)
        entries = (entry for name in packed for entry in self.store.catalogue.by_origin("part", name, path))
        return next(map(Known, entries), None) or self.moved.to(
            format_, source, packed=packed, whole=prepared.at_once() if prepared is not None else None
        )

    def _scratch(self) -> Path:
        if self.scratch is None:
            self.scratch = self.kept_open.enter_context(temporary_folder(self.store.files.aside.scratch))
        return self.scratch

    def _import_parts(self, source: Source, format_: Format, *, alone: bool = False) -> bool:
        """Import a file of many conversations; return whether it is one.

        A small new one waits for its next step, so that others can do theirs with it, unless it goes in ``alone``.
        """
        if self.waiting:
            self._commit_waiting()
        for _time in range(_PATIENCE):
            unclaimed, known = Unclaimed.now(self.store), self._file(source.path)
            steps = FileImport(
                self.store,
                self.group,
                format_,
                source,
                known,
                unclaimed,
                by_hand=self.by_hand,
                pruned=self.pruned,
                scratch=self._scratch if is_rendered(format_) else None,
                look=seen.look if (seen := self.seen.get(source.path)) and seen.format is format_ else None,
            )
            size = 0 if alone or self.dry_run or known else os.stat(source.main).st_size
            file = _File(source, format_, known, steps, size)
            if not 0 < size < GROUP_BYTES:
                self._finish_files()
                steps.run(self.progress, dry_run=self.dry_run)
            elif steps.begin(self.progress):
                if all(steps.keys.isdisjoint(other.steps.keys) for other in self.files.values()):
                    self.files[source.path] = file
                    return True
                # what is in two files is one conversation, if it goes on from what is known of it
                steps.close()
                self._finish_files()
                continue
            if not steps.overtaken:
                break
        if steps.found is None:
            return False
        self._file_came(file)
        return True

    def _file_came(self, file: _File) -> None:
        source, format_, steps = file.source, file.format, file.steps
        path, found, is_new = path_text(source.path), steps.found or [], file.known is None
        if is_rendered(format_):
            self.seen[source.path] = _Seen(format_, (self.formats, learned()), steps.look)
        self._put_off(steps.put_off)
        self.report.errors += steps.problems
        self.report.pruned += steps.left_out
        if not found and is_new and format_.claim(Look(source.path)) is None:
            self.report.errors.append(f"{path}: holds nothing that can be read as {format_.name}")
        elif not found and is_new and self.by_hand and _is_damaged(source.path):
            self.report.errors.append(f"{path}: it is a damaged database, in which no session can be read")
        elif not found and not steps.left_out:
            self._unchanged(source.format)
        for done in found:
            self._count(source, done)
        if self.dry_run and (changed := [done.new for done in found if done.changed]):
            counts = (changed.count(True), changed.count(False))
            self.planned.append(Planned(path, source.format, *counts))
        self._warn(path, source.path, steps.unseen)

    def release(self) -> None:
        if self.holds:
            self.holds = False
            self.store.importing.release()

    def _came(self, source: Source, done: Done, unseen: Unseen) -> None:
        self._count(source, done)
        name = f"{done.project}/{done.name}"
        if is_guess(source.format):
            self.report.warnings.append(f"{name}: no tool is known that writes such a file: it is read as a guess")
        self._warn(name, source.path, unseen)

    def _warn(self, who: str, path: Path, unseen: Unseen) -> None:
        warning = unseen.end()
        if unseen.fault:
            self.report.errors.append(f"{path_text(path)}: kept, with records shown as they are: {unseen.fault}")
        elif warning:
            self.report.warnings.append(f"{who}: {warning}")

    def _unchanged(self, tool: str) -> None:
        self.report.unchanged += 1
        self._of_tool(tool).unchanged += 1

    def _of_tool(self, tool: str) -> Counts:
        return self.tools.setdefault(tool, Counts())

    def _count(self, source: Source, done: Done) -> None:
        report, own = self.report, self._of_tool(source.format)
        report.records += done.records
        report.opaque += done.opaque
        report.bytes_read += done.bytes_read
        report.errors += done.problems
        if done.missing:
            more = f" ({len(done.missing)} such)" if len(done.missing) > 1 else ""
            report.warnings.append(f"{done.project}/{done.name}: {done.missing[0]}{more}")
        if not done.changed:
            self._unchanged(source.format)
            return
        if not self.dry_run:
            report.conversations.append(f"{done.project}/{done.name}")
        if done.new:
            report.imported += 1
            own.imported += 1
        else:
            report.grown += 1
            own.grown += 1

    def failed(self, path: Path, error: Exception) -> None:
        if isinstance(error, StoreFailed) or (self.progress is not None and error is self.progress.error):
            raise error
        if isinstance(said := told(error), Fault):
            _LOG.info("%s is not imported", path, exc_info=error)
        self.report.errors.append(f"{path_text(path)}: {said}")

    def _known(self, path: Path) -> ContextEntry | None:
        entry = self.store.catalogue.by_source(path_text(path))
        if entry is None and path.suffix == zstd.SUFFIX:
            entry = self.store.catalogue.by_source(path_text(path.with_suffix("")))
        return None if entry is None or "part" in entry.metadata else entry

    def _file(self, path: Path) -> ContextEntry | None:
        return next(iter(self.store.catalogue.by_origin("layout", path_text(path))), None)

    def _has_not_begun(self, source: Source) -> bool:
        try:
            return is_empty(source) and self._known(source.path) is None
        except OSError:
            return False

    def _as_it_was(self, path: Path, session: ContextEntry | None) -> list[str] | None:
        """Return the files of the session at ``path``, or of the file of many, if it is known and unchanged."""
        if session is not None:
            imported = read_as(session.metadata, Imported)
            if imported is None or imported.missing:
                return None
            return _beside(path, imported, imported.first)
        if (entry := self._file(path)) is not None:
            file = read_as(entry.metadata, ImportedFile)
            if file is None or file.incomplete or self.pruned or (self.by_hand and not file.has_original):
                return None
            return _beside(path, file)
        return None


def _is_damaged(path: Path) -> bool:
    return Look(path).is_database and sqlite.is_damaged(path)


def _may_have_parts(format_: Format, source: Source) -> bool:
    """Return whether a file of a format may hold many conversations; several files are one."""
    return not source.first and (type(format_).parts is not Format.parts or is_rendered(format_))


def _size_of(source: Source) -> int:
    """Return about how many bytes a session has. Raises OSError if a file cannot be looked at."""
    sampled = source.first[:: len(source.first) // _SAMPLED + 1]
    size = sum(os.stat(file).st_size for file in sampled)
    return os.stat(source.main).st_size + (size * len(source.first) // len(sampled) if sampled else 0)


def _beside(path: Path, known: Imported | ImportedFile, first: tuple[str, ...] = ()) -> list[str] | None:
    """Return the files that belong to ``path`` and lie beside it if all is as it was imported, else None."""
    if not unchanged(path / text_path(known.main), known.cursor, known.beside):
        return None
    folder = path if known.main else path.parent
    return [os.path.normpath(folder / text_path(name)) for name in (*first, *known.sidecars)]
