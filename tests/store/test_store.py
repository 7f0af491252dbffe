"""The facade: what its calls promise, one by one. (In every order: test_store_stateful.)"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.commit import checkpointer, intake
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.disk.turn_format import Encoding
from store.errors import DamageError, NotFound, UsageError
from store.ids import hash_bytes, now_ms, type_tag
from store.store import Store
from store.upkeep import recovery
from tests.model import findings, freeze, ids


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store") as store:
        yield store
        if not store.closed:
            assert findings(store) == []


def compressions(store: Store) -> list[Compression]:
    return [record.compression for _, _, record in store.files.packs.scan() if not isinstance(record, Damage)]


# -- turns ---------------------------------------------------------------------------------------------------------


def test_what_a_turn_says(store: Store) -> None:
    context = store.contexts.create().context
    assert (store.writer.head(context).turn, store.writer.head(context).depth) == (0, 0)
    assert store.contexts.last(context, 5) == store.contexts.range_by_depth(context, 0, 5) == []
    before = now_ms()
    first = store.contexts.append(context, b"one", "x.v1")
    second = store.contexts.append_many(context, [Append(b"two", "y.v1", Encoding.MSGPACK, 3, 12_345)])[0]
    assert (first.turn_id, first.parent, first.depth, first.payload_hash) == (1, 0, 0, hash_bytes(b"one"))
    assert before <= first.created_ms <= now_ms()
    assert (first.encoding, first.type_version, first.type_tag) == (Encoding.JSON, 0, type_tag("x.v1"))
    assert (second.turn_id, second.parent, second.depth, second.created_ms) == (2, 1, 1, 12_345)
    assert (second.encoding, second.type_version) == (Encoding.MSGPACK, 3)
    assert store.turns.get(2) == second
    assert store.contents.type_name(second.type_tag) == "y.v1"
    assert store.contents.type_name(5) == "0000000000000005"


@pytest.mark.parametrize(
    "item",
    [
        Append(b"x", "x.v1", type_version=1 << 16),
        Append(b"x", "x.v1", type_version=-1),
        Append(b"x", "x.v1", created_ms=-1),
        Append(b"x", "x.v1", created_ms=1 << 64),
        Append(b"x", "\ud800"),
    ],
)
def test_what_a_turn_cannot_say(store: Store, item: Append) -> None:
    context = store.contexts.create().context
    with pytest.raises(UsageError):
        store.contexts.append_many(context, [Append(b"sound", "x.v1"), item])
    assert store.contexts.last(context, 5) == []


def test_ranges_that_make_no_sense(store: Store) -> None:
    context = store.contexts.create().context
    for start, count in ((-1, 1), (0, -1)):
        with pytest.raises(UsageError):
            store.contexts.range_by_depth(context, start, count)


def test_nothing_to_append(store: Store) -> None:
    context = store.contexts.create().context
    turn = store.contexts.append(context, b"x", "x.v1")
    store.contexts.append(context, b"y", "x.v1")
    assert store.contexts.append_many(context, [], parent=turn.turn_id) == []
    assert store.writer.head(context).turn == 2


def test_a_parent_within_another_branch(store: Store) -> None:
    first, second = store.contexts.create().context, store.contexts.create().context
    base = store.contexts.append(first, b"base", "x.v1")
    turn = store.contexts.append(second, b"elsewhere", "x.v1", parent=base.turn_id)
    assert (turn.parent, turn.depth) == (base.turn_id, 1)
    assert ids(store.contexts.last(second, 9)) == [base.turn_id, turn.turn_id]
    assert ids(store.contexts.last(first, 9)) == [base.turn_id]


def test_many_long_branches_are_read_in_few_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = store.contexts.create().context
    store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(3000)])
    reads: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: reads.append(size) or real(fd, size, offset))
    assert len(store.turns.path_to_root(3000)) == 3000
    assert len(reads) < 20


def test_payloads_with_errors_in_their_places(store: Store) -> None:
    context = store.contexts.create().context
    turns = ids(store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(600)]))
    found = dict(store.contents.payloads([*turns, 999]))
    assert isinstance(found.pop(999), NotFound)
    assert found == {turn: b"%d" % number for number, turn in enumerate(turns)}


# -- metadata and forks --------------------------------------------------------------------------------------------


def test_metadata(store: Store) -> None:
    context = store.contexts.create(
        metadata={"project": "p", "name": "n", "labels": ["a"], "deep": {"x": [1, None]}}
    ).context
    assert store.library.find("p", "n") == store.library.conversation(context)
    store.contexts.set_metadata(context, {"labels": None, "title": "T", "deep": {"y": 2}})
    conversation = store.library.conversation(context)
    assert conversation.title == "T"
    assert conversation.metadata == {"project": "p", "name": "n", "title": "T", "deep": {"y": 2}}
    for wrong in ({"x": object()}, {"x": "\ud800"}):
        with pytest.raises(UsageError, match="JSON"):
            store.contexts.set_metadata(context, wrong)


def test_versions(store: Store) -> None:
    context = store.contexts.create().context
    turns = store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(3)])
    fork = store.contexts.fork(context, turns[1].turn_id).context
    [version] = store.catalogue.versions(fork)
    assert (version.number, version.head, version.records, version.action) == (1, turns[1].turn_id, 2, "fork")
    more = store.contexts.append(fork, b"more", "x.v1")
    [version] = store.catalogue.versions(fork)
    assert (version.number, version.head, version.records, version.action) == (1, more.turn_id, 3, "fork")
    assert store.library.conversation(fork).metadata["forked_from"] == {"context": context, "turn": turns[1].turn_id}
    [version] = store.catalogue.versions(context)
    assert (version.number, version.head, version.records, version.action) == (1, turns[2].turn_id, 3, "append")
    with pytest.raises(NotFound, match="not in context"):
        store.contexts.fork(context, store.writer.head(fork).turn)


# -- blobs ---------------------------------------------------------------------------------------------------------


def test_a_blob_of_any_size(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "_CHUNKED_BYTES", 100_000)
    for size in (0, 1, 99_999, 700_000, 900_000):
        data = os.urandom(size)
        name = store.intake.put(data)
        assert name == hash_bytes(data)
        assert store.blobs.blob(name) == data
        assert store.blobs.size(name) == size
        assert b"".join(store.blobs.pieces(name)) == data
    assert compressions(store).count(Compression.CHUNKS) == 2


def test_a_string_of_a_payload_is_a_blob_once_it_is_packed(store: Store) -> None:
    content = "the same long text " * 90
    payloads = [b'{"number":%d,"text":"%s"}' % (number, content.encode()) for number in range(20)]
    context = store.contexts.create().context
    store.contexts.append_many(context, [Append(payload, "x.v1") for payload in payloads])
    store.checkpointer.flush()
    assert store.blobs.blob(hash_bytes(content.encode())) == content.encode()
    size = store.files.packs.end[1]
    # dedup is by string, wherever it comes from
    store.intake.put(content.encode())
    store.contexts.append(context, b'{"other":["%s"]}' % content.encode(), "x.v1")
    store.contexts.append(context, payloads[3], "x.v1")
    store.checkpointer.flush()
    assert store.files.packs.end[1] - size < 300
    assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 22)][:20] == payloads


def test_the_inline_limit_is_a_setting(memory_path: Path) -> None:
    (memory_path / "store").mkdir()
    (memory_path / "store" / "convfs.toml").write_text("inline_limit_bytes = 10\n")
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        turn = store.contexts.append(context, b'{"text":"twelve bytes"}', "x.v1")
        store.checkpointer.flush()
        assert store.blobs.blob(hash_bytes(b"twelve bytes")) == b"twelve bytes"
        assert store.contents.payload(turn.turn_id) == b'{"text":"twelve bytes"}'


def test_large_appends_do_not_go_through_the_journal(store: Store) -> None:
    context = store.contexts.create().context
    small, large = os.urandom(1000), os.urandom(3 << 20)
    store.contexts.append(context, small, "raw.v1")
    used = store.files.journal.used
    assert used > 1000
    turn = store.contexts.append(context, large, "raw.v1")
    assert store.files.journal.used - used < 1000
    assert store.contents.payload(turn.turn_id) == large
    many = [Append(os.urandom(400_000), "raw.v1") for _ in range(4)]
    turns = store.contexts.append_many(context, many)
    assert store.files.journal.used - used < 2000
    assert [store.contents.payload(turn.turn_id) for turn in turns] == [item.payload for item in many]


def test_what_is_damaged_is_written_anew_when_it_comes_again(memory_path: Path) -> None:
    data = os.urandom(20_000)
    with Store.open(memory_path / "store") as store:
        name = store.intake.put(data)
        [(pack, offset, _)] = store.files.index.locate([name])[name]
        path = store.files.packs.path(pack)
        content = bytearray(path.read_bytes())
        content[offset + 100] ^= 1
        path.write_bytes(content)
    with Store.open(memory_path / "store") as store:
        with pytest.raises(DamageError):
            store.blobs.blob(name)
        context = store.contexts.create().context
        turn = store.contexts.append(context, data, "raw.v1")
        store.checkpointer.flush()
        assert store.blobs.blob(name) == store.contents.payload(turn.turn_id) == data
        assert [finding.check for finding in findings(store)] == ["packs"]
    with Store.open(memory_path / "store") as store:
        assert store.intake.put(data) == name
        assert store.blobs.blob(name) == data


def test_content_by_another_digest(store: Store) -> None:
    name, digest = store.intake.put(b"some content"), hashlib.sha256(b"some content").digest()
    assert store.contents.aliased("sha256", digest) is None
    store.writer.submit(Request(0, aliases=(("sha256", digest, name), ("sha256", b"x" * 32, name))))
    assert store.contents.aliased("sha256", digest) == b"some content"
    assert store.contents.aliased("sha1", digest) is None


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_an_idle_store_packs_what_it_has(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer, "_IDLE_SECONDS", 0.05)
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        turn = store.contexts.append(context, b"now and then", "x.v1")
        assert store.files.journal.used
        deadline = time.monotonic() + 10
        while store.files.journal.used and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.files.journal.used == 0
        assert store.contents.payload(turn.turn_id) == b"now and then"
        # a kill now loses nothing and recovers nothing
        copy = freeze(store, memory_path / "copy")
    with Store.open(copy) as again:
        assert again.recovered == []
        assert again.contents.payload(turn.turn_id) == b"now and then"


def test_an_idle_store_sleeps(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer, "_IDLE_SECONDS", 0.02)
    with Store.open(memory_path / "store") as store:
        store.contexts.create()
        store.checkpointer.flush()
        time.sleep(0.5)
        waits: list[float | None] = []
        real = threading.Condition.wait

        def noted(condition: threading.Condition, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return real(condition, timeout)

        monkeypatch.setattr(threading.Condition, "wait", noted)
        time.sleep(0.2)
        assert waits == []


@pytest.mark.of_one_machine("of a replica and its copy only one goes on")
def test_full_journals_are_packed_while_appends_go_on(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 128 << 10)
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        payloads = [b'{"n":%d,"text":"%s"}' % (number, os.urandom(900).hex().encode()) for number in range(600)]
        turns = [store.contexts.append(context, payload, "x.v1") for payload in payloads]
        assert store.files.packs.end[1] > 300_000
        assert [store.contents.payload(turn.turn_id) for turn in turns] == payloads
        copy = freeze(store, memory_path / "copy")
    for root in (store.root, copy):
        with Store.open(root) as again:
            assert [data for _turn, data in again.contents.payloads(ids(turns))] == payloads
            assert findings(again) == []


def test_content_can_be_read_at_every_moment_of_its_way_into_a_pack(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 64 << 10)
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        written: list[tuple[int, bytes]] = []
        wrong: list[object] = []
        done = threading.Event()

        def read() -> None:
            position = 0
            while not done.is_set():
                if position < len(written):
                    turn, data = written[position]
                    try:
                        if store.contents.payload(turn) != data or store.blobs.size(hash_bytes(data)) != len(data):
                            wrong.append(turn)
                    except Exception as error:
                        wrong.append(error)
                position = position + 1 if position < len(written) else max(len(written) - 40, 0)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(400):
            data = b'{"n":%d,"text":"%s"}' % (number, b"word " * 300)
            written.append((store.contexts.append(context, data, "x.v1").turn_id, data))
        done.set()
        for reader in readers:
            reader.join()
        assert wrong == []


# -- opening -------------------------------------------------------------------------------------------------------


def test_everything_is_its_owners_alone(store: Store) -> None:
    context = store.contexts.create().context
    store.contexts.append(context, b"x", "x.v1")
    store.checkpointer.flush()
    for path in [store.root, *store.root.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.of_one_machine
def test_a_new_store_is_not_made_among_other_files(memory_path: Path) -> None:
    home = memory_path / "home"
    home.mkdir(mode=0o755)
    (home / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="home holds other files: a new store needs a directory of its own"):
        Store.open(home)
    assert os.listdir(home) == ["notes.txt"]
    assert home.stat().st_mode & 0o777 == 0o755


@pytest.mark.of_one_machine
@pytest.mark.parametrize("before", ["convfs.toml", "lock", "formats/mine.toml", "lost+found/x", ".snapshots/x"])
def test_a_new_store_is_made_where_one_was_prepared_or_begun(memory_path: Path, before: str) -> None:
    file = memory_path / "store" / before
    file.parent.mkdir(parents=True)
    file.touch()
    with Store.open(memory_path / "store") as store:
        store.contexts.create()


def test_warnings_of_settings(memory_path: Path) -> None:
    (memory_path / "store").mkdir()
    (memory_path / "store" / "convfs.toml").write_text("nonsense = 1\n")
    with Store.open(memory_path / "store") as store:
        assert len(store.warnings) == 1
    (memory_path / "store" / "convfs.toml").write_text("inline_limit_bytes = 'x'\n")
    with pytest.raises(UsageError):
        Store.open(memory_path / "store")


def test_closing_twice(memory_path: Path) -> None:
    store = Store.open(memory_path / "store")
    store.close()
    store.close()


def test_an_error_in_the_block_is_the_one_that_is_raised(memory_path: Path) -> None:
    def use() -> None:
        with Store.open(memory_path / "store") as store:
            store.writer.fail(OSError("the disk fails, for a test"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()


def test_it_is_of_a_space_where_it_should_be(ordered: str, memory_path: Path) -> None:
    """Of the tests: they are run on stores of one machine, and on replicas of spaces."""
    with Store.open(memory_path / "store") as store:
        where = store.replica.connected()[0].where if store.replica is not None else "alone"
    kinds = {"alone": "alone", "directory": "/", "postgres": ".*/postgres and file:", "servers": ".* and http:"}
    assert re.match(kinds[ordered], where), where


@pytest.mark.of_one_machine("a replica says in its space that it is there")
def test_opening_is_quick(memory_path: Path) -> None:
    """Not a measurement: that nothing is done that grows with the store, such as filling journals."""
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(4000)])
    written: list[int] = []
    real = os.pwrite
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, offset: written.append(len(data)) or real(fd, data, offset))
        with Store.open(memory_path / "store") as store:
            assert store.writer.head(context).depth == 3999
    assert written == []
