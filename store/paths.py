"""Names of the files and directories of a store: the only place where they are written.

Each is relative to the store's directory; ``FORMAT.md`` says what each holds.
"""

import re
from typing import Final

TURNS: Final = "turns"
TURN_LOG: Final = "turns/turns.log"
HEAD_LOG: Final = "turns/heads.log"
JUMPS: Final = "turns/turns.jump"

BLOBS: Final = "blobs"
PACKS: Final = "blobs/*.pack"
"""A pattern; see :func:`pack_name`."""

JOURNAL: Final = "journal"
CHECKPOINT: Final = "journal/checkpoint"
"""Beside the journals, which are called by their numbers."""

INDEX: Final = "index.db"
OLD_INDEX: Final = "index.old"
KEPT_INDEX: Final = "index.kept-"
"""Followed by a number."""
SEARCH: Final = "search.db"
INSIGHT: Final = "insight.db"
WORKTREE: Final = "worktree.db"
TEXTS: Final = "texts.db"
GC_INDEX: Final = "gc.db"
FSCK_INDEX: Final = "fsck.db"
DATABASE_PARTS: Final = ("", "-wal", "-shm")
"""Suffixes of the files that SQLite keeps one database in."""

IDENTITY: Final = "identity"
LOCK: Final = "lock"
TOKEN: Final = "token"  # noqa: S105  (the name of its file)
SPACE: Final = "space"
"""In a replica: which space it is of."""
PUBLISHED: Final = "published"
"""In a replica: which of its packs the space has, and which of the space's it has."""
KEYS: Final = "keys"
"""In a replica: the keys of its space, and its own."""
ADOPTING: Final = "adopting"
"""In a replica that is given a new number: its new keys."""
CACHE: Final = "cache"
"""In a replica: parts of packs that only its space has whole."""
DOOMED: Final = "doomed"
"""In a replica: what the space holds no longer."""
CHECKED: Final = "checked"
DAMAGED: Final = "damaged"
"""Parts that a repair has taken out of files, each named after its file and its offset there."""
REDACTING: Final = "redacting"
REDACTED: Final = "redacted"
"""The keyed names of blobs that were redacted."""
TRANSFERRED: Final = "transferred"
"""How far other stores have been looked through."""
SETTINGS: Final = "convfs.toml"
MOUNTS: Final = "mounts"
FORMATS: Final = "formats"
"""The formats that the user describes, a page each."""
REGISTRY: Final = "registry"
"""The types that clients over HTTP have registered, a bundle a file."""

SCRATCH: Final = "scratch"
GROWING: Final = "scratch/.growing"

# Within ``SCRATCH``:
DRAFTS: Final = ".drafts"
SPOOLS: Final = ".native"
IMPORTED: Final = "imported"
MOUNT_ROOT: Final = "mount"
"""Files that are made in the root of the mount."""
HIDDEN_COPY: Final = ".copy-"
"""Prefix of a temporary file."""

NEW: Final = ".new"
"""Suffix of a file that is being written, to take the place of another or to appear whole."""
ERASED: Final = ".erased"
"""Suffix of a file whose place was taken, until it is overwritten."""

REWRITTEN: Final = 1 << 32
"""The numbers of rewritten packs are counted from this."""
REMOTE: Final = 1 << 33
"""The numbers of packs that only the space of a replica has are counted from this."""
_PACK = re.compile(r"(r?)([0-9]{8,})\.pack")


def pack_name(number: int) -> str:
    """Return the name of a pack within ``BLOBS``; of one that is not there, the words for it."""
    if number >= REMOTE:
        return f"pack {number - REMOTE} of the space"
    return f"r{number - REWRITTEN:08}.pack" if number >= REWRITTEN else f"{number:08}.pack"


def pack_number(name: str) -> int | None:
    """Return the number of the pack of that name, None if no pack is called so."""
    found = _PACK.fullmatch(name)
    return int(found[2]) + (REWRITTEN if found[1] else 0) if found else None
