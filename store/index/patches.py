"""Patches in the index: the changes of each to turns, and the patches through which a state is seen."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, structs

from store.errors import NotFound
from store.ids import TURNS_BEYOND, Hash, patch_of
from store.index.database import Database, Row

_REMEMBERED = 4096
_REMEMBERED_TURNS = 1 << 18
_COLUMNS = "number, turn, context, previous, hash, flags, created_ms, sum"
_CHAIN = (
    "WITH RECURSIVE chain (number) AS"
    " (SELECT ? UNION SELECT previous FROM patches JOIN chain USING (number) WHERE previous != 0)"
    f" SELECT {_COLUMNS} FROM patches JOIN chain USING (number) ORDER BY number"
)


class Patch(Struct, frozen=True):
    """One patch of the context ``context``; ``turns`` has what it says of each: payload hash, flags, created_ms.

    ``previous`` is the patch before it, 0 if there is none.
    """

    number: int
    context: int
    previous: int
    turns: Mapping[int, tuple[Hash, int, int]]


class Patches:
    """Reads the ``patches`` table. Safe to call from any thread. Raises DamageError where the table is damaged."""

    def __init__(self, db: Database, settle: Callable[[], None] = lambda: None) -> None:
        self._db = db
        self._settle = settle
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Patch] = OrderedDict()
        self._seen: OrderedDict[int, Mapping[int, int]] = OrderedDict()
        self._held = 0

    def last(self) -> int:
        """Return the number of the last patch of the store, 0 if there is none."""
        row = self._db.one("SELECT coalesce(max(number), 0) FROM patches")
        return row[0] if row else 0

    def get(self, number: int) -> Patch:
        """Return a patch; NotFound if there is none of that number."""
        known = self._known.get(number)
        if known is None:
            self._settle()
            found = self._read(f"SELECT {_COLUMNS} FROM patches WHERE number = ?", number)
            known = found[number]
        return known

    def in_force(self) -> Iterator[Patch]:
        """Yield the patches through which any version of any context is seen, each with those turns that are."""
        rows = self._db.query(
            f"SELECT head FROM contexts WHERE head >= {TURNS_BEYOND}"
            f" UNION SELECT head FROM versions WHERE head >= {TURNS_BEYOND}"
        )
        tips = {patch_of(head) for (head,) in rows}
        before: dict[int, set[int]] = {}
        for number in sorted(tips):
            patch = self.get(number)
            yield patch
            # what is seen through one that is no version's own any more
            if patch.previous and patch.previous not in tips:
                for turn, earlier in self.seen(patch.previous).items():
                    if turn not in patch.turns and earlier not in tips:
                        before.setdefault(earlier, set()).add(turn)
        for number, turns in before.items():
            patch = self.get(number)
            yield structs.replace(patch, turns={turn: patch.turns[turn] for turn in sorted(turns)})

    def seen(self, number: int) -> Mapping[int, int]:
        """Return through which patch each patched turn is seen where ``number`` is the last that holds (0: none)."""
        if not number:
            return {}
        with self._lock:
            seen = self._seen.get(number)
            if seen is not None:
                self._seen.move_to_end(number)
                return seen
        patch = self.get(number)
        with self._lock:
            before = self._seen.get(patch.previous) if patch.previous else {}
        if before is not None:
            seen = {**before, **dict.fromkeys(patch.turns, number)}
        else:
            chain = self._read(_CHAIN, number)
            seen = {turn: earlier for earlier, one in sorted(chain.items()) for turn in one.turns}
        with self._lock:
            if number not in self._seen:
                self._held += 1 + len(seen)
            self._seen[number] = seen
            while self._held > _REMEMBERED_TURNS and len(self._seen) > 1:
                self._held -= 1 + len(self._seen.popitem(last=False)[1])
        return seen

    def forget(self) -> None:
        """Forget the patches read so far: they have changed."""
        with self._lock:
            self._known.clear()
            self._seen.clear()
            self._held = 0

    def _read(self, query: str, number: int) -> dict[int, Patch]:
        rows: dict[int, list[Row]] = {}
        for row in self._db.query(query, (number,)):
            rows.setdefault(row[0], []).append(self._db.checked("patches", row))
        if number not in rows:
            raise NotFound(f"there is no patch {number}")
        found: dict[int, Patch] = {}
        for some in rows.values():
            one, _turn, context, previous = some[0][:4]
            turns = {row[1]: (Hash(row[4]), *row[5:]) for row in some if row[1]}
            found[one] = Patch(one, context, previous, turns)
        with self._lock:
            self._known |= found
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found
