"""The control server on a real socket, with real clients, and a real store behind it."""

import os
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from store import ids
from store.errors import Conflict, ConvfsError, NotFound, UsageError
from store.index.notes import KEPT_MS
from store.service import address, background, frames, hub
from store.service.call import Emit, Holder, Invocation, Table
from store.service.calls import add_text
from store.service.client import Client, ServiceGone
from store.service.frames import Frame
from store.service.operations import OPERATIONS, status, stop
from store.service.server import Service, serve
from store.store import Store


class Work:
    """Calls whose work tests can look into."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.may_go_on = threading.Event()
        self.started = threading.Event()

    def count(self, emit: Emit[str], upto: int, size: int) -> int:
        try:
            for number in range(upto):
                self.started.set()
                emit(str(number) * size)
            self.ended.append("whole")
            return upto
        finally:
            self.ended.append("over")

    def wait(self) -> str:
        self.started.set()
        assert self.may_go_on.wait(10)
        return "waited"

    def fail(self, which: int) -> int:
        full = OSError(28, "No space left", "/x")
        raise (NotFound("none"), Conflict("taken"), UsageError("wrong"), full, KeyError(1))[which]


WORK = Work()
CALLS = Table()


@CALLS.telling(900)
def count(holder: Holder, emit: Emit[str], upto: int, size: int = 1) -> int:
    return WORK.count(emit, upto, size)


@CALLS.telling(901, progress=True)
def report(holder: Holder, emit: Emit[str], upto: int, size: int = 1) -> int:
    return WORK.count(emit, upto, size)


@CALLS.call(902)
def waits(holder: Holder) -> str:
    return WORK.wait()


@CALLS.call(903)
def fail(holder: Holder, which: int) -> int:
    return WORK.fail(which)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    fresh = Work()
    monkeypatch.setitem(globals(), "WORK", fresh)
    return fresh


@pytest.fixture
def store(tmp_path: Path, runtime_path: Path) -> Store:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@asynccontextmanager
async def serving(store: Store, **options: object) -> AsyncIterator[Path]:
    async with trio.open_nursery() as nursery:
        operations = [*OPERATIONS, *CALLS]
        place = await nursery.start(partial(serve, Service(store, operations, **options)))
        with trio.fail_after(30):
            yield place.socket
        nursery.cancel_scope.cancel()


async def call(path: Path, asked: Invocation, on_item: Callable | None = None) -> object:
    def in_thread() -> object:
        with Client(path) as client:
            return client.call(asked, on_item)

    return await trio.to_thread.run_sync(in_thread)


async def test_the_socket_is_private_noted_and_removed_at_the_end(store: Store, work: Work) -> None:
    async with serving(store) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert address.noted_socket(store.root) == path
        assert (await call(path, status())).pid == os.getpid()
    assert not path.exists()
    assert address.noted_socket(store.root) is None


async def test_a_socket_left_over_is_replaced(store: Store, work: Work) -> None:
    path = address.new_socket_path(store.files.directory)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(os.fspath(path))
    with pytest.raises(ServiceGone):
        Client(path)
    async with serving(store) as again:
        assert again == path
        assert (await call(path, status())).root == str(store.root)


async def test_items_come_in_order_and_then_the_result(store: Store, work: Work) -> None:
    items: list[str] = []
    async with serving(store) as path:
        assert await call(path, count(200), items.append) == 200
    assert items == [str(number) for number in range(200)]


async def test_answers_larger_than_the_sockets_buffer_arrive_whole(store: Store, work: Work) -> None:
    items: list[str] = []
    async with serving(store) as path:
        await call(path, count(3, size=5_000_000), items.append)
    assert [len(item) for item in items] == [5_000_000] * 3


async def test_progress_may_be_dropped_but_the_result_comes(store: Store, work: Work) -> None:
    items: list[str] = []
    async with serving(store) as path:
        assert await call(path, report(10_000), items.append) == 10_000
    assert 1 <= len(items) < 10_000


async def test_progress_does_not_wait_for_a_client_that_does_not_read(store: Store, work: Work) -> None:
    async with serving(store) as path:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(os.fspath(path))
            payload = b'{"upto":100,"size":1000000}'
            silent.sendall(frames.encode(Frame(report.number, 1, payload)))
            while "whole" not in work.ended:
                await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("which", "kind", "words"),
    [
        (0, NotFound, "none"),
        (1, Conflict, "taken"),
        (2, UsageError, "wrong"),
        (3, ConvfsError, "/x: No space left"),
        pytest.param(4, ConvfsError, "KeyError", marks=pytest.mark.logs("message 903 failed")),
    ],
)
async def test_an_error_reaches_the_client_and_the_connection_stays(
    store: Store, work: Work, which: int, kind: type[Exception], words: str
) -> None:
    def fail_then_ask(path: Path) -> None:
        with Client(path) as client:
            with pytest.raises(kind, match=words) as caught:
                client.call(fail(which))
            assert type(caught.value) is kind
            assert client.call(count(2)) == 2

    async with serving(store) as path:
        await trio.to_thread.run_sync(fail_then_ask, path)


async def test_requests_run_side_by_side(store: Store, work: Work) -> None:
    async with serving(store) as path, trio.open_nursery() as nursery:
        answers: list[object] = []

        async def wait() -> None:
            answers.append(await call(path, waits()))

        nursery.start_soon(wait)
        while not work.started.is_set():
            await trio.sleep(0.01)
        assert await call(path, count(1)) == 1
        assert answers == []
        work.may_go_on.set()
    assert answers == ["waited"]


async def test_calls_go_on_while_appends_never_pause(store: Store, work: Work) -> None:
    """The loop stays with its sockets while these are busy, and lets the tasks of calls go on all the same."""
    stopped, appended = threading.Event(), list[int]()

    def append(path: Path) -> None:
        with Client(path) as client:
            context = client.create_context().context
            while not stopped.is_set():
                appended.append(client.append(context, b"more", "x.v1").turn_id)

    async with serving(store) as path, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.to_thread.run_sync, append, path)
        for round_ in range(5):
            before = len(appended)
            items: list[object] = []
            assert await call(path, count(20), items.append) == 20
            assert items == [str(number) for number in range(20)]
            while len(appended) == before:
                await trio.sleep(0.001)
            assert len(work.ended) == 2 * (round_ + 1)
        stopped.set()
    assert len(set(appended)) == len(appended)


async def test_who_streams_does_not_wait_for_those_who_take_long(store: Store, work: Work) -> None:
    context = store.contexts.create().context

    def stream(path: Path) -> int:
        with Client(path) as client:
            turn = client.open_turn(context, "text.assistant.v1")
            turn.add(b"said")
            return turn.seal().turn_id

    async with serving(store) as path, trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(call, path, waits())
        while not work.started.is_set():
            await trio.sleep(0.01)
        with trio.fail_after(5):
            turn = await trio.to_thread.run_sync(stream, path)
        work.may_go_on.set()
    assert store.contents.payload(turn) == b"said"


async def test_what_a_client_asked_for_ends_when_it_goes_away(store: Store, work: Work) -> None:
    async with serving(store) as path:
        with socket.socket(socket.AF_UNIX) as leaving:
            leaving.connect(os.fspath(path))
            leaving.sendall(frames.encode(Frame(report.number, 1, b'{"upto":1000000000}')))
            while not work.started.is_set():
                await trio.sleep(0.01)
        while not work.ended:
            await trio.sleep(0.01)
    assert work.ended == ["over"]


async def test_the_end_of_the_server_ends_what_runs(store: Store, work: Work) -> None:
    async with trio.open_nursery() as nursery:
        async with serving(store) as path:

            async def ask() -> None:
                with pytest.raises(ServiceGone):
                    await call(path, report(1_000_000_000))

            nursery.start_soon(ask)
            while not work.started.is_set():
                await trio.sleep(0.01)
        assert work.ended == ["over"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (Frame(258, 5, b"{"), 422),
        (Frame(258, 5, b'{"projekt":"x"}'), 422),
        (Frame(258, 5, b"[" * 100_000), 422),
        (Frame(258, 5, b"\xff"), 422),
        (Frame(258, 5, b'{"project":"\xff"}'), 422),
        (Frame(7, 5, b""), 422),
        (Frame(200, 5, b""), 422),
        (Frame(60_000, 5, b"{}"), 422),
        (Frame(255, 5, b""), 422),
    ],
)
async def test_a_request_that_makes_no_sense_is_answered_and_harms_nothing(
    store: Store, work: Work, sent: Frame, code: int
) -> None:
    async with serving(store) as path:
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(frames.encode(sent) + frames.encode(Frame(status.number, 6)))
            decoder = frames.Decoder()
            answers: dict[int, Frame] = {}
            while len(answers) < 2:
                answers.update((frame.req_id, frame) for frame in decoder.feed(await stream.receive_some()))
        assert answers[5].msg_type == frames.ERROR
        assert int.from_bytes(answers[5].payload[:4], "little") == code
        assert answers[6].msg_type == status.number


async def test_bytes_that_are_no_frame_end_one_connection_only(store: Store, work: Work) -> None:
    async with serving(store) as path, await trio.open_unix_socket(path) as other:
        async with await trio.open_unix_socket(path) as bad:
            await bad.send_all(b"\xff" * 64)
            answer = b"".join([chunk async for chunk in bad])
        assert next(iter(frames.Decoder().feed(answer))).msg_type == frames.ERROR
        await other.send_all(frames.encode(Frame(status.number, 1)))
        assert await other.receive_some()


async def test_a_connection_cut_off_within_a_frame_harms_nobody(store: Store, work: Work) -> None:
    async with serving(store) as path:
        for cut in (1, 15, 17):
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(frames.encode(Frame(status.number, 1, b"{}"))[:cut])
        assert await call(path, status())


async def test_too_many_connections_are_turned_away_and_the_others_stay(
    store: Store, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_CONNECTIONS", 20)
    async with serving(store) as path, AsyncExitStack() as stack:
        for number in range(20):
            stream = await stack.enter_async_context(await trio.open_unix_socket(path))
            await stream.send_all(frames.encode(Frame(status.number, number)))
            assert await stream.receive_some()
        async with await trio.open_unix_socket(path) as one_too_many:
            assert await one_too_many.receive_some() == b""
        await stream.send_all(frames.encode(Frame(status.number, 100)))
        assert await stream.receive_some()


async def test_stop_does_what_the_daemon_said(store: Store, work: Work) -> None:
    stopped = []
    async with serving(store, mountpoint="/mnt/x", stop=lambda: stopped.append(time.monotonic())) as path:
        assert (await call(path, status())).mountpoint == "/mnt/x"
        await call(path, stop())
    assert len(stopped) == 1


async def test_without_a_mount_there_is_nothing_to_stop(store: Store, work: Work) -> None:
    async with serving(store) as path:
        with pytest.raises(UsageError):
            await call(path, stop())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_gets_no_answer(store: Store, work: Work, runtime_path: Path) -> None:
    async with serving(store) as path:
        # The directories keep others out already; this is about the check behind them.
        for directory in (runtime_path, path.parent):
            directory.chmod(0o711)
        path.chmod(0o666)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setuid(12345)
                with socket.socket(socket.AF_UNIX) as stranger:
                    stranger.connect(os.fspath(path))
                    stranger.sendall(frames.encode(Frame(status.number, 1)))
                    os.write(writing, b"answer" if stranger.recv(100) else b"nothing")
            except ConnectionError:
                os.write(writing, b"nothing")
            finally:
                os._exit(0)
        os.close(writing)
        answer = await trio.to_thread.run_sync(os.read, reading, 100)
        os.waitpid(child, 0)
        os.close(reading)
    assert answer == b"nothing"


@pytest.mark.logs("sealed as it was, as turn 1", "had no text")
async def test_turns_that_were_left_for_a_day_are_sealed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "now_ms", lambda: ids.now_ms() + KEPT_MS + 1000)
    context = store.contexts.create().context
    store.open_turns.open(context, "text.assistant.v1").add(b"half of")
    store.open_turns.open(context, "text.assistant.v1")
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, Service(store, ())))
        with trio.fail_after(10):
            while store.writer.texts.of():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert store.contents.payload(store.writer.head(context).turn) == b"half of"


async def test_pieces_of_many_open_turns_are_committed_together(store: Store, work: Work) -> None:
    context = store.contexts.create().context
    turns = [store.open_turns.open(context, "text.assistant.v1") for _ in range(20)]
    groups: list[int] = []
    store.observers.add(lambda change: groups.append(store.writer.seq), texts=True)
    async with serving(store) as path:

        def send_all() -> None:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(os.fspath(path))
                asked = [add_text(turn.number, b"piece %d" % turn.number, at=0) for turn in turns]
                client.sendall(
                    b"".join(frames.encode(Frame(ask.number, at, ask.payload)) for at, ask in enumerate(asked))
                )
                decoder, answered = frames.Decoder(), set()
                while len(answered) < len(turns):
                    for frame in decoder.feed(client.recv(1 << 16)):
                        assert frame.msg_type == add_text.number
                        assert add_text.read([frame.payload]) == len(turns[frame.req_id].text)
                        answered.add(frame.req_id)

        await trio.to_thread.run_sync(send_all)
    assert [turn.text for turn in turns] == [b"piece %d" % turn.number for turn in turns]
    # observers hear of each after the commit of its group
    assert len(groups) == len(turns)
    assert len(set(groups)) == 1


async def test_a_piece_waits_while_another_changes_its_turn(store: Store, work: Work) -> None:
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "text.assistant.v1")
    state = store.writer.texts.state(turn.number)
    assert state is not None
    async with serving(store) as path, trio.open_nursery() as nursery:
        with state.lock:
            nursery.start_soon(call, path, add_text(turn.number, b"one", at=0))
            # others are answered meanwhile, and the turn stays as it is
            assert (await call(path, status())).pid == os.getpid()
            assert turn.text == b""
        while turn.text != b"one":
            await trio.sleep(0.01)
        with pytest.raises(Conflict):
            await call(path, add_text(turn.number, b"other", at=9))
        assert await call(path, add_text(turn.number, b" two", at=3)) == 7
    # nobody holds it any more
    assert turn.seal().depth == 0
