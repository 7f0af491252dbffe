"""A described format: finding, recognising and cutting the sessions of its tool."""

import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from store.events.event import Kind, ValuePath
from store.formats.core.format import About, Format, Resuming, Source, Span, Titled, first_line, last_part, line_spans
from store.formats.core.json_cuts import choice_of, cut_spans, steps_of
from store.formats.core.json_view import as_text, decode, every, is_object, object_in, place, value_at
from store.formats.core.lens import Nothing
from store.formats.core.look import Look, read_head
from store.formats.core.times import time_of
from store.formats.declared.description import Description, Fits, listed
from store.formats.declared.lens import DeclaredLens, titles_in, usage_of

_LOOKED_AT = 20
_LARGEST_BESIDE = 4 << 20
"""The bytes of a file beside a session, or of a document, that are read for what it says of that."""
_ABOVE = "../"
_YAML_LINE = re.compile(r"""([\w-]+):[ ]+(?![|>&*!\[{])(["']?)(.+?)\2""").fullmatch
"""A member with a text, at the top of a YAML document."""
_MOST_BESIDE = 1000
_NO_TITLES = frozenset(("", "untitled", "untitled session", "new session", "new chat", "new conversation"))
"""Titles by which tools call a session that they have not given one yet."""


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
        self.said = said
        self._lens = lens or DeclaredLens(said)
        self.name = said.name
        self.lenses = (self._lens,)
        self.main_type = self._lens.type_name
        self._is_path = re.compile(f"(?:^|/){said.path}$").search if said.path else None
        self._detected = [Fits(one).holds for one in said.detect]
        self.choose = choice_of(*said.items)
        self.kept, self.describing = said.homes, frozenset(said.describing)
        self.native = said.homes if said.native else ()
        self.sums_up = said.session.usage is not None
        self.resuming = resuming_of(said)
        if said.container == "document":
            opening, closing = _around(said.items)
            self.joints = (opening, b",\n", closing)
        titles = [one.key for one in map(_Place, listed(said.session.title)) if one.key]
        self.titling = re.compile(b"|".join(map(re.escape, titles))) if titles else None

    def claim(self, look: Look) -> Source | None:
        """Claim a file in which one of the first records is as the description says; an empty one by its path."""
        if look.is_folder:
            return None
        if self.said.unless:
            other = look.path.with_name(_filled(self.said.unless, self._named(look.path), str))
            if other != look.path and other.exists():
                return None
        fits_path = self.is_called_so(look.path)
        if self.said.container == "lines":
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
        named = self._named(path) if self.said.besides else {}
        for pattern in self.said.besides:
            for file in _matching(folder, _filled(pattern, named)):
                if file != path and file.is_file() and not file.is_symlink() and len(found) < _MOST_BESIDE:
                    found[file.name if pattern.startswith(_ABOVE) else str(file.relative_to(folder))] = file
        return Source(self.name, path, path, sidecars=tuple(sorted(found.items())))

    def _named(self, path: Path) -> dict[str, str]:
        """Return the names in a session's path, by which places may tell of others."""
        fits = self._is_path(path.as_posix()) if self._is_path else None
        groups = {name: value for name, value in fits.groupdict().items() if value} if fits else {}
        return {"session": path.name.partition(".")[0], **groups, "stem": path.stem}

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        if self.said.container == "lines":
            return line_spans(data, start)
        return cut_spans(data, start, self.choose)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session by the places that the description names, and by its path."""
        said, named = self.said.session, self._named(source.path)
        telling = _Telling(source, records, self.document, named)
        title = telling.last(listed(said.title))
        directory = _as_path(telling.first(listed(said.directory)))
        extra = {"cwd": directory} if directory else {}
        extra |= {name: value for name, where in said.more.items() if (value := telling.first([where]))}
        session = named["session"] if self.is_called_so(source.path) else source.path.stem
        own, agent = telling.first(listed(said.id)) or session, named.get("agent", "")
        parent = telling.first(listed(said.parent)) or named.get("parent") or (own if agent else "")
        if agent:
            # where a path has no other name of the parent, agents are named within their session
            own = agent if "parent" in named else f"{own}/{agent}"
        if parent:
            extra |= {"agent": agent or named["session"], "parent_session": parent}
        project = telling.first(listed(said.project)) or last_part(directory)
        started = telling.value(listed(said.started))
        return About(
            title=first_line(title or self._request(records)),
            project=project or named.get("project") or "",
            started_ms=time_of(started) if started is not None else self._first_time(records),
            session_id=own,
            extra=extra,
            forked_from=telling.first(listed(said.forked_from)),
            titled=Titled.BY_TOOL if title else Titled.BY_REQUEST,
            placed=bool(project),
            usage=usage_of(said.usage, telling.summed) if said.usage is not None else None,
        )

    def document(self, source: Source, *, whole: bool = False) -> object:
        """Return the document that a session is in, ``whole`` or as far as it stands near its beginning."""
        try:
            return _told_in(source.main) if whole else Look(source.main).document
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
        if not self._lens.times:
            return 0
        return next(filter(None, (self._lens.time_ms(object_in(record)) for record in records)), 0)


class _Telling:
    """A session's records, and the files beside it, asked for what they say in some places."""

    def __init__(
        self,
        source: Source,
        records: Sequence[bytes],
        document_of: Callable[..., object],
        named: Mapping[str, str],
    ) -> None:
        self._source = source
        self._records = records
        self._document_of = document_of
        self._named = named
        self._beside = dict(source.sidecars)
        self._files: dict[str, object] = {}
        self._parsed: dict[int, object] = {}

    def _of(self, at: int) -> object:
        if at not in self._parsed:
            decoded = decode(self._records[at])
            self._parsed[at] = decoded.value if decoded else None
        return self._parsed[at]

    @cached_property
    def _document(self) -> object:
        return self._document_of(self._source)

    def _held_in(self, file: str) -> object:
        """Return the document in a file beside the session, or in a folder above."""
        if file not in self._files:
            if file.startswith(_ABOVE):
                path = next(iter(_matching(self._source.main.parent, _filled(file, self._named))), None)
            else:
                path = self._beside.get(_filled(file, self._named, str))
            self._files[file] = _told_in(path) if path is not None else None
        return self._files[file]

    @cached_property
    def _whole(self) -> object:
        return self._document_of(self._source, whole=True)

    def summed(self, where: str) -> Iterator[object]:
        """Yield the values at a place, of the whole document where it is one of that."""
        return _found(self._whole, place(where[1:]), self._named) if where[:1] == "#" else self._values([where])

    def _values(self, spelled: Sequence[str]) -> Iterator[object]:
        for where in map(_Place, spelled):
            if where.whole:
                yield from _found(self._document, where.path, self._named)
                continue
            if where.file:
                yield from _found(self._held_in(where.file), where.path, self._named)
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


