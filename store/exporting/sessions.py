"""Sessions of other tools that are files of one JSON object a line, where the tool looks for them below its home."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import PurePath
from uuid import UUID

from store.events.conversation import Conversation
from store.exporting.dialogue import Dialogue
from store.exporting.event_json import encoded
from store.exporting.naming import numbered_id, session_id
from store.exporting.steps import Step
from store.exporting.target import Job, Stage, Target
from store.formats.json_view import JsonObject
from store.formats.times import iso
from store.importing.exporter import came_in_files, native_files

_NOWHERE = "/"
_BEFORE_TIME = "1970-01-01T00:00:00.000Z"


class NewSession:
    """A conversation on its way to become a session of ``tool``: what it is called there, and what is said in it."""

    def __init__(self, job: Job, tool: str) -> None:
        self.losses = job.losses
        self.dialogue = Dialogue(job.store, job.conversation, job.losses)
        self.id: UUID = session_id(job.store, job.conversation, tool)
        self.title = " ".join(job.conversation.title.split())
        self.started = started(job.conversation)
        self.folder = worked_in(job.conversation)
        self.outside: dict[str, bytes] = {}
        """What the tool keeps outside of its sessions: contents of files, whose names say what they hold."""
        self._time = self.started
        if self.folder is _NOWHERE:
            self.losses.add(f"the directory that was worked in, which is not known: {_NOWHERE} is said")
        if self.dialogue.prompt:
            self.losses.add("the system prompt: the tool has its own")

    def time(self, step: Step) -> str:
        """Return when a step was; where it does not say, when the one before it was."""
        self._time = iso(step.time_ms) or self._time
        return self._time

    def id_of(self, step: Step, part: int = 0) -> str:
        """Return an id for a record that says a step, or a part of one."""
        return numbered_id(self.id, step.number, f"{step.kind.name}.{step.index}.{part}")


class SessionTarget(Target):
    """A tool whose sessions are such files. A conversation that is the tool's own becomes its own file again."""

    @property
    def own(self) -> str:
        """The format of sessions that are the tool's own."""
        return self.name

    @abstractmethod
    def folder(self, conversation: Conversation) -> PurePath:
        """Return where below its home the tool keeps a session."""

    @abstractmethod
    def file_name(self, session: NewSession) -> str:
        """Return what the file of a session is called."""

    @abstractmethod
    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines of a session's file."""

    def write(self, job: Job) -> None:
        """Write one file, or those of the tool's own session."""
        folder = self.folder(job.conversation)
        if job.conversation.format == self.own and came_in_files(job.conversation):
            for name, pieces in native_files(job.store, job.conversation):
                self.put(job.stage, folder, name, pieces)
            return
        session = NewSession(job, self.name)
        job.stage.write(folder / self.file_name(session), self.written(session))
        for beside, content in session.outside.items():
            job.stage.share(PurePath(beside), partial(bytes, content))

    def put(self, stage: Stage, folder: PurePath, name: PurePath, pieces: Iterable[bytes]) -> None:
        """Write a file of the tool's own session, whose place is ``folder``."""
        stage.write(folder / name, pieces, unit=folder / name.parts[0])

    def written(self, session: NewSession) -> Iterator[bytes]:
        """Yield the bytes of a session's file; what it has elsewhere is ``outside`` of the session afterwards."""
        return (f"{encoded(line)}\n".encode() for line in self.lines(session))


def started(conversation: Conversation) -> str:
    """Return when a conversation began, in ISO 8601."""
    return iso(conversation.created_ms) or _BEFORE_TIME


def worked_in(conversation: Conversation) -> str:
    """Return the directory that was worked in, ``/`` where it is not known."""
    known = conversation.metadata.get("cwd")
    return known if isinstance(known, str) and known else _NOWHERE
