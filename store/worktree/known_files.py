"""``worktree.db`` of one store: every file as each conversation knew it, event by event.

What a record holds itself is there with what follows from it: the lines that a tool printed, the whole that pieces
make, the state after each edit. Contents are not kept: each is put together again from the events that it rests on, and
its hash says whether it is the same.

The file can be trusted as ``index.db`` can (``store.index.database``); where it cannot be, it is deleted and recreated.
"""

import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from operator import attrgetter
from typing import NamedTuple

from store import paths
from store.conversations import branch
from store.conversations.library import Library
from store.errors import Away, ConvfsError, DamageError, StoreFailed, UsageError
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event, Kind, utf8
from store.formats.core.media import file_uri, mime_of
from store.ids import Hash, hash_bytes, patch_of, tip_of, turn_of
from store.index.catalogue import ContextEntry
from store.index.database import Database, Row, Schema, asked_again, held_if_full, put
from store.upkeep.derived import PROGRESS, PerConversation
from store.upkeep.idle import SLICE_SECONDS
from store.upkeep.recovery import Files
from store.worktree import tagged
from store.worktree.actions import lines_of
from store.worktree.worktree import Changed, Seen, Worktree

_LOG = logging.getLogger(__name__)

TABLES = """
-- asked: the event that asked for it; since: the first event that the content rests on.
CREATE TABLE files (
    context INTEGER NOT NULL, number INTEGER NOT NULL, seq INTEGER NOT NULL, turn INTEGER NOT NULL, uri TEXT NOT NULL,
    size INTEGER NOT NULL, time_ms INTEGER NOT NULL, hash BLOB NOT NULL, asked INTEGER NOT NULL,
    since INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (context, number, seq)
) WITHOUT ROWID;
CREATE INDEX files_by_uri ON files (uri);
CREATE INDEX files_by_hash ON files (hash);
"""

_SCHEMA = Schema(2, PROGRESS + TABLES)
_VERSION = 4
"""Raised whenever other files follow from the same events; then all are looked for again."""

_LAST = "\U0010ffff"
_AT_ONCE = 32
_REPLAYS_KEPT = 4
_OTHERS_KEPT = 8
_LONG = 500
"""A replay of fewer events is soon made again."""
_CONTENT_BYTES = 8 << 20
_TELLING = frozenset((Kind.TOOL_CALL, Kind.TOOL_RESULT))
_TAGGED = _TELLING | {Kind.ASSISTANT, Kind.USER}
"""The kinds of events that tell of files, and those that do where calls stand in texts."""
_BREATH_SECONDS = 0.001


class FileRow(ResourceRow, frozen=True, gc=False):
    """A file as the conversation knew it after event ``number``, or the lines of it that the event read.

    It is the record's own resource at the position ``seq``, where it has one there. Event ``asked`` has the call, and
    all of it follows from events from ``since`` on.
    """

    asked: int = 0
    since: int = 0


class _State(NamedTuple):
    """A file, or lines of it. ``again``: the event has read only lines of the whole."""

    uri: str
    data: bytes
    asked: int
    since: int
    again: bool = False


class _Replay:
    """The worktree of one conversation as it was after ``records`` events, when ``tip`` was its head."""

    def __init__(self, metadata: Mapping[str, object], telling: Set[Kind]) -> None:
        self.telling = telling
        self.tip = 0
        self.records = 0
        self.rows: list[FileRow] = []
        self.filed = (0, 0)
        """The head up to which files were filed, and how many these were."""
        self._tree = Worktree(metadata)
        self._whole: dict[str, Hash] = {}

    def take(self, row: EventRow, event: Event, own: Sequence[ResourceRow]) -> Iterator[tuple[Hash, bytes]]:
        """Add the files that an event leads to, and yield their contents; ``own`` are the resources of its record."""
        free = [*own]
        more = len(own)
        for told in self._tree.take(row.number, event):
            for state in _states(told):
                digest = hash_bytes(state.data)
                if "#" not in state.uri:
                    if state.again and self._whole.get(state.uri) == digest:
                        continue
                    self._whole[state.uri] = digest
                held = next((one for one in free if one.hash == digest and _is_of(one.uri, state.uri)), None)
                if held is not None:
                    free.remove(held)
                    seq, uri = held.seq, held.uri
                else:
                    seq, uri, more = more, state.uri, more + 1
                place = (row.turn, row.number, seq, uri, _mime(uri), len(state.data), row.time_ms, digest)
                self.rows.append(FileRow(*place, state.asked, state.since))
                yield digest, state.data


