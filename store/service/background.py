"""What a daemon does while nobody asks anything of its store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from store.insight.insight import Insight
from store.retention.rules import Following
from store.search.search import Search
from store.service.collecting import Collecting
from store.service.sealing import SealingJob
from store.store import Store
from store.upkeep.idle import Idle

_COLLECT_SECONDS = 600.0
_INDEX_SECONDS = 2.0
_COUNT_SECONDS = 30.0
_PRUNE_SECONDS = 3600.0
_SEAL_SECONDS = 60.0


@contextmanager
def in_background(store: Store) -> Iterator[Idle]:
    """Have it done while the block runs."""
    idle = Idle(lambda: store.activity)
    collecting = Collecting(store)
    sealing = SealingJob(store)
    idle.add(collecting, _COLLECT_SECONDS)
    if store.viewer.renderer is not None:
        idle.add(Following(store), _PRUNE_SECONDS)
        idle.add(Search.of(store), _INDEX_SECONDS)
        idle.add(Insight.of(store), _COUNT_SECONDS)
    idle.add(sealing, _SEAL_SECONDS)
    idle.start()
    try:
        yield idle
    finally:
        idle.close()
        collecting.close()
        sealing.close()
