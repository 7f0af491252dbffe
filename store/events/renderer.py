"""What the store asks of whoever draws events: their sizes, once, when they are first seen, and transcripts."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow, Sizes
from store.events.event import Block, Event

Link = Callable[[Block], str]
"""Returns where the content of a block that is not text is found, as a percent-encoded path from where the text is."""


class Renderer(Protocol):
    """Draws events. ``version`` changes whenever any event would be drawn with another size."""

    version: int

    def measure(self, number: int, event: Event, format: str, payload_size: int) -> Sizes:
        """Return the sizes, in bytes, of what event ``number`` is drawn as.

        ``format`` is that of its conversation (``jp`` draws JSON elements in its own way), ``payload_size`` the size
        of the producer's own bytes (which a record that is not JSON shows).
        """

    def content(self, event: Event) -> str:
        """Return the content of an event as its file and a transcript show it, without what stands above it.

        It is all that is searched. It ends in a newline, unless it is empty.
        """

    def first_line(self, number: int, event: Event) -> int:
        """Return the line of the file of event ``number`` that its content begins on; the first of all is 1."""

    def transcript(
        self, conversation: Conversation, events: Iterable[tuple[EventRow, Event | ConvfsError]], link: Link
    ) -> Iterator[bytes]:
        """Yield the pieces of a conversation's transcript, in Markdown; what cannot be read is said in its place."""
