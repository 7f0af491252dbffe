"""A trial of a format on a file: what would become of it, without importing it."""

import mmap
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Event
from store.formats.core.format import About, Format, Source
from store.formats.core.lens import Nothing
from store.formats.core.look import Look, open_regular
from store.formats.registry import FORMATS, format_named, lens_for
from store.importing.snapshot import rendition
from store.importing.walk import claim

_SHORTEST_TEXT = 20
"""Shorter texts are names and marks."""
_MOST_TEXTS = 10_000


class Trial(Struct, frozen=True):
    """A file as a format reads it.

    ``kinds`` counts the records by the kind of their event, ``left`` the texts that no event shows by where they stand
    (``data.info[].text``).
    """

    source: Source
    about: About
    kinds: Counter[str]
    left: Counter[str]


def tried(path: Path, format_name: str = "") -> Trial:
    """Try the format that claims a file, or the one that is named. Raises UsageError where none does."""
    if format_name:
        format_ = format_named(format_name)
        source = format_.claim(Look(path)) or Source(format_.name, path, path)
    else:
        claimed = claim(path, FORMATS)
        if claimed is None:
            raise UsageError(f"{path} is of no known tool: --format reads it as one's, and a page can describe it")
        source, format_ = claimed, format_named(claimed.format)
    records = records_of(source, format_)
    kinds: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for record in records:
        event = lens_for(format_.type_of(source, record)).view(record, Nothing())
        kinds[event.kind.word] += 1
        left.update(_unshown(event))
    return Trial(source, format_.about(source, records), kinds, left)


def records_of(source: Source, format_: Format) -> list[bytes]:
    """Return all records of a session's main file."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        rendition(Path(scratch), format_, source) as rendered,
        open_regular(rendered or source.main) as file,
    ):
        if not file.seek(0, 2):
            return []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            return [bytes(data[span.start : span.end]) for span in format_.spans(data, 0)]


def _unshown(event: Event) -> Iterator[str]:
    shown = "\n".join(block.text for block in event.blocks if block.text)
    waiting: list[tuple[str, object]] = [("", event.native)]
    left = _MOST_TEXTS
    while waiting and left:
        place, value = waiting.pop()
        if isinstance(value, str):
            left -= 1
            if len(value) >= _SHORTEST_TEXT and " " in value.strip() and value.strip() not in shown:
                yield place
        elif isinstance(value, dict):
            waiting += ((f"{place}.{key}" if place else str(key), held) for key, held in value.items())
        elif isinstance(value, list):
            waiting += ((f"{place}[]", held) for held in value)
