"""opencode's sessions: where they lie, how they are told from others, how they are read and written."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.formats.format import About, Format, Part, Source, Span
from store.formats.lines import line_spans
from store.formats.look import Look
from store.formats.opencode import rows, storage
from store.formats.opencode.lens import LENSES, OpencodeRowLens
from store.formats.sqlite.copying import MAGIC, files_beside, opened, reading, tables_of
from store.formats.sqlite.restoring import restore
from store.formats.sqlite.rows import HEADER, encode_row, parts_of, write_lines

_TABLES = {"message", "part", "project", "session"}
_BLANK = b" \t\r\n\0"


class Opencode(Format):
    """opencode, by the makers of SST."""

    name = "opencode"
    lenses = LENSES
    main_type = OpencodeRowLens.type_name

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the databases, or the folder of sessions where there is none: they take over what lay in files."""
        moved = os.environ if home == Path.home() else {}
        data = Path(moved.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
        databases = sorted(data.glob("opencode*.db"))
        if (named := moved.get("OPENCODE_DB", "")).startswith("/"):
            databases.insert(0, Path(named))
        yield from (path for path in dict.fromkeys(databases) if path.is_file())
        if not databases and (folder := data / "storage" / "session").is_dir():
            yield folder

    def claim(self, look: Look) -> Source | None:
        """Claim a database that has the tables, or the file of a session of an older version."""
        path = look.path
        if look.is_folder:
            return None
        if look.head.startswith(MAGIC):
            ours = tables_of(path, look.head) >= _TABLES
            return Source(self.name, path, path, beside=files_beside(path)) if ours else None
        if not storage.is_session(path, look.head):
            return None
        files = list(storage.records_of(path, look.head))
        return Source(
            self.name,
            path,
            path,
            first=tuple(file for file, _type in files),
            first_types=tuple(kind for _file, kind in files),
        )

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines of a database, or a session's file as a whole."""
        if bytes(data[: len(HEADER)]) == HEADER:
            yield from line_spans(data, start)
            return
        end = len(data)
        while end > start and data[end - 1] in _BLANK:
            end -= 1
        if end > start:
            yield Span(start, end)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session by its file; those of a database say what they are themselves."""
        return storage.describe(source.main)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the sessions of a database."""
        return parts_of(data, spans) if bytes(data[: len(HEADER)]) == HEADER else None

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        """Write the sessions of a database as lines."""
        if source.main.suffix == ".json":
            return None
        with reading(source.main, scratch) as database:
            return write_lines(rows.lines(database), scratch)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write the database with the cells that were edited."""
        with opened(original, target.parent) as database:
            before = (encode_row(row) for row in rows.lines(database))
            restore(original, before, rendition, target, rows.delete)
