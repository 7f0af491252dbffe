"""The calls that need to know how a mount shows conversations: found, searched, shown, compared."""

import time
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Literal

from msgspec import Struct, structs

from fusefs.tree.paths import Paths, event_path
from store.artifacts.urls import parse_url
from store.backlinks import Backlinks, Holding, Relation
from store.compare import NOTHING, Branch, pairs, unified
from store.errors import ConvfsError, DamageError, UsageError
from store.events.conversation import EventRow
from store.exporting.event_json import document, shown_events, shown_rows
from store.filenames import shown_name
from store.formats.core.times import iso
from store.ids import Hash
from store.search.search import Hit, Line
from store.search.terms import term_of
from store.service.call import Emit, Holder, Table, chunked
from store.service.operations import line_of
from store.store import Store
from store.worktree.blame import blame as blamed

_LARGEST = 4 << 20
"""Event files with more bytes than this are not compared line by line."""
_PAGE = 200
_LINES_AT_ONCE = 2000
_LINES_OF_A_HIT = 1 << 30

SHOWN = Table()


Change = Literal["changed", "added", "removed"]


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation by its id, as it is, or as its ``version`` of that number was."""

    id: int
    version: int = 0


class DiffSide(Struct, frozen=True):
    """An event of one state, and the path of its file, from the root of a mount on."""

    event: int
    kind: str
    tool: str
    path: str


class Difference(Struct, frozen=True):
    """An event that differs, or that only one state has: the differing lines of its file, and their number.

    ``diff`` is a unified diff; "" where ``note`` says why there is none, or none was asked for.
    """

    change: Change
    a: DiffSide | None
    b: DiffSide | None
    added: int
    removed: int
    diff: str = ""
    note: str = ""


class DiffSums(Struct, frozen=True):
    """The totals of a diff: how many events differ, and by how many lines."""

    changed: int
    added: int
    removed: int
    added_lines: int
    removed_lines: int


class _Shown:
    """One state, as it is shown: its branch, and the files of its events."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        conversation = store.library.conversation(state.id)
        version = store.catalogue.version(state.id, state.version) if state.version else None
        self.branch = Branch(state.id, conversation.head if version is None else version.head)
        self._records = conversation.records if version is None else version.records
        self._path = Paths(store).conversation(conversation, version)

    def side(self, row: EventRow | None) -> DiffSide | None:
        """Return an event as it is told of."""
        if row is None:
            return None
        return DiffSide(row.number, row.kind.word, row.tool, event_path(self._path, row, self._records))

    def file(self, row: EventRow | None) -> str:
        """Return the file of an event; raises DamageError."""
        if row is None:
            return ""
        [(_row, text)] = self._store.texts.files_of([row])
        if isinstance(text, ConvfsError):
            raise text
        return text.decode()


@SHOWN.telling(430)
def diff(holder: Holder, emit: Emit[list[Difference]], a: State, b: State, summary: bool = False) -> DiffSums:
    """Hand out how two states differ, event by event; ``summary``: how much is told, and not what."""
    store = holder.store
    old_state, new_state = _Shown(store, a), _Shown(store, b)
    counts = {"changed": 0, "added": 0, "removed": 0}
    added = removed = 0
    for old, new in pairs(store, old_state.branch, new_state.branch):
        difference = _difference(old_state, new_state, old, new)
        if difference is None:
            continue
        counts[difference.change] += 1
        added, removed = added + difference.added, removed + difference.removed
        emit([structs.replace(difference, diff="") if summary else difference])
    return DiffSums(**counts, added_lines=added, removed_lines=removed)


def _difference(a: _Shown, b: _Shown, old: EventRow | None, new: EventRow | None) -> Difference | None:
    """Return the difference of an event between two states, None if its file is the same in both."""
    change: Change = "added" if old is None else "removed" if new is None else "changed"
    sides = a.side(old), b.side(new)
    if any(row is not None and row.file_size > _LARGEST for row in (old, new)):
        return Difference(change, *sides, 0, 0, note="too large to be compared line by line")
    try:
        before, after = a.file(old), b.file(new)
    except DamageError as error:
        return Difference(change, *sides, 0, 0, note=f"cannot be read: {error}")
    names = (NOTHING if side is None else side.path for side in sides)
    found = unified(before, after, *names)
    return Difference(change, *sides, found.added, found.removed, found.text) if found.text else None


class HoldingLine(Struct, frozen=True):
    """One place that holds something: ``event`` is a number, or None where ``name`` says what else holds it.

    ``path`` is relative to the root of a mount, "" where the context ``id`` has no name. ``version`` is 0 for a
    conversation as it is now.
    """

    path: str
    id: int
    version: int
    event: int | None
    kind: str
    tool: str
    held_as: Relation
    name: str
    uris: tuple[str, ...]


class Known(Struct, frozen=True):
    """``stored``: whether the store has a content of this hash, held by somebody or not."""

    stored: bool


