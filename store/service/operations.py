"""The operations of the service: one table, for the daemon and for a command that opens the store itself."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from store.errors import NotFound, UsageError
from store.events.conversation import Conversation
from store.formats.times import iso
from store.importing.exporter import export_native
from store.importing.importer import Importer, ImportReport
from store.service.operation import Holder, Nothing, Operation
from store.store import Store

_PAGE = 500


class Status(Struct, frozen=True):
    """Who holds the store: a process, and where it mounts it ("" for nowhere)."""

    pid: int
    root: str
    mountpoint: str


class ConversationLine(Struct, frozen=True):
    """A conversation as ``ls`` shows it. Times are ISO 8601 in UTC, "" if unknown."""

    id: int
    name: str
    project: str
    title: str
    format: str
    source: str
    events: int
    created: str
    updated: str
    path: str
    labels: list[str]
    pinned: bool
    archived: bool


class ListParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``project``: only conversations of this one ("" for all)."""

    project: str = ""


class FindParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``name``: ``PROJECT/NAME``, a name that stands in one project only, or an id."""

    name: str


class ImportParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``paths`` are absolute, and bytes since not every path is text; ``format`` is the name of one ("": any).

    ``watched``: they are imported as they grow, again and again. ``pruned``: also those that were deleted for good.
    """

    paths: tuple[bytes, ...]
    format: str = ""
    dry_run: bool = False
    watched: bool = False
    pruned: bool = False


class ImportProgress(Struct, frozen=True):
    """How far an import is: bytes dealt with so far, and the session that it is at."""

    bytes: int
    session: str


class ExportParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``directory`` is an absolute path."""

    id: int
    directory: bytes


def line_of(holder: Holder, conversation: Conversation) -> ConversationLine:
    """Return a conversation as ``ls`` shows it; its path is absolute where the holder mounts the store."""
    inside = f"conversations/{conversation.project}/{conversation.name}"
    return ConversationLine(
        id=conversation.id,
        name=conversation.name,
        project=conversation.project,
        title=conversation.title,
        format=conversation.format,
        source=conversation.source,
        events=conversation.events,
        created=iso(conversation.created_ms),
        updated=iso(conversation.updated_ms),
        path=os.path.join(holder.mountpoint, inside),
        labels=conversation.labels,
        pinned=conversation.metadata.get("pinned") is True,
        archived=conversation.metadata.get("archived") is True,
    )


def resolve(store: Store, name: str) -> Conversation:
    """Return the conversation that ``name`` (``PROJECT/NAME``, NAME, or an id) stands for.

    Raises NotFound where there is none, UsageError where a bare NAME stands in several projects.
    """
    if name.isdecimal() and name.isascii():
        return store.conversation(int(name))
    project, slash, rest = name.rpartition("/")
    if slash:
        found = store.find(project, rest)
        if found:
            return found
    else:
        matches = [found for project in store.projects() if (found := store.find(project, name))]
        if len(matches) > 1:
            names = ", ".join(f"{found.project}/{found.name}" for found in matches)
            raise UsageError(f"{name} stands in several projects: say which ({names})")
        if matches:
            return matches[0]
    raise NotFound(f"no conversation is called {name}: `convfs ls` lists them all")


def _status(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> Status:
    return Status(os.getpid(), str(holder.store.root), holder.mountpoint)


def _stop(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> Nothing:
    # The server stops once the answer is out; this only says whether it will.
    if holder.stop is None:
        raise UsageError(f"process {os.getpid()} mounts nothing that could be unmounted")
    return Nothing()


def _list(holder: Holder, params: ListParams, emit: Callable[[list[ConversationLine]], None]) -> Nothing:
    projects = holder.store.projects()
    if params.project:
        if params.project not in projects:
            raise NotFound(f"no project is called {params.project}: `convfs ls` lists all conversations")
        projects = [params.project]
    for project in projects:
        after = ""
        while page := holder.store.conversations(project, after=after, limit=_PAGE):
            emit([line_of(holder, conversation) for conversation in page])
            after = page[-1].name
    return Nothing()


def _find(holder: Holder, params: FindParams, emit: Callable[[Nothing], None]) -> ConversationLine:
    return line_of(holder, resolve(holder.store, params.name))


def _import(holder: Holder, params: ImportParams, emit: Callable[[ImportProgress], None]) -> ImportReport:
    paths = [Path(os.fsdecode(path)) for path in params.paths]
    outside_the_mount(holder, paths)
    done = 0

    def progress(size: int, session: str) -> None:
        nonlocal done
        done += size
        emit(ImportProgress(done, session))

    importer = Importer(holder.store)
    return importer.run(
        paths,
        format_name=params.format or None,
        dry_run=params.dry_run,
        by_hand=not params.watched,
        pruned=params.pruned,
        progress=progress,
    )


def _export(holder: Holder, params: ExportParams, emit: Callable[[Nothing], None]) -> list[bytes]:
    directory = Path(os.fsdecode(params.directory))
    outside_the_mount(holder, [directory])
    written = export_native(holder.store, holder.store.conversation(params.id), directory)
    return [os.fsencode(path) for path in written]


def _stats(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> dict[str, object]:
    own: dict[str, object] = {
        "root": str(holder.store.root),
        "store_id": holder.store.store_id.hex(),
        "socket": holder.socket or None,
        "mountpoint": holder.mountpoint or None,
    }
    return own | structs.asdict(holder.store.stats())


def outside_the_mount(holder: Holder, paths: list[Path]) -> None:
    """Raise UsageError for paths in the holder's own mount: a process that waits for that may wait for ever."""
    for path in paths:
        if holder.mountpoint and path.is_relative_to(holder.mountpoint):
            raise UsageError(f"{path} lies in the mount of this very store: name a place outside {holder.mountpoint}")


STATUS = Operation(256, Nothing, Nothing, Status, _status)
STOP = Operation(257, Nothing, Nothing, Nothing, _stop)
LIST = Operation(258, ListParams, list[ConversationLine], Nothing, _list)
FIND = Operation(259, FindParams, Nothing, ConversationLine, _find)
IMPORT = Operation(260, ImportParams, ImportProgress, ImportReport, _import, progress=True)
EXPORT = Operation(261, ExportParams, Nothing, list[bytes], _export)
STATS = Operation(262, Nothing, Nothing, dict[str, object], _stats)

OPERATIONS = (STATUS, STOP, LIST, FIND, IMPORT, EXPORT, STATS)
"""Every operation that needs no more than the store. Numbers are never reused."""
