"""The calls of the command that bring conversations in and out: import, export, resume, share.

Apart from the others: most commands need none of these, and start sooner without them.
"""

import os
from pathlib import Path, PurePath

from msgspec import Struct

from store.errors import UsageError
from store.exporting import resume
from store.exporting.dialogue import Loss
from store.importing.exporter import export_native
from store.importing.importer import Importer, ImportReport
from store.importing.placing import StagedFile, note_export
from store.service.call import Emit, Holder, Table
from store.service.naming import Names

_TOLD_AFTER = 1 << 20
"""Bytes written between two items of progress."""

TRANSFERS = Table()


def outside_the_mount(holder: Holder, paths: list[Path]) -> None:
    """Raise UsageError for paths in the holder's own mount: a process that waits for that may wait for ever."""
    for path in paths:
        if holder.mountpoint and path.is_relative_to(holder.mountpoint):
            raise UsageError(f"{path} lies in the mount of this very store: name a place outside {holder.mountpoint}")


class ImportProgress(Struct, frozen=True):
    """How far an import is: bytes dealt with so far, and the session that it is at."""

    bytes: int
    session: str


@TRANSFERS.telling(260, progress=True)
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


@TRANSFERS.call(261)
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


@TRANSFERS.telling(267, progress=True)
def export_as(
    holder: Holder, emit: Emit[ExportProgress], conversation_id: int, directory: bytes, format_name: str
) -> ExportedAs:
    """Write a conversation in another form, to an absolute path."""
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


class StagedExport(Struct, frozen=True):
    """The files of an export that are to be put into its directory, and what they do not say."""

    files: list[StagedFile]
    lost: list[Loss]


@TRANSFERS.call(310)
def stage_export(
    holder: Holder, conversation_id: int, folder: bytes, directory: bytes, format_name: str
) -> StagedExport:
    """Write into a folder what belongs into ``directory``, by its real path, for the caller to put it there."""
    from store.exporting.export import stage

    place = Path(os.fsdecode(folder))
    outside_the_mount(holder, [place])
    conversation = holder.store.library.conversation(conversation_id)
    files, lost = stage(holder.store, conversation, place, Path(os.fsdecode(directory)), format_name)
    return StagedExport(files, list(lost))


@TRANSFERS.call(311)
def note_staged(
    holder: Holder, conversation_id: int, directory: bytes, format_name: str, files: list[StagedFile]
) -> None:
    """Note that the files of such an export are in the directory: the next one replaces them."""
    hashes = {PurePath(os.fsdecode(file.path)): file.hash for file in files if file.hash}
    note_export(holder.store, conversation_id, Path(os.fsdecode(directory)), format_name, PurePath(), hashes)


@TRANSFERS.call(306)
def plan_resume(holder: Holder, conversation_id: int, tool: str = "", at: int = 0) -> resume.Plan:
    """Plan how a program goes on with a conversation."""
    return resume.plan(holder.store, holder.store.library.conversation(conversation_id), tool, at)


@TRANSFERS.call(307)
def stage_resume(
    holder: Holder, conversation_id: int, folder: bytes, tool: str, at: int = 0, copy: int = 0, cwd: str = ""
) -> resume.Staged:
    """Write the session of such a plan into a folder, by an absolute path."""
    place = Path(os.fsdecode(folder))
    outside_the_mount(holder, [place])
    conversation = holder.store.library.conversation(conversation_id)
    return resume.stage(holder.store, conversation, place, tool, at=at, copy=copy, cwd=cwd)


@TRANSFERS.call(268)
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


@TRANSFERS.telling(490)
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
