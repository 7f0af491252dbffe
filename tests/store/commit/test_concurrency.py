"""Many threads, one store: nothing is lost, heads are linear, nobody sees an older head than before."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from store.commit import writer
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk import durable
from store.disk.turn_format import Encoding
from store.errors import StoreFailed, UsageError
from store.events.conversation import Change
from store.ids import hash_bytes
from store.store import Store
from tests.model import findings, ids

THREADS = 32
EACH = 12


def payload(thread: int, number: int) -> bytes:
    return b'{"thread":%d,"number":%d,"text":"%s"}' % (thread, number, b"some text, " * (number * 61 % 300))


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work`` in threads that begin together; raise what any of them raised."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(run, number) for number in range(count)]:
            done.result()


@pytest.mark.usefixtures("small_journals")
@pytest.mark.parametrize("contexts", [1, 3, THREADS])
def test_nothing_is_lost_and_branches_are_linear(memory_path: Path, contexts: int) -> None:
    with Store.open(memory_path / "store") as store:
        owned = [store.contexts.create().context for _ in range(contexts)]
        written: list[dict[int, bytes]] = [{} for _ in range(THREADS)]

        def work(thread: int) -> None:
            context = owned[thread % contexts]
            for number in range(EACH):
                if number % 4 == 3:
                    items = [Append(payload(thread, number * 100 + more), "x.v1") for more in range(3)]
                    turns = store.contexts.append_many(context, items)
                    # they follow each other, whatever else is going on
                    assert [turn.parent for turn in turns[1:]] == ids(turns)[:-1]
                    for turn, item in zip(turns, items, strict=True):
                        written[thread][turn.turn_id] = item.payload
                else:
                    turn = store.contexts.append(context, payload(thread, number), "x.v1")
                    written[thread][turn.turn_id] = payload(thread, number)

        in_threads(THREADS, work)
        everything = {turn: data for part in written for turn, data in part.items()}
        assert len(everything) == sum(map(len, written)) == store.files.turns.count
        check(store, owned, everything, written)
        assert findings(store) == []
    with Store.open(memory_path / "store") as store:
        check(store, owned, everything, written)


def check(store: Store, owned: list[int], everything: dict[int, bytes], written: list[dict[int, bytes]]) -> None:
    branches = [ids(store.contexts.last(context, len(everything))) for context in owned]
    assert sorted(turn for branch in branches for turn in branch) == sorted(everything)
    for thread, part in enumerate(written):
        branch = branches[thread % len(owned)]
        # in the order in which each thread wrote them
        assert [turn for turn in branch if turn in part] == list(part)
    assert dict(store.contents.payloads(list(everything))) == everything


def test_a_head_never_goes_back_for_anyone_who_reads_it(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While heads are pushed out of the writer's memory all the time."""
    monkeypatch.setattr(writer, "_CACHED_HEADS", 2)
    interval = sys.getswitchinterval()
    with Store.open(memory_path / "store") as store:
        owned = [store.contexts.create().context for _ in range(4)]
        done = threading.Event()
        wrong: list[str] = []

        def read() -> None:
            seen = dict.fromkeys(owned, 0)
            while not done.is_set():
                for context in owned:
                    head = store.writer.head(context)
                    if head.turn < seen[context]:
                        wrong.append(f"{head} after {seen[context]}")
                    seen[context] = head.turn

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()

        def write(thread: int) -> None:
            for number in range(60):
                context = owned[(thread + number) % 4]
                turn = store.contexts.append(context, b"%d" % number, "x.v1")
                if store.writer.head(context).turn < turn.turn_id:
                    wrong.append(f"own turn {turn.turn_id} is not there")

        try:
            sys.setswitchinterval(1e-5)
            in_threads(8, write)
        finally:
            sys.setswitchinterval(interval)
            done.set()
            for reader in readers:
                reader.join()
        assert wrong == []
        assert sum(len(store.contexts.last(context, 1000)) for context in owned) == 8 * 60
        assert findings(store) == []


