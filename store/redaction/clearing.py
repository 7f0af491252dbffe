"""Clearing: what follows on a machine of a space once nothing of what was dropped is left in its packs.

What was derived from it goes: the databases that a store keeps are brought up to date, and rows that are gone are
erased from their files. Then the look of a redaction's proof (``store.redaction.proof``) goes through all packs and
these databases, for the names of all that was ever dropped and is not here again. If it finds none, the machine says
so to the others.
"""

import logging
from array import array
from collections.abc import Iterator

from store import paths
from store.disk.head_format import Dropped, HeadFrame
from store.index.beside import erase_database
from store.redaction.proof import prove_gone
from store.store import Store

_LOG = logging.getLogger(__name__)

_TEXTS = (paths.SEARCH, paths.TEXTS)
"""The databases that keep what contents say."""


def clear(store: Store, dropped: int) -> Iterator[None]:
    """Clear what was dropped up to the commit ``dropped``, of which nothing is left in packs; pauses now and then.

    Raises StoreFailed.
    """
    replica = store.replica
    assert replica is not None
    store.checkpointer.flush()
    if store.viewer.renderer is None:
        # it cannot be brought up to date
        for name in _TEXTS:
            erase_database(store.root / name)
    else:
        for name, derived in ((paths.SEARCH, store.search), (paths.TEXTS, store.texts)):
            if (store.root / name).exists():
                while derived.step():
                    yield
                derived.db.purge()
                yield
    proof = yield from prove_gone(store, _gone(store, dropped), [store.root / name for name in _TEXTS])
    if proof.found or proof.unread:
        _LOG.warning("something that the space has dropped may still be here: %s", (proof.found or proof.unread)[0])
        return
    replica.note_collected(dropped)


def _gone(store: Store, upto: int) -> set[int]:
    """Return the keys of all that was dropped up to a commit, and of which the index knows nothing."""
    keys: set[int] = set()
    for frame in store.files.heads.frames():
        if isinstance(frame, HeadFrame) and isinstance(frame.body, Dropped) and frame.seq <= upto:
            keys.update(array("q", frame.body.keys))
    return {key for key in keys if not store.files.index.places_of(key)}
