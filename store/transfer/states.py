"""States of conversations under names that mean the same in every store, where ids do not.

A conversation is known by where it was *born*: the id of that store, and the number that it had there. One that came
from another store says so in its metadata (``born``); every other was born where it is.

A state is a branch of turns. Its *chain name* is a BLAKE3 that goes from turn to turn: of the name before (32 zero
bytes at the root) and the turn's type, codec, payload hash, flags and time, as they are seen through patches. Two
branches with the same chain name have the same turns.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct as Layout

from blake3 import blake3

from store.conversations import branch
from store.disk.turn_format import Turn
from store.errors import ConvfsError
from store.ids import HASH_SIZE, Hash
from store.index.catalogue import ContextEntry
from store.index.views import Run
from store.store import Store
from store.transfer.parcel import Row

BORN = "born"
"""The key of metadata for where a conversation was born that came from another store."""
DIVERGED = "diverged"
"""The label of a fork that has what another store made of a conversation which was changed in both."""

ROOT = bytes(HASH_SIZE)
_TURN = Layout("<32sQI32sIQ")


def row_of(turn: Turn) -> Row:
    """Return what is told of a turn."""
    return Row(turn.payload_hash, turn.type_tag, turn.codec, turn.flags, turn.created_ms)


def chained(rows: Iterable[Row], before: bytes = ROOT) -> list[bytes]:
    """Return the chain name of each turn of a branch; ``before`` is that of the turn that precedes them."""
    names: list[bytes] = []
    pack = _TURN.pack
    for row in rows:
        before = blake3(pack(before, row.tag, row.codec, row.payload, row.flags, row.created_ms)).digest()
        names.append(before)
    return names


class State:
    """The branch of a tip, with the chain names of its turns; empty for 0.

    ``shown`` says how each turn is told of (None: as it is).
    """

    def __init__(self, store: Store, tip: int, shown: Callable[[Row], Row] | None = None) -> None:
        self.tip = tip
        self.runs: tuple[Run, ...] = store.records.runs(tip) if tip else ()
        self.rows = [row_of(turn) for run in self.runs for turn in store.turns.range(*run)]
        if shown is not None:
            self.rows = [shown(row) for row in self.rows]
        self._names: list[bytes] = []

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, records: int) -> bytes:
        """Return the chain name of its first ``records`` turns."""
        if records > len(self._names):
            more = self.rows[len(self._names) : records]
            self._names += chained(more, self._names[-1] if self._names else ROOT)
        return self._names[records - 1] if records else ROOT

    def begins_with(self, records: int, name: bytes) -> bool:
        """Return whether it has at least so many turns, and the first of them have that chain name."""
        return records <= len(self) and self.name(records) == name

    def shared(self, names: Sequence[bytes]) -> int:
        """Return how many turns at its beginning it has in common with a branch of these chain names."""
        low, high = 0, min(len(self), len(names))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.name(middle) == names[middle - 1] else (low, middle - 1)
        return low

    def turn(self, records: int) -> int:
        """Return the id of the last of its first ``records`` turns, as it was appended; 0 for none."""
        return branch.position(branch.plain(self.runs), records) if records else 0


def earlier_states(store: Store, context: int, shown: Callable[[Row], Row] | None = None) -> list[State]:
    """Return the states that a conversation has been in, the last first, as far as they can still be read."""
    found: list[State] = []
    for tip in dict.fromkeys(version.head for version in reversed(store.catalogue.versions(context))):
        try:
            found.append(State(store, tip, shown))
        except ConvfsError:
            continue
    return found


def born_of(store: Store, entry: ContextEntry) -> str:
    """Return where a conversation was born."""
    born = entry.metadata.get(BORN)
    return born if isinstance(born, str) else own_born(store, entry.id)


def own_born(store: Store, context: int) -> str:
    """Return how a conversation is known that was born in this store."""
    return f"{store.store_id.hex()}-{context}"


def of_birth(store: Store, born: str) -> list[ContextEntry]:
    """Return the conversations known by a birth, oldest first: one, and the forks that were made where it diverged."""
    entries = store.catalogue.by_origin("born", born, most=-1)
    own, _, number = born.rpartition("-")
    if own == store.store_id.hex() and number.isdecimal():
        entry = store.catalogue.by_id(int(number))
        entries += [entry] if entry is not None else []
    return sorted(entries, key=lambda entry: entry.id)


def is_gone(store: Store, born: str) -> bool:
    """Return whether a conversation was here, and was deleted for good."""
    own, _, number = born.rpartition("-")
    was_own = own == store.store_id.hex() and number.isdecimal() and int(number) <= store.catalogue.last_id()
    return was_own or bool(store.catalogue.pruned("born", born))


def named_hash(digest: bytes) -> Hash:
    """Return bytes that came as the name of a blob."""
    return Hash(bytes(digest))
