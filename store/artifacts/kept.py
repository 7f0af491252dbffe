"""Which outputs a conversation has: those that its metadata names, and those that came beside an imported session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Protocol

import msgspec
from msgspec import Struct

from store.artifacts.names import is_name
from store.errors import ConvfsError
from store.events.outputs import ARTIFACTS, SORTS, Outputs
from store.ids import HASH_SIZE, Hash

log = logging.getLogger(__name__)

_TOOL_RESULTS = "tool-results"
"""The directory beside a session in which Claude Code keeps outputs that were too long for a line."""


class Output(Struct, frozen=True):
    """One output: its name, its size in bytes, when it was last written (Unix nanoseconds), and its blob.

    ``blob`` is None while it is being written. An ``imported`` one came beside a session, and stays there.
    """

    name: str
    size: int
    modified_ns: int
    blob: Hash | None = None
    imported: bool = False


class Described(Protocol):
    """A conversation."""

    @property
    def metadata(self) -> dict[str, object]: ...
    @property
    def updated_ms(self) -> int: ...


class Sized(Protocol):
    """A store."""

    def blob_size(self, digest: Hash) -> int: ...


class _Named(Struct, frozen=True):
    """What metadata says of one."""

    blob: str
    size: int
    modified_ns: int = 0


def told(digest: Hash, size: int, modified_ns: int) -> dict[str, object]:
    """Return what metadata is to say of an output."""
    return {"blob": digest.hex(), "size": size, "modified_ns": modified_ns}


def kept_outputs(store: Sized, conversation: Described, outputs: Outputs) -> dict[str, Output]:
    """Return the outputs of a conversation that are whole, by their names; one that makes no sense is left out."""
    metadata = conversation.metadata
    # of two of one name, the first
    beside = dict(reversed([*_beside(conversation, outputs)]))
    found = {name: _imported(store, conversation, name, blob) for name, blob in beside.items()}
    for key, value in metadata.items():
        if key.startswith(outputs.key) and (output := _named(key.removeprefix(outputs.key), value)) is not None:
            found[output.name] = output
    return found


def kept_output(store: Sized, conversation: Described, outputs: Outputs, name: str) -> Output | None:
    """Return one of them."""
    value = conversation.metadata.get(outputs.key + name)
    if value is not None and (output := _named(name, value)) is not None:
        return output
    beside = (blob for named, blob in _beside(conversation, outputs, name) if named == name)
    blob = next(beside, None)
    return None if blob is None else _imported(store, conversation, name, blob)


def has_outputs(conversation: Described, outputs: Outputs) -> bool:
    """Say whether a conversation has any."""
    named = any(key.startswith(outputs.key) for key in conversation.metadata)
    return named or next(_beside(conversation, outputs), None) is not None


def files_beside(metadata: Mapping[str, object], sidecars: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return what is to be exported beside a session: blobs, in hex, by path.

    These are its ``sidecars``, but outputs that were written anew as they are now. ``folder`` is where the tool looks
    for outputs ("": nowhere): there are all of them, those too that did not come with the session.
    """
    written = {
        (outputs, output.name): output.blob.hex()
        for outputs in SORTS
        for key, value in metadata.items()
        if key.startswith(outputs.key) and (output := _named(key.removeprefix(outputs.key), value)) and output.blob
    }
    files: dict[str, str] = {}
    for path, digest in sidecars.items():
        name = PurePath(path).name
        sort = next((outputs for outputs in SORTS if _is_beside(PurePath(path), outputs)), None)
        if sort is None:
            files[path] = digest
        else:
            is_there = folder and len(PurePath(path).parts) == 2
            files[f"{folder}/{name}" if is_there else path] = written.pop((sort, name), digest)
    return files | {f"{folder}/{name}": digest for (_sort, name), digest in written.items() if folder}


def _named(name: str, value: object) -> Output | None:
    try:
        said = msgspec.convert(value, _Named)
        digest = Hash(bytes.fromhex(said.blob))
    except (msgspec.ValidationError, ValueError):
        return None
    return Output(name, said.size, said.modified_ns, digest) if len(digest) == HASH_SIZE and "/" not in name else None


def _imported(store: Sized, conversation: Described, name: str, digest: Hash) -> Output:
    try:
        size = store.blob_size(digest)
    except ConvfsError as error:
        # what else there is can be read: this is told to the one who reads it
        log.warning("%s, which came beside a session: %s", name, error)
        size = 0
    return Output(name, size, conversation.updated_ms * 1_000_000, digest, True)


def _beside(conversation: Described, outputs: Outputs, ending: str = "") -> Iterator[tuple[str, Hash]]:
    """Yield the outputs that came beside an imported session, by name; those alone whose paths have an ``ending``."""
    sidecars = conversation.metadata.get("sidecars")
    for path, digest in sidecars.items() if isinstance(sidecars, Mapping) else ():
        # there may be very many, and one is asked for at a time
        if path.endswith(ending) and _is_beside(PurePath(path), outputs):
            with suppress(TypeError, ValueError):
                yield PurePath(path).name, Hash(bytes.fromhex(digest))


def _is_beside(path: PurePath, outputs: Outputs) -> bool:
    """Say whether a file beside a session is an output: by where the tools put them."""
    in_results = path.parent.name == _TOOL_RESULTS
    if outputs is ARTIFACTS:
        return in_results or is_name(outputs, path.name)
    return path.suffix == outputs.ending and not in_results and len(path.parts) == 2
