"""Making the index from the logs and the packs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.content.names import names_of
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Frame
from store.disk.head_log import HeadLog
from store.disk.pack import PackSet
from store.errors import DamageError
from store.ids import Hash
from store.index.index import Index, Place


def rebuild(index: Index, heads: HeadLog, packs: PackSet) -> list[str]:
    """Fill an empty index; return what was found damaged, a line each."""
    damage: list[str] = []
    index.apply(_frames(heads, 0, damage))
    file_packs(index, packs, damage)
    return damage


def file_packs(index: Index, packs: PackSet, damage: list[str]) -> None:
    """Have the index say what lies in the packs that are there: of those that it knows nothing is read again."""
    filed, there = index.packs(), packs.numbers()
    if gone := [number for number in filed if number not in there]:
        index.forget_packs(gone)
    for number in there:
        known, length = filed.get(number, HEADER_SIZE), packs.length(number)
        if known < length:
            # what opening reports of a header is said where the pack is read from there
            start = (number, known) if known > HEADER_SIZE else None
            index.add_blobs(blob_places(packs, [number], damage, start), {number: length})


def catch_up(index: Index, heads: HeadLog) -> None:
    """Apply the frames that the index has not seen."""
    index.apply(_frames(heads, index.seq, []))


def _frames(heads: HeadLog, after: int, damage: list[str]) -> Iterator[Frame]:
    for found in heads.frames():
        if isinstance(found, Damage):
            damage.append(f"heads.log, offset {found.offset}: {found.reason}")
        elif found.seq > after:
            yield found


def blob_places(
    packs: PackSet, numbers: Sequence[int], damage: list[str], start: tuple[int, int] | None = None
) -> Iterator[tuple[Hash, Place]]:
    """Yield every blob in some packs, from ``start`` on, and where it lies."""
    for pack, offset, found in packs.scan(start, numbers):
        if isinstance(found, Damage):
            damage.append(f"{packs.path(pack).name}, offset {found.offset}: {found.reason}")
            continue
        try:
            names = names_of(found)
        except DamageError as error:
            damage.append(f"{packs.path(pack).name}, offset {offset}: {error}")
            continue
        for member, name in enumerate(names):
            yield name, (pack, offset, member)
