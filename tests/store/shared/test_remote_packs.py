"""Packs that only the space has: filed by their names, fetched by range when they are read, kept for a while."""

import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from store import paths
from store.content.sparing import sparing
from store.disk.blob_format import encode_record
from store.errors import Away, DamageError
from store.ids import Hash
from store.importing.importer import Importer
from store.retention.pruner import delete
from store.service.background import reading
from store.shared import bucket as buckets
from store.shared import cache as caching
from store.shared import packs as packing
from store.shared import remote as spaces
from store.shared.cache import FRAME
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from tests.bench import corpus
from tests.proxy import Proxy
from tests.servers import S3, Postgres
from tests.spaces import let_in
from tests.store.shared.test_collecting import collect, committed, loaded, objects, payload, said
from tests.store.shared.test_spaces import Team, any_team, kept, team, until

__all__ = ["any_team", "team"]


@pytest.fixture(autouse=True)
def by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pack is small enough to be taken whole."""
    monkeypatch.setattr(packing, "WHOLE_BYTES", 0)


class Asked:
    """The parts of packs that the cache of a replica asks for."""

    def __init__(self, store: Store) -> None:
        assert store.replica is not None
        self.parts: list[tuple[int, int, int]] = []
        self.size = 0
        self._cache = store.replica.holdings.cache
        self._fetch, self._cache.fetch = self._cache.fetch, self.fetch
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self, pack: int, offset: int, length: int) -> bytes:
        self.parts.append((pack, offset, length))
        assert self.gate.wait(10)
        data = self._fetch(pack, offset, length)
        self.size += len(data)
        return data


def large(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def remote(store: Store) -> list[int]:
    return sorted(store.files.index.remote())


def told(a: Store, b: Store) -> None:
    """Have one machine commit something, and wait until the other has what was brought before."""
    a.contexts.create()
    until(lambda: b.writer.seq == a.writer.seq)


def errors(store: Store, *, remote: bool = True) -> list[object]:
    return [finding for finding in fsck(store, remote=remote) if finding.severity == "error"]


def test_what_others_bring_is_fetched_when_it_is_read_and_once(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    data = [large(number, 3 * FRAME // 2) for number in range(4)]
    names = [a.intake.put(one) for one in data]
    context = committed(a, loaded(a, [payload(1), payload(2)])[1])
    before = b.files.packs.end
    until(lambda: b.writer.seq == a.writer.seq)
    asked = Asked(b)
    assert len(remote(b)) == 5
    assert b.files.packs.end == before
    assert [b.blobs.blob(name) for name in names] == data
    assert said(b, context) == [payload(1), payload(2)]
    assert asked.parts
    parts = list(asked.parts)
    b.blobs.forget()
    assert [b.blobs.blob(name) for name in names] == data
    assert asked.parts == parts
    # no more than each frame once
    assert sum(length for _pack, _offset, length in parts) <= sum(map(len, data)) + 10 * FRAME
    a.close()
    b.close()
    # and not after it was opened again
    b = any_team.open("b")
    asked = Asked(b)
    assert [b.blobs.blob(name) for name in names] == data
    assert asked.parts == []
    assert errors(b) == []


def test_many_who_want_the_same_fetch_it_once(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    data = large(1, FRAME // 2)
    name = a.intake.put(data)
    told(a, b)
    asked = Asked(b)
    asked.gate.clear()
    read: list[bytes] = []
    threads = [threading.Thread(target=lambda: read.append(b.blobs.blob(name))) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: asked.parts)
    asked.gate.set()
    for thread in threads:
        thread.join()
    assert read == [data] * 8
    assert len(asked.parts) == 1


def test_who_reads_on_fetches_more_at_a_time(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    load = a.intake.load()
    names = [load.blob(large(number, FRAME // 2)) for number in range(24)]
    load.sync()
    told(a, b)
    asked = Asked(b)
    for name in names:
        b.blobs.blob(name)
    assert len(asked.parts) <= 6
    assert max(length for _pack, _offset, length in asked.parts) > FRAME


def test_no_more_is_kept_than_was_asked_for(team: Team) -> None:
    a = team.open("a")
    team.open("b").close()
    (team.root("b") / paths.SETTINGS).write_text(f"[remote]\ncache_bytes = {3 * FRAME}\n")
    b = team.open("b")
    data = [large(number, FRAME) for number in range(6)]
    names = [a.intake.put(one) for one in data]
    told(a, b)
    for _round in range(2):
        assert [b.blobs.blob(name) for name in names] == data
        b.blobs.forget()
        sizes = [path.stat().st_size for path in (team.root("b") / paths.CACHE).iterdir()]
        assert 0 < sum(sizes) <= 3 * FRAME
        assert b.replica is not None
        assert b.replica.holdings.cache.size == sum(sizes)


def test_all_that_is_derived_takes_its_part_of_what_is_fetched_once(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRAME", 8 << 10)
    a = team.open("a")
    corpus.write_corpus(team.directory / "corpus", sessions=80, events=30, projects=3, different_words=400_000)
    # each has a pack of its own
    for project in (team.directory / "corpus" / "projects").iterdir():
        Importer(a).run([project])
    team.open("b").close()
    size = objects(a)
    (team.root("b") / paths.SETTINGS).write_text(f"[remote]\ncache_bytes = {size // 4}\n")
    b = team.open("b")
    b.writer.catch_up()
    assert len(remote(b)) > 1
    asked, job = Asked(b), reading(b)
    with sparing():
        while job.step():
            pass
    assert b.search.unfiled_turns() == []
    assert b.insight.counted == b.files.turns.count
    for derived in (b.known_files, b.texts):
        assert derived.db.one("SELECT 1 FROM waiting LIMIT 1") is None
    # one by one they fetch it four times and more
    assert asked.size < 2 * size


def test_a_part_that_is_damaged_here_is_fetched_again(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    data = large(1, FRAME // 2)
    name = a.intake.put(data)
    told(a, b)
    assert b.blobs.blob(name) == data
    [frame] = (team.root("b") / paths.CACHE).iterdir()
    for damaged in (bytes(frame.stat().st_size), b""):
        frame.write_bytes(damaged)
        b.blobs.forget()
        assert b.blobs.blob(name) == data


def test_a_part_that_is_damaged_there_is_an_error_unless_it_lies_elsewhere(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    data = large(1, FRAME // 2)
    name = a.intake.put(data)
    told(a, b)
    [path] = [one for one in (team.space / "objects" / "packs").rglob("*") if one.is_file()]
    sound = path.read_bytes()
    path.write_bytes(sound[:1000] + b"?" + sound[1001:])
    with pytest.raises(DamageError):
        b.blobs.blob(name)
    assert errors(b)
    # another place
    assert a.replica is not None
    _space, packs = a.replica.connected()
    packs.publish([record_of(a, name)])
    told(a, b)
    assert b.blobs.blob(name) == data
    path.unlink()
    b.blobs.forget()
    assert b.replica is not None
    b.replica.holdings.cache.forget()
    assert b.blobs.blob(name) == data


def record_of(store: Store, name: Hash) -> bytes:
    [(pack, offset, _member)] = store.files.index.locate([name])[name]
    record = store.files.packs.read(pack, offset)
    return encode_record(record.codec, record.raw_len, record.hash, record.stored)


@pytest.mark.logs("cannot be reached|there is no space")
def test_what_is_not_here_is_away_while_the_space_is(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    data = [large(number, 2 * FRAME) for number in range(2)]
    names = [a.intake.put(one) for one in data]
    told(a, b)
    assert b.blobs.blob(names[0]) == data[0]
    b.close()
    away = team.space.rename(team.space.with_name("away"))
    b = team.open("b")
    assert b.blobs.blob(names[0]) == data[0]
    with pytest.raises(Away, match="is not here"):
        b.blobs.blob(names[1])
    assert errors(b, remote=False) == []
    away.rename(team.space)

    def back() -> bool:
        try:
            return b.blobs.blob(names[1]) == data[1]
        except Away:
            return False

    until(back)


def test_what_was_filed_is_filed_again_with_a_new_index(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    context = committed(a, loaded(a, [payload(1), large(1, 2 * FRAME)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    filed = remote(b)
    b.close()
    with Store.open(any_team.root("b"), reindex=True) as store:
        assert store.recovered == []
        assert said(store, context) == [payload(1), large(1, 2 * FRAME)]
        assert remote(store) == filed
        assert errors(store) == []


def test_what_an_earlier_version_has_taken_whole_stays(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = team.open("a"), team.open("b")
    monkeypatch.setattr(packing, "WHOLE_BYTES", 1 << 30)
    first = committed(a, loaded(a, [payload(1), large(1, 2 * FRAME)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    b.close()
    monkeypatch.setattr(packing, "WHOLE_BYTES", 0)
    path = team.root("b") / paths.PUBLISHED
    noted = msgspec.json.decode(path.read_bytes())
    del noted["whole"]
    path.write_bytes(msgspec.json.encode(noted))
    b = team.open("b")
    asked = Asked(b)
    assert said(b, first) == [payload(1), large(1, 2 * FRAME)]
    second = committed(a, loaded(a, [payload(4)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    assert len(remote(b)) == 1
    assert asked.parts == []
    assert said(b, second) == [payload(4)]
    b.close()
    with Store.open(team.root("b"), reindex=True) as store:
        assert said(store, first) == [payload(1), large(1, 2 * FRAME)]
        assert said(store, second) == [payload(4)]


@pytest.mark.logs("does not have commit", sometimes=True)
def test_packs_that_a_server_no_longer_knows_are_counted_again(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    first = committed(a, loaded(a, [payload(1)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    put_back = log_kept(any_team)
    second = committed(a, loaded(a, [payload(3), large(1, 2 * FRAME)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    # the machine that brought it does not come back
    a.close()
    b.close()
    put_back()
    b = any_team.open("b")
    assert b.replica is not None
    assert b.replica.repair() > 0
    third = committed(b, loaded(b, [payload(5)])[1])
    c = any_team.open("c")
    for store in (b, c):
        store.writer.catch_up()
        assert said(store, first) == [payload(1)]
        assert said(store, second) == [payload(3), large(1, 2 * FRAME)]
        assert said(store, third) == [payload(5)]
        assert errors(store) == []


def log_kept(team: Team) -> Callable[[], None]:
    """Return a function that puts log and records of a space back as they are now, and leaves the bucket."""
    if not team.place.directory:
        return kept(team)
    earlier = team.directory / "earlier"
    for name in ("log", "records"):
        shutil.copytree(team.space / name, earlier / name)

    def put_back() -> None:
        for name in ("log", "records"):
            shutil.rmtree(team.space / name)
            shutil.copytree(earlier / name, team.space / name)

    return put_back


def test_what_is_appended_is_made_of_nothing_that_only_the_space_has(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    committed(a, loaded(a, [payload(1), payload(2), payload(3)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    context = b.contexts.create().context
    b.contexts.append(context, payload(2), "test")
    # it resembles what is there
    b.contexts.append(context, payload(2).replace(b"line 7 ", b"line seven "), "test")
    b.close()
    shutil.rmtree(team.root("b") / paths.CACHE, ignore_errors=True)
    b = team.open("b")
    asked = Asked(b)
    assert said(b, context)[1] == payload(2).replace(b"line 7 ", b"line seven ")
    assert asked.parts == []


def test_what_is_left_of_a_pack_that_is_gone_is_found(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    load, digests = loaded(a, [payload(1), large(1, 2 * FRAME), large(2, FRAME // 2)])
    whole = committed(a, digests[:1] + digests[2:])
    dropped = committed(a, digests[1:2])
    del load
    until(lambda: b.writer.seq == a.writer.seq)
    c = any_team.open("c")
    c.writer.catch_up()
    delete(a, dropped, a.writer.head(dropped).tip)
    before = objects(a)
    assert collect(a).space_bytes
    assert objects(a) < before
    for store in (b, c):
        store.writer.catch_up()
        assert said(store, whole) == [payload(1), large(2, FRAME // 2)]
    # another collects, that has it from elsewhere
    collect(c)
    collect(b)
    assert said(b, whole) == said(c, whole) == [payload(1), large(2, FRAME // 2)]
    for store in (a, b, c):
        store.close()
    any_team.agree("a", "b", "c")


def test_who_has_it_only_in_the_space_collects(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    kept_one = committed(a, loaded(a, [payload(1), payload(2)])[1])
    gone = committed(a, loaded(a, [payload(4), large(1, 2 * FRAME)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    delete(b, gone, b.writer.head(gone).tip)
    before = objects(b)
    assert collect(b).space_bytes > FRAME
    assert objects(b) < before
    for store in (a, b):
        store.writer.catch_up()
        collect(store)
        assert said(store, kept_one) == [payload(1), payload(2)]
        assert errors(store) == []


def test_a_pack_that_was_replaced_is_no_damage(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    kept_one = committed(a, loaded(a, [payload(1), payload(2)])[1])
    load, digests = loaded(a, [payload(3), large(1, 2 * FRAME)])
    whole, gone = committed(a, digests[:1]), committed(a, digests[1:])
    del load
    until(lambda: b.writer.seq == a.writer.seq)
    delete(a, gone, a.writer.head(gone).tip)
    assert collect(a).space_bytes > FRAME
    b.writer.catch_up()
    before = remote(b)
    assert errors(b) == []
    assert remote(b) != before
    assert errors(b) == []
    assert said(b, kept_one) == [payload(1), payload(2)]
    assert said(b, whole) == [payload(3)]


class Line:
    """The nouns of a replica's space; counts what threads ask of them, but for the one that follows."""

    def __init__(self, store: Store) -> None:
        assert store.replica is not None
        space, _packs = store.replica.connected()
        self.asked: list[str] = []
        for noun in (space.log, space.records, space.bucket):
            for name in ("append", "entries", "record", "records", "swap", "get", "put", "list"):
                if (method := getattr(noun, name, None)) is not None:
                    setattr(noun, name, self._counting(name, method))

    def _counting(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object, **named: object) -> object:
            if threading.current_thread().name != "convfs-following":
                self.asked.append(name)
            return method(*given, **named)

        return counted


