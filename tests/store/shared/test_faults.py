"""Servers that are away, slow, restarted, taken over from; answers that are lost: nothing is lost, nothing is twice."""

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from fusefs.handler import errno_of
from fusefs.text.render import FileRenderer
from store.commit import patience
from store.errors import Away, Unreachable
from store.ids import hash_bytes
from store.shared import bucket as buckets
from store.shared import postgres as module
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.proxy import Proxy
from tests.servers import S3, Postgres
from tests.spaces import let_in, said, until

LARGE = 2 << 20
AWAY = r"since \d\d:\d\d .*(cannot be reached|was there before|does not have commit)"


class Pair:
    """Two machines of a space on servers, each with lines of its own to these."""

    def __init__(self, directory: Path, server: int, objects: str, held: ExitStack) -> None:
        self.directory = directory
        self.lines = [held.enter_context(Proxy(server)) for _ in range(2)]
        self.places = [
            Place(postgres=f"postgresql://postgres@127.0.0.1:{line.port}/postgres", objects=objects)
            for line in self.lines
        ]
        self.name = f"faults-{os.urandom(4).hex()}"
        remote.init(self.places[0], self.name)
        remote.join(self.places[0], self.name, directory / "0", "a")
        let_in(directory / "0", directory / "1", "b", self.places[1])
        self.stores = [Store.open(directory / str(one), renderer=FileRenderer()) for one in range(2)]
        for store in self.stores:
            held.callback(store.close)
        self.context = self.stores[0].contexts.create().context
        self.stores[1].writer.catch_up()

    def append(self, one: int, text: bytes, key: bytes = b"") -> None:
        self.stores[one].contexts.append(self.context, text, "line", idempotency_key=key)

    def agree(self, *lines: bytes) -> None:
        """See that both machines have these lines."""
        for store in self.stores:
            until(lambda store=store: len(said(store, self.context)) >= len(lines))
            store.writer.catch_up()
            assert said(store, self.context) == list(lines)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers that do not answer given up soon."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 2)


@pytest.fixture
def pair(memory_path: Path, postgres: Postgres, quick: None) -> Iterator[Pair]:
    with ExitStack() as held:
        yield Pair(memory_path, postgres.port, f"file://{memory_path}/objects", held)


@pytest.mark.parametrize("seed", range(10))
def test_answers_that_are_lost_after_the_commit(pair: Pair, seed: int) -> None:
    lines = []
    for number in range(5):
        # none of these has a key: the token alone says that it was done
        lost = pair.lines[0].lose_answers()
        lines.append(b"%d %d" % (seed, number))
        pair.append(0, lines[-1])
        assert lost.is_set()
    pair.agree(*lines)


def test_connections_that_break_are_made_anew(pair: Pair) -> None:
    lines = []
    for number in range(10):
        pair.lines[number % 2].drop()
        lines.append(b"%d" % number)
        pair.append(number % 2, lines[-1])
    pair.agree(*lines)


# it may be back before the follower has looked
@pytest.mark.logs(AWAY, sometimes=True)
def test_a_server_that_is_away(pair: Pair) -> None:
    pair.append(0, b"1")
    pair.agree(b"1")
    pair.lines[0].cut()
    with pytest.raises(Unreachable, match=AWAY) as raised:
        pair.append(0, b"no")
    assert "\n" not in str(raised.value)
    assert said(pair.stores[0], pair.context) == [b"1"]
    pair.append(1, b"2")
    pair.lines[0].heal()
    until(lambda: said(pair.stores[0], pair.context) == [b"1", b"2"])
    pair.append(0, b"3")
    pair.agree(b"1", b"2", b"3")


