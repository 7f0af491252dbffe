"""Many connections at once: what they are told could have been told one after the other; none waits for writers."""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from store.disk import durable
from store.errors import Conflict, NotFound
from store.events.event import DELETED
from store.ids import Hash, hash_bytes, turn_of
from store.service.call import Ask
from store.service.client import Client
from store.service.operations import OPERATIONS
from store.service.server import Service, serving
from store.service.wire import PutAnswer, PutBlob
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.service.linearizable import Call, State, Turns, linearizable
from tests.threads import side_by_side

CONNECTIONS = 8
CALLS = 60
CONTEXTS = 2
KINDS = ["append"] * 4 + ["expect"] * 3 + ["patch"] * 2
KINDS += ["branch", "note", "noted", "head", "turns", "range", "latest", "fork"]


@pytest.fixture
def store(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(memory_path))
    with Store.open(memory_path / "store") as opened:
        yield opened
        # nobody is served any more
        assert fsck(opened) == []


@pytest.fixture
def path(store: Store) -> Iterator[Path]:
    with serving(Service(store, OPERATIONS)) as place:
        yield place.socket


def at_once(path: Path, count: int, work: Callable[[int, Client], None]) -> None:
    """Do work on many connections, begun at one time."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            with Client(path) as client:
                start.wait(30)
                work(number, client)
        except BaseException:
            start.abort()
            raise

    side_by_side(count, run)


@pytest.fixture
def switching() -> Iterator[None]:
    """Have threads take turns more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class User:
    """One who calls, and notes what it is told."""

    def __init__(self, number: int, client: Client, contexts: Sequence[int]) -> None:
        self.calls: list[tuple[int, Call]] = []
        self.made: dict[int, tuple[int, bytes]] = {}
        """Turns with their parents and payloads."""
        self._client = client
        self._contexts = contexts
        self._source = random.Random(number)
        self._seen: dict[int, list[int]] = {context: [0] for context in contexts}
        self._number = number

    def call(self) -> None:
        source = self._source
        context, kind = source.choice(self._contexts), source.choice(KINDS)
        began = time.monotonic_ns()
        name, given, told = getattr(self, f"_{kind}")(context, source)
        self.calls.append((context, Call(name, began, time.monotonic_ns(), given, told)))

    def _appended(self, context: int, expected: int | None, parent: int) -> tuple[str, tuple, tuple]:
        payload = b"%d %d" % (self._number, len(self.calls))
        given = (expected, parent)
        try:
            turn = self._client.append(context, payload, "t.v1", parent=parent, expected_head=expected)
        except Conflict:
            return "append", given, (0, 0)
        assert turn.payload_hash == hash_bytes(payload)
        follows = turn_of(turn.parent)
        self.made[turn.turn_id] = follows, payload
        self._seen[context].append(turn.turn_id)
        return "append", given, (turn.turn_id, follows)

    def _append(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        return self._appended(context, None, 0)

    def _expect(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        return self._appended(context, self._client.head(context).turn if source.random() < 0.7 else 1, 0)

    def _branch(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        return self._appended(context, None, source.choice(self._seen[context][-3:]))

    def _patch(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        turn = source.choice(self._seen[context])
        payload = source.choice([None, b"patched %d %d" % (self._number, len(self.calls))])
        expected = self._client.head(context).turn if source.random() < 0.5 else None
        try:
            changes = {turn: DELETED if payload is None else payload}
            head = self._client.patch(context, changes, expected_head=expected).turn
        except (Conflict, NotFound):
            head = 0
        return "patch", (expected, turn, payload), (head,)

    def _note(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        value = self._number * 1000 + len(self.calls) + 1
        self._client.set_metadata(context, {"note": value})
        return "note", (value,), ()

    def _noted(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        return "noted", (), (self._client.conversation(context).metadata.get("note", 0),)

    def _head(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        head = self._client.head(context)
        return "head", (), (head.turn, head.depth)

    def _turns(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        found = [turn.turn_id for turn in self._client.last(context, 5)]
        self._seen[context] += found[-1:]
        return "turns", (5,), tuple(found)

    def _range(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        given = source.choice([(0, 1000), (2, 3)])
        return "range", given, tuple(turn.turn_id for turn in self._client.range_by_depth(context, *given))

    def _latest(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        return "latest", (1000,), self._now(context)

    def _fork(self, context: int, source: random.Random) -> tuple[str, tuple, tuple]:
        # nobody else knows of it, so it stays what the other context was when it was made
        return "fork", (1000,), self._now(self._client.fork(context).context)

    def _now(self, context: int) -> tuple[tuple[int, bytes | None], ...]:
        turns = self._client.last(context, 1000, latest=True)
        return tuple(
            (turn_of(turn.turn_id), None if turn.deleted else self._client.blob(turn.payload_hash)) for turn in turns
        )


@pytest.mark.parametrize("seed", range(2))
def test_what_many_connections_do_at_once_is_linearizable(store: Store, path: Path, seed: int, switching: None) -> None:
    contexts = [store.contexts.create().context for _ in range(CONTEXTS)]
    users: list[User] = []

    def work(number: int, client: Client) -> None:
        user = User(seed * 100 + number, client, contexts)
        users.append(user)
        for _ in range(CALLS):
            user.call()

    at_once(path, CONNECTIONS, work)
    turns = Turns({turn: made for user in users for turn, made in user.made.items()})
    for context in contexts:
        calls = [call for user in users for number, call in user.calls if number == context]
        assert linearizable(calls, turns, State())
        # each kind of answer was given
        told = {(call.kind, bool(call.told and call.told[0])) for call in calls}
        assert {("append", True), ("append", False), ("patch", True), ("latest", True), ("fork", True)} <= told


def test_histories_that_cannot_be_are_found() -> None:
    turns = Turns({1: (0, b"a"), 2: (1, b"b"), 3: (1, b"c"), 4: (3, b"d")})

    def append(turn: int, follows: int, began: int, ended: int, expected: int | None = None, parent: int = 0) -> Call:
        return Call("append", began, ended, (expected, parent), (turn, follows))

    sound = [
        append(1, 0, 0, 9),
        append(2, 1, 5, 20, 1),
        append(0, 0, 6, 30, 1),
        append(3, 1, 21, 40, None, 1),
        Call("head", 1, 2, (), (0, 0)),
        Call("head", 6, 7, (), (1, 0)),
        Call("latest", 19, 22, (9,), ((1, b"a"), (2, b"b"))),
        Call("patch", 50, 60, (None, 1, None), (3,)),
        Call("patch", 61, 62, (None, 2, b"x"), (0,)),
        Call("fork", 55, 70, (9,), ((1, None), (3, b"c"))),
        Call("fork", 55, 70, (9,), ((1, b"a"), (3, b"c"))),
        append(4, 3, 71, 72),
        Call("turns", 80, 81, (2,), (3, 4)),
        Call("range", 80, 81, (1, 2), (3, 4)),
        Call("note", 0, 90, (7,)),
        Call("noted", 60, 61, (), (7,)),
        Call("noted", 5, 6, (), (0,)),
    ]
    assert linearizable(sound, turns, State())
    for wrong in (
        Call("head", 3, 4, (), (4, 2)),
        Call("head", 73, 74, (), (3, 1)),
        Call("turns", 73, 74, (9,), (1, 2)),
        Call("range", 73, 74, (1, 9), (3,)),
        Call("latest", 73, 74, (9,), ((1, b"a"), (3, b"c"), (4, b"d"))),
        Call("fork", 56, 58, (9,), ((1, b"a"), (2, b"b"))),
        Call("noted", 91, 92, (), (0,)),
        Call("noted", 62, 63, (), (0,)),
        append(0, 0, 73, 74, 4),
        Call("patch", 73, 74, (None, 3, b"x"), (0,)),
        Call("patch", 73, 74, (3, 3, b"x"), (4,)),
    ):
        assert not linearizable([*sound, wrong], turns, State()), wrong
    for at, call in enumerate(sound):
        if call.kind == "append":
            without = [*sound[:at], *sound[at + 1 :]]
            assert linearizable(without, turns, State()) is (call.told[0] == 0)


@pytest.mark.parametrize("expected", [None, 0])
def test_of_two_that_append_to_one_head_both_do_unless_they_expect_it(
    store: Store, path: Path, expected: int | None
) -> None:
    context = store.contexts.create().context
    done: list[int] = []
    refused: list[int] = []

    def work(number: int, client: Client) -> None:
        try:
            done.append(client.append(context, b"%d" % number, "t", expected_head=expected).turn_id)
        except Conflict:
            refused.append(number)

    at_once(path, 2, work)
    assert [turn.turn_id for turn in store.contexts.last(context, 9)] == sorted(done)
    assert (len(done), len(refused)) == ((2, 0) if expected is None else (1, 1))


def test_what_many_send_at_once_is_stored_once(store: Store, path: Path) -> None:
    payloads = [random.Random(size).randbytes(size) for size in (700, 40_000, 1_500_000)]
    contexts = [store.contexts.create().context for _ in range(16)]

    new: list[Hash] = []

    def work(number: int, client: Client) -> None:
        for payload in payloads:
            if number % 2:
                client.append(contexts[number], payload, "t", encoding=8)
            put = PutBlob(hash_bytes(payload + b"also"), payload + b"also")
            answer = client.ask(Ask(put.number, 0, put.encode(), lambda found: PutAnswer.decode(found[-1])))
            assert answer.hash == put.hash
            new.extend([answer.hash] * answer.new)

    at_once(path, 16, work)
    payloads += [payload + b"also" for payload in payloads]
    assert sorted(new) == sorted(map(hash_bytes, payloads[3:]))
    store.checkpointer.flush()
    stored = [record for _pack, _at, record in store.files.packs.scan()]
    assert sum(len(record.stored) for record in stored) < sum(map(len, payloads)) + 10_000
    for payload in payloads:
        digest = hash_bytes(payload)
        assert len(store.files.index.locate([digest])[digest]) == 1
        assert store.blobs.blob(digest) == payload


@pytest.mark.of_one_machine("a replica syncs nothing for a commit")
def test_readers_do_not_wait_for_a_writer(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    other = store.contexts.create().context
    first = store.contexts.append(context, b"first", "t")
    store.contexts.patch(context, {first.turn_id: b"patched"})
    held, may_go_on = threading.Event(), threading.Event()
    slowly: list[bool] = []
    fdatasync = durable.fdatasync

    def slow(fd: int) -> None:
        # commits that take next to no time are made by whoever serves the readers, too: first it is seen to take some
        time.sleep(0.02)
        if slowly:
            held.set()
            assert may_go_on.wait(60)
        fdatasync(fd)

    monkeypatch.setattr(durable, "fdatasync", slow)
    done: list[object] = []

    def write() -> None:
        with Client(path) as writer:
            done.append(writer.append(context, b"second", "t"))

    writing = threading.Thread(target=write)
    with ExitStack() as stack:
        stack.callback(writing.join)
        stack.callback(may_go_on.set)
        client = stack.enter_context(Client(path))
        client.append(other, b"first", "t")
        slowly.append(True)
        writing.start()
        assert held.wait(30)
        assert client.head(context).turn == first.turn_id
        assert client.last(context, 10) == [first]
        assert client.payload(client.last(context, 1, latest=True)[0].turn_id) == b"patched"
        assert client.range_by_depth(context, 0, 10) == [first]
        assert client.before(context, first.turn_id, 10) == []
        assert client.blob(Hash(first.payload_hash)) == b"first"
        assert client.conversation(context).records == 1
        assert client.find("p", "n") is not None
        assert context in [one.id for one in client.conversations()]
        assert client.stats().turns == 2
        assert len(client.versions(context)) == 2
        assert done == []
    assert [turn.turn_id for turn in store.contexts.last(context, 9)] == [first.turn_id, first.turn_id + 2]
