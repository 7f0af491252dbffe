"""Making the index from the logs and the packs."""

from __future__ import annotations

from collections.abc import Iterator

from store.disk import blob_format
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.disk.head_format import Frame
from store.disk.head_log import HeadLog
from store.disk.pack import PackSet
from store.errors import DamageError
from store.ids import Hash
from store.index.index import Index, Place

_GROUPS = (Compression.GROUP, Compression.GROUP_DICT)


def rebuild(index: Index, heads: HeadLog, packs: PackSet) -> list[str]:
    """Fill an empty index; return what was found damaged, a line each."""
    damage: list[str] = []
    index.apply(_frames(heads, 0, damage))
    index.add_blobs(blob_places(packs, None, damage))
    return damage


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
    packs: PackSet, start: tuple[int, int] | None, damage: list[str] | None = None
) -> Iterator[tuple[Hash, Place]]:
    """Yield every blob in the packs from ``start`` on, and where it lies; nothing is decompressed."""
    for pack, offset, found in packs.scan(start):
        if isinstance(found, Damage):
            if damage is not None:
                damage.append(f"{packs.path(pack).name}, offset {found.offset}: {found.reason}")
            continue
        if found.compression in _GROUPS:
            try:
                table = blob_format.decode_group_table(found.compression, found.stored)
            except DamageError as error:
                if damage is not None:
                    damage.append(f"{packs.path(pack).name}, offset {offset}: {error}")
                continue
            for member, entry in enumerate(table.members):
                yield entry.hash, (pack, offset, member)
        else:
            yield found.hash, (pack, offset, 0)
