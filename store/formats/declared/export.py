"""A described format whose sessions lie in a database, or in a file of JSON that its tool exports from that."""

from collections.abc import Iterator
from pathlib import Path

from store.errors import UsageError
from store.events.event import ValuePath
from store.formats.core import documents
from store.formats.core.format import Source
from store.formats.core.json_spans import locate
from store.formats.core.json_view import as_list, as_object, decode, is_object
from store.formats.core.look import Look, open_regular, read_document
from store.formats.core.sqlite import Row, decode_row, write_lines
from store.formats.declared.database import DeclaredDatabase
from store.formats.declared.description import Description, Fits
from store.formats.declared.inside import on_one_line


class DeclaredExport(DeclaredDatabase):
    """The tool that a description describes; its exports are a list of sessions' rows, or one document alone."""

    def __init__(self, said: Description) -> None:
        super().__init__(said)
        self._fits = [Fits(one).holds for one in said.detect]

    def claim(self, look: Look) -> Source | None:
        if look.is_folder or not look.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            return super().claim(look)
        found = any(fits(look.document) for fits in self._fits)
        return Source(self.name, look.path, look.path) if found else None

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        if not _is_export(source.main):
            return super().rendition(source, scratch)
        return write_lines(self._rows(_document_of(source.main)), scratch, source.main)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        if not _is_export(original):
            super().restore(original, rendition, target)
            return
        before = _document_of(original)
        with rendition.open("rb") as file:
            found = [decode_row(line) for line in self.folded(file, lambda _row, _column: before)]
        [column] = {kind.said.document for kind in self.kinds}
        after = bytes(found[0].json[column]) if found else b"[]"
        text = original.read_bytes()
        was, now = documents.parse(before.decode()), documents.parse(after.decode())
        target.write_bytes(text if was == now else documents.carried(text, (), was, now))

    def _rows(self, document: bytes) -> Iterator[Row]:
        """Yield the lines of an export: of rows with a document, or of a document alone."""
        [kind] = self.kinds
        column = kind.said.document
        begun = 0
        whole = decode(document)
        for where, row in _sessions(whole.value if whole else None, column):
            unit = document[slice(*locate(document, where))]
            for line in kind.inside(row, frozenset(), ".".join(map(str, where)), unit, begun):
                begun += line.begins is not None
                yield line


def _is_export(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


def _document_of(path: Path) -> bytes:
    """Return a file of JSON on one line. Raises UsageError for one that is none, or is too large."""
    found = on_one_line(read_document(path).decode("utf-8-sig", "replace"))
    if found is None:
        raise UsageError(f"{path.name} is no JSON that can be read: repair or export it again")
    return found


def _sessions(whole: object, column: str) -> Iterator[tuple[ValuePath, dict[str, object]]]:
    for at, one in enumerate(as_list(whole)):
        row = as_object(one)
        if is_object(row.get(column)):
            yield (at, column), dict(row)
        elif row:
            yield (at,), {column: row}
    if is_object(whole):
        if is_object(whole.get(column)):
            yield (column,), dict(whole)
        else:
            yield (), {column: whole}