@pytest.mark.logs(AWAY, sometimes=True)
def test_a_line_whose_other_end_is_gone(pair: Pair) -> None:
    pair.append(0, b"1")
    pair.lines[0].stall()
    began = time.monotonic()
    with pytest.raises(Unreachable):
        pair.append(0, b"2", b"key")
    # tried again for a while, as the answer may be lost alone
    assert time.monotonic() - began < 30
    pair.lines[0].heal()
    until(lambda: pair.stores[0].writer.order.away == "")
    pair.append(1, b"3")
    pair.append(0, b"2", b"key")
    for store in pair.stores:
        store.writer.catch_up()
        assert sorted(said(store, pair.context)) == [b"1", b"2", b"3"]


@pytest.mark.logs(AWAY, sometimes=True)
def test_who_must_not_wait_is_told_soon_that_a_line_is_gone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # others would wait beyond the end of the test
    monkeypatch.setattr("store.shared.postgres._ANSWER_SECONDS", 3600.0)
    pair.append(0, b"1")
    pair.lines[0].stall()
    with patience.at_most(0.5):
        with pytest.raises(Unreachable):
            pair.append(0, b"2", b"key")
        writer = pair.stores[0].writer
        # while who follows waits with the lock, too, perhaps by now
        is_free = writer.commit_lock.acquire(blocking=False)
        try:
            with pytest.raises(Unreachable):
                pair.append(0, b"2", b"key")
        finally:
            if is_free:
                writer.commit_lock.release()
    pair.lines[0].heal()
    until(lambda: writer.order.away == "")
    with patience.at_most(0.5):
        pair.append(0, b"2", b"key")
    pair.agree(b"1", b"2")


def test_a_slow_line(pair: Pair) -> None:
    pair.lines[0].delay = 0.1
    lines = [b"%d" % number for number in range(5)]
    for line in lines:
        pair.append(0, line)
    pair.lines[0].heal()
    pair.agree(*lines)


@pytest.fixture
def own_postgres(memory_path: Path) -> Iterator[Postgres]:
    """Return a server that the test may kill."""
    server = Postgres(memory_path / "postgres", durable=True)
    server.make()
    server.start()
    yield server
    server.stop(kill=True)