@SHOWN.telling(431)
def where(holder: Holder, emit: Emit[list[HoldingLine]], blob: str = "", uris: tuple[str, ...] = ()) -> Known:
    """Hand out who holds a content, or resources.

    ``blob`` is ``blob:blake3:HEX``, ``blob:sha256:HEX``, ``blob:HEX`` for either, or "" for none.
    """
    store = holder.store
    backlinks = Backlinks(store)
    digest = _digest(store, blob) if blob else None
    paths = Paths(store)
    holdings = chain(backlinks.of_content(digest) if digest else (), backlinks.of_uris(uris))
    told = list(dict.fromkeys(_line(paths, holding) for holding in holdings))
    for start in range(0, len(told), _PAGE):
        emit(told[start : start + _PAGE])
    return Known(bool(told) or (digest is not None and store.addresses.blob("blake3", digest) is not None))


def _digest(store: Store, blob: str) -> Hash:
    """Return the hash of a blob by any digest; of content that only records have, the digest itself."""
    address = parse_url(blob)
    return store.addresses.blob(address.algorithm, address.digest) or Hash(address.digest)


def _line(paths: Paths, holding: Holding) -> HoldingLine:
    row, version = holding.row, holding.version
    return HoldingLine(
        paths.holding(holding),
        holding.conversation.id,
        version.number if version else 0,
        row.number if row else None,
        row.kind.word if row else "",
        row.tool if row else "",
        holding.relation,
        holding.name,
        holding.uris,
    )


class BlameLine(Struct, frozen=True):
    """A line of a file, and what it is due to: the event of a conversation, ``PROJECT/NAME``, and the request for that.

    ``conversation`` is "" if none is known to have written it; ``request`` is 0 if none came before. ``time`` is ISO
    8601 in UTC, "" if it is unknown.
    """

    text: str
    conversation: str = ""
    id: int = 0
    request: int = 0
    event: int = 0
    time: str = ""


@SHOWN.telling(432)
def blame(holder: Holder, emit: Emit[list[BlameLine]], paths: tuple[str, ...], text: str | None = None) -> None:
    """Hand out the lines of a file that has been called any of ``paths``; of its last known state without a text."""
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


class HitLine(Struct, frozen=True):
    """An event that was found, as a program reads it; ``path`` is relative to the root of a mount.

    ``time`` is ISO 8601 in UTC. One that has very many lines comes several times, with some of them each. ``event`` is
    0, and ``kind`` "", where a title or a label was found.
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


class Unfiled(Struct, frozen=True):
    """The number of turns that the index does not have."""

    turns: int


@SHOWN.pages(420)
def search(holder: Holder, query: str, limit: int = 0) -> Iterator[list[HitLine]]:
    """Search, as ``convfs search`` does; at most ``limit`` events are told (0: all)."""
    pages = holder.store.search.pages(query, limit or None, lines=_LINES_OF_A_HIT)
    return _told(holder.store, pages)


@SHOWN.pages(421)
def grep(
    holder: Holder, pattern: str, fixed: bool = False, ignore_case: bool = False, words: bool = False, where: str = ""
) -> Iterator[list[HitLine]]:
    """Look for a regular expression, or a text if it is ``fixed``; ``where`` has filters of a query."""
    term = term_of([pattern], fixed=fixed, ignore_case=ignore_case, words=words)
    return _told(holder.store, holder.store.search.grep(term, where, lines=_LINES_OF_A_HIT))


@SHOWN.pages(423)
def grep_around(
    holder: Holder,
    patterns: tuple[str, ...],
    fixed: bool = False,
    ignore_case: bool = False,
    words: bool = False,
    where: str = "",
    invert: bool = False,
    before: int = 0,
    after: int = 0,
    include: tuple[str, ...] = (),
) -> Iterator[list[HitLine]]:
    """As ``grep``, for any of some patterns, with so many lines ``before`` and ``after`` each line.

    ``invert``: the lines that match none. ``include``: only in files whose names fit one of these.
    """
    term = term_of(patterns, fixed=fixed, ignore_case=ignore_case, words=words, invert=invert)
    pages = holder.store.search.grep(term, where, lines=_LINES_OF_A_HIT, around=(before, after))
    return _told(holder.store, pages, include)


def _told(store: Store, pages: Iterable[list[Hit]], include: Sequence[str] = ()) -> Iterator[list[HitLine]]:
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
    conversation = holder.store.library.conversation(conversation_id)
    return chunked(document(line_of(holder, conversation), shown_events(holder.store, conversation)), "")


@SHOWN.pages(269)
def show_part(holder: Holder, conversation_id: int, first: int = 1, last: int = 0) -> Iterator[str]:
    """Return the transcript of the events ``first`` to ``last`` (0: the end)."""
    if first < 1 or last < 0:
        raise UsageError(f"events are numbered from 1: {first} to {last} are none")
    return _transcript(holder, conversation_id, first, last)


def _transcript(holder: Holder, conversation_id: int, first: int = 1, last: int = 0) -> Iterator[str]:
    conversation = holder.store.library.conversation(conversation_id)
    # few calls need what it loads
    from fusefs.text import transcript

    sections = holder.store.texts.sections_of(shown_rows(holder.store, conversation, first, last))
    pieces = chain(
        (transcript.head(conversation),),
        (transcript.unreadable(row, text) if isinstance(text, ConvfsError) else text for row, text in sections),
    )
    return chunked((piece.decode("utf-8", "replace") for piece in pieces), "")
