"""The files of a conversation as a whole: ``events.json``, ``metadata.json`` and the transcript."""

from __future__ import annotations

from fusefs.text import transcript
from fusefs.text.metadata import metadata_text
from fusefs.tree.node import DERIVED_FILE, FILE, Attributes, Content, File, Through
from fusefs.tree.view_node import ViewNode
from store.events.conversation import Conversation


class MetadataFile(ViewNode, File):
    """``metadata.json``: what is known of a conversation as a whole."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        view = self.view
        time_ms = view.time_ms if view.version else max(view.time_ms, view.conversation.described_ms)
        return self.as_served(Attributes(self.ino, FILE, len(metadata_text(view.conversation)), time_ms))

    def label(self) -> str:
        return "metadata.json"

    def open(self) -> Content:
        return Through(self.shown(lambda offset, size: metadata_text(self.view.conversation)[offset : offset + size]))


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