def _states(told: Seen | Changed) -> Iterator[_State]:
    uri = file_uri(told.path)
    if isinstance(told, Changed):
        if told.after is not None:
            yield _State(uri, utf8(told.after), told.call, told.since)
        return
    is_whole = told.whole == told.text
    if not is_whole:
        yield _State(uri + lines_of(told.text, told.first), utf8(told.text), told.call, told.call)
    if told.whole is not None:
        yield _State(uri, utf8(told.whole), told.call, told.since, again=not is_whole)


def _is_of(own: str, uri: str) -> bool:
    """Return whether two URIs are of the same file, both of the whole or both of lines."""
    path, _, lines = own.partition("#")
    other, _, some = uri.partition("#")
    return path == other and bool(lines) == bool(some)


def _resting(row: FileRow, rows: Iterable[ResourceRow]) -> set[int]:
    """Return the events that a file most likely rests on: those that are known to have read or changed it."""
    path = row.uri.partition("#")[0]
    return {
        number
        for one in rows
        if isinstance(one, FileRow) and row.since <= one.asked and one.number <= row.number
        if one.uri.partition("#")[0] == path
        for number in (one.asked, one.number)
    }


def _telling(entry: ContextEntry | None) -> Set[Kind]:
    """Return the kinds of events of a conversation that tell of files."""
    return _TAGGED if entry is not None and entry.format in tagged.FORMATS else _TELLING


def _mime(uri: str) -> str:
    return mime_of(uri.partition("#")[0])


