"""The same code on the store itself, on a client that blocks, and on one of trio: the same results and errors."""

import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from store.commit.request import Request
from store.disk.turn_format import Turn
from store.errors import Conflict, NotFound, UsageError
from store.events.event import DELETED
from store.ids import Hash, hash_bytes
from store.service.async_client import open_client
from store.service.channel import ServiceGone
from store.service.client import Client
from store.service.server import Listening, Service, serving
from store.store import Store
from tests.store.service.parts import Calls

TREE = b"a tree"
ROOT = hash_bytes(TREE)


@pytest.fixture
def store(tmp_path: Path, runtime_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def place(store: Store) -> Iterator[Listening]:
    with serving(Service(store, (), tcp=("127.0.0.1", 0), token="secret")) as place:
        yield place


def port(place: Listening) -> tuple[str, int]:
    host, _, number = place.tcp.rpartition(":")
    return host, int(number)


class Awaited:
    """Any of the three, each call to be awaited."""

    def __init__(self, reached: object, *, blocks: bool) -> None:
        self._reached = reached
        self._blocks = blocks

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        function = getattr(self._reached, name)

        async def call(*args: object, **options: object) -> object:
            return function(*args, **options) if self._blocks else await function(*args, **options)

        return call


@pytest.fixture(params=["store", "client", "trio", "client over tcp", "trio over tcp"])
async def facade(request: pytest.FixtureRequest, store: Store, place: Listening) -> AsyncIterator[Awaited]:
    async with AsyncExitStack() as stack:
        tcp = {"tcp": port(place), "token": "secret"}
        match request.param:
            case "store":
                yield Awaited(Calls(store), blocks=True)
            case "client":
                yield Awaited(stack.enter_context(Client(place.socket)), blocks=True)
            case "trio":
                yield Awaited(await stack.enter_async_context(open_client(place.socket)), blocks=False)
            case "client over tcp":
                yield Awaited(stack.enter_context(Client(**tcp)), blocks=True)
            case "trio over tcp":
                yield Awaited(await stack.enter_async_context(open_client(**tcp)), blocks=False)


async def test_contexts_and_turns(facade: Awaited, store: Store) -> None:
    head = await facade.create_context()
    assert (head.turn, head.depth, head.patch) == (0, 0, 0)
    context = head.context
    turns = [await facade.append(context, b"%d" % number, "t.v1", type_version=3) for number in range(6)]
    assert [turn.depth for turn in turns] == list(range(6))
    assert turns == [store.turns.get(turn.turn_id) for turn in turns]
    assert await facade.head(context) == store.writer.head(context)
    assert await facade.last(context, 2) == turns[4:]
    assert await facade.last(context, 100) == turns
    assert await facade.last(context, 0) == []
    assert await facade.before(context, turns[3].turn_id, 2) == turns[1:3]
    assert await facade.range_by_depth(context, 1, 3) == turns[1:4]
    assert await facade.range_by_depth(context, 9, 3) == []
    assert await facade.path_to_root(turns[2].turn_id) == turns[:3]
    assert await facade.turn(turns[2].turn_id) == turns[2]
    assert await facade.payload(turns[2].turn_id) == b"2"
    assert await facade.tip(context) == store.contexts.tip(context)


async def test_forks_and_parents(facade: Awaited) -> None:
    context = (await facade.create_context()).context
    turns = [await facade.append(context, b"%d" % number, "t.v1") for number in range(3)]
    fork = await facade.fork(context, turns[1].turn_id, metadata={"name": "x", "project": "p"})
    assert (fork.turn, fork.depth) == (turns[1].turn_id, 1)
    assert (await facade.fork(context)).turn == turns[2].turn_id
    assert (await facade.create_context(turns[0].turn_id, metadata={"a": 1})).depth == 0
    branched = await facade.append(context, b"other", "t.v1", parent=turns[0].turn_id)
    assert (branched.parent, branched.depth) == (turns[0].turn_id, 1)
    with pytest.raises(NotFound):
        await facade.fork(context, 999)


async def test_what_is_not_there_is_not_found(facade: Awaited) -> None:
    for call in (
        facade.head(99),
        facade.append(99, b"x", "t"),
        facade.last(99, 1),
        facade.before(99, 1, 1),
        facade.range_by_depth(99, 0, 1),
        facade.payload(99),
        facade.turn(99),
        facade.path_to_root(99),
        facade.blob(Hash(bytes(32))),
        facade.blob_size(Hash(bytes(32))),
        facade.attach_fs(99, ROOT),
        facade.fs_root(99),
        facade.tip(99),
        facade.set_metadata(99, {}),
        facade.conversation(99),
    ):
        with pytest.raises(NotFound):
            await call


async def test_what_makes_no_sense_is_a_usage_error(facade: Awaited) -> None:
    context = (await facade.create_context()).context
    turn = await facade.append(context, b"x", "t")
    for call in (
        facade.append(context, b"x", "t", type_version=1 << 16),
        facade.append(context, b"x", "t", encoding=-1),
        facade.range_by_depth(context, -1, 1),
        facade.range_by_depth(context, 0, -1),
        facade.attach_fs(turn.turn_id, b"short"),
    ):
        with pytest.raises(UsageError):
            await call


async def test_keys_and_expected_heads(facade: Awaited) -> None:
    context = (await facade.create_context()).context
    first = await facade.append(context, b"1", "t", idempotency_key=b"k", expected_head=0)
    assert await facade.append(context, b"1", "t", idempotency_key=b"k") == first
    with pytest.raises(Conflict):
        await facade.append(context, b"2", "t", idempotency_key=b"k")
    second = await facade.append(context, b"2", "t", expected_head=first.turn_id)
    with pytest.raises(Conflict):
        await facade.append(context, b"3", "t", expected_head=first.turn_id)
    assert (await facade.head(context)).turn == second.turn_id


async def test_the_same_text_twice_is_two_turns(facade: Awaited) -> None:
    context = (await facade.create_context()).context
    first = await facade.append(context, b"1", "t")
    assert (await facade.append(context, b"1", "t")).parent == first.turn_id


async def test_patches_and_what_was_before_them(facade: Awaited, store: Store) -> None:
    context = (await facade.create_context()).context
    turns = [await facade.append(context, b"%d" % number, "t") for number in range(4)]
    seq = store.writer.seq
    head = await facade.patch(context, {turns[1].turn_id: b"one", turns[2].turn_id: DELETED})
    assert head == store.writer.head(context)
    assert head.patch > 0
    assert await facade.last(context, 9) == turns
    latest = await facade.last(context, 9, latest=True)
    assert latest == store.contexts.last(context, 9, latest=True)
    assert [turn.deleted for turn in latest] == [False, False, True, False]
    assert await facade.payload(latest[1].turn_id) == b"one"
    assert await facade.before(context, turns[3].turn_id, 9, latest=True) == latest[:3]
    assert await facade.range_by_depth(context, 1, 2, latest=True) == latest[1:3]
    assert await facade.last(context, 9, as_of=seq) == turns
    assert await facade.last(context, 2, as_of=store.writer.seq) == latest[2:]
    assert await facade.before(context, turns[3].turn_id, 2, as_of=seq) == turns[1:3]
    assert await facade.range_by_depth(context, 1, 2, as_of=seq) == turns[1:3]
    assert await facade.tip(context, seq) == turns[3].turn_id
    assert await facade.versions(context) == store.catalogue.versions(context)
    with pytest.raises(Conflict):
        await facade.patch(context, {turns[0].turn_id: b"x"}, expected_head=turns[0].turn_id)
    with pytest.raises(NotFound):
        await facade.patch(context, {999: b"x"})


async def test_a_turn_is_written_piece_by_piece(facade: Awaited, store: Store) -> None:
    context = (await facade.create_context()).context
    opened = await facade.open_turn(context, "t.v1", encoding=8, type_version=2)
    for number in range(5):
        size = opened.add(b"piece %d " % number)
        assert (size if isinstance(size, int) else await size) == 8 * (number + 1)
    [waiting] = await facade.open_turns(context)
    assert (waiting.number, waiting.text) == (opened.number, b"piece 0 piece 1 piece 2 piece 3 piece 4 ")
    assert (await facade.head(context)).turn == 0
    again = await facade.resume_turn(context, opened.number)
    size = again.add(b"end")
    assert (size if isinstance(size, int) else await size) == 43
    sealed = opened.seal()
    turn = sealed if isinstance(sealed, Turn) else await sealed
    assert await facade.payload(turn.turn_id) == b"piece 0 piece 1 piece 2 piece 3 piece 4 end"
    assert (turn.encoding, turn.type_version) == (8, 2)
    sealed = again.seal()
    assert (sealed if isinstance(sealed, Turn) else await sealed) == turn
    assert await facade.open_turns() == []
    dropped = await facade.open_turn(context, "t.v1")
    gone = dropped.abort()
    assert gone is None or await gone is None
    with pytest.raises(NotFound):
        await facade.resume_turn(context, dropped.number)
    assert (await facade.head(context)).turn == turn.turn_id


async def test_blobs_and_trees(facade: Awaited) -> None:
    data = os.urandom(100_000)
    assert await facade.put_blob(data) == hash_bytes(data)
    assert await facade.blob(hash_bytes(data)) == data
    assert await facade.blob_size(hash_bytes(data)) == len(data)
    context = (await facade.create_context()).context
    with pytest.raises(NotFound, match="put its blob there first"):
        await facade.append(context, b"1", "t", fs_root=ROOT)
    await facade.put_blob(TREE)
    turn = await facade.append(context, b"1", "t", fs_root=ROOT)
    other = await facade.append(context, b"2", "t")
    assert await facade.fs_root(turn.turn_id) == ROOT
    assert await facade.fs_root(other.turn_id) is None
    await facade.attach_fs(other.turn_id, ROOT)
    assert await facade.fs_root(other.turn_id) == ROOT


async def test_types(facade: Awaited) -> None:
    tag = await facade.register_type("some.type", 7)
    assert (tag, 7, "some.type") in await facade.types()


async def test_conversations(facade: Awaited, store: Store) -> None:
    names = [f"name-{number:04}" for number in range(5)]
    for name in names:
        await facade.create_context(metadata={"project": "p", "name": name, "title": name.upper()})
    assert await facade.projects() == ["p"]
    assert [one.name for one in await facade.conversations("p")] == names
    assert [one.name for one in await facade.conversations("p", after=names[1], limit=2)] == names[2:4]
    assert await facade.conversations() == store.library.conversations()
    found = await facade.find("p", names[0])
    assert found is not None
    assert await facade.conversation(found.id) == found
    assert await facade.find("p", "none") is None
    await facade.set_metadata(found.id, {"title": "new", "labels": ["a"]})
    assert (await facade.conversation(found.id)).title == "new"
    assert (await facade.conversation(found.id)).labels == ["a"]
    assert (await facade.stats()).conversations == 5


async def test_large_payloads(facade: Awaited) -> None:
    context = (await facade.create_context()).context
    payload = os.urandom(3_000_000)
    turn = await facade.append(context, payload, "t", encoding=8)
    assert await facade.payload(turn.turn_id) == payload


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_wrong_token_is_told(place: Listening) -> None:
    for token in ("", "wrong"):
        with pytest.raises(UsageError, match="token"):
            Client(tcp=port(place), token=token)


async def test_a_wrong_token_is_told_to_trio(place: Listening) -> None:
    with pytest.raises(UsageError, match="token"):
        async with open_client(tcp=port(place), token="wrong"):
            pass


def test_an_append_is_made_once_though_the_connection_breaks_before_it_is_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_all = store.writer.submit_all
    broken: list[int] = []

    def submit_then_break(requests: Sequence[Request]) -> None:
        submit_all(requests)
        # not where the context is given a name
        if len(broken) < 3 and requests[0].turns:
            broken.append(len(requests))
            assert client._channel is not None
            client._channel._socket.shutdown(socket.SHUT_RDWR)

    # one that needs no name: to give it one is submitted, too
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    monkeypatch.setattr(store.writer, "submit_all", submit_then_break)
    with serving(Service(store, ())) as place, Client(place.socket) as client:
        turn = client.append(context, b"once", "t")
    assert len(broken) == 3
    assert store.contexts.last(context, 10) == [turn]


def test_a_client_waits_for_a_service_that_starts_again(store: Store) -> None:
    service = Service(store, ())
    with serving(service) as place:
        client = Client(place.socket)
        context = client.create_context().context
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(client.append(context, b"x", "t")))
    thread.start()
    thread.join(0.2)
    assert not answers
    with serving(service):
        thread.join(10)
    assert len(answers) == 1
    client.close()


