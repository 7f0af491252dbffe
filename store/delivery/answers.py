"""Questions and answers about deliveries, as values; apart because most clients need nothing else."""

from msgspec import Struct

from store.exporting.dialogue import Loss


class ReferencesSaved(Struct):
    """The savings of references: their number, and the bytes and estimated tokens that need not be sent."""

    references: int = 0
    bytes: int = 0
    tokens: int = 0

    def add(self, cost: tuple[int, int], said: tuple[int, int]) -> None:
        """Count a content, and the message in place of it: the bytes and tokens of each."""
        self.references += 1
        self.bytes += cost[0] - said[0]
        self.tokens += cost[1] - said[1]


class Report(Struct, frozen=True):
    """The number of ``messages``, the savings of references in them, and the content that the form cannot express."""

    messages: int
    saved: ReferencesSaved
    lost: list[Loss]


class Offered(Struct, frozen=True, forbid_unknown_fields=True):
    """A block of a result that is about to be delivered; one without a ``uri`` is no resource.

    Its content is ``text`` or ``data``, or is identified by its ``checksum`` (``blake3:`` and 64 hexadecimal digits);
    its ``size`` in bytes is optional for content that the store has.
    """

    uri: str = ""
    mime: str = ""
    text: str | None = None
    data: bytes | None = None
    checksum: str = ""
    size: int | None = None


class Answer(Struct, frozen=True):
    """The delivery of a block: the block as it is, or ``message`` in its place.

    With a message, the content is in exchange ``turn``: in the result of ``call``, or as an attachment (""). ``bytes``
    and ``tokens``, estimated, are the savings.
    """

    message: str = ""
    turn: int = 0
    call: str = ""
    bytes: int = 0
    tokens: int = 0