class KnownFiles(PerConversation):
    """The files of all conversations. Safe to call from any thread."""

    def __init__(self, files: Files, library: Library) -> None:
        super().__init__(files, library, paths.WORKTREE, _SCHEMA)
        self._replays: OrderedDict[int, _Replay] = OrderedDict()
        self._others: OrderedDict[int, list[FileRow]] = OrderedDict()
        """The files of heads that no conversation has now, such as those of earlier versions."""
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()
        self._held = 0
        """The bytes of these contents."""
        self._ending = False

    def _own(self) -> dict[str, str | int]:
        renderer = self.library.viewer.renderer
        if renderer is None:
            raise UsageError("this store was opened without a renderer: nothing is known of files")
        return {"renderer": renderer.version, "known_by": _VERSION}

    def close(self) -> None:
        # whoever looks at a long conversation is not waited for
        self._ending = True
        super().close()

    # -- one conversation ------------------------------------------------------------------------------------------

    def is_known(self, context: int, head: int, seconds: float = 0.0) -> bool:
        """Return whether :meth:`rows` answers without looking at events; look at some for ``seconds`` before."""
        known = not head or head in self._others or self._known_head(context) == head
        if known or not seconds or not self._filing.acquire(blocking=False):
            return known
        try:
            if self._took_over(context, head):
                return True
            return self._replayed(context, head, time.monotonic() + seconds).tip == head
        finally:
            self._filing.release()

    @asked_again
    def rows(self, context: int, head: int) -> list[FileRow]:
        """Return the files that a conversation knew up to ``head``, which may be an earlier one, in order.

        Raises Away where an event is not here and cannot be fetched now.
        """
        rows = self._at_hand(context, head)
        if rows is None:
            with self._filing:
                rows = self._at_hand(context, head)
                if rows is None and self._took_over(context, head):
                    rows = self._at_hand(context, head)
                if rows is None:
                    rows = [*self._replayed(context, head).rows]
        return rows

    def _at_hand(self, context: int, head: int) -> list[FileRow] | None:
        if (others := self._others.get(head)) is not None or not head:
            return others or []
        if self._known_head(context) != head:
            return None
        rows = [self._row(row) for row in self.db.query("SELECT * FROM files WHERE context = ?", (context,))]
        # they may have become others meanwhile
        return rows if self._known_head(context) == head else None

    def content(self, context: int, head: int, row: FileRow, rows: Iterable[ResourceRow]) -> bytes:
        """Return the content of a file; ``rows`` are all of its conversation. DamageError if it cannot be had again."""
        with self._filing:
            # edits of which nothing came, and files that had other names, are among all events only
            for numbers in (_resting(row, rows), range(row.since, row.number + 1)):
                if (data := self._again(context, head, row, numbers)) is not None:
                    return data
        raise DamageError(f"{row.uri} as of event {row.number} can no longer be put together")

    def content_at_once(self, context: int, head: int, row: FileRow, rows: Iterable[ResourceRow]) -> bytes | None:
        """Return the content of a file as :meth:`content` does, None if that might take long."""
        data = self._contents.get(row.hash)
        if data is not None or len(numbers := _resting(row, rows)) > _AT_ONCE:
            return data
        if not self._filing.acquire(blocking=False):
            return None
        try:
            return self._again(context, head, row, numbers)
        finally:
            self._filing.release()

    def _again(self, context: int, head: int, row: FileRow, numbers: Iterable[int]) -> bytes | None:
        """Put a content together from events of these numbers; None if something else comes of them."""
        if (data := self._contents.get(row.hash)) is not None:
            return data
        events = self.library.records.rows(head)
        some = [events[number - 1] for number in sorted(numbers)]
        return dict(self._take(self._begun(context), some)).get(Hash(row.hash))

    def forget(self) -> None:
        """Forget what is remembered: contents have changed."""
        with self._filing:
            self._replays.clear()
            self._others.clear()
            self._forget_contents()

    def shrink(self) -> None:
        super().shrink()
        with self._filing:
            self._forget_contents()
            for context in [context for context, replay in self._replays.items() if replay.records < _LONG]:
                del self._replays[context]

    def _forget_contents(self) -> None:
        self._contents.clear()
        self._held = 0

    def _row(self, row: Row) -> FileRow:
        _context, number, seq, turn, uri, size, time_ms, digest, asked, since = self.db.checked("files", row)
        return FileRow(turn, number, seq, uri, _mime(uri), size, time_ms, digest, asked, since)

    def _begun(self, context: int) -> _Replay:
        entry = self.library.catalogue.by_id(context)
        return _Replay(entry.metadata if entry else {}, _telling(entry))

    def _took_over(self, context: int, head: int) -> bool:
        """Take what is known over from the head before, where records changed that tell nothing of files."""
        turns, now = self.library.turns, self.library.catalogue.head(context)
        if now is None or now[0] != head:
            return False
        replay, known = self._replays.get(context), self._known_head(context)
        if replay is not None and replay.records and not turns.goes_on(replay.tip, head):
            tip = tip_of(turns.ancestor(head, replay.records - 1), patch_of(head))
            if turn_of(tip) and self._tell_the_same(context, replay.tip, tip):
                replay.tip = tip
        if not known or known == head or not self._tell_the_same(context, known, head):
            return False
        try:
            self._put(context, head, (), anew=False)
        except (OSError, StoreFailed) as error:
            _LOG.info("what is known of files cannot be kept: %s", error)
            return False
        if replay is not None and replay.filed[0] == known:
            replay.filed = head, replay.filed[1]
        return True

    def _tell_the_same(self, context: int, one: int, other: int) -> bool:
        """Return whether two branches differ in few records, and in none that tells of files."""
        records = self.library.records
        if records.length(one) != records.length(other):
            return False
        places = list(branch.differences(records.runs(one), records.runs(other)))
        if sum(count for _start, count in places) > _AT_ONCE:
            return False
        telling = _telling(self.library.catalogue.by_id(context))
        for tip in (one, other):
            rows = records.rows(tip)
            for start, count in places:
                if any(row.kind in telling for row in rows[start : start + count]):
                    return False
                if self.library.views.count_resources(branch.part(records.runs(tip), start, count)):
                    return False
        return True

    def _replayed(self, context: int, head: int, until: float = inf) -> _Replay:
        """Return the replay of a conversation up to ``head``; or, once it is ``until``, some of the way there."""
        replay = self._replays.pop(context, None)
        if replay is None or not self.library.turns.goes_on(replay.tip, head):
            replay = self._begun(context)
        rows = self.library.records.rows(head)
        while replay.records < len(rows) and time.monotonic() < until:
            if self._ending:
                raise StoreFailed("the store has been closed")
            some = rows[replay.records : replay.records + _AT_ONCE]
            for _content in self._take(replay, some):
                pass
            replay.records += len(some)
            replay.tip = tip_of(turn_of(some[-1].turn), patch_of(head))
        if replay.records == len(rows):
            self._file(context, head, replay)
        self._replays[context] = replay
        if len(self._replays) > _REPLAYS_KEPT:
            self._replays.popitem(last=False)
        return replay

    def _take(self, replay: _Replay, rows: Sequence[EventRow]) -> Iterator[tuple[Hash, bytes]]:
        """Go on by some events, and yield the contents that come of them; these are remembered for a while.

        Raises Away where one is not here and cannot be fetched now; those that are damaged tell nothing.
        """
        held: dict[int, list[ResourceRow]] = {}
        for one in self.library.views.resources([(row.turn, 1) for row in rows], 1):
            held.setdefault(one.turn, []).append(one)
        telling = [row for row in rows if row.kind in replay.telling or row.turn in held or row.unsure]
        for row, event in self.library.viewer.events(telling):
            if isinstance(event, Away):
                raise event
            if isinstance(event, ConvfsError):
                continue
            for digest, data in replay.take(row, event, held.get(row.turn, ())):
                self._held += len(data) - len(self._contents.pop(digest, b""))
                self._contents[digest] = data
                while self._held > _CONTENT_BYTES:
                    self._held -= len(self._contents.popitem(last=False)[1])
                yield digest, data

    def _file(self, context: int, head: int, replay: _Replay) -> None:
        now = self.library.catalogue.head(context)
        if now is not None and now[0] == head:
            before, count = replay.filed
            known = count if before and self._known_head(context) == before else 0
            try:
                self._put(context, head, replay.rows[known:], anew=not known)
            except (OSError, StoreFailed) as error:
                _LOG.info("what is known of files cannot be kept: %s", error)
            else:
                replay.filed = head, len(replay.rows)
                return
        self._others[head] = [*replay.rows]
        if len(self._others) > _OTHERS_KEPT:
            self._others.popitem(last=False)

    @held_if_full
    def _put(self, context: int, head: int, rows: Sequence[FileRow], *, anew: bool) -> None:
        with self.db.writing() as sql:
            if anew:
                sql.execute("DELETE FROM files WHERE context = ?", (context,))
            told = attrgetter("number", "seq", "turn", "uri", "size", "time_ms", "hash", "asked", "since")
            put(sql, "files", ((context, *told(row)) for row in rows))
            put(sql, "conversations", [(context, head)])
            self.db.set_state("turns", self.files.turns.count)

    # -- all of them -----------------------------------------------------------------------------------------------

    @property
    @asked_again
    def is_whole(self) -> bool:
        """Whether all conversations were looked at: no contents of one cannot be fetched now."""
        return self.db.one("SELECT 1 FROM waiting LIMIT 1") is None

    @asked_again
    def uris(self, limit: int, prefix: str = "") -> list[str]:
        """Return the first ``limit`` URIs of files that begin with ``prefix``, in order."""
        query = "SELECT DISTINCT uri FROM files WHERE uri >= ? AND uri < ? ORDER BY uri LIMIT ?"
        return [uri for (uri,) in self._all().query(query, (prefix, prefix + _LAST, limit))]

    def with_uri(self, uri: str) -> list[tuple[int, FileRow]]:
        """Return the files of exactly this URI, each after its context, by context and event."""
        return self._found("uri = ?", uri)

    def with_content(self, digest: Hash) -> list[tuple[int, FileRow]]:
        """Return the files that are this content, as :meth:`with_uri`."""
        return self._found("hash = ?", digest)

    @asked_again
    def _found(self, where: str, value: str | bytes) -> list[tuple[int, FileRow]]:
        rows = self._all().query(f"SELECT * FROM files WHERE {where} ORDER BY context, number, seq", (value,))
        return [(row[0], self._row(row)) for row in rows]

    def _all(self) -> Database:
        """Return the database once everything is in it."""
        db = self.db
        while self._look(time.monotonic() + SLICE_SECONDS):
            # others may want to look at one of them now
            time.sleep(_BREATH_SECONDS)
        return db

    def _look_at(self, context: int, head: int, until: float) -> int:
        if self._took_over(context, head):
            return 0
        return self.library.records.length(head) - self._replayed(context, head, until).records

    def _drop(self, sql: sqlite3.Connection, context: int) -> None:
        sql.execute("DELETE FROM files WHERE context = ?", (context,))
