"""Daemons under load are killed, at any moment, and start again: whatever they had acknowledged is there, once.

Programs go on through all of it: each asks again for what was not answered, once somebody answers. A run kills 100
daemons, with ``CONVFS_LARGE_TESTS=1`` 5,000.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from store.errors import ConvfsError
from store.ids import hash_bytes
from store.service import channel
from store.service.client import Client, ServiceGone
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.forked import Forked

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
KILLS = 5000 if LARGE else 100
KILLS_A_STORE = 50
APPENDERS = 8
PATIENCE = 60.0


class Daemons:
    """One daemon after the other, of one store."""

    def __init__(self, root: Path, *, early: bool = False) -> None:
        self.socket = root.with_name("socket")
        self._arguments = (root, self.socket, *(["early"] if early else []))
        self._said = root.with_name("said")
        self._daemon: Forked | None = None

    def start(self) -> None:
        """Begin one, once the one before has ended; returns when it serves."""
        if self._daemon is not None:
            self._daemon.wait(PATIENCE)
        with open(os.devnull, "r+b") as nothing, self._said.open("wb") as said:
            streams = (nothing.fileno(), nothing.fileno(), said.fileno())
            self._daemon = Forked("tests.crash.daemon", *self._arguments, streams=streams)
        while b"Serving " not in (said_now := self._said.read_bytes()):
            assert self._daemon.poll() is None, said_now.decode()
            time.sleep(0.001)

    def kill(self) -> None:
        """End it as kill -9 does."""
        assert self._daemon is not None
        self._daemon.kill()

    def stop(self) -> int:
        """End it as it should be ended; return its exit status."""
        assert self._daemon is not None
        self._daemon.terminate()
        return self._daemon.wait(PATIENCE)

    def close(self) -> None:
        """See to it that none is left."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait(PATIENCE)


class Agent(threading.Thread):
    """A program that uses a context of its own, one call after the other, whoever answers."""

    def __init__(self, socket: Path, number: int, going: threading.Event) -> None:
        super().__init__(daemon=True)
        self._going = going
        self.number = number
        self.client = Client(socket, patience=PATIENCE)
        self.context = self.client.create_context(metadata={"project": "p", "name": f"{number}"}).context
        self.told: list[tuple[int, bytes]] = []
        """Acknowledged turns with their payloads."""
        self.checked = 0
        self.ending = False
        self.failure: BaseException | None = None
        self.source = random.Random(number)

    def run(self) -> None:
        try:
            while not self.ending:
                self.step()
                self._going.wait()
        except BaseException as error:
            self.failure = error

    def payload(self) -> bytes:
        size = self.source.choice((10, 200, 200, 1500, 1500, 20_000))
        return b'{"of":%d,"number":%d,"text":"%s"}' % (
            self.number,
            len(self.told),
            self.source.randbytes(size).hex().encode(),
        )

    def step(self) -> None:
        """Append a turn, with a key or an expected head or neither."""
        payload, how = self.payload(), self.source.randrange(3)
        expected = (self.told[-1][0] if self.told else 0) if how == 1 else None
        key = b"%d" % len(self.told) if how == 2 else b""
        turn = self.client.append(self.context, payload, f"type.{how}", expected_head=expected, idempotency_key=key)
        self.told.append((turn.turn_id, payload))

    def noted(self) -> object:
        """Return what is acknowledged by now."""
        return len(self.told)

    def check(self, client: Client, noted: object) -> None:
        """Assert that it is still there."""
        told = self.told[self.checked : int(str(noted))]
        turns = client.range_by_depth(self.context, self.checked, len(told))
        assert [turn.turn_id for turn in turns] == [turn for turn, _payload in told]
        for turn, payload in told:
            assert client.payload(turn) == payload
        self.checked += len(told)

    def check_all(self, store: Store) -> None:
        """Assert that nothing else is there, and nothing twice."""
        turns = store.contexts.last(self.context, 100_000)
        assert [(turn.turn_id, store.contents.payload(turn.turn_id)) for turn in turns] == self.told


