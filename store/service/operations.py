"""The calls of the command for conversations: find, import, export, restore, fork; and who holds the store."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from msgspec import Struct, structs

from store.conversations.named import find_named
from store.conversations.places import Places
from store.editing.editor import Editor, LogLine, version_log
from store.errors import NotFound, UsageError
from store.events.conversation import Conversation
from store.exporting import resume
from store.exporting.dialogue import Loss
from store.formats.core.times import iso
from store.importing.exporter import export_native
from store.importing.importer import Importer, ImportReport
from store.index.catalogue import Among
from store.service.call import Emit, Holder, Table
from store.service.calls import pages_of
from store.service.naming import Names

_PAGE = 200
_TOLD_AFTER = 1 << 20
"""Bytes written between two items of progress."""

OPERATIONS = Table()


class Status(Struct, frozen=True):
    """The process that holds the store, and where it mounts it ("" for nowhere)."""

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


class NestedLine(ConversationLine, frozen=True):
    """A conversation, and the one that it is in if it is a subagent's (0: none)."""

    parent: int


def line_of(holder: Holder, conversation: Conversation) -> ConversationLine:
    """Return a conversation as ``ls`` shows it; its path is absolute where the holder mounts the store."""
    inside = "/".join(("conversations", *Places(holder.store.catalogue).of(conversation)))
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


def outside_the_mount(holder: Holder, paths: list[Path]) -> None:
    """Raise UsageError for paths in the holder's own mount: a process that waits for that may wait for ever."""
    for path in paths:
        if holder.mountpoint and path.is_relative_to(holder.mountpoint):
            raise UsageError(f"{path} lies in the mount of this very store: name a place outside {holder.mountpoint}")


# -- who holds the store -----------------------------------------------------------------------------------------------


@OPERATIONS.call(256)
def status(holder: Holder) -> Status:
    """Say who holds the store."""
    return Status(os.getpid(), str(holder.store.root), holder.mountpoint)


@OPERATIONS.call(257)
def stop(holder: Holder) -> None:
    """Unmount, and end. The server does, once the answer is out; this only says whether it will."""
    if holder.stop is None:
        raise UsageError(f"process {os.getpid()} mounts nothing that could be unmounted")


@OPERATIONS.call(262)
def numbers(holder: Holder) -> dict[str, object]:
    """Return what the store holds, in one flat table."""
    return {**own(holder), **structs.asdict(holder.store.stats())}


class Own(TypedDict):
    """Which store it is, and where it is held (None: nowhere)."""

    root: str
    store_id: str
    socket: str | None
    mountpoint: str | None


def own(holder: Holder) -> Own:
    """Return what a report of a store begins with."""
    return Own(
        root=str(holder.store.root),
        store_id=holder.store.store_id.hex(),
        socket=holder.socket or None,
        mountpoint=holder.mountpoint or None,
    )


# -- conversations -----------------------------------------------------------------------------------------------------


@OPERATIONS.pages(258)
def list_conversations(holder: Holder, project: str = "") -> Iterator[list[ConversationLine]]:
    """List the conversations of a project, or of all ("")."""
    for one in _projects(holder, project):
        for page in pages_of(holder.store, one):
            yield [line_of(holder, conversation) for conversation in page]


@OPERATIONS.pages(491)
def latest(
    holder: Holder, words: tuple[str, ...] = (), limit: int = 100, skipped: int = 0
) -> Iterator[list[ConversationLine]]:
    """List up to ``limit`` conversations with all ``words`` in title, project or name, the last changed first.

    The first ``skipped`` of them are left out.
    """
    library = holder.store.library
    found = library.catalogue.matching(words, limit, skipped)
    yield [line_of(holder, library.conversation(entry.id)) for entry in found]


@OPERATIONS.pages(289)
def list_nested(holder: Holder, project: str = "", every: bool = False) -> Iterator[list[NestedLine]]:
    """List conversations, each followed by those of its subagents; ``every``: also what listings leave out."""
    library = holder.store.library
    among = Among.ALL if every else Among.LISTED
    for context in library.catalogue.unmeasured():
        # that tells whether it is listed
        library.conversation(context)
    for one in _projects(holder, project):
        after = ""
        while page := library.some(among, one, after=after, limit=_PAGE):
            nested = (each for conversation in page for each in library.nested(conversation, every=every))
            yield [
                NestedLine(**structs.asdict(line_of(holder, each)), parent=library.catalogue.place(each.id)[0])
                for each in nested
            ]
            after = page[-1].name


def _projects(holder: Holder, project: str) -> list[str]:
    projects = holder.store.catalogue.projects()
    if project and project not in projects:
        raise NotFound(f"no project is called {project}: `convfs ls` lists all conversations")
    return [project] if project else projects


@OPERATIONS.call(259)
def find_conversation(holder: Holder, name: str) -> ConversationLine:
    """Find a conversation by ``PROJECT/NAME``, a name that stands in one project only, or an id."""
    return line_of(holder, find_named(holder.store.library, name))


# -- versions ----------------------------------------------------------------------------------------------------------


@OPERATIONS.pages(264)
def log(holder: Holder, conversation_id: int) -> Iterator[list[LogLine]]:
    """List the versions of a conversation."""
    holder.store.library.conversation(conversation_id)
    yield version_log(holder.store.catalogue.versions(conversation_id))


