"""The calls of the command for conversations: find, restore, fork; and who holds the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct, structs

from store.conversations.lines import ConversationLine, LogLine, NestedLine
from store.errors import UsageError
from store.service.call import Holder, Table

if TYPE_CHECKING:
    from store.events.conversation import Conversation

OPERATIONS = Table()


class Status(Struct, frozen=True):
    """The process that holds the store, and where it mounts it ("" for nowhere)."""

    pid: int
    root: str
    mountpoint: str


def line_of(holder: Holder, conversation: Conversation) -> ConversationLine:
    """Return a conversation as ``ls`` shows it; its path is absolute where the holder mounts the store."""
    from store.conversations.listing import line_of as line
    from store.conversations.places import Places

    return line(Places(holder.store.catalogue), conversation, holder.mountpoint)


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
    from store.conversations.listing import some_projects
    from store.service.calls import pages_of

    for one in some_projects(holder.store.catalogue, project):
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
    from store.conversations.listing import nested_lines

    return nested_lines(holder.store.library, project, every=every, mountpoint=holder.mountpoint)


@OPERATIONS.call(259)
def find_conversation(holder: Holder, name: str) -> ConversationLine:
    """Find a conversation by ``PROJECT/NAME``, a name that stands in one project only, or an id."""
    from store.conversations.named import find_named

    return line_of(holder, find_named(holder.store.library, name))


# -- versions ----------------------------------------------------------------------------------------------------------


@OPERATIONS.pages(264)
def log(holder: Holder, conversation_id: int) -> Iterator[list[LogLine]]:
    """List the versions of a conversation."""
    from store.editing.editor import version_log

    holder.store.library.conversation(conversation_id)
    yield version_log(holder.store.catalogue.versions(conversation_id))


@OPERATIONS.call(265)
def restore(holder: Holder, conversation_id: int, version: int) -> None:
    """Go back to a version of the log."""
    from store.editing.editor import Editor

    Editor(holder.store).restore(conversation_id, version)


@OPERATIONS.call(266)
def fork_as(holder: Holder, conversation_id: int, name: str, at: int = 0) -> ConversationLine:
    """Fork a conversation under a name, behind the record of the number ``at`` (0: the last)."""
    from store.editing.editor import Editor

    head = Editor(holder.store).fork(conversation_id, name, at=at)
    return line_of(holder, holder.store.library.conversation(head.context))
