"""What an exporter is, and what it is given: a conversation, and where its files go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import Protocol

from msgspec import Struct

from store.events.conversation import Conversation
from store.exporting.losses import Losses
from store.importing import placing
from store.store import Store


class Stage:
    """Takes the files of an export: into ``folder``, or, where that is None, only their names.

    Names are relative to the directory that is exported to.
    """

    def __init__(self, folder: Path | None, written: Callable[[int], None] = lambda size: None) -> None:
        self._folder = folder
        self._written = written
        """Is told how many bytes were written, with each piece."""
        self.files: list[PurePath] = []
        """All files, in the order in which they were written."""
        self.units: list[PurePath] = []
        """What appears at once: files, and folders with all that is in them."""
        self.shared: dict[PurePath, None] = {}
        """Files that may be there already: what stands under such a name is always the same."""

    def write(self, name: PurePath, pieces: Iterable[bytes], unit: PurePath | None = None) -> None:
        """Take a file, given in pieces; it is within the folder ``unit``, if one is given."""
        self._write(name, pieces)
        if (unit or name) not in self.units:
            self.units.append(unit or name)

    def share(self, name: PurePath, content: Callable[[], bytes]) -> None:
        """Take a file whose name says what it holds, unless there is one of that name."""
        if name not in self.shared:
            self._write(name, (content(),) if self._folder is not None else ())
            self.shared[name] = None

    def _write(self, name: PurePath, pieces: Iterable[bytes]) -> None:
        if self._folder is not None:
            placing.write(self._folder / name, self._counted(pieces))
        else:
            # what it is named after may only be known at its end, and so may what lies beside it
            for _piece in pieces:
                pass
        self.files.append(name)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._written(len(piece))


class Job(Struct, frozen=True):
    """One conversation on its way out."""

    store: Store
    conversation: Conversation
    stage: Stage
    losses: Losses


class Target(Protocol):
    """A form that conversations can be exported in."""

    name: str
    """As in ``--format``."""

    def above(self, directory: Path) -> Path:
        """Return the directory that names are relative to where somebody asks to have it all in ``directory``."""
        return directory

    def write(self, job: Job) -> None:
        """Write the files of a conversation, one at least. Raises what reading the store does."""