class Writer(Agent):
    """Writes turns piece by piece."""

    number_and_text = (0, b"")

    def step(self) -> None:
        try:
            turn = self.client.open_turn(self.context, "text.v1")
        except ServiceGone:
            # nobody knows whether there is one more now
            return
        text = b""
        for _ in range(self.source.randrange(1, 9)):
            piece = self.payload()
            turn.add(piece)
            text += piece
            self.number_and_text = (turn.number, text)
        sealed = turn.seal()
        self.number_and_text = (0, b"")
        self.told.append((sealed.turn_id, text))

    def noted(self) -> object:
        return self.number_and_text

    def check(self, client: Client, noted: object) -> None:
        number, text = noted  # type: ignore[misc]  # what noted returned
        if number:
            texts = {one.number: one for one in client.open_turns(self.context)}
            if number in texts:
                assert texts[number].text.startswith(text)
            else:
                # it went on meanwhile
                sealed = client.last(self.context, 100)
                assert any(client.payload(turn.turn_id).startswith(text) for turn in reversed(sealed))


class Describer(Agent):
    """Changes metadata, and stores blobs."""

    def step(self) -> None:
        data = self.payload()
        self.client.put_blob(data)
        self.client.set_metadata(self.context, {"title": str(len(self.told)), "blob": hash_bytes(data).hex()})
        self.told.append((0, data))

    def check(self, client: Client, noted: object) -> None:
        metadata = client.conversation(self.context).metadata
        assert int(str(metadata.get("title", -1))) >= int(str(noted)) - 1
        for _turn, data in self.told[self.checked : int(str(noted))]:
            assert client.blob(hash_bytes(data)) == data
        self.checked = int(str(noted))

    def check_all(self, store: Store) -> None:
        for _turn, data in self.told:
            assert store.blobs.blob(hash_bytes(data)) == data


@contextmanager
def working(daemons: Daemons) -> Iterator[tuple[list[Agent], threading.Event]]:
    """Have programs use a daemon while an event is set, until the block ends."""
    going = threading.Event()
    agents = [Agent(daemons.socket, number, going) for number in range(APPENDERS)]
    agents += [Writer(daemons.socket, APPENDERS, going), Describer(daemons.socket, APPENDERS + 1, going)]
    for agent in agents:
        agent.start()
    try:
        yield agents, going
        for agent in agents:
            agent.ending = True
        going.set()
        for agent in agents:
            agent.join(PATIENCE)
            assert not agent.is_alive()
            assert agent.failure is None, agent.failure
    finally:
        for agent in agents:
            agent.ending = True
            agent.client.close()
        going.set()


def kill_again_and_again(
    daemons: Daemons, agents: list[Agent], going: threading.Event, kills: int, source: random.Random
) -> None:
    for _ in range(kills):
        going.set()
        begun = sum(len(agent.told) for agent in agents)
        # under load: not before all are at work again
        wanted = begun + source.randrange(2 * APPENDERS, 6 * APPENDERS)
        until = time.monotonic() + PATIENCE
        while sum(len(agent.told) for agent in agents) < wanted and time.monotonic() < until:
            assert [agent.failure for agent in agents if agent.failure] == []
            time.sleep(source.random() * 0.002)
        noted = [agent.noted() for agent in agents]
        daemons.kill()
        daemons.start()
        going.clear()
        with closing(Client(daemons.socket)) as client:
            for agent, some in zip(agents, noted, strict=True):
                agent.check(client, some)


@pytest.fixture
def quick_to_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(channel, "_LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 64 << 10)
    monkeypatch.setattr(recovery, "JOURNALS", 3)


@pytest.mark.timeout(36_000 if LARGE else 900)
@pytest.mark.usefixtures("quick_to_return")
def test_killed_under_load(memory_path: Path) -> None:
    source = random.Random(1)
    kills = appended = 0
    while kills < KILLS:
        root = memory_path / str(kills) / "store"
        root.parent.mkdir()
        with closing(Daemons(root)) as daemons:
            daemons.start()
            with working(daemons) as (agents, going):
                kill_again_and_again(daemons, agents, going, KILLS_A_STORE, source)
            assert daemons.stop() == 0
        with Store.open(root, create=False) as store:
            assert store.recovered == []
            assert fsck(store) == []
            for agent in agents:
                agent.check_all(store)
                appended += len(agent.told)
        kills += KILLS_A_STORE
    assert appended > 10 * KILLS


@pytest.mark.usefixtures("quick_to_return")
def test_a_build_that_acknowledges_before_it_writes_is_found_out(memory_path: Path) -> None:
    with closing(Daemons(memory_path / "store", early=True)) as daemons:
        daemons.start()
        with pytest.raises((AssertionError, ConvfsError)), working(daemons) as (agents, going):
            kill_again_and_again(daemons, agents, going, 50, random.Random(2))
        daemons.kill()
