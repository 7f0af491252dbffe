"""Records of conversations as they are drawn: seen, measured, their texts in blocks, their words collected.

All of that follows from payloads alone, in the order of a branch, and is done by helpers (``store.helper``).
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from store.conversations.chain import Alone
from store.conversations.viewer import Measured, Measurement
from store.events.conversation import Renderer, Sizes
from store.events.event import Event
from store.formats.registry import learn, lens_for
from store.helper import Answer, Work, give_way
from store.ids import Hash
from store.search.documents import Gathered, Gathering, Key, key
from store.texts import BLOCK_BYTES, Block, Blocks, is_kept

DRAWN, WORDS, DONE = range(3)
"""The answers: a :class:`Drawn` for a :class:`Piece`, now and then :class:`Words` of some so far; none are left."""

_WORDS_BYTES = 2 << 20
"""The bytes of texts that make a segment of the search index: more are fewer segments, and more memory."""
_WORDS_RECORDS = 8192


class Payload(Struct, frozen=True, array_like=True, gc=False):
    """The payload of a turn: name, type and its tag, encoding, bytes, and the contents that are cut out of it."""

    digest: Hash
    type_name: str
    type_tag: int
    encoding: int
    data: bytes
    references: list[Hash]


class Piece(Struct, frozen=True, array_like=True):
    """Records of a branch that follow each other, also in the log: the number and the turn of the first.

    The next piece of a helper is the next one of the branch, or the first of another.
    """

    number: int
    turn: int
    records: list[Payload]


class Drawn(Struct, frozen=True, array_like=True):
    """The measures of a piece, as far as nothing but the store was needed for them, and texts by turns."""

    measured: list[Measurement]
    texts: list[Block]


class Words(Struct, frozen=True, array_like=True):
    """Documents for the search index, and which turns show each."""

    gathered: Gathered
    shown: list[tuple[int, Key]]


_encode = msgspec.msgpack.Encoder().encode


class Drawer:
    """Draws pieces, one after the other."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._chain = Alone()
        self._blocks = Blocks()
        self._gathering = Gathering()
        self._shown: list[tuple[int, Key]] = []

    def work(self, _number: int, piece: object) -> Iterator[Answer]:
        """Draw a :class:`Piece`; for None, give out the words that are left."""
        if isinstance(piece, Piece):
            yield DRAWN, _encode(self._draw(piece))
        if self._shown and (
            piece is None or self._gathering.size >= _WORDS_BYTES or len(self._shown) >= _WORDS_RECORDS
        ):
            words = Words(self._gathering.end(), self._shown)
            self._gathering, self._shown = Gathering(), []
            yield WORDS, _encode(words)
        if piece is None:
            yield DONE, b""

    def _draw(self, piece: Piece) -> Drawn:
        if piece.number == 1:
            self._chain = Alone()
        chain = self._chain
        measured: list[Measurement] = []
        texts: list[Block] = []
        for turn, record in enumerate(piece.records, piece.turn):
            event = lens_for(record.type_name, record.encoding).view(record.data, chain)
            # what was asked for while it was seen is content that only the store may have
            if chain.lost:
                break
            measured.append(self._record(turn, chain.number, record, event))
            chain.advance(event)
            if self._blocks.size >= BLOCK_BYTES:
                texts += self._blocks.end()
        texts += self._blocks.end()
        return Drawn(measured, texts)

    def _record(self, turn: int, number: int, record: Payload, event: Event) -> Measurement:
        drawn, format_ = self._renderer.drawn(number, event), record.type_name.partition(".")[0]
        json, shown = self._renderer.element(number, event, format_, len(record.data))
        sizes = Sizes(len(drawn.file), len(drawn.section), json)
        if is_kept(event.kind, sizes.file):
            self._blocks.add(turn, drawn)
        own = key(record.digest, record.type_tag, record.encoding, event)
        self._shown.append((turn, own))
        if own not in self._gathering:
            text = drawn.file[drawn.content :] if drawn.content else self._renderer.content(event).encode()
            self._gathering.add(own, event.kind, text, event.resources, record.references, shown)
        return Measured.of(event, sizes, len(record.data))


def work(formats: Path, renderer: Renderer) -> Work:
    """Return what a helper does that draws: at a low priority, as nobody waits for it."""
    give_way()
    # who gives the jobs tells of pages that are wrong
    learn(formats)
    return Drawer(renderer).work
