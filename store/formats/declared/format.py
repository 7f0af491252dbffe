"""A described format: finding, recognising and cutting the sessions of its tool."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.events.event import Kind, ValuePath
from store.formats.core.format import About, Format, Resuming, Source, Span, Titled, first_line, last_part, line_spans
from store.formats.core.json_cuts import choice_of, cut_spans, steps_of
from store.formats.core.json_view import as_text, decode, is_object, object_in, place, value_at
from store.formats.core.lens import Nothing
from store.formats.core.look import Look, read_head
from store.formats.declared.description import Description, Fits
from store.formats.declared.lens import DeclaredLens, time_of, titles_in

_LOOKED_AT = 20
_LARGEST_BESIDE = 1 << 20
"""The bytes of a file beside a session that are read for what it says of that."""
_MOST_BESIDE = 1000
_NO_TITLES = frozenset(("", "untitled", "untitled session", "new session", "new chat", "new conversation"))
"""Titles by which tools call a session that they have not given one yet."""


def _spelled(places: str | list[str]) -> list[str]:
    return [places] if isinstance(places, str) else places


class _Place:
    """One of the places that tell something of a session: in its records, or in a file beside it."""

    def __init__(self, spelled: str) -> None:
        file, mark, where = spelled.rpartition("#")
        self.file, self.whole = file, bool(mark) and not file
        self.path: ValuePath = place(where)
        self.key = b"" if mark or not self.path else b'"%b"' % str(self.path[-1]).encode()


class DeclaredFormat(Format):
    """The tool that a description describes; a subclass may have a ``lens`` that sees more."""

    def __init__(self, said: Description, lens: DeclaredLens | None = None) -> None:
        self._said = said
        self._lens = lens or DeclaredLens(said)
        self.name = said.name
        self.lenses = (self._lens,)
        self.main_type = self._lens.type_name
        self._is_path = re.compile(f"(?:^|/){said.path}$").search if said.path else None
        self._detected = [Fits(one).holds for one in said.detect]
        self.choose = choice_of(*said.items)
        self.kept, self.describing = said.homes, frozenset(said.describing)
        self.native = said.homes if said.native else ()
        self.resuming = resuming_of(said)
        if said.container == "document":
            opening, closing = _around(said.items)
            self.joints = (opening, b",\n", closing)
        titles = [one.key for one in map(_Place, _spelled(said.session.title)) if one.key]
        self.titling = re.compile(b"|".join(map(re.escape, titles))) if titles else None

    def claim(self, look: Look) -> Source | None:
        """Claim a file in which one of the first records is as the description says; an empty one by its path."""
        if look.is_folder:
            return None
        if self._said.unless and look.path.with_name(self._said.unless.replace("{stem}", look.path.stem)).exists():
            return None
        fits_path = self.is_called_so(look.path)
        if self._said.container == "lines":
            records: Sequence[object] = look.objects(_LOOKED_AT)
        else:
            records = [look.document] if look.head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith((b"{", b"[")) else []
        if self._detected and any(fits(record) for record in records for fits in self._detected):
            return self.source(look.path)
        if fits_path and (not records or not self._detected):
            return self.source(look.path)
        return None

    def is_called_so(self, path: Path) -> bool:
        """Return whether the end of a path is as the description says that those of sessions are."""
        return self._is_path is not None and self._is_path(path.as_posix()) is not None

    def source(self, path: Path) -> Source:
        found: dict[str, Path] = {}
        folder = path.parent
        for pattern in self._said.besides:
            for file in sorted(folder.glob(pattern.replace("{stem}", path.stem))):
                if file != path and file.is_file() and not file.is_symlink() and len(found) < _MOST_BESIDE:
                    found[str(file.relative_to(folder))] = file
        return Source(self.name, path, path, sidecars=tuple(sorted(found.items())))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        if self._said.container == "lines":
            return line_spans(data, start)
        return cut_spans(data, start, self.choose)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session by the places that the description names, and by its path."""
        said = self._said.session
        telling = _Telling(source, records, self.document)
        path = self._is_path(source.path.as_posix()) if self._is_path else None
        named = path.groupdict() if path else {}
        title = telling.last(_spelled(said.title))
        directory = _as_path(telling.first(_spelled(said.directory)))
        extra = {"cwd": directory} if directory else {}
        extra |= {name: value for name, where in said.more.items() if (value := telling.first([where]))}
        parent = telling.first(_spelled(said.parent)) or named.get("parent") or ""
        if parent:
            extra |= {"agent": named.get("agent") or source.path.stem, "parent_session": parent}
        project = telling.first(_spelled(said.project)) or last_part(directory)
        started = telling.value(_spelled(said.started))
        return About(
            title=first_line(title or self._request(records)),
            project=project or named.get("project") or "",
            started_ms=time_of(started) if started is not None else self._first_time(records),
            session_id=telling.first(_spelled(said.id)) or named.get("session") or source.path.stem,
            extra=extra,
            forked_from=telling.first(_spelled(said.forked_from)),
            titled=Titled.BY_TOOL if title else Titled.BY_REQUEST,
            placed=bool(project),
        )

    def document(self, source: Source) -> object:
        """Return the document that a session is in, as far as it stands near its beginning."""
        try:
            return Look(source.main).document
        except OSError:
            return None

    def _request(self, records: Sequence[bytes]) -> str:
        for record in records:
            event = self._lens.view(record, Nothing())
            inner = "sidechain" in event.header
            if event.kind is Kind.USER and not inner and (text := titles_in(event.blocks)):
                return text
        return ""

    def _first_time(self, records: Sequence[bytes]) -> int:
        return next(filter(None, (self._lens.time_ms(object_in(record)) for record in records)), 0)


