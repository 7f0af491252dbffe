"""What is asked of what a model was sent, and what is answered; apart, since most who ask need no more of it."""

from __future__ import annotations

from msgspec import Struct

from store.exporting.losses import Loss


class Saved(Struct):
    """What references saved: how many there are, and the bytes, and about the tokens, that need not be sent."""

    references: int = 0
    bytes: int = 0
    tokens: int = 0

    def add(self, cost: tuple[int, int], said: tuple[int, int]) -> None:
        """Count a content, and the message in place of it: the bytes and tokens of each."""
        self.references += 1
        self.bytes += cost[0] - said[0]
        self.tokens += cost[1] - said[1]


class Report(Struct, frozen=True):
    """How many ``messages`` there are, what references in them ``saved``, and what the form has no way to say."""

    messages: int
    saved: Saved
    lost: list[Loss]


class Offered(Struct, frozen=True, forbid_unknown_fields=True):
    """A block of a result that is about to be delivered; one without a ``uri`` is no resource.

    Its content is ``text`` or ``data``, or is known by its ``checksum`` (``blake3:`` and 64 hexadecimal digits); its
    ``size`` in bytes need not be told of content that the store has.
    """

    uri: str = ""
    mime: str = ""
    text: str | None = None
    data: bytes | None = None
    checksum: str = ""
    size: int | None = None


class Answer(Struct, frozen=True):
    """What is to be delivered: the block as it is, or ``message`` in its place.

    Then the content stands in exchange ``turn``: in the result of ``call``, or as an attachment (""). ``bytes``
    and ``tokens``, estimated, are what that saves.
    """

    message: str = ""
    turn: int = 0
    call: str = ""
    bytes: int = 0
    tokens: int = 0
