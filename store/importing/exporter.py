"""Native export: a conversation as its tool's own files, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from store.errors import Conflict, UsageError
from store.events.conversation import Conversation
from store.ids import Hash
from store.importing.envelope import Envelope
from store.store import Store

_LARGE = 8 << 20


def export_native(store: Store, conversation: Conversation, directory: Path) -> list[Path]:
    """Write a conversation into ``directory`` as it was imported and return the files' paths.

    A session that was one file becomes one file, one that was a directory becomes one. Never overwrites: Conflict
    if a file is there already. UsageError for a conversation that came from no tool.
    """
    metadata = conversation.metadata
    if "envelope" not in metadata:
        raise UsageError(f"{conversation.project}/{conversation.name} was not imported from a tool: nothing to export as")
    envelope = msgspec.convert(metadata["envelope"], Envelope)
    first = msgspec.convert(metadata.get("first", []), list[str])
    sidecars = msgspec.convert(metadata.get("sidecars", {}), dict[str, str])
    main = str(metadata["main"])
    source = Path(conversation.source)
    target = directory if source.name == main else directory / source.name
    records = [
        turn for start, count in store.runs(conversation.head) for turn in range(start, start + count)
    ]
    files: list[tuple[Path, Iterator[bytes]]] = [
        (target / name, _pieces(store, turn)) for name, turn in zip(first, records, strict=False)
    ]
    files.append((target / main, envelope.join(_pieces(store, turn) for turn in records[len(first) :])))
    files += [(target / name, store.blob_pieces(Hash(bytes.fromhex(digest)))) for name, digest in sidecars.items()]
    for path, pieces in files:
        _write(path, pieces)
    return [path for path, _pieces_ in files]


def _pieces(store: Store, turn_id: int) -> Iterator[bytes]:
    digest = store.turn(turn_id).payload_hash
    if store.blob_size(digest) > _LARGE:
        return store.blob_pieces(digest)
    return iter((store.blob(digest),))


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("xb")
    except FileExistsError as error:
        raise Conflict(f"{path} exists already: export into another directory, or move it away") from error
    try:
        with file:
            for piece in pieces:
                file.write(piece)
    except BaseException:
        # half a file would look like a whole one
        path.unlink()
        raise


