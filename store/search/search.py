"""The one facade of searching: what :class:`store.store.Store` is to conversations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from msgspec.structs import replace

from store.errors import ConvfsError, UsageError
from store.ids import now_ms
from store.search.finding import Finding
from store.search.following import Following
from store.search.hits import Hit
from store.search.holders import Holders
from store.search.query import Query, parse
from store.search.terms import Term
from store.store import Store

_OF: dict[Store, Search] = {}
_MAKING = threading.Lock()


class Search:
    """Searches one store. Safe to call from any thread; :meth:`of` gives the same one to all who ask for it."""

    def __init__(self, store: Store) -> None:
        self._following = Following(store)
        self.holders = Holders(self._following)
        """Who holds what."""
        store.closing.append(self.close)

    @classmethod
    def of(cls, store: Store) -> Search:
        """Return the search of a store; UsageError where it was opened without a renderer."""
        with _MAKING:
            found = _OF.get(store)
            if found is None:
                found = _OF[store] = cls(store)
            return found

    def run(self, query: str, limit: int | None = None, *, lines: int = 100) -> Iterator[Hit]:
        """Yield up to ``limit`` hits of a query (``store.search.query``), best first (``store.search.finding``).

        Each is told with up to ``lines`` lines. Nothing is held while no hit is asked for. UsageError, at once, where
        the query cannot be understood.
        """
        return chain.from_iterable(self.pages(query, limit, lines=lines))

    def pages(self, query: str, limit: int | None = None, *, lines: int = 100) -> Iterator[list[Hit]]:
        """As :meth:`run`, as many at a time as are looked at at once; some pages may be empty."""
        return self._pages(parse(query, now_ms()), limit, lines)

    def grep(self, term: Term, where: str = "", *, lines: int = 100) -> Iterator[list[Hit]]:
        """As :meth:`pages`, for one term and the filters of a query."""
        filters = parse(where, now_ms()) if where.strip() else Query()
        if filters.terms or filters.without:
            raise UsageError(f"{where}: a pattern is followed by filters alone (project:, role:, after:)")
        return self._pages(replace(filters, terms=(term,)), None, lines)

    def _pages(self, query: Query, limit: int | None, lines: int) -> Iterator[list[Hit]]:
        left = limit
        for page in Finding(self._following, self.holders, query, lines).pages():
            yield page[:left]
            if left is not None and (left := left - len(page)) <= 0:
                return

    @property
    def unfiled(self) -> int:
        """How many turns the index does not have."""
        self._following.follow()
        return len(self._following.unfiled())

    def step(self) -> bool:
        """Bring the index up a little further to what the store holds; return whether there is more to do."""
        return self._following.step()

    def renew(self) -> None:
        """Forget everything that was filed, and leave nothing of it on the disk; all is filed once more."""
        self._following.renew()

    def close(self) -> None:
        """Bring the index to disk and close it; the store does so when it is closed."""
        with _MAKING:
            _OF.pop(self._following.store, None)
        with suppress(ConvfsError):
            # it is made anew
            self._following.close(sync=True)