def test_imports_and_appends_go_on_side_by_side(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        written: dict[int, bytes] = {}
        shared = [payload(0, number) for number in range(40)]

        def bring_in(thread: int) -> None:
            load = store.intake.load()
            payloads = shared + [payload(thread, number) for number in range(200)]
            digests = load.payloads(payloads)
            load.sync()
            turns = [store.contexts.new_turn(digest, "x.v1", Encoding.JSON) for digest in digests]
            done = store.writer.submit(
                Request(None, turns=turns, types=store.writer.types_for(["x.v1"]), action="import", changes=b"{}")
            )
            written.update({turn.turn_id: data for turn, data in zip(done.written, payloads, strict=True)})

        def append(thread: int) -> None:
            context = store.contexts.create().context
            for number in range(20):
                data = shared[number] if number % 2 else payload(thread, number)
                written[store.contexts.append(context, data, "x.v1").turn_id] = data
                if number % 7 == 0:
                    store.intake.put(data * 3)

        in_threads(12, lambda thread: (bring_in if thread % 3 == 0 else append)(thread))
        store.checkpointer.flush()
        assert len(written) == 4 * 240 + 8 * 20 == store.files.turns.count
        assert dict(store.contents.payloads(list(written))) == written
        assert findings(store) == []


def test_types_are_known_before_their_turns_can_be_seen(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        owned = [store.contexts.create().context for _ in range(4)]
        seen: set[str] = set()
        store.observers.add(
            lambda change: seen.update(
                store.contents.type_name(turn.type_tag) for turn in store.contexts.last(change.context_id, 3)
            )
        )

        def append(thread: int) -> None:
            for number in range(30):
                store.contexts.append(owned[thread], b"x", f"t{number}")

        in_threads(4, append)
        assert seen == {f"t{number}" for number in range(30)}


def test_changes_are_announced(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        heard: list[Change] = []
        store.observers.add(heard.append)
        context = store.contexts.create(metadata={"title": "x"}).context
        store.contexts.append(context, b"x", "x.v1")
        store.contexts.set_metadata(context, {"title": "y"})
        store.intake.put(b"nothing that anyone sees")
        store.writer.submit(
            Request(0, turns=[store.contexts.new_turn(hash_bytes(b"x"), "x.v1", Encoding.JSON)], move_head=False)
        )
        assert heard == [
            Change(context, True, moved=True, described=True, seq=2),
            Change(context, False, moved=True, tip=1, seq=5),
            Change(context, False, described=True, tip=1, seq=7),
        ]


def test_whoever_gives_up_waiting_does_not_hold_up_the_others(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread interrupted while it waits, also when it was just told to lead."""
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        leading, go_on = threading.Event(), threading.Event()
        real = store.writer._commit

        def commit(group: list[Request]) -> None:
            leading.set()
            assert go_on.wait(10)
            real(group)

        class Interrupted(BaseException):
            pass

        class Gate:
            """Interrupts the one who waits at it, once it has been opened for it to lead."""

            def acquire(self) -> None:
                while not request.leads:
                    pass
                raise Interrupted

            def release(self) -> None:
                pass

        monkeypatch.setattr(store.writer, "_commit", commit)
        first = threading.Thread(target=store.contexts.append, args=(context, b"first", "x.v1"))
        first.start()
        assert leading.wait(10)
        request = Request(context, turns=[store.contexts.new_turn(hash_bytes(b"first"), "x.v1", Encoding.JSON)])
        request.gate = Gate()  # type: ignore[assignment]

        def give_up() -> None:
            with pytest.raises(Interrupted):
                store.writer.submit(request)

        gave_up = threading.Thread(target=give_up)
        gave_up.start()
        while request not in store.writer.gathering.waiting:
            pass
        last = threading.Thread(target=store.contexts.append, args=(context, b"last", "x.v1"))
        last.start()
        while len(store.writer.gathering.waiting) < 2:
            pass
        go_on.set()
        for thread in (first, gave_up, last):
            thread.join(10)
            assert not thread.is_alive()
        assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 9)] == [b"first", b"last"]


@pytest.mark.parametrize("woken", [False, True])
def test_whoever_is_interrupted_in_a_group_wakes_the_next(
    woken: bool, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the group is committed, and when it was just woken: the request is committed all the same."""
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append(context, b"zero", "x.v1")
        leading, gathered, go_on, opened = (threading.Event() for _ in range(4))
        real = store.writer._commit

        def commit(group: list[Request]) -> None:
            first = not leading.is_set()
            leading.set()
            assert (gathered if first else go_on).wait(10)
            real(group)

        class Interrupted(BaseException):
            pass

        class Gate:
            """Interrupts the one who waits at it, once it has been opened or while its group is being committed."""

            def acquire(self) -> None:
                if woken:
                    assert opened.wait(10)
                while request in store.writer.gathering.waiting:
                    pass
                raise Interrupted

            def release(self) -> None:
                opened.set()

        def give_up() -> None:
            with pytest.raises(Interrupted):
                store.writer.submit(request)

        def gather(work: Callable[[], object]) -> threading.Thread:
            waiting = len(store.writer.gathering.waiting)
            thread = threading.Thread(target=work)
            thread.start()
            while len(store.writer.gathering.waiting) == waiting:
                pass
            return thread

        monkeypatch.setattr(store.writer.gathering, "_commit", commit)
        threads = [threading.Thread(target=store.contexts.append, args=(context, b"first", "x.v1"))]
        threads[0].start()
        assert leading.wait(10)
        threads.append(gather(partial(store.contexts.append, context, b"second", "x.v1")))
        request = store.contexts.appending(context, Append(b"third", "x.v1"))
        assert request is not None
        request.gate = Gate()  # type: ignore[assignment]
        gave_up = gather(give_up)
        threads += [gather(partial(store.contexts.append, context, payload, "x.v1")) for payload in (b"4th", b"5th")]
        gathered.set()
        if not woken:
            gave_up.join(10)
            assert not gave_up.is_alive()
        go_on.set()
        for thread in (*threads, gave_up):
            thread.join(10)
            assert not thread.is_alive()
        payloads = [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 9)]
        assert payloads == [b"zero", b"first", b"second", b"third", b"4th", b"5th"]


@pytest.mark.parametrize("waits_for", ["the disk", "others"])
def test_whoever_is_answered_goes_on_while_the_next_group_waits(
    waits_for: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append(context, b"zero", "x.v1")
        groups: list[list[Request]] = []
        begun, gathered, go_on = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
        real, sync = store.writer.gathering._commit, durable.fdatasync

        def commit(group: list[Request]) -> None:
            groups.append(group)
            begun.release()
            if len(groups) < 3:
                assert gathered.acquire(timeout=10)
            elif waits_for == "others":
                store.writer.commit_lock.acquire()
            real(group)

        def slow(fd: int) -> None:
            if len(groups) == 3:
                assert go_on.wait(10)
            sync(fd)

        def gather(payload: bytes) -> threading.Thread:
            waiting = len(store.writer.gathering.waiting)
            thread = threading.Thread(target=store.contexts.append, args=(context, payload, "x.v1"))
            thread.start()
            while waiting and len(store.writer.gathering.waiting) == waiting:
                pass
            return thread

        monkeypatch.setattr(store.writer.gathering, "_commit", commit)
        if waits_for == "the disk":
            monkeypatch.setattr(durable, "fdatasync", slow)
        alone = gather(b"first")
        assert begun.acquire(timeout=10)
        together = [gather(b"second")]
        while not store.writer.gathering.waiting:
            pass
        together.append(gather(b"third"))
        gathered.release()
        assert begun.acquire(timeout=10)
        last = gather(b"4th")
        while not store.writer.gathering.waiting:
            pass
        gathered.release()
        assert begun.acquire(timeout=10)
        for thread in (alone, *together):
            thread.join(10)
            assert not thread.is_alive()
        assert last.is_alive()
        assert [len(group) for group in groups] == [1, 2, 1]
        go_on.set()
        if waits_for == "others":
            store.writer.commit_lock.release()
        last.join(10)
        payloads = [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 9)]
        assert payloads == [b"zero", b"first", b"second", b"third", b"4th"]


@pytest.mark.usefixtures("small_journals")
def test_lists_of_requests_that_take_several_commits_each(memory_path: Path) -> None:
    """Who leads waits at no gate of its own requests; the others' are opened, whoever commits them."""
    many, threads = 40, 4
    with Store.open(memory_path / "store") as store:
        contexts = [store.contexts.create().context for _ in range(threads)]
        groups: list[list[Request]] = []
        real = store.writer._commit

        def commit(group: list[Request]) -> None:
            groups.append(group[:])
            real(group)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store.writer, "_commit", commit)

            def work(thread: int) -> None:
                size = store.writer._group_bytes // 10
                payloads = [b"%d %d " % (thread, number) + bytes(size) for number in range(many)]
                requests = [store.contexts.appending(contexts[thread], Append(one, "x.v1")) for one in payloads]
                store.writer.submit_all([request for request in requests if request is not None])
                assert [request and request.error for request in requests] == [None] * many
                turns = [request.written[0] for request in requests if request is not None]
                assert [turn.depth for turn in turns] == list(range(many))
                assert [store.contents.payload(turn.turn_id) for turn in turns] == payloads

            in_threads(threads, work)
        # each request was committed once, and no commit took all of a list
        committed = [id(one) for group in groups for one in group]
        assert len(committed) == len(set(committed)) == threads * many
        assert max(len(group) for group in groups) < many


def test_a_leader_that_is_interrupted_tells_everyone(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    with monkeypatch.context() as patch:

        def interrupted(*_entry: bytes) -> None:
            raise KeyboardInterrupt

        patch.setattr(store.files.journal, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.contexts.append(context, b"x", "x.v1")
    with pytest.raises(StoreFailed):
        store.contexts.append(context, b"y", "x.v1")
    with pytest.raises(StoreFailed):
        store.close()


def test_requests_that_are_too_large_are_refused_and_harm_nobody(memory_path: Path, small_journals: None) -> None:
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        with pytest.raises(UsageError, match="too many"):
            store.contexts.set_metadata(context, {"title": "x" * 100_000})
        with pytest.raises(UsageError, match="too many"):
            store.contexts.append_many(context, [Append(b"x", "x.v1")] * 1000)
        with pytest.raises(UsageError, match="too large"):
            store.contexts.append(context, bytes((64 << 20) + 1), "x.v1")
        turn = store.contexts.append(context, bytes(100_000), "x.v1")
        assert store.contents.payload(turn.turn_id) == bytes(100_000)
        assert findings(store) == []


def test_after_closing_everything_is_refused(memory_path: Path) -> None:
    store = Store.open(memory_path / "store")
    context = store.contexts.create().context
    store.close()
    for write in (
        lambda: store.contexts.append(context, b"x", "x.v1"),
        lambda: store.intake.put(b"x"),
        lambda: store.contexts.create(),
    ):
        with pytest.raises(StoreFailed, match="closed"):
            write()


def test_appends_while_the_store_is_closed_are_written_or_refused(memory_path: Path) -> None:
    for attempt in range(10):
        store = Store.open(memory_path / "store")
        context = store.contexts.create().context
        written: list[int] = []

        def append(store: Store = store, context: int = context, written: list[int] = written) -> None:
            try:
                while True:
                    written.append(store.contexts.append(context, b"%d" % len(written), "x.v1").turn_id)
            except StoreFailed:
                return

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(written) < attempt * 5:
            pass
        store.close()
        for thread in threads:
            thread.join(10)
        with Store.open(memory_path / "store") as again:
            assert ids(again.contexts.last(context, 1 << 30)) == sorted(written)
            assert findings(again) == []
