"""Identity of sessions: the conversation that a session at a new path is.

A tool that archives a session, and a person who renames a project's folder, move files. Ids alone do not tell, since
copies have the same: the file must also begin as the session did when it was imported last, and nothing may be left at
its old path. A session that lies as lines in one place and compressed in another is one, of whichever file has more.

Of another machine nobody knows what is left there. So a session that another machine of a space has imported, or that
came from another store, is the same one if it has the tool's id of it, and one of the two begins as the other. Then the
conversation belongs to whoever has more of it: one session in a home directory that machines share is one conversation.
Where both have gone on, each is a conversation of its own.

Several files may have one id: checkpoints, copies, damaged copies. Each is a conversation of its own on one machine,
and so in a space. So a file is first the conversation that came from where it lies, then one of the same records; and
another one only once the other files of the import have found theirs.
"""

import os
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice, takewhile
from pathlib import Path

from msgspec import Struct

from store.content import zstd
from store.formats.core.format import Format, Source
from store.formats.core.look import open_regular
from store.ids import hash_bytes
from store.importing.description import clean
from store.importing.likeness import Continuation, Relation, begins_with
from store.importing.prepared import Whole
from store.importing.provenance import Imported, read_as
from store.importing.reading import FIRST_BYTES, FIRST_RECORDS, LOOKED_AT, beginning
from store.importing.snapshot import Snapshot, begins, path_text, text_path
from store.importing.walk import leads_into, own_mounts
from store.index.catalogue import ContextEntry
from store.index.origins import origin
from store.store import Store

_MOST = 64
"""The most sessions of the same id, or the same beginning, that are looked at."""
_PLACE = 2
"""The names at the ends of two paths that make them one place: one alone may be in many folders."""


class Sureness(IntEnum):
    """By what a file is the conversation of another machine, the surest first."""

    BY_PLACE = 0
    BY_RECORDS = 1
    BY_ID = 2


class Known(Struct, frozen=True):
    """The conversation that a session is.

    ``older``: it has all that the file has, from another machine. ``later``: it is to be looked for once more, when
    other files have found theirs, since it may be that of one of them.
    """

    entry: ContextEntry
    older: bool = False
    later: bool = False


