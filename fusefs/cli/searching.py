"""The operations that search: what is found, by the paths at which a mount shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from msgspec import Struct

from fusefs.text.names import kind_word
from fusefs.tree.paths import conversation_path, event_path
from store.formats.times import iso
from store.search.hits import Hit, Line
from store.search.search import Search
from store.search.terms import term_of
from store.service.operation import Holder, Nothing, Operation
from store.store import Store

_LINES_AT_ONCE = 2000
_LINES_OF_A_HIT = 1 << 30


class SearchParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``query`` as ``convfs search`` takes it; at most ``limit`` events are told (0: all)."""

    query: str
    limit: int = 0


class GrepParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``pattern`` is a regular expression, or a text if it is ``fixed``; ``where`` has filters of a query."""

    pattern: str
    fixed: bool = False
    ignore_case: bool = False
    words: bool = False
    where: str = ""


class HitLine(Struct, frozen=True):
    """An event that was found, as a program reads it; ``path`` is relative to the root of a mount.

    ``time`` is ISO 8601 in UTC. One that has very many lines comes several times, with some of them each.
    """

    path: str
    id: int
    project: str
    name: str
    title: str
    event: int
    kind: str
    tool: str
    time: str
    lines: tuple[Line, ...]


class FileParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``seconds``: how long it may take, about."""

    seconds: float


class Unfiled(Struct, frozen=True):
    """How many turns the index does not have."""

    turns: int


def _search(holder: Holder, params: SearchParams, emit: Callable[[list[HitLine]], None]) -> Nothing:
    pages = Search.of(holder.store).pages(params.query, params.limit or None, lines=_LINES_OF_A_HIT)
    _tell(holder.store, pages, emit)
    return Nothing()


def _grep(holder: Holder, params: GrepParams, emit: Callable[[list[HitLine]], None]) -> Nothing:
    term = term_of(params.pattern, fixed=params.fixed, ignore_case=params.ignore_case, words=params.words)
    pages = Search.of(holder.store).grep(term, params.where, lines=_LINES_OF_A_HIT)
    _tell(holder.store, pages, emit)
    return Nothing()


def _tell(store: Store, pages: Iterable[list[Hit]], emit: Callable[[list[HitLine]], None]) -> None:
    """Hand out what is found as it is found; pages without anything too, so that who has gone is noticed."""
    paths: dict[int, str] = {}
    for page in pages:
        told: list[HitLine] = []
        lines = 0
        for hit in page:
            conversation = hit.conversation
            path = paths.get(conversation.id)
            if path is None:
                path = paths[conversation.id] = conversation_path(store, conversation)
            for start in range(0, max(len(hit.lines), 1), _LINES_AT_ONCE):
                some = hit.lines[start : start + _LINES_AT_ONCE]
                told.append(_line(hit, event_path(path, hit.row, conversation.records), some))
                lines += len(some)
                if lines >= _LINES_AT_ONCE:
                    emit(told)
                    told, lines = [], 0
        emit(told)


def _line(hit: Hit, path: str, lines: tuple[Line, ...]) -> HitLine:
    conversation, row = hit.conversation, hit.row
    return HitLine(
        path,
        conversation.id,
        conversation.project,
        conversation.name,
        conversation.title,
        row.number,
        kind_word(row.kind),
        row.tool,
        iso(hit.time_ms),
        lines,
    )


def _file(holder: Holder, params: FileParams, emit: Callable[[Nothing], None]) -> Unfiled:
    search = Search.of(holder.store)
    until = time.monotonic() + params.seconds
    # a daemon does it by itself, when it has time
    if not holder.socket:
        while time.monotonic() < until and search.step():
            pass
    return Unfiled(search.unfiled)


SEARCH = Operation(420, SearchParams, list[HitLine], Nothing, _search)
GREP = Operation(421, GrepParams, list[HitLine], Nothing, _grep)
FILE = Operation(422, FileParams, Nothing, Unfiled, _file)

SEARCHING = (SEARCH, GREP, FILE)
