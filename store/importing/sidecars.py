"""Files beside a session, kept whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from store.errors import UsageError
from store.formats.format import Source
from store.ids import Hash
from store.importing.cursor import Stamp
from store.importing.paths import path_text
from store.importing.snapshot import Snapshot

Keep = Callable[[memoryview, Callable[[int], None]], Hash]
"""Stores content of any size; is given what to tell how far reading it has come."""


def bring_sidecars(
    source: Source,
    beside: Mapping[str, Stamp],
    found: Mapping[str, str],
    known: Mapping[str, Stamp],
    keep: Keep,
    scratch: Path,
) -> tuple[dict[str, str], list[str]]:
    """Bring in the files beside a session that are new or changed; return the blobs of all that ever were.

    ``found`` are the blobs of the import before, in hex by name, ``known`` the stamps that files had then, by path, and
    ``beside`` those that they have now. Also returns what could not be brought, a line each.
    """
    blobs = dict(found)
    problems: list[str] = []
    for name, path in source.sidecars:
        key, where = path_text(name), path_text(path)
        if key in blobs and where in beside and known.get(where) == beside[where]:
            continue
        try:
            with Snapshot(path, scratch) as snapshot:
                blobs[key] = keep(snapshot.data, snapshot.passed).hex()
        except UsageError as error:
            problems.append(str(error))
    return blobs, problems
