"""A write or a sync fails, each in turn: whoever waits is told, nothing acknowledged is lost, nothing is half there."""

import errno
import os
import threading
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.disk import durable
from store.errors import StoreFailed
from store.ids import hash_bytes
from store.store import Store
from store.upkeep import recovery
from tests.model import Model, findings
from tests.store.commit.faults import FailingDisk

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"

pytestmark = [
    pytest.mark.usefixtures("small_journals"),
    pytest.mark.of_one_machine("what a replica has promised is durable in its space"),
]


def payload(number: int) -> bytes:
    return b'{"number":%d,"text":"%s"}' % (number, b"some text, " * (number * 37 % 300))


def work(root: Path, model: Model) -> None:
    """Use a store in every way that writes; ``model`` has what was acknowledged."""
    number = 0
    for _ in range(2):
        with Store.open(root) as store:
            for _ in range(2):
                context = store.contexts.create(metadata={"project": "p", "name": f"n{len(model.heads)}"}).context
                model.heads[context] = 0
                model.metadata[context] = {"project": "p", "name": f"n{len(model.heads) - 1}"}
                for _ in range(4):
                    number += 1
                    turn = store.contexts.append(context, payload(number), f"type.{number % 3}")
                    model.append(context, turn, payload(number), f"type.{number % 3}")
                items = [Append(payload(number + more), "many") for more in range(1, 6)]
                turns = store.contexts.append_many(context, items)
                for item, turn in zip(items, turns, strict=True):
                    model.append(context, turn, item.payload, "many")
                number += 5
                store.checkpointer.flush()
                data = payload(number) * 40
                store.intake.put(data)
                model.blobs[hash_bytes(data)] = data
                store.contexts.set_metadata(context, {"title": str(number)})
                model.change(context, {"title": str(number)})


def check_acknowledged(model: Model, store: Store) -> None:
    """Assert that everything in the model is there; at the end there may be more, of what failed."""
    for context, head in model.heads.items():
        branch, found = model.branch(head), [turn.turn_id for turn in store.contexts.last(context, 10_000)]
        assert found[: len(branch)] == branch
        metadata = store.library.conversation(context).metadata
        assert {key: metadata.get(key) for key in model.metadata[context] if key != "title"} == {
            key: value for key, value in model.metadata[context].items() if key != "title"
        }
        assert int(str(metadata.get("title", 0))) >= int(str(model.metadata[context].get("title", 0)))
    for turn, (_parent, data, type_name) in model.turns.items():
        assert store.contents.payload(turn) == data
        assert store.contents.type_name(store.turns.get(turn).type_tag) == type_name
    for name, data in model.blobs.items():
        assert store.blobs.blob(name) == data


@pytest.mark.parametrize(("code", "torn", "first"), [(errno.EIO, 0.0, 0), (errno.ENOSPC, 0.5, 1), (errno.EIO, 1.0, 2)])
@pytest.mark.logs("in the journal", "left to the journal", sometimes=True)
def test_every_write_and_sync(memory_path: Path, code: int, torn: float, first: int) -> None:
    """In one way each, in turns; ``CONVFS_LARGE_TESTS=1`` tries every way with all of them."""
    at, kinds = 0 if LARGE else first, set()
    while True:
        root, model = memory_path / str(at), Model()
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, at, code, torn)
            try:
                work(root, model)
            except StoreFailed:
                pass
            else:
                if not disk.failed:
                    break
                # what follows from the logs may be missing, and what the journal has waits for room
                waits = code == errno.ENOSPC and disk.failed == "write" and not disk.path.name.isdecimal()
                derived = disk.path.name in ("turns.jump", "identity.new")
                assert waits or derived, f"call {at}, a {disk.failed}, failed and nobody was told"
        kinds.add(disk.failed)
        with Store.open(root) as store:
            check_acknowledged(model, store)
            assert findings(store) == []
            # and it goes on
            context = store.contexts.create().context
            turn = store.contexts.append(context, b"after", "x.v1")
            assert store.contents.payload(turn.turn_id) == b"after"
        with Store.open(root) as store:
            assert findings(store) == []
        at += 1 if LARGE else 3
    assert kinds == {"write", "sync"}
    assert at > 60


