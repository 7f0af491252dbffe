"""Sealing of what a space has: one machine at a time puts sealed packs in the place of those that were brought.

Each machine seals its own packs (``store.upkeep.sealer``). The packs of the space stay as they were brought: many small
ones, with what is read together lying apart. The machine that holds the lease :data:`LEASE` fetches some of them, has
them sealed as its own are, publishes what comes of it, and dooms them, as thinning does: whoever has filed them files
the new ones. It takes no part in the order of commits, and what is in the space stays the same.

A machine that dies in between leaves both, which costs room and nothing else.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from store.commit.intake import Intake
from store.content.sealed import FETCHED_BYTES
from store.disk.blob_format import Record, decode_record
from store.disk.file_header import HEADER_SIZE
from store.errors import Away, DamageError, NotFound
from store.ids import Hash, now_ms
from store.index.fresh import BlobPlace
from store.paths import REWRITTEN
from store.shared.packs import PackNote, Packs, Replacement, records_of
from store.shared.replica import Replica
from store.upkeep.sealer import Sealed, SealingRun, SealingSteps, chosen

_LOG = logging.getLogger(__name__)

LEASE = "seal"
"""The lease of who replaces packs of the space."""
_RUN_BYTES = 64 << 20
"""The most that is sealed together, in memory."""
_FIRST_TURN = "space_sealed_turns"
"""The index's key for the first turn whose payload may lie in an unsealed pack of the space."""


class SpaceSealer:
    """Seals the packs of the space of one replica, an admin of it."""

    def __init__(self, replica: Replica, intake: Intake) -> None:
        self._replica = replica
        self._intake = intake
        self._writer = intake.writer
        self._seen = 0
        """The last pack that was looked at."""
        self._unsealed: dict[int, int] = {}
        """The lengths of packs that are not sealed, by number."""
        self._damaged: set[int] = set()
        """Packs that cannot be sealed."""

    def unsealed_bytes(self) -> int:
        """Return how much this machine may seal. Raises Unreachable, DamageError.

        Asks for packs that have come since the last call.
        """
        _space, packs = self._replica.connected()
        if not self._replica.administers:
            return 0
        for number, note in packs.notes(self._seen):
            self._seen = number
            if not (note.sealed or note.doomed_ms):
                self._unsealed[number] = note.length - HEADER_SIZE
        return sum(self._unsealed.values())

    def steps(self, *, wait: bool = False) -> SealingSteps:
        """Seal what there is, unless another machine does that, or collects; ``wait`` for one that may have died.

        Raises Unreachable, StoreFailed; Conflict if something is redacted meanwhile.
        """
        space, _packs = self._replica.connected()
        if not self._replica.administers:
            return Sealed()
        with self._replica.leases.held(space.records, LEASE, wait=wait) as other:
            if other:
                return Sealed()
            return (yield from self.all())

    def all(self) -> SealingSteps:
        """As :meth:`steps`, for who holds the lease."""
        turns = self._writer.turns.count
        upto = self._replica.take_all()
        _space, packs = self._replica.connected()
        notes = {number: note for number, note in packs.notes() if number <= upto and not note.doomed_ms}
        total = Sealed()
        while some := self._chosen(notes):
            try:
                done = yield from self._seal(packs, {number: notes[number] for number in some})
            except Away:
                raise
            except DamageError as error:
                # what is wrong is one of them, from now on
                _LOG.warning("not sealed in the space: %s", error)
                continue
            for number in some:
                del notes[number]
            total = Sealed(
                total.packs + done.packs,
                total.blobs + done.blobs,
                total.bytes_before + done.bytes_before,
                total.bytes_after + done.bytes_after,
            )
        self._writer.index.db.set_state(_FIRST_TURN, turns + 1)
        self._unsealed = {number: size for number, size in self._unsealed.items() if number > upto}
        return total

    def _chosen(self, notes: Mapping[int, PackNote]) -> list[int]:
        sizes = {number: note.length for number, note in notes.items() if number not in self._damaged}
        return chosen(sizes, {number for number in sizes if not notes[number].sealed}, _RUN_BYTES)

    def _seal(self, packs: Packs, notes: Mapping[int, PackNote]) -> SealingSteps:
        fetched, new = Fetched(), Replacement(packs, sealed=True)
        for number, note in notes.items():
            yield 0
            try:
                if (data := packs.data(number, note)) is not None:
                    fetched.add(REWRITTEN + number if note.sealed else number, records_of(data, number))
            except DamageError:
                self._damaged.add(number)
                raise
        run = SealingRun(self._writer, fetched, fetched.locate, new, fetched.numbers, FETCHED_BYTES)
        try:
            yield from run.write(max(self._writer.index.db.number(_FIRST_TURN), 1))
        except Away:
            raise
        except (DamageError, NotFound) as error:
            self._damaged.update([run.at % REWRITTEN] if run.at else notes)
            raise DamageError(str(error)) from error
        yield 0
        after = new.finish(notes, now_ms())
        return Sealed(len(notes), len(run.places), sum(note.length for note in notes.values()), after)


class Fetched:
    """Packs of the space in memory, as they are sealed: see :class:`store.upkeep.sealer.Cold`."""

    def __init__(self) -> None:
        self._records: dict[int, dict[int, bytes]] = {}
        self._places: dict[Hash, list[BlobPlace]] = {}

    @property
    def numbers(self) -> list[int]:
        return sorted(self._records)

    def add(self, number: int, records: Sequence[tuple[bytes, Sequence[Hash]]]) -> None:
        """Add a pack: its records, each with the names of its blobs."""
        at, held = HEADER_SIZE, self._records.setdefault(number, {})
        for data, names in records:
            held[at] = data
            for member, name in enumerate(names):
                self._places.setdefault(name, []).append((number, at, member))
            at += len(data)

    def locate(self, digests: Sequence[Hash]) -> dict[Hash, list[BlobPlace]]:
        """Return where blobs are; those that are not here are left out."""
        return {digest: self._places[digest] for digest in digests if digest in self._places}

    def scan(self, *, numbers: Sequence[int]) -> Iterator[tuple[int, int, Record]]:
        return chain.from_iterable(
            ((number, offset, decode_record(memoryview(data))) for offset, data in self._records[number].items())
            for number in numbers
        )

    def read(self, pack: int, offset: int) -> Record:
        return decode_record(memoryview(self._records[pack][offset]))

    def path(self, pack: int) -> str:
        return f"pack {pack % REWRITTEN} of the space"
