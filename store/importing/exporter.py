"""Native export: a conversation as its tool's own files, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from store.errors import ConvfsError, UsageError
from store.events.conversation import Conversation
from store.ids import Hash
from store.importing import placing
from store.importing.edited import Edited
from store.importing.imported import SessionFiles, read_files
from store.importing.paths import text_path
from store.store import Store

_RECORDS_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20


def export_native(store: Store, conversation: Conversation, directory: Path) -> list[Path]:
    """Write a conversation into ``directory`` as its tool keeps it and return the files' paths.

    One that nobody edited becomes the very bytes that were imported; else these but for what was edited. What was
    deleted is left out, and what remains is linked as the tool needs it.

    A session that was one file becomes one of the same name, one that was a directory becomes one. Where such a name
    is taken, all goes into ``PROJECT/NAME/`` under ``directory`` instead; where that is taken too, Conflict. Nothing
    is overwritten, and nothing appears under its name before it is whole and on disk. UsageError for a conversation
    that came from no tool, and where the directory cannot be written to.
    """
    files = dict(native_files(store, conversation))
    with placing.staging(directory) as staging:
        for name, pieces in files.items():
            placing.write(staging / name, pieces)
        target = placing.put(staging, directory, PurePath(conversation.project, conversation.name))
    return [target / name for name in files]


def native_files(store: Store, conversation: Conversation) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    """Yield what :func:`export_native` would write into an empty directory: names within it, contents in pieces."""
    return _files(store, conversation, _kept(conversation))


def _kept(conversation: Conversation) -> SessionFiles:
    kept = read_files(conversation.metadata)
    if kept is None:
        who = f"{conversation.project}/{conversation.name}"
        raise UsageError(f"{who} was not imported from a tool: there are no files to export it as")
    return kept


# -- what is written -----------------------------------------------------------------------------------------------


def _files(store: Store, conversation: Conversation, kept: SessionFiles) -> Iterator[tuple[PurePath, Iterable[bytes]]]:
    """Yield the files of a session, each with its content in pieces."""
    source = text_path(str(conversation.metadata.get("exported_as") or conversation.source))
    folder = PurePath(source.name if kept.main else "")
    main = _inside(folder, kept.main or source.name)
    entry = store.entry(conversation.id)
    turns = [turn for start, count in store.runs(conversation.head) for turn in range(start, start + count)]
    first = len(kept.first)
    envelope = kept.read_envelope(store)
    if conversation.head == entry.imported and not entry.merged:
        for name, record in zip(kept.first, _records(store, turns[:first]), strict=False):
            yield _inside(folder, name), record
        yield main, envelope.join(_records(store, turns[first:]))
    else:
        edited = Edited(store, conversation, entry.imported_head, first)
        for position, turn in edited.first:
            yield _inside(folder, kept.first[position]), next(_records(store, [turn]))
        joints = edited.format.joints
        if edited.deleted:
            yield main, envelope.rejoin(edited.without(_records(store, edited.turns)), joints)
        else:
            records = zip(edited.positions, _records(store, edited.turns), strict=True)
            yield main, envelope.rejoin(records, joints)
    for name, digest in kept.sidecars.items():
        yield _inside(folder, name), store.blob_pieces(Hash(bytes.fromhex(digest)))


def _inside(folder: PurePath, name: str) -> PurePath:
    path = folder / text_path(name)
    if path.is_absolute() or ".." in path.parts or path == folder:
        raise UsageError(f"{name} is no name for a file within a session: see metadata.json of the conversation")
    return path


def _records(store: Store, turns: list[int]) -> Iterator[Iterable[bytes]]:
    """Yield the payloads of turns, each in pieces, many small ones read in one pass."""
    batch: list[int] = []
    size = 0
    for turn in turns:
        digest = store.turn(turn).payload_hash
        length = store.blob_size(digest)
        if batch and (len(batch) == _RECORDS_AT_ONCE or size + length > _BYTES_AT_ONCE):
            yield from _payloads(store, batch)
            batch, size = [], 0
        if length > _BYTES_AT_ONCE:
            yield store.blob_pieces(digest)
            continue
        batch.append(turn)
        size += length
    yield from _payloads(store, batch)


def _payloads(store: Store, turns: list[int]) -> Iterator[tuple[bytes]]:
    for _turn, payload in store.payloads(turns):
        if isinstance(payload, ConvfsError):
            raise payload
        yield (payload,)