def test_a_store_that_failed_refuses_writes_but_still_reads(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    turn = store.contexts.append(context, b"before", "x.v1")
    with monkeypatch.context() as patch:
        FailingDisk(patch, 0, errno.EIO)
        with pytest.raises(StoreFailed):
            store.contexts.append(context, b"lost", "x.v1")
    for write in (
        lambda: store.contexts.append(context, b"more", "x.v1"),
        lambda: store.contexts.create(),
        lambda: store.contexts.fork(context),
        lambda: store.contexts.set_metadata(context, {"title": "no"}),
        lambda: store.intake.put(b"blob"),
        lambda: store.contexts.append(context, bytes(1 << 20), "x.v1"),
        lambda: store.checkpointer.flush(),
    ):
        with pytest.raises(StoreFailed, match=r"the disk fails, for a test.*open it again"):
            write()
    assert store.writer.head(context).turn == turn.turn_id
    assert store.contents.payload(turn.turn_id) == b"before"
    assert store.contexts.last(context, 5) == [turn]
    with pytest.raises(StoreFailed):
        store.close()
    store.close()
    with Store.open(store.root) as again:
        assert again.contents.payload(turn.turn_id) == b"before"
        assert findings(again) == []


def test_everyone_who_waits_for_a_failing_sync_is_told(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    leading, gathered = threading.Event(), threading.Event()

    def fdatasync(_fd: int) -> None:
        leading.set()
        assert gathered.wait(10)
        raise OSError(errno.EIO, "the disk fails, for a test")

    outcomes: list[object] = []

    def append(number: int) -> None:
        try:
            outcomes.append(store.contexts.append(context, payload(number), "x.v1"))
        except BaseException as error:
            outcomes.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "fdatasync", fdatasync)
        threads = [threading.Thread(target=append, args=(number,)) for number in range(16)]
        threads[0].start()
        assert leading.wait(10)
        for thread in threads[1:]:
            thread.start()
        while len(store.writer.gathering.waiting) < 15:
            pass
        gathered.set()
        for thread in threads:
            thread.join(10)
    assert [type(outcome) for outcome in outcomes] == [StoreFailed] * 16
    assert store.writer.head(context).turn == 0
    with pytest.raises(StoreFailed):
        store.close()


def test_a_checkpoint_that_fails_in_the_background_fails_the_store(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    monkeypatch.setattr(store.files.heads, "sync", lambda: os.fdatasync(1 << 20))
    turns = []

    def fill() -> None:
        for number in range(10_000):
            turns.append((store.contexts.append(context, payload(number), "x.v1"), payload(number)))  # noqa: PERF401  (those before a failure stay)

    with pytest.raises(StoreFailed, match="Bad file descriptor"):
        fill()
    assert turns
    # what is neither packed nor lost is still in memory
    for turn, data in turns:
        assert store.contents.payload(turn.turn_id) == data
    with pytest.raises(StoreFailed):
        store.close()
    with Store.open(store.root) as again:
        assert [turn.turn_id for turn in again.contexts.last(context, len(turns))] == [
            turn.turn_id for turn, _ in turns
        ]
        assert findings(again) == []


def test_what_waits_behind_what_could_not_be_packed_waits_too(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To retire the later one, which is empty here, would be to retire both."""
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    turn = store.contexts.append(context, payload(1), "x.v1")
    packing, both = threading.Event(), threading.Event()

    def append(_records: object) -> None:
        packing.set()
        assert both.wait(10)
        raise OSError(errno.EIO, "the disk fails, for a test")

    monkeypatch.setattr(store.files.packs, "append", append)
    writer, lock = store.writer, store.writer.commit_lock
    with lock:
        writer.switch()
    assert packing.wait(10)
    with lock:
        writer.switch()
    both.set()
    with pytest.raises(StoreFailed):
        store.close()
    with Store.open(store.root) as again:
        assert again.contents.payload(turn.turn_id) == payload(1)
        assert findings(again) == []


def test_no_journal_to_go_on_in(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(memory_path / "store")
    turn = store.contexts.append(store.contexts.create().context, payload(1), "x.v1")

    def begin() -> None:
        raise OSError(errno.EIO, "the disk fails, for a test")

    with monkeypatch.context() as patch:
        patch.setattr(store.files.journal, "_begin", begin)
        with pytest.raises(StoreFailed, match="the disk fails, for a test"):
            store.checkpointer.flush()
        with pytest.raises(StoreFailed, match="the disk fails, for a test"):
            store.close()
    with Store.open(store.root) as again:
        assert again.contents.payload(turn.turn_id) == payload(1)


def test_a_request_that_is_wrong_fails_alone(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        errors: list[BaseException] = []

        def wrong() -> None:
            for _ in range(20):
                try:
                    store.contexts.append(context, b"x", "x.v1", parent=1 << 40)
                except Exception as error:
                    errors.append(error)

        threads = [threading.Thread(target=wrong) for _ in range(4)]
        for thread in threads:
            thread.start()
        turns = [store.contexts.append(context, payload(number), "x.v1") for number in range(100)]
        for thread in threads:
            thread.join()
        assert len(errors) == 80
        assert {type(error).__name__ for error in errors} == {"NotFound"}
        assert store.contexts.last(context, 200) == turns
        assert store.files.turns.count == 100


def test_too_small_a_disk_for_a_new_store(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # the first that it writes can wait for another time
        FailingDisk(patch, 2, errno.ENOSPC)
        with pytest.raises(StoreFailed, match="cannot be opened"):
            Store.open(memory_path / "store")
    with Store.open(memory_path / "store") as store:
        assert findings(store) == []


def test_small_journals_are_small(memory_path: Path) -> None:
    """The other tests mean to fill them."""
    with Store.open(memory_path / "store") as store:
        assert store.files.journal.capacity < recovery.JOURNAL_BYTES <= 64 << 10
