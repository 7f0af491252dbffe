"""Which outputs a conversation has: those that its metadata names, and those that came beside an imported session."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol

import msgspec
from msgspec import Struct

from store.artifacts.names import is_name
from store.errors import ConvfsError
from store.events.outputs import ARTIFACTS, Outputs
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
    found = _beside(store, metadata.get("sidecars"), outputs, conversation.updated_ms * 1_000_000)
    for key, value in metadata.items():
        if key.startswith(outputs.key) and (output := _named(key.removeprefix(outputs.key), value)) is not None:
            found[output.name] = output
    return found


def _named(name: str, value: object) -> Output | None:
    try:
        said = msgspec.convert(value, _Named)
        digest = Hash(bytes.fromhex(said.blob))
    except (msgspec.ValidationError, ValueError):
        return None
    return Output(name, said.size, said.modified_ns, digest) if len(digest) == HASH_SIZE and "/" not in name else None


def _beside(store: Sized, sidecars: object, outputs: Outputs, modified_ns: int) -> dict[str, Output]:
    found: dict[str, Output] = {}
    for path, digest in sidecars.items() if isinstance(sidecars, Mapping) else ():
        name = PurePath(path).name
        if not _is_beside(PurePath(path), outputs) or name in found:
            continue
        try:
            blob = Hash(bytes.fromhex(digest))
            size = store.blob_size(blob)
        except (ConvfsError, ValueError) as error:
            # what else there is can be read: this is told to the one who reads it
            log.warning("%s: %s", path, error)
            size = 0
        found[name] = Output(name, size, modified_ns, blob, True)
    return found


def _is_beside(path: PurePath, outputs: Outputs) -> bool:
    """Say whether a file beside a session is an output: by where the tools put them."""
    in_results = path.parent.name == _TOOL_RESULTS
    if outputs is ARTIFACTS:
        return in_results or is_name(outputs, path.name)
    return path.suffix == outputs.ending and not in_results and len(path.parts) == 2
