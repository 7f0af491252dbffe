"""Provenance: the files that a conversation was imported from, as its metadata keeps them."""

from typing import TypeVar

import msgspec
from blake3 import blake3
from msgspec import Struct

from store import typed
from store.errors import DamageError
from store.formats.core.format import Mark, Source
from store.ids import Hash
from store.importing.envelope import Envelope, Layout, read_layout
from store.importing.likeness import Copied
from store.importing.snapshot import Cursor, Stamp, path_text
from store.store import Store

_Read = TypeVar("_Read")


def named_hash(text: str) -> Hash:
    """Return the hash that metadata gives in hex. Raises DamageError if it is none: anybody can change metadata."""
    try:
        return Hash(bytes.fromhex(text))
    except ValueError:
        raise DamageError(f"{text!r} is the hash of nothing: see metadata.json of the conversation") from None


def main_name(source: Source) -> str:
    """Return the name of the main file in a session's directory, "" if the session is a single file."""
    return "" if source.main == source.path else path_text(source.main.name)


class SessionFiles(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The files of a session.

    ``main`` is the name of the main file in the session's directory, "" if the session is a single file; ``first`` are
    the names of the files before it, whose contents are turns.

    ``envelope`` is the main file's; a large one is a blob, ``envelope_blob``. ``sidecars`` are blobs by the name to
    export them under. Names are as :func:`path_text` makes them, blobs are hashes in hex. ``copied`` describes the part
    of the file that it shares with another session.
    """

    main: str = ""
    envelope: Envelope | None = None
    envelope_blob: str = ""
    first: tuple[str, ...] = ()
    sidecars: dict[str, str] = {}
    copied: Copied | None = None

    def read_envelope(self, store: Store) -> Envelope:
        """Return the envelope of the main file. Raises DamageError and NotFound for one that is a blob."""
        if self.envelope_blob:
            return typed.decode(store.blobs.blob(named_hash(self.envelope_blob)), Envelope)
        return self.envelope or Envelope()


class Imported(SessionFiles, frozen=True, omit_defaults=True, kw_only=True):
    """A session's files, and what the next import needs: ``beside`` are the stamps of all but the main one.

    ``titled`` holds the numbers of late records that may have given the conversation its title, ``missing`` those of
    records that refer to missing content, by its foreign digest in hex. ``written_ns`` is the time of a file that its
    tool has written into a mount, in Unix nanoseconds; None for one that was imported.
    """

    cursor: Cursor
    written_ns: int | None = None
    beside: dict[str, Stamp] = {}
    titled: tuple[int, ...] = ()
    missing: dict[str, int] = {}


class Rewritten(Struct, frozen=True):
    """A state of a file of many conversations, written with people's changes to these.

    ``size`` and ``prefix`` are its size and its BLAKE3 in hex, ``heads`` the tips of the conversations that had been
    changed, by their ids.
    """

    size: int
    prefix: str
    heads: dict[str, int]


class ImportedFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file of many conversations as it was imported. ``layout`` is a blob, in hex, the others are as in a session.

    ``marks`` say how far a database was read.

    ``incomplete``: some of its records refer to missing content. ``rendered``: the layout is that of a rendition.
    ``original`` are then the blobs, in hex, of the file itself and those beside it, by name, and ``original_of`` is the
    layout that belongs to them. ``rewritten`` are the last two states that the file was given since, in the mount.
    """

    layout: str
    marks: dict[str, Mark] = {}
    main: str = ""
    sidecars: dict[str, str] = {}
    cursor: Cursor
    beside: dict[str, Stamp] = {}
    incomplete: bool = False
    rendered: bool = False
    original: dict[str, str] = {}
    original_of: str = ""
    rewritten: tuple[Rewritten, ...] = ()

    @property
    def has_original(self) -> bool:
        """True if the file is kept as it was when it was imported last, or holds its records itself."""
        return not self.rendered or self.original_of == self.layout

    @property
    def states(self) -> list[str]:
        """The hashes of all states in which the file counts as unchanged."""
        return [self.cursor.prefix, *(written.prefix for written in self.rewritten)]

    def heads(self, data: memoryview) -> dict[str, int]:
        """Return the tips whose records the file, now ``data``, holds, where they differ from the imported ones.

        A file that was given people's changes goes on from these, unless it begins exactly as it was imported.
        """
        for written in reversed(self.rewritten):
            if blake3(data[: written.size]).hexdigest() == written.prefix:
                return written.heads
        if not self.rewritten or blake3(data[: self.cursor.offset]).hexdigest() == self.cursor.prefix:
            return {}
        return self.rewritten[-1].heads

    def read_layout(self, store: Store) -> Layout:
        """Return the layout. Raises DamageError and NotFound."""
        return read_layout(store.blobs.blob(named_hash(self.layout)))


def read_as(metadata: object, kind: type[_Read]) -> _Read | None:
    """Return the import in metadata, ``kind`` being one of the above; None if there is none, or it makes no sense."""
    try:
        return typed.convert(metadata, kind)
    except msgspec.ValidationError:
        return None


def missing_of(metadata: dict[str, object]) -> dict[str, int]:
    """Return the missing content that records refer to, from metadata; see above."""
    return read_as(metadata.get("missing"), dict[str, int]) or {}


def read_files(metadata: dict[str, object]) -> SessionFiles | None:
    """Return the files needed to export a conversation, None if it came from no tool or they make no sense."""
    there = "envelope" in metadata or "envelope_blob" in metadata
    return read_as(metadata, SessionFiles) if there else None


def changes_of(value: Struct, metadata: dict[str, object]) -> dict[str, object]:
    """Return the changes that ``metadata`` needs to hold ``value``, one of the above."""
    fields: dict[str, object] = dict.fromkeys(value.__struct_fields__)
    fields |= msgspec.json.decode(msgspec.json.encode(value))
    return {key: value for key, value in fields.items() if metadata.get(key) != value}
