"""Reasons why files are no sessions of a tool that is known, in a line each."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from store.errors import DamageError, Fault
from store.formats.core.archives import ENCRYPTED, archive_at, is_archive
from store.formats.core.format import Format
from store.formats.core.look import Look
from store.formats.core.sqlite import DatabaseFormat, tables_of
from store.formats.declared.format import DeclaredFormat
from store.formats.registry import FORMATS, guesses
from store.importing.walk import Skipped, claim, walk

_TABLES = 5
_OF_ANTIGRAVITY = {"steps", "trajectory_meta"}


def skipped(paths: Sequence[Path], apart: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files at or under ``paths`` that an import skips, each with the reason; those in ``apart`` excepted."""
    for path in paths:
        for found in walk(path, apart=frozenset((apart.absolute(),))):
            if isinstance(found, Skipped):
                yield found.path, reason(found.path)


def reason(path: Path) -> str:
    """Return why a path is no session, in a clause."""
    if not path.is_file():
        return "it is no file, or a link that leads elsewhere"
    try:
        look = Look(path)
        if not look.head:
            return "it is empty"
        if look.is_database:
            return _of_database(path, look.head)
        if is_archive(look.head):
            return _of_archive(path)
        if (format_ := next((one for one in FORMATS if _is_called_so(one, path)), None)) is not None:
            return f"it is called like a session of {format_.name}, but is of a version that is not known, or damaged"
        if claim(path, guesses()) is not None:
            return "it is of no known tool, but looks like messages: name it itself, and it is read as a guess"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except Fault as error:
        return str(error)
    return "it is of no known tool"


def _is_called_so(format_: Format, path: Path) -> bool:
    return isinstance(format_, DeclaredFormat) and format_.is_called_so(path)


def _of_archive(path: Path) -> str:
    try:
        members = archive_at(path).members.values()
    except DamageError:
        return "it is a damaged archive, perhaps not downloaded whole: unpack what you can and import the files"
    if any(member.flag_bits & ENCRYPTED for member in members):
        return "it is an encrypted archive: unpack it and import the files"
    return "it is an archive of no known tool, or its conversations are damaged: unpack it and import the files"


def _of_database(path: Path, head: bytes) -> str:
    tables = tables_of(path, head)
    for format_ in FORMATS:
        if isinstance(format_, DatabaseFormat) and any(tables >= wanted.keys() for wanted in format_.schemas):
            return f"it has the tables of {format_.name}, but the columns of a version that is not known"
    if tables >= _OF_ANTIGRAVITY:
        return "it is a database of Antigravity, whose texts are no JSON: what is read is the transcript in brain/"
    if not tables:
        return "it is a database that cannot be read, or has no tables"
    more = ", …" if len(tables) > _TABLES else ""
    return f"it is a database of no known tool, with the tables {', '.join(sorted(tables)[:_TABLES])}{more}"
