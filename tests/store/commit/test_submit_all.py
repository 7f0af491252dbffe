"""Many requests of one caller at once: each is done or refused by itself."""

import threading
from pathlib import Path

import pytest

from store.commit.request import NewTurn, Request
from store.disk.turn_format import Encoding
from store.errors import NotFound, StoreFull, UsageError
from store.ids import hash_bytes
from store.store import Store
from store.upkeep.fsck import fsck


def turns(store: Store, *payloads: bytes) -> list[NewTurn]:
    load = store.intake.load()
    digests = load.payloads(payloads)
    load.sync()
    return [store.contexts.new_turn(digest, "test.v1", Encoding.JSON) for digest in digests]


def requests(store: Store, count: int, mark: str = "") -> list[Request]:
    return [Request(None, turns=turns(store, f"{mark}{number}".encode()), action="test") for number in range(count)]


def test_each_is_done(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        many = requests(store, 50)
        many[0].types = store.writer.types_for(["test.v1"])
        store.writer.submit_all(many)
        assert [request.error for request in many] == [None] * 50
        assert len({request.head.context for request in many}) == 50
        for number, request in enumerate(many):
            assert store.writer.head(request.head.context) == request.head
            assert store.contents.payload(request.head.turn) == str(number).encode()
        assert fsck(store) == []


def test_one_that_is_wrong_stops_no_other(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        many = requests(store, 6)
        many[1] = Request(999, turns=turns(store, b"x"))
        many[3] = Request(None, parent=10**6, turns=turns(store, b"y"))
        many[4] = Request(None, changes=b'{"a":"' + b"x" * (64 << 20) + b'"}')
        store.writer.submit_all(many)
        assert [type(request.error) for request in many] == [
            type(None),
            NotFound,
            type(None),
            NotFound,
            UsageError,
            type(None),
        ]
        for number in (0, 2, 5):
            assert store.contents.payload(many[number].head.turn) == str(number).encode()
        assert fsck(store) == []


def test_nobody_is_refused_for_what_was_never_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two append behind one head at once, and the disk is full: the second may be the one that is done later."""
    with Store.open(tmp_path / "store") as store:
        context = store.contexts.create().context
        first, second = (Request(context, turns=turns(store, text), expected_head=0) for text in (b"1", b"2"))
        with monkeypatch.context() as patch:
            patch.setattr(store.writer, "has_room", lambda _size=0: False)
            patch.setattr(store.writer, "_granted", 0)
            store.writer.submit_all([first, second])
            assert [type(request.error) for request in (first, second)] == [StoreFull, StoreFull]
        second.error = None
        assert store.writer.submit(second).head.turn


def test_none_at_all(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        length = store.files.heads.length
        store.writer.submit_all([])
        assert store.files.heads.length == length


def test_from_many_threads(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        batches = [requests(store, 40, f"{mark}-") for mark in range(6)]
        threads = [threading.Thread(target=store.writer.submit_all, args=(batch,)) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for mark, batch in enumerate(batches):
            for number, request in enumerate(batch):
                assert request.error is None
                assert store.turns.get(request.head.turn).payload_hash == hash_bytes(f"{mark}-{number}".encode())
        assert store.files.turns.count == 240
        assert fsck(store) == []


def test_a_branch_that_begins_anew(tmp_path: Path) -> None:
    """A parent of None is no parent at all, where 0 is the head."""
    with Store.open(tmp_path / "store") as store:
        first, second = (turns(store, text) for text in (b"first", b"second"))
        context = store.writer.submit(Request(None, turns=first)).head.context
        followed = store.writer.submit(Request(context, turns=second)).head
        assert store.turns.get(followed.turn).depth == 1
        anew = store.writer.submit(Request(context, parent=None, turns=second)).head
        assert (store.turns.get(anew.turn).parent, anew.depth) == (0, 0)
        emptied = store.writer.submit(Request(context, parent=None)).head
        assert (emptied.turn, emptied.depth) == (0, 0)
        assert store.writer.head(context) == emptied
        assert fsck(store) == []
    with Store.open(tmp_path / "store", create=False) as store:
        assert store.writer.head(context) == emptied
