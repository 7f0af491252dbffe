"""The files of a conversation as a whole: ``events.json``, ``metadata.json``, ``context.json`` and the transcript."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import structs

from fusefs.text import transcript
from fusefs.tree.node import DERIVED_FILE, FILE, LONG, SHORT, Attributes, File, OpenContent
from fusefs.tree.view_node import ServedFile, ViewNode
from fusefs.tree.waiting import Work, Workers
from store.errors import StoreBusy
from store.events.conversation import Conversation
from store.worktree.changes import file_changes

_REMEMBERED_BYTES = 1 << 20

_Span = tuple[int, int]
"""The offset and the size of a read."""


class Drawn:
    """The content of an open file that ``draw`` yields the pieces of, always the same.

    What was drawn last is remembered; who reads before that has it drawn again. ``check`` raises an error instead.
    """

    def __init__(
        self, workers: Workers, draw: Callable[[], Iterator[bytes]], check: Callable[[], None] = lambda: None
    ) -> None:
        self._workers = workers
        self._draw = draw
        self._check = check
        self._asked: dict[_Span, Work[bytes]] = {}
        self._lock = threading.Lock()
        self._pieces: Iterator[bytes] | None = None
        self._start = 0
        self._recent = bytearray()

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file. Raises Later while it is being drawn, and StoreBusy where that takes too long."""
        span = offset, size
        work = self._asked.get(span)
        if work is None:
            self._check()
            work = self._asked[span] = self._workers.begin(partial(self._drawn, *span))
        if work.await_done():
            del self._asked[span]
        return work.result()

    def _drawn(self, offset: int, size: int) -> bytes:
        """Return a part of the file; called by a thread."""
        with self._lock:
            try:
                return self._read(offset, size)
            except BaseException:
                # the source of the pieces has ended early, which must not be taken for their end
                self._pieces = None
                raise

    def _read(self, offset: int, size: int) -> bytes:
        if self._pieces is None or offset < self._start:
            self._pieces, self._start = self._draw(), 0
            self._recent.clear()
        while self._start + len(self._recent) < offset + size:
            if self._workers.is_ended:
                raise StoreBusy("the mount is about to end")
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._recent += piece
            # no reader goes far back
            if (past := min(offset - self._start, len(self._recent)) - _REMEMBERED_BYTES) > 0:
                del self._recent[:past]
                self._start += past
        return bytes(self._recent[offset - self._start :][:size])


_MESSAGES = "anthropic"
"""The form that ``context.json`` has messages in."""


class MetadataFile(ServedFile):
    """``metadata.json``: the facts about a conversation as a whole."""

    def attributes(self) -> Attributes:
        view = self.view
        return self.as_served(Attributes(self.ino, FILE, len(view.metadata), view.described_ms))

    def draw(self, offset: int, size: int) -> bytes:
        return self.view.metadata[offset : offset + size]


class EventsJson(ServedFile):
    """``events.json``."""

    def attributes(self) -> Attributes:
        view = self.view
        timeout = SHORT if view.conversation.unsure else LONG
        return self.as_served(Attributes(self.ino, FILE, view.json_size, view.time_ms, timeout=timeout))

    def draw(self, offset: int, size: int) -> bytes:
        return self.view.json.read(offset, size)


class ContextFile(ViewNode, File):
    """``context.json``: the context to send to a model; drawn when read, by a thread, so its size is not known."""

    direct = True

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, 0, self.view.described_ms)

    def open(self) -> OpenContent:
        store, view = self.tree.store, self.view
        conversation = structs.replace(view.conversation, head=view.head)

        def draw() -> Iterator[bytes]:
            # imported here, as few look at it
            from store.delivery.context import Context

            return Context(store.library, store.settings, conversation, _MESSAGES).document()

        return Drawn(self.tree.workers, draw, view.check_read)


class ChangesFile(ViewNode, File):
    """``changes.diff``: all that the conversation did to files; drawn when read, by a thread."""

    direct = True

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, 0, self.view.time_ms)

    def open(self) -> OpenContent:
        library, view = self.tree.store.library, self.view
        conversation = structs.replace(view.conversation, head=view.head)
        return Drawn(
            self.tree.workers,
            lambda: (change.text.encode() for change in file_changes(library, conversation)),
            view.check_read,
        )


class Transcript(ServedFile):
    """``transcripts/PROJECT/NAME.md``."""

    def attributes(self) -> Attributes:
        served = self.tree.served.get(self.ino)
        drawn = self.drawn_attributes()
        # one that was saved may grow, as it is drawn again
        return drawn if served is None or served.timeout else self.as_served(drawn)

    def drawn_attributes(self) -> Attributes:
        """Return the attributes of what is drawn, whatever is shown in its place."""
        streams = self.tree.streams
        # first: the view may be another then
        growing = streams.section(self.view_id)
        drawn = transcript_attributes(self.ino, self.view.conversation)
        if not growing:
            return drawn
        time_ms = max(drawn.time_ms, streams.touched_ms(self.view_id))
        return structs.replace(drawn, size=drawn.size + len(growing), time_ms=time_ms)

    def draw(self, offset: int, size: int) -> bytes:
        self.view.check_read()
        growing = self.tree.streams.section(self.view_id)
        records = self.view.transcript
        data = records.read(offset, size)
        if not growing or offset + size <= records.size:
            return data
        return data + growing[max(0, offset - records.size) : offset + size - records.size]


def transcript_attributes(ino: int, conversation: Conversation) -> Attributes:
    """Return the attributes of the transcript of a conversation's records, without looking at their rows."""
    size = len(transcript.head(conversation)) + conversation.transcript_size
    timeout = SHORT if conversation.unsure else LONG
    return Attributes(ino, FILE, size, conversation.updated_ms, timeout=timeout)
