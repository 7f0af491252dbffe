"""Files that are no text, such as databases: rendered as text on their way in, written back on their way out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from store.errors import UsageError
from store.formats.format import AS_READ, Format, Source
from store.ids import Hash
from store.importing.paths import path_text, text_path
from store.importing.snapshot import Snapshot
from store.store import Store

_PREFIX = "rendition-"
_READ_AT_ONCE = 1 << 20


@contextmanager
def rendition(store: Store, format_: Format, source: Source) -> Iterator[Path | None]:
    """Yield the rendition of a file, gone afterwards; None if the file itself holds the records.

    Only while nothing else is imported: what others left behind is removed.
    """
    scratch = store.root / "scratch"
    if type(format_).rendition is Format.rendition:
        yield None
        return
    scratch.mkdir(mode=0o700, exist_ok=True)
    for left in scratch.glob(f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=scratch) as folder:
        yield format_.rendition(source, Path(folder))


def keep(source: Source, rendered: Path, blob: Callable[[memoryview, Callable[[int], None]], Hash]) -> dict[str, str]:
    """Store the file itself, as it was read, and those beside it that are there; return their blobs, in hex, by name.

    ``rendered`` is its rendition. What is not left beside that is taken from where it lies: it may have been written
    to since.
    """
    copies = rendered.parent / AS_READ
    found: dict[str, str] = {}
    for path in (source.main, *source.beside):
        path = copies / path.name if copies.is_dir() else path
        if path.name == source.main.name or path.exists():
            with Snapshot(path, rendered.parent) as snapshot:
                found[path_text(path.name)] = blob(snapshot.data, snapshot.passed).hex()
    return found


def has_copies(rendered: Path) -> bool:
    """Say whether what a rendition was made from was left beside it."""
    return (rendered.parent / AS_READ).is_dir()


def state(source: Source) -> list[tuple[int, int] | None]:
    """Return what is another after the file, or one beside it, was written to."""
    found: list[tuple[int, int] | None] = []
    for path in (source.main, *source.beside):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


def restored(
    store: Store, format_: Format, main: str, original: Mapping[str, str], pieces: Iterable[bytes]
) -> Iterator[bytes]:
    """Yield the file ``main`` of ``original``, so that it says the rendition that ``pieces`` are.

    ``original`` are blobs, in hex, by name. Raises UsageError where the format cannot write it.
    """
    if main not in original:
        raise UsageError(f"{main} itself was not kept, only its conversations: import it with convfs import")
    scratch = store.root / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="restored-", dir=scratch) as name:
        folder = Path(name)
        (folder / "original").mkdir()
        for beside, digest in original.items():
            path = folder / "original" / text_path(beside).name
            _write(path, store.blob_pieces(Hash(bytes.fromhex(digest))))
        _write(folder / "rendition", pieces)
        format_.restore(folder / "original" / text_path(main).name, folder / "rendition", folder / "restored")
        with (folder / "restored").open("rb") as file:
            while piece := file.read(_READ_AT_ONCE):
                yield piece


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        file.writelines(pieces)
