"""Making the index anew from the logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from store.events.renderer import Renderer
from store.store import Store


def reindex(root: Path, renderer: Renderer, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Delete the index of the store at ``root`` and make it again, every conversation measured.

    Returns what was found damaged, a line each; ``progress`` is told how many conversations of how many are done.
    Raises NotFound, and StoreBusy while another process has the store open.
    """
    with Store.open(root, renderer=renderer, create=False, reindex=True) as store:
        entries = store.entries()
        for done, entry in enumerate(entries, 1):
            store.measure(entry)
            if progress:
                progress(done, len(entries))
        return store.recovered
