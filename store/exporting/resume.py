"""Sessions to go on with: the one that a program has already, or one that is written for it.

A program goes on with its own session where that lies, as long as nobody has edited the conversation. Everything else
(an edited conversation, a fork, an earlier event, one of several that the program would go on with all at once, another
program's conversation) becomes a session with an id of its own, so that none of the program's files is touched.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from msgspec import Struct, structs

from store.conversations import branch
from store.errors import NotFound, UsageError
from store.events.conversation import Conversation
from store.exporting.dialogue import Loss, Losses
from store.exporting.target import ExportJob
from store.formats.core.format import Resuming
from store.formats.registry import FORMATS, format_named
from store.ids import patch_of, tip_of
from store.importing.exporter import came_in_files, has_own_forks, identity, is_fork, is_one_of_many, staging
from store.importing.native import as_imported
from store.importing.placing import Stage
from store.importing.snapshot import text_path
from store.index.catalogue import ContextEntry
from store.store import Store


class Plan(Struct, frozen=True):
    """How ``tool`` goes on with a conversation: with its ``own`` session, if this is one, or else with another.

    The own one came from ``source``, b"" for a fork. ``edited``: the conversation has been changed since it came from
    there. ``directory`` is the one to work in, "" if it is not known.
    """

    tool: str
    session: str
    source: bytes
    own: bool
    edited: bool
    directory: str


class Staged(Struct, frozen=True):
    """A session that was written into a folder: its id, the paths of its files (the main one first), and its losses."""

    session: str
    files: list[bytes]
    lost: list[Loss]


def resuming_of(tool: str) -> Resuming:
    """Return how a program is told to go on with a session. Raises UsageError for one that cannot."""
    known = {one.tool: one for format_ in FORMATS for one in format_.resuming}
    if tool not in known:
        raise UsageError(f"{tool} is no program that goes on with sessions: choose one of {', '.join(known)}")
    return known[tool]


def plan(store: Store, conversation: Conversation, tool: str, at: int) -> Plan:
    """Plan how a program, or ("") its own one, goes on with a conversation behind its event ``at`` (0: the last)."""
    metadata, source = conversation.metadata, text_path(conversation.source)
    own = format_named(conversation.format).resuming if conversation.format else ()
    if not tool and not own:
        from store.exporting.export import is_target

        known = ((format_.name, one) for format_ in FORMATS for one in format_.resuming)
        named = (one.tool for name, one in known if is_target(name) and (one.places or one.beside))
        tools = ", ".join(dict.fromkeys(named))
        raise UsageError(
            f"no program goes on with sessions of {conversation.format or 'no tool'}: name one by --in ({tools})"
        )
    resuming = (
        resuming_of(tool) if tool else next((one for one in own if _lies_below(store, conversation, one)), own[0])
    )
    directory = str(metadata.get("cwd") or "")
    if resuming not in own or at or not came_in_files(conversation):
        return Plan(resuming.tool, "", b"", own=False, edited=True, directory=directory)
    if is_fork(conversation):
        return Plan(resuming.tool, "", b"", own=has_own_forks(conversation), edited=False, directory=directory)
    if resuming.beside:
        directory = str(source.parent)
        if is_one_of_many(store, conversation):
            # the program would go on with all that its file holds
            return Plan(resuming.tool, "", b"", own=False, edited=True, directory=directory)
    session = str(metadata.get("part") or metadata.get("session") or source.stem)
    edited = not as_imported(store.catalogue.entry(conversation.id))
    return Plan(resuming.tool, session, os.fsencode(source), own=True, edited=edited, directory=directory)


def _lies_below(store: Store, conversation: Conversation | ContextEntry, resuming: Resuming) -> bool:
    """Return whether a conversation, or the one that it was forked from, came from a program's own directory."""
    forked = conversation.metadata.get("forked_from")
    if not conversation.source and isinstance(forked, dict):
        try:
            return _lies_below(store, store.catalogue.entry(forked["context"]), resuming)
        except NotFound:
            return False
    folder = resuming.home(Path.home())
    return folder is not None and text_path(conversation.source).is_relative_to(folder)


def stage(
    store: Store, conversation: Conversation, folder: Path, tool: str, *, at: int = 0, copy: int = 0, cwd: str = ""
) -> Staged:
    """Write the session for a plan into ``folder``, by paths as below the program's own directory.

    ``copy`` 0 is the program's own session, each other number one with another id; ``cwd`` is the directory to work in
    if the conversation knows none.
    """
    # here: most commands export nothing, and start sooner without all the forms
    from store.exporting.export import is_target, target_named
    from store.exporting.sessions import NewSession, SessionTarget

    # a program may be called otherwise than the format of its sessions
    names = (tool, *(format_.name for format_ in FORMATS for one in format_.resuming if one.tool == tool))
    target = next((target_named(name) for name in names if is_target(name)), None)
    if not isinstance(target, SessionTarget):
        raise UsageError(f"{tool} takes no sessions from elsewhere: name another program by --in")
    head = conversation.head
    if at:
        turn = branch.position(store.records.runs(head), at)
        if not turn:
            raise NotFound(f"{conversation.project}/{conversation.name} has no event {at}")
        head = tip_of(turn, patch_of(head))
    metadata = {"cwd": cwd} | conversation.metadata
    conversation = structs.replace(conversation, head=head, metadata=metadata)
    losses = Losses()
    with staging(folder) as place:
        made = Stage(place.directory)
        job = ExportJob(store, conversation, made, losses, f" {head} {copy}" if copy else "")
        target.write_all(job)
    is_own = target.is_own(job)
    session = identity(store, conversation).session if is_own else target.session_id(NewSession(job, target.name))
    return Staged(session, [os.fsencode(PurePath(name)) for name in made.files], list(losses.all()))