def test_a_service_that_does_not_come_back_is_gone(store: Store) -> None:
    with serving(Service(store, ())) as place:
        client = Client(place.socket, patience=0.1)
        context = client.create_context().context
    with pytest.raises(ServiceGone):
        client.append(context, b"x", "t")
    with pytest.raises(ServiceGone):
        Client(place.socket)


async def test_many_tasks_share_one_connection(store: Store, place: Listening) -> None:
    context = store.contexts.create().context
    async with open_client(place.socket) as client, trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(client.append, context, b"%d" % number, "t")
    assert {store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 500)} == {
        b"%d" % n for n in range(200)
    }


async def test_tasks_of_trio_survive_a_service_that_starts_again(store: Store) -> None:
    service = Service(store, ())
    context = store.contexts.create().context
    with serving(service) as place:
        async with open_client(place.socket) as client:
            await client.append(context, b"1", "t")
            async with trio.open_nursery() as nursery:
                serving_again = await trio.to_thread.run_sync(_restart, service)
                nursery.start_soon(client.append, context, b"2", "t")
                nursery.start_soon(client.append, context, b"3", "t")
    assert store.writer.head(context).depth == 2
    await trio.to_thread.run_sync(serving_again.join)


def _restart(service: Service) -> threading.Thread:
    # another that takes the place of the first at the same path
    thread = threading.Thread(target=_serve_for_a_while, args=(service,), daemon=True)
    thread.start()
    return thread


