"""The place of an export: files appear under their names once they are whole and on disk.

The last export into a directory is noted in the conversation's metadata, with the hash of each file. The next one
replaces files that are still as noted, and leaves what is the same already. All else is somebody else's and stays: then
the export goes into ``PROJECT/NAME/`` within the directory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.disk.beneath import Beneath
from store.errors import Conflict, ConvfsError
from store.events.conversation import Conversation
from store.filenames import safe_name, shown_name
from store.importing.provenance import read_as
from store.importing.snapshot import path_text, text_path
from store.store import Store

_HERE = PurePath()


class File(NamedTuple):
    """A file of an export, by its path in the directory, and its content. ``shared``: named after what it holds."""

    name: PurePath
    pieces: Iterable[bytes]
    shared: bool = False


class Stage:
    """Takes an export's files, by names relative to its directory: into ``folder``, or, for None, only the names."""

    def __init__(self, folder: Beneath | None, written: Callable[[int], None] = lambda size: None) -> None:
        self._folder = folder
        self._written = written
        """Is told how many bytes were written, with each piece."""
        self.files: list[PurePath] = []
        """All files, in the order in which they were written."""
        self.units: list[PurePath] = []
        """Paths that appear at once: files, and folders with all that is in them."""
        self.shared: dict[PurePath, None] = {}
        """Files that may be there already: the content under such a name is always the same."""
        self.hashes: dict[PurePath, str] = {}
        """The BLAKE3 of each written file that is not shared, in hex."""

    def write(self, name: PurePath, pieces: Iterable[bytes], unit: PurePath | None = None) -> None:
        """Write a file, given in pieces; it goes into the folder ``unit``, if one is given."""
        whole = blake3()
        self._write(name, pieces, whole)
        self.hashes[name] = whole.hexdigest()
        if (unit or name) not in self.units:
            self.units.append(unit or name)

    def share(self, name: PurePath, pieces: Iterable[bytes]) -> None:
        """Write a file named after its content, unless there is one of that name."""
        if name not in self.shared:
            self._write(name, pieces if self._folder is not None else (), blake3())
            self.shared[name] = None

    def add(self, files: Iterable[File], folder: PurePath = _HERE) -> None:
        """Write the files of a session below ``folder``, and those that sessions share below the directory itself."""
        for name, pieces, is_shared in files:
            if is_shared:
                self.share(name, pieces)
            else:
                self.write(folder / name, pieces, unit=folder / name.parts[0])

    def _write(self, name: PurePath, pieces: Iterable[bytes], whole: blake3) -> None:
        if self._folder is not None:
            self._folder.write(name, self._passing(pieces, whole))
        else:
            # its name may only be known at its end, and so may the files beside it
            for _piece in pieces:
                pass
        self.files.append(name)

    def _passing(self, pieces: Iterable[bytes], whole: blake3) -> Iterator[bytes]:
        for piece in pieces:
            whole.update(piece)
            yield piece
            self._written(len(piece))


class StagedFile(Struct, frozen=True):
    """A file of an export: its path, its BLAKE3 in hex, and (``before``) that with which the last export left it.

    The hashes are "" for a file that is called after its content, and where there was no file.
    """

    path: bytes
    hash: str
    before: str


EXPORTS = "exports"
"""The key of metadata for the last exports, the latest last."""
_MOST_EXPORTS = 8


class Noted(Struct, frozen=True):
    """The last export of a conversation into ``directory`` in one format: the BLAKE3 of each file, in hex, by path.

    The paths are relative to ``within``, which is relative to ``directory``.
    """

    directory: str
    format: str
    within: str
    files: dict[str, str]


def last_export(store: Store, context: int, directory: Path, form: str) -> Noted | None:
    """Return the last export of a conversation into ``directory`` (a real path) in the format ``form``."""
    if store.files.read_only:
        # what cannot be noted is not replaced either
        return None
    where = path_text(directory)
    return next((one for one in _noted(store, context) if (one.directory, one.format) == (where, form)), None)


