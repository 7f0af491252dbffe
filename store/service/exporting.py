"""The calls of the command that bring conversations out: export, resume, share.

Apart from the others: most commands need none of these, and start sooner without them.
"""

import os
from pathlib import Path, PurePath

from msgspec import Struct

from store.exporting import resume
from store.exporting.dialogue import Loss
from store.importing.exporter import export_native
from store.importing.placing import StagedFile, note_export
from store.service.call import Emit, Holder, Table

_TOLD_AFTER = 1 << 20
"""Bytes written between two items of progress."""

EXPORTING = Table()


@EXPORTING.call(261)
def export_sessions(holder: Holder, conversation_id: int, directory: bytes) -> list[bytes]:
    """Write a conversation as its tool does, to an absolute path; return the paths of the files."""
    place = Path(os.fsdecode(directory))
    holder.keep_out([place])
    written = export_native(holder.store, holder.store.library.conversation(conversation_id), place)
    return [os.fsencode(path) for path in written]


class ExportProgress(Struct, frozen=True):
    """How far an export is: bytes written so far."""

    bytes: int


class ExportedAs(Struct, frozen=True):
    """The paths of the files that were written, and what they do not say."""

    files: list[bytes]
    lost: list[Loss]


@EXPORTING.telling(267, progress=True)
def export_as(
    holder: Holder, emit: Emit[ExportProgress], conversation_id: int, directory: bytes, format_name: str
) -> ExportedAs:
    """Write a conversation in another form, to an absolute path."""
    from store.exporting.export import export

    place = Path(os.fsdecode(directory))
    holder.keep_out([place])
    done = told = 0

    def written(size: int) -> None:
        nonlocal done, told
        done += size
        if done - told >= _TOLD_AFTER:
            told = done
            emit(ExportProgress(done))

    exported = export(holder.store, holder.store.library.conversation(conversation_id), place, format_name, written)
    return ExportedAs([os.fsencode(path) for path in exported.files], list(exported.lost))


class StagedExport(Struct, frozen=True):
    """The files of an export that are to be put into its directory, and what they do not say."""

    files: list[StagedFile]
    lost: list[Loss]


@EXPORTING.call(310)
def stage_export(
    holder: Holder, conversation_id: int, folder: bytes, directory: bytes, format_name: str
) -> StagedExport:
    """Write into a folder what belongs into ``directory``, by its real path, for the caller to put it there."""
    from store.exporting.export import stage

    place = Path(os.fsdecode(folder))
    holder.keep_out([place])
    conversation = holder.store.library.conversation(conversation_id)
    files, lost = stage(holder.store, conversation, place, Path(os.fsdecode(directory)), format_name)
    return StagedExport(files, list(lost))


@EXPORTING.call(311)
def note_staged(
    holder: Holder, conversation_id: int, directory: bytes, format_name: str, files: list[StagedFile]
) -> None:
    """Note that the files of such an export are in the directory: the next one replaces them."""
    hashes = {PurePath(os.fsdecode(file.path)): file.hash for file in files if file.hash}
    note_export(holder.store, conversation_id, Path(os.fsdecode(directory)), format_name, PurePath(), hashes)


@EXPORTING.call(306)
def plan_resume(holder: Holder, conversation_id: int, tool: str = "", at: int = 0) -> resume.Plan:
    """Plan how a program goes on with a conversation."""
    return resume.plan(holder.store, holder.store.library.conversation(conversation_id), tool, at)


@EXPORTING.call(307)
def stage_resume(
    holder: Holder, conversation_id: int, folder: bytes, tool: str, at: int = 0, copy: int = 0, cwd: str = ""
) -> resume.Staged:
    """Write the session of such a plan into a folder, by an absolute path."""
    place = Path(os.fsdecode(folder))
    holder.keep_out([place])
    conversation = holder.store.library.conversation(conversation_id)
    return resume.stage(holder.store, conversation, place, tool, at=at, copy=copy, cwd=cwd)


@EXPORTING.call(268)
def exported_names(holder: Holder, conversation_id: int, format_name: str) -> list[bytes]:
    """Return the paths that such an export would write, within its directory."""
    from store.exporting.export import names

    return [
        os.fsencode(name)
        for name in names(holder.store, holder.store.library.conversation(conversation_id), format_name)
    ]


class Shared(Struct, frozen=True):
    """Parts taken out of a shared file or unseen in it, and those that its form does not have (``lost``)."""

    taken: list[Loss]
    lost: list[Loss]


@EXPORTING.telling(490)
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
