"""What the store asks of whoever draws events as files: their sizes, once, when they are first seen."""

from typing import Protocol

from store.events.conversation import Sizes
from store.events.event import Event


class Renderer(Protocol):
    """Measures events. ``version`` changes whenever any event would be drawn with another size."""

    version: int

    def measure(self, number: int, event: Event, format: str, payload_size: int) -> Sizes:
        """Return the sizes, in bytes, of what event ``number`` is drawn as.

        ``format`` is that of its conversation (``jp`` draws JSON elements in its own way), ``payload_size`` the size
        of the producer's own bytes (which a record that is not JSON shows).
        """
