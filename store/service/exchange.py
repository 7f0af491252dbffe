"""The calls by which conversations go from one store to another, and the transfer that is made of them.

One side gives, the other takes; each is a store that this process has opened, or one that another process serves. Who
only calls loads little: what gives and takes is imported where that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from store.ids import Hash
from store.service.call import Emit, Holder, Invocation, Item, T, Table
from store.transfer.parcel import Need, Offer, Outcome, Parcel, Piece, Position
from store.transfer.progress import Reached

if TYPE_CHECKING:
    from store.store import Store

_OFFERS = 500
_PARCELS = 256
_ROWS = 20_000
_BYTES = 8 << 20
_DIGESTS = 20_000

EXCHANGE = Table()


class Place(Struct, frozen=True):
    """A store: its id, the machine that it is on, its directory, and how far it has come."""

    store_id: str
    machine: str
    root: str
    position: Position


@EXCHANGE.call(500)
def place(holder: Holder) -> Place:
    """Say which store it is."""
    from store.transfer import giver
    from store.transfer import metadata as meta

    store = holder.store
    return Place(store.store_id.hex(), meta.machine(store.catalogue.machine), str(store.root), giver.position(store))


@EXCHANGE.pages(501)
def offer(
    holder: Holder,
    contexts: tuple[int, ...] = (),
    projects: tuple[str, ...] = (),
    labels: tuple[str, ...] = (),
    since: Position | None = None,
    redacted: bool = False,
) -> Iterator[list[Offer]]:
    """List conversations with their states: those that are chosen, or all; ``since``: that have changed since then.

    ``redacted``: as they are without what looks like a secret.
    """
    from store.transfer import giver

    entries = giver.chosen(holder.store, contexts, projects, labels, giver.changed(holder.store, since))
    for start in range(0, len(entries), _OFFERS):
        yield list(giver.offers(holder.store, entries[start : start + _OFFERS], redacted=redacted))


class Compared(Struct, frozen=True):
    """The needs of some offers, and the outcome of the others."""

    needs: list[Need]
    done: list[Outcome]


@EXCHANGE.call(502)
def compare(holder: Holder, offers: list[Offer], named: bool = False) -> Compared:
    """Compare offers with what is here; ``named``: also what was deleted for good is needed."""
    from store.transfer import taker

    return Compared(*taker.compare(holder.store, offers, named=named))


@EXCHANGE.pages(503)
def pack(holder: Holder, needs: list[Need], redacted: bool = False) -> Iterator[list[Parcel]]:
    """Hand out what is needed of conversations, without the contents; ``redacted`` as above."""
    from store.transfer import giver

    for parcel in giver.parcels(holder.store, needs, redacted=redacted):
        yield [parcel]


@EXCHANGE.call(504)
def wanted(holder: Holder, digests: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return those of some blobs that are not here, and may come."""
    from store.transfer import taker

    return tuple(taker.wanted(holder.store, digests))


@EXCHANGE.pages(505)
def hand_out(holder: Holder, payloads: list[bytes], blobs: list[bytes]) -> Iterator[list[Piece]]:
    """Hand out contents."""
    from store.transfer import giver

    some: list[Piece] = []
    size = 0
    for piece in giver.pieces(holder.store, payloads, blobs):
        if some and size + len(piece.data) > _BYTES:
            yield some
            some, size = [], 0
        some.append(piece)
        size += len(piece.data)
    if some:
        yield some


@EXCHANGE.call(506)
def put(holder: Holder, pieces: list[Piece]) -> None:
    """Store contents, durably."""
    from store.transfer import taker

    taker.put(holder.store, pieces)


@EXCHANGE.call(507)
def take(holder: Holder, parcels: list[Parcel]) -> list[Outcome]:
    """Make conversations of parcels whose contents are here."""
    from store.transfer import taker

    return taker.Taking(holder.store).run(parcels)


class Suspect(Struct, frozen=True):
    """The texts of a conversation that look like a secret: how many of a kind."""

    name: str
    kind: str
    count: int


@EXCHANGE.pages(508)
def suspects(holder: Holder, contexts: list[int]) -> Iterator[list[Suspect]]:
    """List what looks like a secret in the records of conversations."""
    for context in contexts:
        found = _suspects(holder.store, context)
        if found:
            yield found


def _suspects(store: Store, context: int) -> list[Suspect]:
    # its patterns take a while to compile, and most transfers need none
    from store.redaction.wanted import built_in

    entry = store.catalogue.entry(context)
    kinds: dict[str, set[bytes]] = {}
    turns = [turn for first, count in store.records.runs(entry.head) for turn in range(first, first + count)]
    for _turn, payload in store.contents.payloads(turns) if entry.head else ():
        for kind, secret in built_in(payload) if isinstance(payload, bytes) else ():
            kinds.setdefault(kind, set()).add(secret)
    return [Suspect(f"{entry.project}/{entry.name}", kind, len(some)) for kind, some in sorted(kinds.items())]


@EXCHANGE.call(509)
def earlier(holder: Holder, need: Need, redacted: bool = False) -> list[Offer]:
    """List the earlier states of a conversation, oldest first, behind what is known of it; ``redacted`` as above."""
    from store.transfer import giver

    return giver.earlier(holder.store, need, redacted=redacted)


# -- a transfer --------------------------------------------------------------------------------------------------------


class End(Protocol):
    """A store that calls can be made of."""

    def call(self, invocation: Invocation[Item, T], on_item: Emit[Item] | None = None) -> T:
        """Run the call and pass each item to ``on_item``. Raises what the call raises."""