def _serve_for_a_while(service: Service) -> None:
    with serving(service):
        threading.Event().wait(2)


def test_watching_tells_of_every_context(store: Store, place: Listening) -> None:
    with Client(place.socket) as client:
        moves = client.watch()
        assert next(moves).context_id == 0
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        moved = next(moves)
        assert (moved.context_id, moved.created) == (context, True)
        turn = store.contexts.append(context, b"x", "t")
        while moved.tip != turn.turn_id:
            moved = next(moves)
        assert (moved.context_id, moved.depth) == (context, 0)
        moves.close()


def test_texts_that_grow_are_told_to_those_who_want_it(store: Store, place: Listening) -> None:
    context = store.contexts.create().context
    with Client(place.socket) as client:
        with_texts, without = client.watch(texts=True), client.watch([context])
        assert next(with_texts).context_id == next(without).context_id == 0
        opened = client.open_turn(context, "t")
        opened.add(b"some")
        change = next(with_texts)
        assert (change.context_id, change.streamed, change.moved) == (context, True, False)
        turn = opened.seal()
        change = next(without)
        assert (change.moved, change.tip) == (True, turn.turn_id)
        with_texts.close()
        without.close()


async def test_watching_one_context_tells_of_no_other(store: Store, place: Listening) -> None:
    one, other = store.contexts.create().context, store.contexts.create().context
    async with open_client(place.socket) as client:
        moves = client.watch([one])
        assert (await anext(moves)).context_id == 0
        store.contexts.append(other, b"x", "t")
        turn = store.contexts.append(one, b"y", "t")
        moved = await anext(moves)
        assert (moved.context_id, moved.tip) == (one, turn.turn_id)
        await moves.aclose()
        with pytest.raises(NotFound):
            await anext(client.watch([999]))


def test_who_watches_and_reads_nothing_holds_up_nobody(store: Store, place: Listening) -> None:
    with Client(place.socket) as client:
        silent = client.watch()
        assert next(silent).context_id == 0
        context = store.contexts.create().context
        for number in range(2000):
            store.contexts.append(context, b"%d" % number, "t")
        head = client.head(context)
        assert head.depth == 1999
        last = next(moved for moved in silent if moved.tip == head.turn)
        assert last.depth == 1999
        silent.close()