class _Telling:
    """A session's records, and the files beside it, asked for what they say in some places."""

    def __init__(self, source: Source, records: Sequence[bytes], document_of: Callable[[Source], object]) -> None:
        self._source = source
        self._records = records
        self._document_of = document_of
        self._parsed: dict[int, object] = {}

    def _of(self, at: int) -> object:
        if at not in self._parsed:
            decoded = decode(self._records[at])
            self._parsed[at] = decoded.value if decoded else None
        return self._parsed[at]

    @cached_property
    def _files(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, path in self._source.sidecars:
            head = read_head(path, _LARGEST_BESIDE)
            decoded = decode(head) if head else None
            found[name] = decoded.value if decoded else None
        return found

    @cached_property
    def _document(self) -> object:
        return self._document_of(self._source)

    def _above(self, name: str) -> object:
        """Return the document in a file that lies in a folder above."""
        head = read_head(self._source.main.parent / name, _LARGEST_BESIDE)
        decoded = decode(head) if head else None
        return decoded.value if decoded else None

    def _values(self, spelled: Sequence[str]) -> Iterator[object]:
        for where in map(_Place, spelled):
            if where.whole:
                yield value_at(self._document, where.path)
                continue
            if where.file:
                name = where.file.replace("{stem}", self._source.path.stem)
                name = name.replace("{session}", self._source.path.name.partition(".")[0])
                yield value_at(self._above(name) if name.startswith("../") else self._files.get(name), where.path)
                continue
            for at, record in enumerate(self._records):
                if where.key in record and is_object(value := self._of(at)):
                    yield value_at(value, where.path)

    def value(self, spelled: Sequence[str]) -> object:
        """Return the first value, None where there is none."""
        return next((value for value in self._values(spelled) if value not in (None, "")), None)

    def first(self, spelled: Sequence[str]) -> str:
        """Return the first text that says something."""
        return next((value for value in map(as_text, self._values(spelled)) if value.strip()), "")

    def last(self, spelled: Sequence[str]) -> str:
        """Return the last text that says something: tools give a session another title."""
        said = ""
        for value in map(as_text, self._values(spelled)):
            said = said if value.strip().lower() in _NO_TITLES else value
        return said


def _as_path(directory: str) -> str:
    """Return a directory that is told as a path or as a URI."""
    if not directory.startswith("file://"):
        return directory
    path = unquote(urlsplit(directory).path)
    # a drive of Windows has no slash before it
    return path[1:] if path[2:3] == ":" else path


def _around(items: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the bytes around the records of a new document, which stand in its first list."""
    opening, closing = b"", b""
    for step in steps_of(next((item for item in items if "[]" in item), "[]")):
        if step == "[]":
            return opening + b"[\n", b"\n]" + closing
        opening, closing = opening + b'{"%b": ' % step.encode(), b"}" + closing
    return opening, closing


def resuming_of(said: Description) -> tuple[Resuming, ...]:
    """Return the programs that go on with the sessions of a described format."""
    return tuple(
        Resuming(one.tool, tuple(one.command), (one.home,) if one.home else ())
        for one in said.resume
    )