def _filled(spelled: str, named: Mapping[str, str], spell: Callable[[str], str] = glob.escape) -> str:
    """Return a text with the names in a session's path, which are ``spell``ed in it: as patterns of files have them."""
    return re.sub(r"\{(\w+)\}", lambda found: spell(named.get(found[1], found[0])), spelled)


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Return the files that a pattern in or above a folder fits."""
    while pattern.startswith(_ABOVE):
        folder, pattern = folder.parent, pattern.removeprefix(_ABOVE)
    return sorted(folder.glob(pattern))


def _told_in(path: Path) -> object:
    """Return the document in a JSON file, the list of those in one of lines, and of YAML the texts at its top."""
    head = read_head(path, _LARGEST_BESIDE) or b""
    if path.suffix == ".jsonl":
        return [line.value for line in map(decode, filter(None, head.split(b"\n"))) if line]
    if path.suffix in (".yaml", ".yml"):
        lines = filter(None, map(_YAML_LINE, map(str.rstrip, head.decode("utf-8", "replace").splitlines())))
        return {line[1]: line[3] for line in lines}
    decoded = decode(head) if head else None
    return decoded.value if decoded else None


def _found(value: object, path: ValuePath, named: Mapping[str, str]) -> Iterator[object]:
    """Yield the value at a path, on which a session's names may stand, or several."""
    filled = tuple(_filled(step, named, str) if isinstance(step, str) else step for step in path)
    return (one for _at, one in every(value, filled))


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
    homes = tuple(said.homes) if said.write else ()
    return tuple(
        Resuming(one.tool, tuple(one.command), (one.home,) if one.home else homes) for one in said.resume
    )
