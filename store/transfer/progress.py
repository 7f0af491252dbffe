"""How far the conversations of other stores have been looked through: what is at a place then is not compared again.

The file ``transferred`` is JSON, an object for each other store, by its id: for each direction and selection, how far
this store and the other one had come (``store.transfer.parcel.Position``). It may be removed at any time: then all is
compared once more.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from store import paths
from store.disk import durable
from store.transfer.parcel import Position


class Reached(Struct, frozen=True):
    """How far both stores had come when all had been taken: the one that gave, and the one that took."""

    giver: Position
    taker: Position


REDACTED = "push redacted"
"""How pushes begin that leave out secrets."""

_decoder = msgspec.json.Decoder(dict[str, dict[str, Reached]])


def reached(root: Path, other: str, what: str) -> Reached | None:
    """Return how far another store was looked through; None where nothing is known of that."""
    return _read(root).get(other, {}).get(what)


def has_pushed(root: Path, other: str) -> bool:
    """Return whether anything ever went from the store at ``root`` to another one."""
    return any(what.startswith("push") for what in _read(root).get(other, {}))


def redacts(root: Path, other: str) -> bool:
    """Return whether something went to another store without secrets: then nothing goes there with any."""
    return any(what.startswith(REDACTED) for what in _read(root).get(other, {}))


def note(root: Path, other: str, what: str, now: Reached) -> None:
    """Note how far it was looked through. Durable when it returns."""
    known = _read(root)
    known.setdefault(other, {})[what] = now
    durable.write_whole(root / paths.TRANSFERRED, msgspec.json.encode(known))


def _read(root: Path) -> dict[str, dict[str, Reached]]:
    try:
        return _decoder.decode((root / paths.TRANSFERRED).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return {}
