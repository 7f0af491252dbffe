"""The calls that need to know how a mount shows conversations: found, searched, shown, compared."""

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import structs

from fusefs.daemon.answers import BlameLine, Difference, DiffSums, HitLine, HoldingLine, Known, State, Unfiled
from store.errors import ConvfsError, UsageError
from store.search.unread import Unread
from store.service.call import Emit, Holder, Table, chunked
from store.service.operations import line_of

if TYPE_CHECKING:
    from store.search.terms import Term

_PAGE = 200
_LINES_AT_ONCE = 2000
_LINES_OF_A_HIT = 1 << 30

SHOWN = Table()


@SHOWN.telling(430)
def diff(holder: Holder, emit: Emit[list[Difference]], a: State, b: State, summary: bool = False) -> DiffSums:
    """Hand out how two states differ, event by event; ``summary``: how much is told, and not what."""
    from fusefs.daemon.differences import differences

    counts = {"changed": 0, "added": 0, "removed": 0}
    added = removed = 0
    for difference in differences(holder.store, a, b):
        counts[difference.change] += 1
        added, removed = added + difference.added, removed + difference.removed
        emit([structs.replace(difference, diff="") if summary else difference])
    return DiffSums(**counts, added_lines=added, removed_lines=removed)


@SHOWN.telling(431)
def where(holder: Holder, emit: Emit[list[HoldingLine]], blob: str = "", uris: tuple[str, ...] = ()) -> Known:
    """Hand out who holds a content, or resources.

    ``blob`` is ``blob:blake3:HEX``, ``blob:sha256:HEX``, ``blob:HEX`` for either, or "" for none.
    """
    from fusefs.daemon.holders import holders

    told, known = holders(holder.store, blob, uris)
    for start in range(0, len(told), _PAGE):
        emit(told[start : start + _PAGE])
    return known


@SHOWN.telling(432)
def blame(holder: Holder, emit: Emit[list[BlameLine]], paths: tuple[str, ...], text: str | None = None) -> None:
    """Hand out the lines of a file that has been called any of ``paths``; of its last known state without a text."""
    from store.filenames import shown_name
    from store.formats.core.times import iso
    from store.worktree.blame import blame as blamed

    catalogue = holder.store.catalogue
    called: dict[int, str] = {}
    told: list[BlameLine] = []
    for line in blamed(holder.store, paths, text):
        if (origin := line.origin) is None:
            told.append(BlameLine(line.text))
            continue
        if origin.context not in called:
            entry = catalogue.entry(origin.context)
            called[origin.context] = f"{entry.project}/{shown_name(entry)}"
        told.append(
            BlameLine(
                line.text, called[origin.context], origin.context, origin.request, origin.event, iso(origin.time_ms)
            )
        )
    for start in range(0, len(told), _LINES_AT_ONCE):
        emit(told[start : start + _LINES_AT_ONCE])


@SHOWN.telling(420)
def search(holder: Holder, emit: Emit[list[HitLine]], query: str, limit: int = 0) -> Unread:
    """Search, as ``convfs search`` does; at most ``limit`` events are told (0: all). Returns what was not looked at."""
    from fusefs.daemon.hits import hit_lines

    unread = Unread()
    pages = holder.store.search.pages(query, limit or None, lines=_LINES_OF_A_HIT, unread=unread)
    for page in hit_lines(holder.store, pages):
        emit(page)
    return unread


@SHOWN.telling(421)
def grep(
    holder: Holder,
    emit: Emit[list[HitLine]],
    pattern: str,
    fixed: bool = False,
    ignore_case: bool = False,
    words: bool = False,
    where: str = "",
) -> Unread:
    """Look for a regular expression, or a text if it is ``fixed``; ``where`` has filters of a query."""
    from store.search.terms import term_of

    return _grep(holder, emit, term_of([pattern], fixed=fixed, ignore_case=ignore_case, words=words), where)


@SHOWN.telling(423)
def grep_around(
    holder: Holder,
    emit: Emit[list[HitLine]],
    patterns: tuple[str, ...],
    fixed: bool = False,
    ignore_case: bool = False,
    words: bool = False,
    where: str = "",
    invert: bool = False,
    before: int = 0,
    after: int = 0,
    include: tuple[str, ...] = (),
) -> Unread:
    """As ``grep``, for any of some patterns, with so many lines ``before`` and ``after`` each line.

    ``invert``: the lines that match none. ``include``: only in files whose names fit one of these.
    """
    from store.search.terms import term_of

    term = term_of(patterns, fixed=fixed, ignore_case=ignore_case, words=words, invert=invert)
    return _grep(holder, emit, term, where, (before, after), include)


def _grep(
    holder: Holder,
    emit: Emit[list[HitLine]],
    term: "Term",
    where: str,
    around: tuple[int, int] = (0, 0),
    include: tuple[str, ...] = (),
) -> Unread:
    from fusefs.daemon.hits import hit_lines

    unread = Unread()
    pages = holder.store.search.grep(term, where, lines=_LINES_OF_A_HIT, around=around, unread=unread)
    for page in hit_lines(holder.store, pages, include):
        emit(page)
    return unread


@SHOWN.call(422)
def file_turns(holder: Holder, seconds: float) -> Unfiled:
    """Index unindexed turns for about ``seconds`` seconds."""
    search = holder.store.search
    # a daemon does it by itself, when it has time
    if not holder.socket:
        search.file_until(time.monotonic() + seconds)
    return Unfiled(search.unfiled)


@SHOWN.pages(263)
def show(holder: Holder, conversation_id: int, as_json: bool = False) -> Iterator[str]:
    """Return the transcript of a conversation, or one JSON object."""
    if not as_json:
        return _transcript(holder, conversation_id)
    from store.exporting.event_json import document, shown_events

    conversation = holder.store.library.conversation(conversation_id)
    return chunked(document(line_of(holder, conversation), shown_events(holder.store, conversation)), "")


@SHOWN.pages(269)
def show_part(holder: Holder, conversation_id: int, first: int = 1, last: int = 0) -> Iterator[str]:
    """Return the transcript of the events ``first`` to ``last`` (0: the end)."""
    if first < 1 or last < 0:
        raise UsageError(f"events are numbered from 1: {first} to {last} are none")
    return _transcript(holder, conversation_id, first, last)


def _transcript(holder: Holder, conversation_id: int, first: int = 1, last: int = 0) -> Iterator[str]:
    from fusefs.text import transcript
    from store.exporting.event_json import shown_rows

    conversation = holder.store.library.conversation(conversation_id)
    sections = holder.store.texts.sections_of(shown_rows(holder.store, conversation, first, last))
    pieces = chain(
        (transcript.head(conversation),),
        (transcript.unreadable(row, text) if isinstance(text, ConvfsError) else text for row, text in sections),
    )
    return chunked((piece.decode("utf-8", "replace") for piece in pieces), "")
