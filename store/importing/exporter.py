"""Native export: a conversation as its tool's own files, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

from store.artifacts.kept import files_beside
from store.errors import UsageError
from store.events.conversation import Conversation
from store.formats.registry import format_named
from store.ids import Hash
from store.importing import placing
from store.importing.assembling import Assembly
from store.importing.copied import Spelling
from store.importing.edited import Edited
from store.importing.imported import SessionFiles, read_file, read_files
from store.importing.original import restored
from store.importing.paths import path_text, text_path
from store.importing.stored import stored_records
from store.store import Store


def export_native(store: Store, conversation: Conversation, directory: Path) -> list[Path]:
    """Write a conversation into ``directory`` as its tool keeps it and return the files' paths.

    One that nobody edited becomes the very bytes that were imported; else these but for what was edited. What was
    deleted is left out, and what remains is linked as the tool needs it.

    A session that was one file becomes one of the same name, one that was a directory becomes one. Where such a name
    is taken, all goes into ``PROJECT/NAME/`` under ``directory`` instead; where that is taken too, Conflict. Nothing
    is overwritten, and nothing appears under its name before it is whole and on disk. UsageError for a conversation
    that came from no tool, and where the directory cannot be written to.

    One of many that came in one file is exported as that file, with all of them; where just that file is already, it
    stays.
    """
    files = dict(native_files(store, conversation))
    with placing.staging(directory) as staging:
        for name, pieces in files.items():
            placing.write(staging / name, pieces)
        if "file" in conversation.metadata and placing.there(staging, directory, files):
            # as another conversation of the same file has been exported
            return [directory / name for name in files]
        target = placing.put(staging, directory, PurePath(conversation.project, conversation.name))
    return [target / name for name in files]


def came_in_files(conversation: Conversation) -> bool:
    """Say whether there are files of a tool to export a conversation as."""
    return read_files(conversation.metadata) is not None or "file" in conversation.metadata


def native_files(store: Store, conversation: Conversation) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    """Yield what :func:`export_native` would write into an empty directory: names within it, contents in pieces."""
    if (kept := read_files(conversation.metadata)) is not None:
        return _files_of_one(store, conversation, kept)
    if "file" in conversation.metadata:
        return _files_of_many(store, conversation)
    who = f"{conversation.project}/{conversation.name}"
    raise UsageError(f"{who} was not imported from a tool: there are no files to export it as")


# -- what is written -----------------------------------------------------------------------------------------------


def _files_of_many(store: Store, conversation: Conversation) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    """Yield the files of which a conversation is one of many, all of these in them."""
    file = store.entry(int(str(conversation.metadata["file"])))
    imported = read_file(file.metadata)
    if imported is None:
        raise UsageError(f"{conversation.source} was not imported to its end: import it again")
    chosen = [store.entry(conversation.id)]
    assembly = Assembly(store, file, imported.read_layout(store), chosen)
    source = text_path(str(conversation.metadata.get("exported_as") or file.metadata["layout_of"]))
    folder = PurePath(source.name if imported.main else "")
    name = _inside(folder, imported.main or source.name)
    main = imported.main or path_text(text_path(str(file.metadata["layout_of"])).name)
    if not imported.rendered:
        yield name, assembly.pieces()
    elif assembly.edited or not imported.has_original:
        yield name, restored(store, format_named(file.format), main, imported.original, assembly.pieces())
    else:
        for beside, digest in imported.original.items():
            at = name if beside == main else name.with_name(name.name + beside.removeprefix(main))
            yield at, store.blob_pieces(Hash(bytes.fromhex(digest)))
    yield from _sidecars(store, folder, imported.sidecars)


def _files_of_one(
    store: Store, conversation: Conversation, kept: SessionFiles
) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    """Yield the files of a session, each with its content in pieces."""
    source = text_path(str(conversation.metadata.get("exported_as") or conversation.source))
    folder = _folder(source, kept)
    main = _inside(folder, kept.main or source.name)
    entry = store.entry(conversation.id)
    turns = [turn for start, count in store.runs(conversation.head) for turn in range(start, start + count)]
    first = len(kept.first)
    envelope = kept.read_envelope(store)
    if conversation.head == entry.imported and not entry.merged:
        for position, record in enumerate(stored_records(store, turns[:first])):
            yield _of_first(folder, kept, position), record
        spelling = Spelling(store, kept.copied)
        numbers, turns = spelling.in_file(turns[first:])
        yield main, envelope.join(spelling.spell(numbers, stored_records(store, turns)))
    else:
        edited = Edited(store, conversation, entry.imported_head, first, kept.copied)
        for position, turn in edited.first:
            yield _of_first(folder, kept, position), next(stored_records(store, [turn]))
        joints = edited.format.joints
        if edited.deleted:
            yield main, envelope.rejoin(edited.without(edited.records(store)), joints, edited.count)
        else:
            records = zip(edited.positions, edited.records(store), strict=True)
            yield main, envelope.rejoin(records, joints, edited.count)
        yield from ((PurePath(name), (content,)) for name, content in edited.outside.items())
    has_folder = format_named(conversation.format).outputs_beside
    beside = files_beside(conversation.metadata, kept.sidecars, path_text(source.stem) if has_folder else "")
    yield from _sidecars(store, folder, beside)


def _sidecars(
    store: Store, folder: PurePath, sidecars: Mapping[str, str]
) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    for name, digest in sidecars.items():
        yield _inside(folder, name), store.blob_pieces(Hash(bytes.fromhex(digest)))


def _folder(source: Path, kept: SessionFiles) -> PurePath:
    """Return the directory, within that of the export, which names of a session's files are relative to.

    Files that belong to a session which is a file may lie in directories beside those above it.
    """
    if kept.main:
        return PurePath(source.name)
    above = max((text_path(name).parts.count("..") for name in kept.first), default=0)
    return PurePath(*source.parent.parts[len(source.parent.parts) - above :])


def _of_first(folder: PurePath, kept: SessionFiles, position: int) -> PurePath:
    name = kept.first[position]
    if kept.main:
        return _inside(folder, name)
    return _inside(PurePath(), path_text(os.path.normpath(folder / text_path(name))))


def _inside(folder: PurePath, name: str) -> PurePath:
    path = folder / text_path(name)
    if path.is_absolute() or ".." in path.parts or path == folder:
        raise UsageError(f"{name} is no name for a file within a session: see metadata.json of the conversation")
    return path
