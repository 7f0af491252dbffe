"""The files of a conversation as a whole: ``events.json``, ``metadata.json``, ``context.json`` and the transcript."""

from __future__ import annotations

from msgspec import structs

from fusefs.text import transcript
from fusefs.text.metadata import metadata_text
from fusefs.tree.drawn import Drawn
from fusefs.tree.node import DERIVED_FILE, FILE, Attributes, Content, File, Through
from fusefs.tree.view_node import ViewNode
from store.delivery.context import Context
from store.events.conversation import Conversation

_MESSAGES = "anthropic"
"""The form that ``context.json`` has messages in."""


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


class ContextFile(ViewNode, File):
    """``context.json``: what a model should be sent; drawn when it is read, by a thread, so its size is not known."""

    __slots__ = ()

    direct = True

    def attributes(self) -> Attributes:
        view = self.view
        time_ms = view.time_ms if view.version else max(view.time_ms, view.conversation.described_ms)
        return Attributes(self.ino, DERIVED_FILE, 0, time_ms)

    def label(self) -> str:
        return "context.json"

    def open(self) -> Content:
        store, view = self.tree.store, self.view
        conversation = structs.replace(view.conversation, head=view.head)
        return Drawn(self.tree.workers, lambda: Context(store, conversation, _MESSAGES).document())


class Transcript(ViewNode, File):
    """``transcripts/PROJECT/NAME.md``."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        streams = self.tree.streams
        # first: the view may be another then
        growing = streams.section(self.view_id)
        drawn = transcript_attributes(self.ino, self.view.conversation)
        if not growing:
            return drawn
        time_ms = max(drawn.time_ms, streams.touched_ms(self.view_id))
        return drawn._replace(size=drawn.size + len(growing), time_ms=time_ms)

    def open(self) -> Content:
        return Through(self._read)

    def _read(self, offset: int, size: int) -> bytes:
        growing = self.tree.streams.section(self.view_id)
        records = self.view.transcript
        data = records.read(offset, size)
        if not growing or offset + size <= records.size:
            return data
        return data + growing[max(0, offset - records.size) : offset + size - records.size]


def transcript_attributes(ino: int, conversation: Conversation) -> Attributes:
    """Return the attributes of the transcript of a conversation's records, without looking at their rows."""
    size = len(transcript.head(conversation)) + conversation.transcript_size
    return Attributes(ino, DERIVED_FILE, size, conversation.updated_ms)
