"""The hits of a search, as a daemon tells of them."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from fusefs.daemon.answers import HitLine
from fusefs.tree.paths import Paths
from store.formats.core.times import iso
from store.search.search import Hit
from store.store import Store

_LINES_AT_ONCE = 2000


def hit_lines(store: Store, pages: Iterable[list[Hit]], include: Sequence[str] = ()) -> Iterator[list[HitLine]]:
    """Yield findings as they come; empty pages too, so that a client that has gone is noticed."""
    paths = Paths(store)
    for page in pages:
        told: list[HitLine] = []
        lines = 0
        for hit in page:
            conversation = hit.conversation
            path, row = paths.hit(hit), hit.row
            if include and not any(fnmatchcase(path.rpartition("/")[2], each) for each in include):
                continue
            for start in range(0, max(len(hit.lines), 1), _LINES_AT_ONCE):
                some = hit.lines[start : start + _LINES_AT_ONCE]
                told.append(
                    HitLine(
                        path,
                        conversation.id,
                        conversation.project,
                        conversation.name,
                        conversation.title,
                        row.number if row else 0,
                        row.kind.word if row else "",
                        row.tool if row else "",
                        iso(hit.time_ms),
                        some,
                    )
                )
                lines += len(some)
                if lines >= _LINES_AT_ONCE:
                    yield told
                    told, lines = [], 0
        yield told
