"""A long conversation: what is done for it is counted, and does not grow with it.

``CONVFS_LARGE_TESTS=1`` takes one of 500,000 records, too.
"""

import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from fusefs.inodes import Space, base
from fusefs.tree.changes import ShownConversation, Stale, stale_since
from fusefs.tree.node import DirEntry
from fusefs.tree.tree import Tree
from fusefs.tree.view import View
from store.commit.request import ContextHead
from store.conversations.contexts import Append
from store.conversations.viewer import Viewer
from store.disk.turn_log import TurnLog
from store.editing.editor import Editor
from store.events.conversation import EventRow
from store.index.views import Views
from store.store import Store
from tests.fusefs.tree.mounting import new_store

TYPE = "claude-code.line.v1"
LENGTHS = [20_000, 500_000] if "CONVFS_LARGE_TESTS" in os.environ else [20_000]


def line(number: int, text: str) -> bytes:
    after = {"parentUuid": f"id-{number - 1}"} if number > 1 else {}
    said = {"type": "user", "uuid": f"id-{number}", "message": {"role": "user", "content": text}}
    return json.dumps(said | after).encode()


class Work:
    """Work that was done: rows read from the index, records measured, turns gone through, turns appended."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.measured = self.turns = 0
        self._log = store.turns.log
        self._count = self._log.count
        rows, take, turns = Views.rows, Viewer.take, TurnLog.range

        def read(views: Views, runs: Iterable[tuple[int, int]], number: int) -> list[EventRow]:
            found = rows(views, runs, number)
            self.read += len(found)
            return found

        def taken(viewer: Viewer, *args: object, **more: object) -> None:
            self.measured += 1
            take(viewer, *args, **more)  # type: ignore[arg-type]  # as it was called

        def ranged(log: TurnLog, first: int, n: int) -> list[object]:
            self.turns += n
            return [*turns(log, first, n)]

        monkeypatch.setattr(Views, "rows", read)
        monkeypatch.setattr(Viewer, "take", taken)
        monkeypatch.setattr(TurnLog, "range", ranged)

    @property
    def appended(self) -> int:
        return self._log.count - self._count

    def begin(self) -> None:
        self.read = self.measured = self.turns = 0
        self._count = self._log.count


class Long:
    """A conversation of so many records, listed once."""

    def __init__(self, store: Store, length: int) -> None:
        self.store = store
        self.length = length
        self.editor = Editor(store)
        self.tree = Tree(store)
        self.context = store.contexts.create(metadata={"project": "p", "name": "long"}).context
        for start in range(1, length + 1, 10_000):
            some = range(start, min(start + 10_000, length + 1))
            store.contexts.append_many(self.context, [Append(line(number, f"text {number}"), TYPE) for number in some])
        assert store.library.conversation(self.context).events == length

    @property
    def view(self) -> View:
        return self.tree.view(self.tree.view_id(self.context))

    def shown(self) -> ShownConversation:
        view = self.tree.view_id(self.context)
        return ShownConversation(self.context, view, self.view.head, "conversations/p/long", 1, 2)

    def edit(self, number: int, text: str, uuid: int = 0) -> ContextHead:
        payload = line(number, text).replace(b'"uuid": "id-%d"' % number, b'"uuid": "id-%d"' % (uuid or number))
        head = self.editor.edit(self.context, {number: payload})
        self.tree.renew(self.tree.view_id(self.context))
        return head

    def names(self) -> list[bytes]:
        return [entry.name for entry in self.view.event_entries()]


@pytest.fixture(params=LENGTHS)
def long(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Long]:
    with new_store(memory_path / "store") as store:
        yield Long(store, request.param)


def test_the_first_names_are_there_before_the_others_are_read(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    long.store.records.forget_rows()
    long.store.records._runs.clear()
    work = Work(long.store, monkeypatch)
    found: list[DirEntry] = [*islice(long.view.event_entries(), 5)]
    assert [entry.position for entry in found] == [3, 4, 5, 6, 7]
    assert work.read <= 1024
    assert work.turns <= 4096
    # from anywhere on
    [entry] = islice(long.view.event_entries(long.length - 1), 1)
    assert entry.name == f"{long.length - 2:0{max(5, len(str(long.length)))}}-user.md".encode()
    assert work.read <= 2048


def test_an_edit_costs_what_it_changes(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    names = long.names()
    assert len(names) == long.length
    work = Work(long.store, monkeypatch)
    for number in (2, long.length // 2, long.length - 1):
        before, size = long.shown(), long.view.conversation.transcript_size
        work.begin()
        long.edit(number, f"edited {number}, and longer than before")
        assert work.appended <= 1024
        assert work.measured + work.read <= 4096
        work.begin()
        assert long.view.conversation.transcript_size > size
        [entry] = islice(long.view.event_entries(number + 1), 1)
        assert entry.attributes.size == long.view.row(number).file_size
        assert work.measured + work.read <= 4096
        assert list(stale_since(long.store, before)) == [Stale(base(Space.EVENT, before.view) + number, content=True)]
        assert work.measured + work.read <= 8192
        assert work.turns <= 8192
    assert long.names() == names
    drawn = [text for _row, text in long.view.drawn_events([long.view.row(long.length // 2)])]
    assert b"and longer" in b"".join(text for text in drawn if isinstance(text, bytes))


def test_an_appended_record_costs_one(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    long.names()
    work = Work(long.store, monkeypatch)
    for number in range(long.length + 1, long.length + 6):
        work.begin()
        long.store.contexts.append(long.context, line(number, "more"), TYPE)
        long.tree.renew(long.tree.view_id(long.context))
        [entry] = long.view.event_entries(number + 1)
        assert entry.position == number + 2
        assert long.view.conversation.events == number
        assert work.measured == work.appended == 1
        assert work.read <= 8
        assert work.turns <= 4096


def test_a_change_of_what_others_refer_to_leaves_the_view_at_once(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to wait until what refers to it has been measured anew: that is done when its sums are asked for."""
    long.names()
    long.edit(long.length - 500, "other", uuid=2 * long.length)
    work = Work(long.store, monkeypatch)
    assert [entry.position for entry in islice(long.view.event_entries(), 2)] == [3, 4]
    assert long.view.row(long.length - 400).number == long.length - 400
    assert work.measured <= 1024


def test_transcripts_are_read_at_both_ends_without_the_middle(long: Long, monkeypatch: pytest.MonkeyPatch) -> None:
    long.store.records.forget_rows()
    work = Work(long.store, monkeypatch)
    pieces = long.view.transcript
    assert pieces.read(0, 200).startswith(b"---\n")
    assert f"text {long.length}".encode() in pieces.read(pieces.size - 100, 100)
    assert work.read <= 2048
