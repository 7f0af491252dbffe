"""Open turns whose programs have died: they are looked for now and then, and sealed as they are after a day."""

import logging

import trio

from store.errors import ConvfsError
from store.ids import now_ms
from store.store import Store

_LOG = logging.getLogger(__name__)

_SECONDS = 600.0


async def end_abandoned(store: Store) -> None:
    """Look for them until cancelled."""
    while True:
        await trio.to_thread.run_sync(_end, store)
        await trio.sleep(_SECONDS)


def _end(store: Store) -> None:
    try:
        for text, turn in store.end_abandoned(now_ms()):
            what = "had no text, and was dropped" if turn is None else f"was sealed as it was, as turn {turn.turn_id}"
            _LOG.warning("open turn %d of context %d was left for a day: it %s", text.number, text.context_id, what)
    except ConvfsError as error:
        _LOG.warning("open turns that were left for a day stay open: %s", error)