@OPERATIONS.call(265)
def restore(holder: Holder, conversation_id: int, version: int) -> None:
    """Go back to a version of the log."""
    Editor(holder.store).restore(conversation_id, version)


@OPERATIONS.call(266)
def fork_as(holder: Holder, conversation_id: int, name: str, at: int = 0) -> ConversationLine:
    """Fork a conversation under a name, behind the record of the number ``at`` (0: the last)."""
    head = Editor(holder.store).fork(conversation_id, name, at=at)
    return line_of(holder, holder.store.library.conversation(head.context))


# -- files -------------------------------------------------------------------------------------------------------------


class ImportProgress(Struct, frozen=True):
    """How far an import is: bytes dealt with so far, and the session that it is at."""

    bytes: int
    session: str


@OPERATIONS.telling(260, progress=True)
def import_sessions(
    holder: Holder,
    emit: Emit[ImportProgress],
    paths: tuple[bytes, ...],
    format_name: str = "",
    dry_run: bool = False,
    watched: bool = False,
    pruned: bool = False,
) -> ImportReport:
    """Import what lies at absolute ``paths``, bytes since not every path is text; of one format, or of any ("").

    ``watched``: they are imported as they grow, again and again. ``pruned``: also those that were deleted for good.
    """
    places = [Path(os.fsdecode(path)) for path in paths]
    outside_the_mount(holder, places)
    done = 0

    def progress(size: int, session: str) -> None:
        nonlocal done
        done += size
        emit(ImportProgress(done, session))

    report = Importer(holder.store).run(
        places, format_name=format_name or None, dry_run=dry_run, by_hand=not watched, pruned=pruned, progress=progress
    )
    if "cxdb" in (report.tools or {}) and not dry_run:
        # the sessions of tools have names of their own
        Names(holder.store).give(holder.store.catalogue.nameless())
    return report


@OPERATIONS.call(261)
def export_sessions(holder: Holder, conversation_id: int, directory: bytes) -> list[bytes]:
    """Write a conversation as its tool does, to an absolute path; return the paths of the files."""
    place = Path(os.fsdecode(directory))
    outside_the_mount(holder, [place])
    written = export_native(holder.store, holder.store.library.conversation(conversation_id), place)
    return [os.fsencode(path) for path in written]


class ExportProgress(Struct, frozen=True):
    """How far an export is: bytes written so far."""

    bytes: int


class ExportedAs(Struct, frozen=True):
    """The paths of the files that were written, and what they do not say."""

    files: list[bytes]
    lost: list[Loss]


@OPERATIONS.telling(267, progress=True)
def export_as(
    holder: Holder, emit: Emit[ExportProgress], conversation_id: int, directory: bytes, format_name: str
) -> ExportedAs:
    """Write a conversation in another form, to an absolute path."""
    # here: most commands export nothing, and start sooner without all the forms
    from store.exporting.export import export

    place = Path(os.fsdecode(directory))
    outside_the_mount(holder, [place])
    done = told = 0

    def written(size: int) -> None:
        nonlocal done, told
        done += size
        if done - told >= _TOLD_AFTER:
            told = done
            emit(ExportProgress(done))

    exported = export(holder.store, holder.store.library.conversation(conversation_id), place, format_name, written)
    return ExportedAs([os.fsencode(path) for path in exported.files], list(exported.lost))


@OPERATIONS.call(306)
def plan_resume(holder: Holder, conversation_id: int, tool: str = "", at: int = 0) -> resume.Plan:
    """Plan how a program goes on with a conversation."""
    return resume.plan(holder.store, holder.store.library.conversation(conversation_id), tool, at)


@OPERATIONS.call(307)
def stage_resume(
    holder: Holder, conversation_id: int, folder: bytes, tool: str, at: int = 0, copy: int = 0, cwd: str = ""
) -> resume.Staged:
    """Write the session of such a plan into a folder, by an absolute path."""
    place = Path(os.fsdecode(folder))
    outside_the_mount(holder, [place])
    conversation = holder.store.library.conversation(conversation_id)
    return resume.stage(holder.store, conversation, place, tool, at=at, copy=copy, cwd=cwd)


@OPERATIONS.call(268)
def exported_names(holder: Holder, conversation_id: int, format_name: str) -> list[bytes]:
    """Return the paths that such an export would write, within its directory."""
    from store.exporting.export import names

    return [
        os.fsencode(name)
        for name in names(holder.store, holder.store.library.conversation(conversation_id), format_name)
    ]


class Shared(Struct, frozen=True):
    """What was taken out of a shared file, or is in it unseen; and what a file of its form does not say."""

    taken: list[Loss]
    lost: list[Loss]


@OPERATIONS.telling(490)
def share(
    holder: Holder,
    emit: Emit[bytes],
    conversation_id: int,
    format_name: str,
    first: int = 1,
    last: int = 0,
    replace: tuple[tuple[str, str], ...] = (),
    paths: bool = True,
    home: str = "",
    images: bool = True,
) -> Shared:
    """Hand out, in pieces, one file for others to read, of the events ``first`` to ``last`` (0: the last of all)."""
    from store.redaction.sharing import Private, share

    conversation = holder.store.library.conversation(conversation_id)
    private = Private(replace, paths, home, images)
    return Shared(*share(holder.store, conversation, format_name, private, emit, first, last))