class Chosen(Struct, frozen=True):
    """Which conversations are to go: by id, project and label; all, without any."""

    contexts: tuple[int, ...] = ()
    projects: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class Carried(Struct, frozen=True):
    """How far a transfer is: conversations done and offered, and bytes of contents carried."""

    done: int
    offered: int
    bytes: int


class Transfer:
    """Carries conversations from one store to another. What was carried stays, wherever it ends; see :meth:`run`.

    ``redacted``: without what looks like a secret. ``versions``: with their earlier states, as far as these are newer
    than what is there.
    """

    def __init__(
        self,
        giving: End,
        taking: End,
        progress: Callable[[Carried], None] | None = None,
        *,
        redacted: bool = False,
        versions: bool = False,
    ) -> None:
        self._redacted = redacted
        self._versions = versions
        self._giving = giving
        self._taking = taking
        self._progress = progress or (lambda _carried: None)
        self.bytes = 0
        self._outcomes: list[Outcome] = []
        self._offered = 0

    def offers(self, chosen: Chosen, since: Position | None = None) -> list[Offer]:
        """Return what would be compared."""
        return self._giving.call(offer(chosen.contexts, chosen.projects, chosen.labels, since, self._redacted))

    def needed(self, offers: Sequence[Offer], *, named: bool = False) -> Compared:
        """Return what of that would go, and change nothing."""
        needs: list[Need] = []
        done: list[Outcome] = []
        for start in range(0, len(offers), _OFFERS):
            found = self._taking.call(compare(list(offers[start : start + _OFFERS]), named))
            needs += found.needs
            done += found.done
        return Compared(needs, done)

    def run(self, offers: Sequence[Offer], *, named: bool = False) -> list[Outcome]:
        """Carry what is lacking of what is offered; return what became of each conversation."""
        self._offered = len(offers)
        records = {one.context: one.records for one in offers}
        offered = {one.context: one for one in offers}
        for start in range(0, len(offers), _OFFERS):
            found = self._taking.call(compare(list(offers[start : start + _OFFERS]), named))
            self._outcomes += found.done
            some: list[Need] = []
            rows = 0
            for need in found.needs:
                if self._versions and (sent := self._send_earlier(need)):
                    self._outcomes += self._finish(offered[need.context], need, sent)
                    continue
                if some and (len(some) >= _PARCELS or rows + records[need.context] > _ROWS):
                    self._outcomes += self._carry(some)
                    some, rows = [], 0
                some.append(need)
                rows += records[need.context]
            if some:
                self._outcomes += self._carry(some)
            self._tell()
        return self._outcomes

    def _send_earlier(self, need: Need) -> list[Outcome]:
        """Carry the earlier states of a conversation, each as if it were the present one then."""
        sent: list[Outcome] = []
        for one in self._giving.call(earlier(need, self._redacted)):
            found = self._taking.call(compare([one], True))
            sent += self._carry([structs.replace(need, tip=one.tip) for need in found.needs])
        return sent

    def _finish(self, offered: Offer, need: Need, sent: Sequence[Outcome]) -> list[Outcome]:
        """Carry the present state behind earlier ones; return what became of all of it."""
        found = self._taking.call(compare([offered], True))
        last = [*found.done, *self._carry(found.needs)]
        failed = [one for one in (*sent, *last) if one.what in ("refused", "wanted")]
        return failed[:1] or [structs.replace(one, what="grown" if need.known else "new") for one in last]

    def _carry(self, needs: Sequence[Need]) -> list[Outcome]:
        if not needs:
            return []
        parcels = self._giving.call(pack(list(needs), self._redacted))
        self._contents(parcels)
        outcomes = self._taking.call(take(parcels))
        lost = {one.context: one.wanted for one in outcomes if one.what == "wanted"}
        if lost:
            # collected meanwhile: once more
            again = [parcel for parcel in parcels if parcel.context in lost]
            self._contents(again)
            outcomes = [one for one in outcomes if one.what != "wanted"] + self._taking.call(take(again))
        return outcomes

    def _contents(self, parcels: Sequence[Parcel]) -> None:
        payloads = [
            row.payload for one in parcels for row in (*one.rows, *(one.imported.rows if one.imported else ()))
        ]
        payloads = [*dict.fromkeys(payloads)]
        blobs = [*dict.fromkeys(blob for one in parcels for blob in one.blobs)]
        asked = [*dict.fromkeys((*payloads, *blobs))]
        lacking: set[Hash] = set()
        for start in range(0, len(asked), _DIGESTS):
            missing = self._taking.call(wanted(tuple(asked[start : start + _DIGESTS])))
            lacking.update(map(Hash, missing))
        if not lacking:
            return

        def carry(pieces: list[Piece]) -> None:
            self._taking.call(put(pieces))
            self.bytes += sum(len(piece.data) for piece in pieces)
            self._tell()

        own = [digest for digest in payloads if digest in lacking]
        rest = [digest for digest in blobs if digest in lacking and digest not in payloads]
        self._giving.call(hand_out(own, rest), carry)

    def _tell(self) -> None:
        self._progress(Carried(len(self._outcomes), self._offered, self.bytes))


def reached_by(giving: End, taking: End) -> tuple[Place, Place]:
    """Return which stores both are, and how far they have come."""
    return giving.call(place()), taking.call(place())


def since(known: Reached | None, giving: Place, taking: Place) -> Position | None:
    """Return from where on there is something to compare; None for all.

    A store that has gone back, as one from a backup has, is compared as a whole.
    """
    if known is None or giving.position.seq < known.giver.seq or taking.position.seq < known.taker.seq:
        return None
    return known.giver


