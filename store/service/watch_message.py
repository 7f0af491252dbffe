"""The message that asks to be told of changes, as both ends of a connection know it."""

from __future__ import annotations

from msgspec import Struct

from store.events.change import Change

WATCH = 290
"""The message: its parameters are :class:`WatchParams`, every item is a list of changes, and it never ends."""

LISTENING = Change(0, False)
"""What comes first: from now on nothing is missed."""


class WatchParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Which contexts are watched; none named: all. ``texts``: also how open turns of them grow."""

    contexts: tuple[int, ...] = ()
    texts: bool = False