@pytest.mark.logs(AWAY, sometimes=True)
@pytest.mark.parametrize("kill", [False, True])
def test_a_server_that_is_restarted(memory_path: Path, own_postgres: Postgres, kill: bool, quick: None) -> None:
    with ExitStack() as held:
        pair = Pair(memory_path, own_postgres.port, f"file://{memory_path}/objects", held)
        ended = threading.Event()
        lines: list[list[bytes]] = [[], []]

        def work(one: int) -> None:
            number = 0
            while not ended.is_set():
                text = b"%d %d" % (one, number)
                try:
                    pair.append(one, text, text)
                except Unreachable:
                    time.sleep(0.05)
                    continue
                lines[one].append(text)
                number += 1

        threads = [threading.Thread(target=work, args=(one,)) for one in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            time.sleep(0.3)
            own_postgres.stop(kill=kill)
            own_postgres.start()
        ended.set()
        for thread in threads:
            thread.join()
        for store in pair.stores:
            store.writer.catch_up()
            found = said(store, pair.context)
            for one in range(2):
                assert [line for line in found if line.startswith(b"%d " % one)] == lines[one]
        assert min(map(len, lines)) > 0


@pytest.mark.logs(AWAY, sometimes=True)
def test_a_server_that_stands_still(memory_path: Path, own_postgres: Postgres, quick: None) -> None:
    with ExitStack() as held:
        pair = Pair(memory_path, own_postgres.port, f"file://{memory_path}/objects", held)
        pair.append(0, b"1")
        own_postgres.signal(signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable):
                pair.append(0, b"2", b"key")
            assert said(pair.stores[0], pair.context) == [b"1"]
        finally:
            own_postgres.signal(signal.SIGCONT)
        until(lambda: pair.stores[0].replica is not None and not pair.stores[0].replica.status())
        pair.append(0, b"2", b"key")
        pair.agree(b"1", b"2")


@pytest.mark.logs(AWAY, sometimes=True)
def test_a_standby_that_takes_over_and_has_lost_commits(memory_path: Path, own_postgres: Postgres, quick: None) -> None:
    with ExitStack() as held:
        pair = Pair(memory_path, own_postgres.port, f"file://{memory_path}/objects", held)
        pair.append(0, b"1")
        pair.agree(b"1")
        standby = own_postgres.copy(memory_path / "standby")
        held.callback(standby.stop, kill=True)
        for line in (b"2", b"3"):
            pair.append(0, line)
        pair.stores[0].contexts.append(pair.context, bytes(LARGE), "file")
        # the other machine does not hear of it
        pair.lines[1].cut()
        own_postgres.stop(kill=True)
        standby.start()
        standby.promote()
        for line in pair.lines:
            line.target = standby.port
            line.heal()
            line.drop()
        with pytest.raises(Unreachable, match="does not have commit"):
            pair.append(0, b"no")
        store = pair.stores[0]
        assert store.replica is not None
        assert store.replica.repair() > 0
        pair.append(0, b"4")
        pair.append(1, b"5")
        pair.agree(b"1", b"2", b"3", bytes(LARGE), b"4", b"5")


def to_bucket(s3: S3, held: ExitStack) -> tuple[Proxy, str]:
    """Return a line to the bucket, and the URL of it by that."""
    line = held.enter_context(Proxy(s3.port))
    return line, re.sub(rf":{s3.port}/", f":{line.port}/", s3.url)


@pytest.mark.logs("bucket .* cannot be reached", sometimes=True)
def test_a_bucket_that_is_away(memory_path: Path, postgres: Postgres, s3: S3) -> None:
    with ExitStack() as held:
        bucket_line, objects = to_bucket(s3, held)
        pair = Pair(memory_path, postgres.port, objects, held)
        pair.append(0, b"1")
        bucket_line.cut()
        # what is small is in the entries
        pair.append(0, b"2")
        pair.append(1, b"3")
        began = time.monotonic()
        with pytest.raises(Unreachable, match="bucket"):
            pair.stores[0].intake.put(os.urandom(LARGE))
        assert time.monotonic() - began < 15
        bucket_line.heal()
        name = pair.stores[0].intake.put(bytes(LARGE))
        pair.append(0, bytes(LARGE))
        pair.agree(b"1", b"2", b"3", bytes(LARGE))
        assert pair.stores[1].blobs.blob(name) == bytes(LARGE)


@pytest.mark.logs("bucket .* cannot be reached", sometimes=True)
def test_a_bucket_that_does_not_answer(
    memory_path: Path, postgres: Postgres, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of what is here and small appends go on; what is not here is an error after a while: EIO in a mount."""
    monkeypatch.setattr(buckets, "_SECONDS", timedelta(seconds=2))
    with ExitStack() as held:
        bucket_line, objects = to_bucket(s3, held)
        pair = Pair(memory_path, postgres.port, objects, held)
        large = os.urandom(LARGE)
        pair.append(0, b"1")
        pair.append(0, large)
        pair.stores[1].writer.catch_up()
        bucket_line.stall()
        pair.append(0, b"2")
        pair.append(1, b"3")
        reader, writer = pair.stores[1], pair.stores[0]
        began = time.monotonic()
        with pytest.raises(Away, match="bucket") as raised:
            reader.blobs.blob(hash_bytes(large))
        assert time.monotonic() - began < 15
        assert errno_of(raised.value) == errno.EIO
        assert writer.blobs.blob(hash_bytes(large)) == large
        here = [turn.payload_hash for turn in reader.contexts.last(pair.context, 9)]
        here.remove(hash_bytes(large))
        assert [reader.blobs.blob(digest) for digest in here] == [b"1", b"2", b"3"]
        bucket_line.heal()

        def is_read() -> bool:
            try:
                return reader.blobs.blob(hash_bytes(large)) == large
            except Away:
                # it is not asked again at once
                return False

        until(is_read)
        pair.agree(b"1", large, b"2", b"3")
