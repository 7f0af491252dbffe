"""What a conversation's metadata says of the files that it was imported from."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from store.ids import Hash
from store.importing.copied import Copied
from store.importing.cursor import Cursor, Stamp
from store.importing.envelope import Envelope
from store.importing.layout import Layout, read_layout
from store.store import Store


class SessionFiles(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``main`` is the name of the main file in the session's directory, "" where the session is but a file, ``first``
    those of the files before it; their contents are turns.

    ``envelope`` is the main file's; a large one is a blob, ``envelope_blob``. ``sidecars`` are blobs by the name to
    export them under. Names are as :func:`path_text` makes them, blobs are hashes in hex. ``copied`` is how the
    file says what it shares with another session.
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
            return msgspec.json.decode(store.blob(Hash(bytes.fromhex(self.envelope_blob))), type=Envelope)
        return self.envelope or Envelope()


class Imported(SessionFiles, frozen=True, omit_defaults=True, kw_only=True):
    """What the next import needs beside the files: ``beside`` are the stamps of all but the main one.

    ``titled`` holds the numbers of late records that may have given the conversation its title, ``missing`` those of
    records that refer to content that was not to be found, by its foreign digest in hex.
    """

    cursor: Cursor
    beside: dict[str, Stamp] = {}
    titled: tuple[int, ...] = ()
    missing: dict[str, int] = {}

    def changes(self, metadata: dict[str, object]) -> dict[str, object]:
        """Return what must change in ``metadata`` for it to hold this."""
        return _changes(self, metadata)


class ImportedFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is kept of a file of many conversations. ``layout`` is a blob, in hex, the others are as in a session.

    ``incomplete`` says that some of its records refer to content that was not to be found. ``rendered``: the layout is
    that of a rendition. ``original`` are then the blobs, in hex, of the file itself and those beside it, by name, and
    ``original_of`` is the layout that belongs to them.
    """

    layout: str
    main: str = ""
    sidecars: dict[str, str] = {}
    cursor: Cursor
    beside: dict[str, Stamp] = {}
    incomplete: bool = False
    rendered: bool = False
    original: dict[str, str] = {}
    original_of: str = ""

    @property
    def has_original(self) -> bool:
        """Whether the file is kept as it was when it was imported last, or holds its records itself."""
        return not self.rendered or self.original_of == self.layout

    def changes(self, metadata: dict[str, object]) -> dict[str, object]:
        """Return what must change in ``metadata`` for it to hold this."""
        return _changes(self, metadata)

    def read_layout(self, store: Store) -> Layout:
        """Return the layout. Raises DamageError and NotFound."""
        return read_layout(store.blob(Hash(bytes.fromhex(self.layout))))


def read_imported(metadata: dict[str, object]) -> Imported | None:
    """Return what metadata holds of this, None if its conversation came from no tool, or if it makes no sense."""
    try:
        return msgspec.convert(metadata, Imported)
    except msgspec.ValidationError:
        return None


def read_file(metadata: dict[str, object]) -> ImportedFile | None:
    """Return what metadata holds of a file of many conversations, None if there is nothing that makes sense."""
    try:
        return msgspec.convert(metadata, ImportedFile)
    except msgspec.ValidationError:
        return None


def missing_of(metadata: dict[str, object]) -> dict[str, int]:
    """Return what metadata holds of content that records refer to and that was not to be found, see above."""
    try:
        return msgspec.convert(metadata.get("missing", {}), dict[str, int])
    except msgspec.ValidationError:
        return {}


def read_files(metadata: dict[str, object]) -> SessionFiles | None:
    """Return what exporting a conversation needs; None if it came from no tool, by an import or as a fork.

    None, too, if it makes no sense.
    """
    if "envelope" not in metadata and "envelope_blob" not in metadata:
        return None
    try:
        return msgspec.convert(metadata, SessionFiles)
    except msgspec.ValidationError:
        return None


def _changes(value: Struct, metadata: dict[str, object]) -> dict[str, object]:
    fields: dict[str, object] = dict.fromkeys(value.__struct_fields__)
    fields |= msgspec.json.decode(msgspec.json.encode(value))
    return {key: value for key, value in fields.items() if metadata.get(key) != value}
