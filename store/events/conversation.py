"""Conversations and the rows that describe their records, as the index holds them."""

from collections.abc import Mapping

from msgspec import Struct

from store.events.event import Kind


class Conversation(Struct, frozen=True):
    """A context with its metadata. Times are Unix milliseconds, sizes bytes.

    ``head`` is the tip (``store.ids``) of the branch (0 while it is empty), ``records`` its number of records
    (depth + 1), ``events`` how many of these have a file in ``events/``. ``transcript_size`` and ``json_size`` are the
    sums of its rows' ``section_size`` and ``json_size``. ``described_ms`` is when its metadata changed last.
    """

    id: int
    project: str
    name: str
    title: str
    format: str
    source: str
    head: int
    records: int
    events: int
    created_ms: int
    updated_ms: int
    transcript_size: int
    json_size: int
    metadata: dict[str, object]
    described_ms: int = 0

    @property
    def labels(self) -> list[str]:
        """The labels that it has."""
        return labels_of(self.metadata)


def labels_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the labels that metadata gives, each once, in order; whatever else stands there is none."""
    labels = metadata.get("labels")
    if not isinstance(labels, list):
        return []
    return list(dict.fromkeys(label for label in labels if isinstance(label, str) and label))


class EventRow(Struct, frozen=True, gc=False):
    """What the index knows of one record of a conversation, without reading its payload.

    ``number`` is depth + 1. ``file_size`` is the size of the event's file, ``section_size`` that of its section in the
    transcript, ``json_size`` that of its element in ``events.json``, and
    ``payload_size`` that of the producer's own bytes. A ``deleted`` record is a RECORD whose other sizes are 0.
    """

    turn: int
    number: int
    kind: Kind
    tool: str
    parent: int
    time_ms: int
    file_size: int
    section_size: int
    json_size: int
    payload_size: int
    deleted: bool = False


class ResourceRow(Struct, frozen=True, gc=False):
    """One resource that the record ``turn`` (event ``number``) holds, at position ``seq`` of its resources.

    ``hash`` is the BLAKE3 of its content.
    """

    turn: int
    number: int
    seq: int
    uri: str
    mime: str
    size: int
    time_ms: int
    hash: bytes


class Version(Struct, frozen=True):
    """One state that a conversation has been in; versions are numbered from 1, oldest first, pruned ones too.

    It began at ``time_ms`` with ``action``. What was appended since is part of it: ``head`` is the tip where it ends.
    """

    number: int
    seq: int
    time_ms: int
    head: int
    records: int
    action: str


class Sizes(Struct, frozen=True, gc=False):
    """What a renderer measured of one event, in bytes: its file, its transcript section, its JSON element."""

    file: int
    section: int
    json: int
