"""Targets of exports, and their input: a conversation, and a place for its files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import Protocol

from msgspec import Struct

from store.disk.beneath import Beneath
from store.events.conversation import Conversation, EventRow
from store.events.event import Event
from store.exporting.dialogue import Losses
from store.filenames import shown_name
from store.store import Store


def file_name(conversation: Conversation, suffix: str) -> PurePath:
    """Return the name of a file, or folder, that is called after a conversation."""
    return PurePath(shown_name(conversation) + suffix)


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

    def write(self, name: PurePath, pieces: Iterable[bytes], unit: PurePath | None = None) -> None:
        """Write a file, given in pieces; it goes into the folder ``unit``, if one is given."""
        self._write(name, pieces)
        if (unit or name) not in self.units:
            self.units.append(unit or name)

    def share(self, name: PurePath, content: Callable[[], bytes]) -> None:
        """Write a file named after its content, unless there is one of that name."""
        if name not in self.shared:
            self._write(name, (content(),) if self._folder is not None else ())
            self.shared[name] = None

    def _write(self, name: PurePath, pieces: Iterable[bytes]) -> None:
        if self._folder is not None:
            self._folder.write(name, self._counted(pieces))
        else:
            # its name may only be known at its end, and so may the files beside it
            for _piece in pieces:
                pass
        self.files.append(name)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._written(len(piece))


Change = Callable[[EventRow, Event], tuple[EventRow, Event]]


class ExportJob(Struct, frozen=True):
    """The export of one conversation, or of its events ``first`` to ``last`` (0: the last of all).

    ``change`` returns what is told instead of an event; None: each is told as it is.
    """

    store: Store
    conversation: Conversation
    stage: Stage
    losses: Losses
    copy: str = ""
    """Where this is not "", the session gets an id of its own, which follows from this."""
    first: int = 1
    last: int = 0
    change: Change | None = None


class Target(Protocol):
    """A form that conversations can be exported in."""

    name: str
    """As in ``--format``."""

    def above(self, directory: Path) -> Path:
        """Return the directory that names are relative to, when the caller asks for everything in ``directory``."""
        return directory

    def write(self, job: ExportJob) -> None:
        """Write the files of a conversation, one at least. Raises the errors of reading the store."""


class OneFile(Target):
    """A form that is one file, called after the conversation and ending in ``suffix``."""

    def __init__(self, name: str, suffix: str, pieces: Callable[[ExportJob], Iterable[bytes]]) -> None:
        self.name = name
        self._suffix = suffix
        self._pieces = pieces

    def write(self, job: ExportJob) -> None:
        job.stage.write(file_name(job.conversation, self._suffix), self._pieces(job))