class Moved:
    """Finds in ``store`` the sessions that are known by another path. Used for one import."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mounts = own_mounts()
        self._found: dict[int, Path] = {}
        """The conversations whose sessions have been found, and where: another file is another session."""
        self._by_path: dict[Path, int] = {}
        self.least = Sureness.BY_PLACE
        """How sure it must be that a conversation of another machine is that of a file; others are for later."""

    def to(
        self,
        format_: Format,
        source: Source,
        unpacked: Path | None = None,
        packed: Sequence[str] = (),
        whole: Whole | None = None,
    ) -> Known | None:
        """Return the conversation of a session, None for a new one. UsageError or OSError if it cannot be read.

        Its records are in ``unpacked`` if the session's file holds them compressed. ``packed`` are the names of the
        formats of files that hold such sessions compressed. ``whole`` is the session, if it was read already.
        """
        main = unpacked or source.main
        if whole is not None and whole.about is not None:
            about, begins_as = whole.about, whole.begins
        else:
            records = [*(Path(path).read_bytes() for path in source.first[:LOOKED_AT]), *_first(format_, main)]
            about = format_.about(source, records)
            begins_as = [beginning(record, format_) for record in records[:LOOKED_AT]]
        session = clean(about.session_id)
        # it may be looked for once more
        self._found.pop(self._by_path.pop(source.path, 0), None)
        marks = [origin("begins", format_.name, own) for own in begins_as]
        marks += [origin("session", name, session) for name in (format_.name, *packed)]
        # most sessions are new
        if not self._store.catalogue.has_any(marks):
            return None
        for entry, of_its_id in self._like(format_, source, session, begins_as):
            path = text_path(entry.source)
            # a file in a mount must not be looked at by its own daemon, and is there
            if leads_into(path, self._mounts):
                continue
            is_there = os.path.lexists(path)
            if of_its_id and (is_there if unpacked else not is_there and os.path.lexists(f"{path}{zstd.SUFFIX}")):
                if begins_with(self._store, entry, list(map(hash_bytes, self._records(format_, source, main)))):
                    return Known(entry, older=True)
            elif is_there:
                continue
            if self._goes_on(format_, source, main, entry, of_its_id=of_its_id):
                return self._is(source, Known(entry))
        found = self._store.catalogue.elsewhere("session", format_.name, session) if session else []
        others = [entry for entry in found if self._may_be(source, entry) and _has_main(entry) == _has_its(source)]
        for name in packed if session else ():
            others += self._store.catalogue.by_origin("session", name, session, most=_MOST)
        return self._of_others(format_, source, main, others) if others else None

    def _of_others(self, format_: Format, source: Source, main: Path, others: Sequence[ContextEntry]) -> Known | None:
        """Return which of some conversations of other machines a session is, None for none of them."""
        path = path_text(source.path)
        near = sorted(others, key=lambda entry: -_steps_alike(entry.source, path))[:_MOST]
        digests = [hash_bytes(record) for record in self._records(format_, source, main)]
        file = Continuation(self._store, format_, lambda: self._records(format_, source, main), digests)
        relations = [file.relation_to(entry, in_place=entry.source == path) for entry in near]

        def sureness(at: int) -> tuple[Sureness, int, bool]:
            steps, is_same = _steps_alike(near[at].source, path), relations[at] is Relation.SAME
            if steps >= _PLACE or near[at].source == path:
                return Sureness.BY_PLACE, -steps, not is_same
            return Sureness.BY_RECORDS if is_same else Sureness.BY_ID, -steps, not is_same

        found = [at for at, relation in enumerate(relations) if relation is not Relation.APART]
        if not found:
            return None
        best = min(found, key=sureness)
        if sureness(best)[0] > self.least:
            return Known(near[best], later=True)
        return self._is(source, Known(near[best], older=relations[best] is not Relation.NEWER))

    def _is(self, source: Source, known: Known) -> Known:
        self._found[known.entry.id] = source.path
        self._by_path[source.path] = known.entry.id
        return known

    def _may_be(self, source: Source, entry: ContextEntry) -> bool:
        other = self._found.get(entry.id, source.path)
        if other != source.path and (other.suffix == zstd.SUFFIX) == (source.path.suffix == zstd.SUFFIX):
            return False
        return bool(entry.source and entry.imported_head) and "part" not in entry.metadata

    def _like(
        self, format_: Format, source: Source, session: str, begins_as: list[str]
    ) -> Iterator[tuple[ContextEntry, bool]]:
        """Yield conversations imported from elsewhere, of the same id (then True), or with the same beginning."""
        seen: set[int] = set()
        origins = [("session", session), *(("begins", own) for own in begins_as)]
        for kind, own in origins if begins_as else ():
            for entry in self._store.catalogue.by_origin(kind, format_.name, own, most=_MOST):
                if entry.id not in seen and self._may_be(source, entry):
                    seen.add(entry.id)
                    yield entry, kind == "session"

    def _goes_on(
        self, format_: Format, source: Source, main: Path, entry: ContextEntry, *, of_its_id: bool
    ) -> bool:
        imported = read_as(entry.metadata, Imported)
        if imported is None or _has_main(entry) != _has_its(source):
            return False
        cursor = imported.cursor
        if cursor.offset > cursor.since and begins(main, cursor):
            return True
        now = Continuation(self._store, format_, lambda: self._records(format_, source, main))
        return (of_its_id or cursor.offset == 0) and now.goes_on_from(entry)

    def _records(self, format_: Format, source: Source, main: Path) -> Iterator[bytes]:
        yield from (Path(path).read_bytes() for path in source.first)
        with Snapshot(main, self._store.files.aside.scratch) as snapshot:
            for span in format_.spans(snapshot.data, 0):
                yield bytes(snapshot.data[span.start : span.end])
                snapshot.passed(span.end)


def _steps_alike(one: str, other: str) -> int:
    """Return how many names two paths have in common at their ends."""
    names = (path.removesuffix(zstd.SUFFIX).split("/")[::-1] for path in (one, other))
    return sum(1 for _name in takewhile(lambda pair: pair[0] == pair[1], zip(*names, strict=False)))


def _has_main(entry: ContextEntry) -> bool:
    return bool(entry.metadata.get("main"))


def _has_its(source: Source) -> bool:
    return source.main != source.path


def _first(format_: Format, path: Path) -> list[bytes]:
    """Return the records by which an import tells what a session is: its id may come after all that it begins with."""
    with open_regular(path) as file:
        head = file.read(FIRST_BYTES + 1)
    with memoryview(head) as data:
        spans = islice(format_.spans(data, 0), FIRST_RECORDS)
        ends = min(len(head), FIRST_BYTES)
        return [bytes(data[span.start : span.end]) for span in spans if span.end < ends or len(head) <= FIRST_BYTES]
