"""The files of a conversation as a whole: ``events.json``, ``metadata.json`` and the transcript."""

from __future__ import annotations

import msgspec

from fusefs.text import transcript
from fusefs.text.grammar import timestamp
from fusefs.tree.node import DERIVED_FILE, FILE, Attributes, Content, File, Lazy, Through
from fusefs.tree.view_node import ViewNode
from store.events.conversation import Conversation


class MetadataFile(ViewNode, File):
    """``metadata.json``: what is known of a conversation as a whole."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        view = self.view
        return Attributes(self.ino, FILE, len(metadata_text(view.conversation)), view.time_ms)

    def open(self) -> Content:
        return Lazy(lambda: metadata_text(self.view.conversation))


_IMPORTERS_OWN = frozenset({"cursor", "envelope", "first", "main", "sidecars", "started_ms", "updated_ms"})
"""What importers keep in a conversation's metadata for themselves."""


def metadata_text(conversation: Conversation) -> bytes:
    """Return the text of ``metadata.json``: the metadata, and what the store knows besides."""
    table: dict[str, object] = {
        "title": conversation.title,
        **{key: value for key, value in conversation.metadata.items() if key not in _IMPORTERS_OWN},
        "project": conversation.project,
        "name": conversation.name,
        "format": conversation.format,
        "source": conversation.source,
        "context": conversation.id,
        "records": conversation.records,
        "events": conversation.events,
        "created": timestamp(conversation.created_ms),
        "updated": timestamp(conversation.updated_ms),
    }
    return msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n"


class EventsJson(ViewNode, File):
    """``events.json``."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        view = self.view
        return self.as_served(Attributes(self.ino, FILE, view.json_size, view.time_ms))

    def label(self) -> str:
        return "events.json"

    def open(self) -> Content:
        return Through(self.shown(lambda offset, size: self.view.json.read(offset, size)))


class Transcript(ViewNode, File):
    """``transcripts/PROJECT/NAME.md``."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return transcript_attributes(self.ino, self.view.conversation)

    def open(self) -> Content:
        return Through(lambda offset, size: self.view.transcript.read(offset, size))


def transcript_attributes(ino: int, conversation: Conversation) -> Attributes:
    """Return the attributes of a transcript, without looking at the conversation's rows."""
    size = len(transcript.head(conversation)) + conversation.transcript_size
    return Attributes(ino, DERIVED_FILE, size, conversation.updated_ms)
