"""What a conversation makes of the records of the file that it came in: which it has changed, deleted and added."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from store.conversations import branch
from store.importing.layout import Layout, Place
from store.index.catalogue import Entry
from store.store import Store


class Claim(Struct, frozen=True):
    """What a conversation says of a record of the file: which turn it now is, and whether it was deleted."""

    turn: int
    deleted: bool = False


class Standing(Struct, frozen=True):
    """``claims`` are of the records that the conversation has, or had, by position in the file.

    ``added`` are the turns that did not come in the file, in order: each with the position that it follows (None:
    it stands before all that the conversation had).
    """

    claims: dict[int, Claim]
    added: Sequence[tuple[int | None, int]] = ()


def as_imported(store: Store, layout: Layout, place: Place) -> Standing:
    """Return what a conversation makes of the file as long as nobody has edited it."""
    turns = (turn for first, count in store.runs(place.tip) for turn in range(first, first + count))
    return Standing({position: Claim(turn) for position, turn in zip(_positions(layout, place), turns, strict=True)})


def as_it_is(store: Store, layout: Layout, place: Place, entry: Entry) -> Standing:
    """Return what the conversation of ``place`` makes of the file, or a fork of it: ``entry``."""
    stood = _positions(layout, place)
    then = store.runs(place.tip)
    numbers = _numbers(store, place, entry)
    claims: dict[int, Claim] = {}
    added: list[tuple[int | None, int]] = []
    last: int | None = None
    number = 0
    for run in store.runs(entry.head):
        for turn in store.turns.range(*run):
            number += 1
            was = numbers.get(number)
            if was is not None:
                last = stood[was - 1]
                claims[last] = Claim(turn.turn_id, turn.deleted)
            elif not turn.deleted:
                added.append((last, turn.turn_id))
    for was, position in enumerate(stood, 1):
        if position not in claims:
            # taken out
            claims[position] = Claim(branch.position(then, was), deleted=True)
    return Standing(claims, added)


def _positions(layout: Layout, place: Place) -> list[int]:
    """Return where in the file the records of a conversation stood, those too that others have before their own."""
    above: list[int] = []
    if place.base >= 0:
        above = _positions(layout, layout.places[place.base])[: place.shared]
    return [*above, *place.positions()]


def _numbers(store: Store, place: Place, entry: Entry) -> dict[int, int]:
    """Return which number each record of a conversation had when the file was imported, by the one it has now.

    Those that came later are left out.
    """
    numbers: dict[int, int] | None = None
    then, context = store.runs(place.tip), place.context
    for fork in _forks(store, place.context, entry):
        at = store.runs(fork.imported_head)
        places = store.lineage.places_then(context, then, at)
        numbers = _through(numbers, {now: was for was, now in places.items()})
        then, context = at, fork.id
    here = store.lineage.places(context, then, store.runs(entry.head))
    return _through(numbers, {now + step: was + step for was, now, count in here for step in range(count)})


def _forks(store: Store, context: int, entry: Entry) -> list[Entry]:
    """Return by which forks a conversation has come from another one, the first of them first."""
    found: list[Entry] = []
    while entry.id != context:
        found.insert(0, entry)
        parent = entry.metadata.get("forked_from")
        above = parent.get("context") if isinstance(parent, dict) else None
        if not isinstance(above, int) or above == context:
            break
        entry = store.entry(above)
    return found


def _through(first: dict[int, int] | None, second: dict[int, int]) -> dict[int, int]:
    if first is None:
        return second
    return {now: first[between] for now, between in second.items() if between in first}
