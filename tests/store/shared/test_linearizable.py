"""Three machines at once while their lines break, their server is killed and another takes over: linearizable.

Reads catch up with the space first. Two controls must be found out: reads that do not, and appends that are put in
place whatever others have put there. CONVFS_SEEDS is how many runs there are; 50 say it for good.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from store.errors import Conflict, ConvfsError, Unreachable
from store.ids import turn_of
from store.shared import postgres as module
from store.shared import remote
from store.shared.entry import Entry
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from tests.proxy import Proxy
from tests.servers import Postgres
from tests.spaces import let_in
from tests.store.service.linearizable import Call, State, Turns, linearizable
from tests.store.shared.archiving import always
from tests.waiting import until

SEEDS = int(os.environ.get("CONVFS_SEEDS", "2"))
MACHINES = 3
USERS = 2
CALLS = 25
CONTEXTS = 2
PATIENCE = 60.0


class Site:
    """A server that is killed, a standby that takes over, and three machines with lines of their own to these."""

    def __init__(self, directory: Path, held: ExitStack) -> None:
        self.server = Postgres(directory / "postgres")
        self.server.make()
        self.server.start()
        held.callback(self.server.stop, kill=True)
        self.standby = self.server.copy(directory / "standby")
        held.callback(self.standby.stop, kill=True)
        self.standby.start()
        # what is acknowledged is on the standby
        self.server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.server.execute("SELECT pg_reload_conf()")
        self.lines = [held.enter_context(Proxy(self.server.port)) for _ in range(MACHINES)]
        places = [
            Place(postgres=f"postgresql://postgres@127.0.0.1:{line.port}/postgres", objects=f"file://{directory}/objects")
            for line in self.lines
        ]
        remote.init(places[0], "site")
        roots = [directory / str(number) for number in range(MACHINES)]
        remote.join(places[0], "site", roots[0], "0")
        for number in range(1, MACHINES):
            let_in(roots[0], roots[number], str(number), places[number])
        self.stores = [Store.open(root) for root in roots]
        for store in self.stores:
            held.callback(store.close)
            # what is asked for may be in the archive by then
            held.enter_context(always(store))

    def begin(self) -> list[int]:
        """Return new contexts, which all machines know."""
        contexts = [self.stores[0].contexts.create().context for _ in range(CONTEXTS)]
        for store in self.stores:
            store.writer.catch_up()
        return contexts

    def trouble(self, source: random.Random, *, takeover: bool) -> None:
        """Do some things that happen to lines and servers."""
        for _ in range(3):
            line = source.choice(self.lines)
            match source.randrange(5):
                case 0:
                    line.cut()
                    time.sleep(source.uniform(0, 0.2))
                    line.heal()
                case 1:
                    line.lose_answers()
                case 2:
                    line.stall()
                    time.sleep(source.uniform(0, 0.3))
                    line.heal()
                case 3:
                    line.drop()
                case 4 if not takeover:
                    self.server.stop(kill=True)
                    self.server.start()
            time.sleep(source.uniform(0, 0.1))
        if takeover:
            self.server.stop(kill=True)
            self.standby.promote()
            for line in self.lines:
                line.target = self.standby.port
                line.drop()


class User:
    """One who calls on a machine, and notes what it is told. What had no answer is asked once more, with its key."""

    def __init__(self, number: int, store: Store, contexts: list[int], *, stale: bool) -> None:
        self.calls: list[tuple[int, Call]] = []
        self.made: dict[int, tuple[int, bytes]] = {}
        self._number = number
        self._store = store
        self._contexts = contexts
        self._stale = stale
        self._source = random.Random(number)

    def run(self) -> None:
        for _ in range(CALLS):
            context = self._source.choice(self._contexts)
            kind = self._source.choice(["append", "append", "expect", "head", "latest"])
            began = time.monotonic_ns()
            name, given, told = getattr(self, f"_{kind}")(context)
            self.calls.append((context, Call(name, began, time.monotonic_ns(), given, told)))

    def _persisted(self, ask: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except Unreachable:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.02)

    def _appended(self, context: int, expected: int | None) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
        payload = b"%d %d" % (self._number, len(self.calls))

        def ask() -> tuple[int, int]:
            turn = self._store.contexts.append(
                context, payload, "t.v1", expected_head=expected, idempotency_key=payload
            )
            return turn.turn_id, turn_of(turn.parent)

        try:
            turn, follows = self._persisted(ask)
        except Conflict:
            return "append", (expected, 0), (0, 0)
        self.made[turn] = follows, payload
        return "append", (expected, 0), (turn, follows)

    def _append(self, context: int) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
        return self._appended(context, None)

    def _expect(self, context: int) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
        return self._appended(context, self._store.writer.head(context).turn)

    def _head(self, context: int) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
        def ask() -> tuple[int, int]:
            self._fresh()
            head = self._store.writer.head(context)
            return head.turn, head.depth

        return "head", (), self._persisted(ask)

    def _latest(self, context: int) -> tuple[str, tuple[object, ...], tuple[object, ...]]:
        self._persisted(lambda: (self._fresh(), 0))
        turns = self._store.contexts.last(context, 1000, latest=True)
        found = tuple((turn_of(turn.turn_id), bytes(self._store.blobs.blob(turn.payload_hash))) for turn in turns)
        return "latest", (1000,), found

    def _fresh(self) -> int:
        if not self._stale:
            self._store.writer.catch_up()
        return 0


def run(site: Site, seed: int, *, stale: bool = False, trouble: bool = True) -> bool:
    """Have users call on all machines in the midst of trouble; return whether what they were told is linearizable."""
    source = random.Random(seed)
    contexts = site.begin()
    users = [
        User(seed * 100 + number, site.stores[number % MACHINES], contexts, stale=stale)
        for number in range(MACHINES * USERS)
    ]
    errors: list[BaseException] = []

    def work(user: User) -> None:
        try:
            user.run()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    if trouble:
        site.trouble(source, takeover=seed % 2 == 1)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    turns = Turns({turn: made for user in users for turn, made in user.made.items()})
    if sum(len(user.made) for user in users) != len({turn for user in users for turn in user.made}):
        # one turn for two
        return False
    return all(
        linearizable([call for user in users for number, call in user.calls if number == context], turns, State())
        for context in contexts
    )


def caught_up(store: Store) -> bool:
    try:
        store.writer.catch_up()
    except Unreachable:
        return False
    return True


@contextmanager
def sited(directory: Path) -> Iterator[Site]:
    with ExitStack() as held:
        yield Site(directory, held)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 2)


@pytest.mark.logs("since", "another machine has taken this over", sometimes=True)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_three_machines_do_in_the_midst_of_trouble_is_linearizable(
    memory_path: Path, seed: int, quick: None
) -> None:
    with sited(memory_path) as site:
        assert run(site, seed)
        for store in site.stores:
            # trouble may be left for who asks next
            until(partial(caught_up, store), what="the space can be reached")
            assert [finding for finding in fsck(store) if finding.severity == "error"] == []


@pytest.mark.logs("since", "another machine has taken this over", sometimes=True)
def test_reads_that_do_not_catch_up_are_found_out(memory_path: Path, quick: None) -> None:
    with sited(memory_path) as site:
        # nobody follows: what a machine knows is what it knew when it last committed
        for store in site.stores:
            assert store.replica is not None
            store.replica.close()
        assert not all(run(site, seed, stale=True, trouble=False) for seed in range(20))


@pytest.mark.logs(".", sometimes=True)
def test_appends_without_comparing_are_found_out(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    real = module.Postgres.append

    def append(self: module.Postgres, entry: Entry) -> tuple[Entry, ...]:
        real(self, entry)
        return ()

    monkeypatch.setattr("tests.store.shared.test_linearizable.PATIENCE", 5.0)
    begun = sound = False
    # machines that have gone apart may not even end
    with suppress(ConvfsError), ExitStack() as held:
        site = Site(memory_path, held)
        monkeypatch.setattr(module.Postgres, "append", append)
        begun = True
        sound = run(site, 0, trouble=False)
    monkeypatch.undo()
    assert begun
    assert not sound
