"""The file ``published`` of a replica: how far it is in its space, and the space has what it has."""

import threading
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from store import paths, typed
from store.disk import durable
from store.disk.file_header import HEADER_SIZE
from store.shared.entry import BEGINNING


class Reached(Struct, frozen=True):
    """A place in the logs, behind a commit: its ``seq``, how many turns and bytes of frames there are, its chain."""

    seq: int = 0
    turns: int = 0
    heads: int = HEADER_SIZE
    chain: str = BEGINNING.hex()


class Published(Struct, frozen=True):
    """Up to where the packs of a replica are in its space, the last of the space's that it has taken, its history."""

    pack: int = 1
    length: int = HEADER_SIZE
    taken: int = 0
    reached: Reached = Reached()
    sessions: tuple[str, ...] = ()
    """The last that it had, see ``store.shared.sessions``; the last one perhaps not quite."""
    generation: int = 0
    """The last redaction that it has applied."""
    dropped: int = 0
    """The last commit by which the space has dropped something that it has applied."""
    collected: int = 0
    """The last of these of which nothing is left here."""
    whole: int = -1
    """The packs up to this one were taken whole, as earlier versions did with all of them (-1)."""


class PublishedFile:
    """The file of the replica at ``root``. Safe to share between threads."""

    def __init__(self, root: Path) -> None:
        self._path = root / paths.PUBLISHED
        self._lock = threading.Lock()
        try:
            found = typed.decode(self._path.read_bytes(), Published)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            # everything is published once more, and taken once more
            found = Published(whole=0)
        try:
            bytes.fromhex(found.reached.chain)
        except ValueError:
            # it is worked out from the beginning
            found = structs.replace(found, reached=Reached())
        self.now = structs.replace(found, whole=found.taken) if found.whole < 0 else found

    def note(self, **changes: object) -> None:
        """Change some of it, durably."""
        with self._lock:
            self._write(changes)

    def advance(self, end: tuple[int, int]) -> None:
        """Note that the space has all before a place in the packs, unless it is known to have more, durably."""
        with self._lock:
            if end > (self.now.pack, self.now.length):
                self._write({"pack": end[0], "length": end[1]})

    def _write(self, changes: dict[str, object]) -> None:
        changed = structs.replace(self.now, **changes)
        durable.write_whole(self._path, msgspec.json.encode(changed))
        self.now = changed