def drawn(store: Store) -> list[bytes]:
    """List all conversations, and return their transcripts, as ``ls`` and ``grep`` do."""
    renderer = store.viewer.renderer
    assert renderer is not None
    texts = []
    for entry in store.catalogue.every():
        conversation = store.library.conversation(entry.id)
        rows = store.records.rows(entry.head)
        texts += [renderer.drawn(row.number, event).section for row, event in store.viewer.events(rows)]
        assert conversation.events == len(rows)
    return texts


def test_what_was_read_once_asks_the_servers_nothing(
    postgres: Postgres, s3: S3, memory_path: Path, tmp_path: Path
) -> None:
    place, name = Place(postgres=postgres.url(), objects=s3.url), "warm"
    spaces.init(place, name)
    with ExitStack() as held:
        team = Team(memory_path, place, name, held)
        a, b = team.open("a"), team.open("b")
        sessions = tmp_path / "sessions"
        sessions.mkdir()
        for number in range(20):
            lines = [
                {
                    "type": "user",
                    "sessionId": f"s{number}",
                    "message": {"role": "user", "content": f"What is {number} and {line}? " * 60},
                }
                for line in range(10)
            ]
            (sessions / f"s{number}.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
        assert Importer(a).run(sorted(sessions.iterdir())).imported == 20
        until(lambda: b.writer.seq == a.writer.seq)
        assert remote(b)
        cold = Line(b)
        texts = drawn(b)
        assert len(texts) == 200
        assert "get" in cold.asked
        for _again in range(2):
            cold.asked.clear()
            b.blobs.forget()
            b.records.forget_rows()
            assert drawn(b) == texts
            assert cold.asked == []
        assert drawn(a) == texts
        b.close()
        b = team.open("b")
        line = Line(b)
        assert drawn(b) == texts
        assert line.asked == []


def test_a_bucket_that_does_not_answer_is_waited_for_a_while(
    postgres: Postgres, s3: S3, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "_SECONDS", timedelta(seconds=2))
    with ExitStack() as held, Proxy(s3.port) as proxy:
        place, name = Place(postgres=postgres.url(), objects=s3.url), "stalled"
        spaces.init(place, name)
        team = Team(memory_path, place, name, held)
        a = team.open("a")
        names = [a.intake.put(large(number, 2 * FRAME)) for number in range(3)]
        a.contexts.create()
        let_in(
            team.root("a"),
            team.root("b"),
            "b",
            structs.replace(place, objects=s3.url.replace(f":{s3.port}", f":{proxy.port}")),
        )
        b = team.open("b")
        assert b.blobs.blob(names[0]) == large(0, 2 * FRAME)
        proxy.stall()
        began = time.monotonic()
        with pytest.raises(Away, match="is not here"):
            b.blobs.blob(names[1])
        assert time.monotonic() - began < 60
        assert b.blobs.blob(names[0]) == large(0, 2 * FRAME)
        proxy.heal()
        until(lambda: not isinstance(b.blobs.blobs([names[1]])[names[1]], Away))
        assert b.blobs.blob(names[1]) == large(1, 2 * FRAME)
