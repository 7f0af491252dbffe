"""The store as the browser looks through it: the list, the hits of a query, and texts as far as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fusefs.cli.output import columns
from store import visible

if TYPE_CHECKING:
    from fusefs.cli.backend import Backend
    from fusefs.daemon.answers import HitLine
    from store.conversations.lines import ConversationLine
    from store.store import Store

PROMPT = "Search: "
LISTED = 200
"""The conversations that are listed at once; more are asked for when the cursor comes near the end."""


class Source:
    """The store that is looked through, wherever it is held. Safe to use from any thread."""

    def __init__(self, store: Path | None) -> None:
        from fusefs.cli.backend import store_root

        self.root = store_root(store)

    def __enter__(self) -> Self:
        from fusefs.cli.backend import daemon_or_store
        from store.service.caller import Caller

        found = daemon_or_store(self.root)
        self._stack = ExitStack()
        self._own: Store | None = None
        if isinstance(found, Caller):
            found.close()
        else:
            self._own = self._stack.enter_context(found)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def serve(self) -> None:
        """Let other commands reach a store that is held here, from now on."""
        if self._own is None:
            return
        from fusefs.daemon.calls import ALL_OPERATIONS
        from store.service.server import Service, serving

        self._stack.enter_context(serving(Service(self._own, ALL_OPERATIONS)))

    @contextmanager
    def backend(self) -> Iterator[Backend]:
        """Reach the store by a connection of its own: a call that is broken off ends with it."""
        from store.service.call import Holder
        from store.service.caller import Caller

        if self._own is not None:
            yield Holder(self._own)
        else:
            with Caller.of(self.root) as client:
                yield client

    def latest(self, words: tuple[str, ...] = (), skipped: int = 0) -> list[ConversationLine]:
        """Return conversations with all of some words in title or name, the last changed first."""
        from store.service.operations import latest

        with self.backend() as backend:
            return backend.call(latest(words, LISTED, skipped))

    def hits(self, query: str, limit: int, take: Callable[[list[HitLine]], None]) -> None:
        """Search, and hand out the hits as they are found; what ``take`` raises ends the search."""
        from fusefs.daemon import operations

        with self.backend() as backend:
            backend.call(operations.search(query, limit), take)

    def text(self, conversation: int, first: int, least: int) -> tuple[list[str], bool]:
        """Return lines of a transcript from an event on, ``least`` of them or all; and whether these are all."""
        from fusefs.daemon import operations

        pieces: list[str] = []
        lines = 0

        def take(piece: str) -> None:
            nonlocal lines
            pieces.append(piece)
            lines += piece.count("\n")
            if lines >= least:
                raise _Enough

        whole = True
        try:
            with self.backend() as backend:
                backend.call(operations.show_part(conversation, first), take)
        except _Enough:
            whole = False
        text = "".join(pieces)
        # without what stands before the first event
        start = text.find("\n## ") + 1
        return (text[start:] if start else "").split("\n"), whole

    def mountpoint(self) -> str:
        """Return where the store is mounted, "" for nowhere."""
        from store.service.operations import status

        with self.backend() as backend:
            return backend.call(status()).mountpoint


class _Enough(Exception):
    """No more text is needed."""


def row_of(one: ConversationLine) -> str:
    """Return a conversation as a row of the list."""
    return visible.line(f"{one.updated[:10]}  {one.project}  {' '.join((one.title or one.name).split())}")


def clipped(text: str, width: int) -> str:
    """Return the beginning of a text, as many columns wide at most."""
    text = text[:width]
    while columns(text) > width:
        text = text[:-1]
    return text
