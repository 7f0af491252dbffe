"""Targets of exports, and their input: a conversation, and a place for its files."""

from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import Protocol

from msgspec import Struct

from store.events.conversation import Conversation, EventRow
from store.events.event import Event
from store.exporting.dialogue import Losses
from store.filenames import shown_name
from store.importing.exporter import tell_left
from store.importing.placing import Stage
from store.store import Store


def file_name(conversation: Conversation, suffix: str) -> PurePath:
    """Return the name of a file, or folder, that is called after a conversation."""
    return PurePath(shown_name(conversation) + suffix)


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

    def write_all(self, job: ExportJob) -> None:
        """Write the files, and note as lost what lies beside the session and is in none of them."""
        self.write(job)
        tell_left(job.conversation, job.stage, job.losses.add)


class OneFile(Target):
    """A form that is one file, called after the conversation and ending in ``suffix``."""

    def __init__(self, name: str, suffix: str, pieces: Callable[[ExportJob], Iterable[bytes]]) -> None:
        self.name = name
        self._suffix = suffix
        self._pieces = pieces

    def write(self, job: ExportJob) -> None:
        job.stage.write(file_name(job.conversation, self._suffix), self._pieces(job))
