"""Opening the index: as it is where it can be trusted, brought up to the logs; else made anew from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import DamageError
from store.index.catalogue import Catalogue
from store.index.index import Index
from store.index.notes import Notes
from store.index.patches import Patches
from store.index.views import Views
from store.upkeep.rebuild import catch_up, file_packs, rebuild

if TYPE_CHECKING:
    from store.upkeep.recovery import Files

_LOOKED_THROUGH = 1 << 20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def open_index(files: Files) -> tuple[Index, bool]:
    """Return the index, and whether it was there: then what is derived beside it can be trusted as well."""
    path = files.root / "index.db"
    boot = _BOOT_ID.read_text().strip()
    index = _sound_index(files, path, boot) if path.exists() else None
    sound = index is not None
    if index is None:
        remove_index(files.root)
        index = Index(path, boot)
        try:
            index.db.set_state("store", files.store_id.hex())
            files.notes += rebuild(index, files.heads, files.packs)
        except BaseException:
            index.close()
            raise
    return index, sound


def _sound_index(files: Files, path: Path, boot: str) -> Index | None:
    """Return the index, brought up to the logs, or None if it cannot be trusted."""
    index: Index | None = None
    try:
        index = Index(path, boot)
        reached = index.seq
        if index.usable and index.db.state("store") == files.store_id.hex() and reached <= files.seq:
            if reached < files.seq or not index.db.clean:
                catch_up(index, files.heads)
            # who was killed before the first change to the index may have written to the packs, or removed some
            file_packs(index, files.packs, [])
            # a small one is looked through, which takes a millisecond; of any, what opening asks for
            if path.stat().st_size <= _LOOKED_THROUGH and list(index.db.problems()):
                raise index.db.damage("its pages are damaged")
            index.type_names()
            index.dictionaries()
            Catalogue(index.db).last_id()
            Notes(index.db).open_turns()
            Patches(index.db).last()
            Views(index.db).renderer()
            return index
    except DamageError as error:
        files.notes.append(f"the index could not be used ({error}); made it anew")
    if index is not None:
        index.close()
    return None


def remove_index(root: Path) -> None:
    """Delete the index, so that it is made anew."""
    remove_database(root / "index.db")


def remove_database(path: Path) -> None:
    """Delete a database, if it is there."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