def note_export(
    store: Store, context: int, directory: Path, form: str, within: PurePath, hashes: Mapping[PurePath, str]
) -> None:
    """Note an export in the place of the last one: ``hashes`` are those of its files, below ``within``."""
    files = {path_text(str(name)): digest for name, digest in hashes.items()}
    now = Noted(path_text(directory), form, str(within), files)
    known = _noted(store, context)
    if store.files.read_only or now in known:
        return
    kept = [one for one in known if (one.directory, one.format) != (now.directory, form)]
    # the files are there; without a note the next export goes beside them
    with suppress(ConvfsError):
        store.contexts.set_metadata(context, {EXPORTS: msgspec.to_builtins([*kept, now][-_MOST_EXPORTS:])})


def _noted(store: Store, context: int) -> list[Noted]:
    return read_as(store.catalogue.entry(context).metadata.get(EXPORTS), list[Noted]) or []


class ExportFolder(NamedTuple):
    """The directory of an export, and a folder in it for files that must stay hidden for now."""

    directory: Beneath
    staged: Beneath

    def put(self, conversation: Conversation, stage: Stage, last: Noted | None) -> tuple[PurePath, dict[PurePath, str]]:
        """Move the staged files to where the last export put them, or else where they fit; return that place.

        It is relative to the directory, and comes with the hashes of the files in it that this export or the last one
        wrote: what somebody else has written stays theirs, even if it is the same. Raises Conflict if files of somebody
        else are in all of these places.
        """
        own = PurePath(safe_name(conversation.project), shown_name(conversation))
        before = (PurePath(last.within),) if last else ()
        targets: Iterable[PurePath] = dict.fromkeys((*before, PurePath(), own))
        for target in targets:
            known = last.files if last and str(target) == last.within else {}
            if (steps := self._steps(target, stage, known)) is None:
                continue
            moved, replaced, of_others = steps
            self._take(target, moved, replaced)
            if "file" not in conversation.metadata:
                # a file of many conversations may be the export of another one
                for name in known.keys() - {path_text(str(name)) for name in stage.hashes}:
                    self.directory.discard(target / text_path(name), known[name])
            return target, {name: digest for name, digest in stage.hashes.items() if name not in of_others}
        taken = self.directory.path / own / stage.units[0]
        raise Conflict(f"{taken} exists already: export into another directory, or move it away")

    def _steps(
        self, target: PurePath, stage: Stage, known: dict[str, str]
    ) -> tuple[list[PurePath], list[PurePath], set[PurePath]] | None:
        """Return what to move into ``target``, what to replace there, and what others wrote; None if it is taken."""
        directory = self.directory
        moved = [name for name in stage.shared if not directory.has_file(target / name)]
        if any(directory.has(target / name) for name in moved):
            return None
        replaced: list[PurePath] = []
        of_others: set[PurePath] = set()
        for unit in stage.units:
            if not directory.has(target / unit):
                moved.append(unit)
                continue
            inside = {name: digest for name, digest in stage.hashes.items() if name.is_relative_to(unit)}
            there = {name: directory.hash_of(target / name) for name in inside}
            if not any(there.values()):
                return None
            for name, digest in there.items():
                if digest is None and not directory.has(target / name):
                    moved.append(name)
                elif digest != inside[name]:
                    if digest is None or digest != known.get(path_text(str(name))):
                        return None
                    replaced.append(name)
                elif path_text(str(name)) not in known:
                    of_others.add(name)
        return moved, replaced, of_others

    def _take(self, target: PurePath, moved: list[PurePath], replaced: list[PurePath]) -> None:
        directory, staged = self
        placed: list[PurePath] = []
        try:
            for name in moved:
                directory.take(staged, name, target / name)
                placed.append(target / name)
        except BaseException:
            for path in placed:
                directory.remove(path)
            raise
        for name in replaced:
            directory.replace(staged, name, target / name)
        for folder in sorted({(target / name).parent for name in (*moved, *replaced)}):
            directory.sync(folder)
