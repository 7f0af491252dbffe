"""The dictionary that small groups are compressed with."""

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from store.commit import checkpointer
from store.commit.checkpointer import Learning
from store.content.zstd import DICTIONARY_BYTES
from store.conversations.contexts import Append
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.errors import ConvfsError
from store.ids import hash_bytes
from store.store import Store
from tests.model import findings

WORDS = [
    f"{first}{second}" for first in ("be", "ka", "lo", "mi", "nu") for second in ("rin", "tas", "vol", "wex", "zu")
]


def line(number: int) -> bytes:
    source = random.Random(number)
    text = " ".join(source.choices(WORDS, k=40))
    return (
        b'{"parentUuid":"%032x","isSidechain":false,"userType":"external","cwd":"/home/ada/shop","type":"user",'
        b'"message":{"role":"user","content":"%s"},"uuid":"%032x","timestamp":"2026-03-05T19:31:%02d.000Z"}'
        % (source.getrandbits(128), text.encode(), source.getrandbits(128), number % 60)
    )


def fill(store: Store, count: int = 900) -> int:
    context = store.contexts.create().context
    for start in range(0, count, 100):
        store.contexts.append_many(context, [Append(line(number), "x.v1") for number in range(start, start + 100)])
    store.checkpointer.flush()
    return context


def append_alone(store: Store, context: int, count: int = 5, start: int = 10_000) -> int:
    """Append lines each of which is packed alone; return how many bytes that took."""
    before = store.files.packs.end[1]
    for number in range(start, start + count):
        store.contexts.append(context, line(number), "x.v1")
        store.checkpointer.flush()
    return store.files.packs.end[1] - before


def wait_for_dictionary(store: Store) -> None:
    deadline = time.monotonic() + 10
    while not store.intake.has_dictionary and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.intake.has_dictionary


def compressions(store: Store) -> list[Compression]:
    return [record.compression for _, _, record in store.files.packs.scan() if not isinstance(record, Damage)]


def test_small_appends_are_compressed_with_a_dictionary_of_the_stores_own(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = fill(store)
        assert not store.intake.has_dictionary
        alone = append_alone(store, context)
        wait_for_dictionary(store)
        assert append_alone(store, context, start=20_000) < alone * 0.75
        assert Compression.ZSTD_DICT in compressions(store)
        [(tag, name)] = store.files.index.dictionaries()
        assert tag == 0
        assert len(store.blobs.blob(name)) <= DICTIONARY_BYTES
        assert findings(store) == []
    with Store.open(memory_path / "store", reindex=True) as store:
        assert append_alone(store, context, start=30_000) < alone * 0.75
        assert store.files.index.dictionaries() == [(0, name)]
        assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 15)] == [
            line(start + number) for start in (10_000, 20_000, 30_000) for number in range(5)
        ]
        assert findings(store) == []
    with Store.open(memory_path / "store") as store:
        append_alone(store, context, start=40_000)
        assert store.files.index.dictionaries() == [(0, name)]


def test_nothing_of_small_appends_can_be_read_in_the_files_of_a_closed_store(memory_path: Path) -> None:
    secrets = (b"swordfish", b"my passphrase is battery staple", b"sehr geheim")
    with Store.open(memory_path / "store") as store:
        context = fill(store)
        for _ in range(2):
            for secret in secrets:
                store.contexts.append(context, secret, "plain.text")
                store.contexts.append(context, b'{"type":"user","text":"%s"}' % secret, "x.v1")
                store.checkpointer.flush()
            wait_for_dictionary(store)
    for path in memory_path.rglob("*"):
        if path.is_file():
            assert not [secret for secret in secrets if secret in path.read_bytes()], path


def test_a_store_that_is_closed_at_once_learns_when_it_is_closed(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = fill(store)
    with Store.open(memory_path / "store") as store:
        assert not store.intake.has_dictionary
        store.contexts.append(context, line(1), "x.v1")
    with Store.open(memory_path / "store") as store:
        assert store.intake.has_dictionary
        assert findings(store) == []


def test_who_checks_a_store_waits_for_what_is_being_learnt(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = fill(store)
        store.contexts.append(context, line(1), "x.v1")
        store.checkpointer.quiesce()
        assert store.intake.has_dictionary
        assert store.files.journal.used == 0
        assert findings(store) == []


def test_an_import_alone_needs_none(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        fill(store)
    with Store.open(memory_path / "store") as store:
        assert not store.intake.has_dictionary


def test_too_little_to_learn_from(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = checkpointer.train
    monkeypatch.setattr(checkpointer, "train", lambda samples: asked.append(len(samples)) or real(samples))
    with Store.open(memory_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(b"%d" % number, "x.v1") for number in range(600)])
        store.checkpointer.flush()
        append_alone(store, context, 3)
    # looked at once, not at every checkpoint
    assert asked == [0]
    with Store.open(memory_path / "store") as store:
        assert not store.intake.has_dictionary
        assert findings(store) == []


def damage(root: Path, places: list[tuple[int, int, int]]) -> None:
    for pack, offset, _member in places:
        path = root / "blobs" / f"{pack:08}.pack"
        data = bytearray(path.read_bytes())
        data[offset + 500] ^= 1
        path.write_bytes(data)


def test_a_damaged_dictionary_has_a_twin(memory_path: Path) -> None:
    with Store.open(memory_path / "store") as store:
        context = fill(store)
        append_alone(store, context)
        wait_for_dictionary(store)
        append_alone(store, context, start=20_000)
        [(_, name)] = store.files.index.dictionaries()
        places = store.files.index.locate([name])[name]
        assert len(places) == 2
    damage(store.root, places[:1])
    with Store.open(store.root) as again:
        assert [again.contents.payload(turn.turn_id) for turn in again.contexts.last(context, 5)] == [
            line(20_000 + n) for n in range(5)
        ]
        assert [finding.check for finding in findings(again)] == ["packs"]
    damage(store.root, places[1:])
    with Store.open(store.root) as again:
        for turn in again.contexts.last(context, 5):
            with pytest.raises(ConvfsError):
                again.contents.payload(turn.turn_id)
        assert {finding.check for finding in findings(again)} == {"packs", "payloads", "references"}
        # without it, new ones are stored as if there were none
        append_alone(again, context, start=30_000)
        assert [again.contents.payload(turn.turn_id) for turn in again.contexts.last(context, 5)] == [
            line(30_000 + n) for n in range(5)
        ]


def test_a_store_that_fails_while_it_learns(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(memory_path / "store")
    context = fill(store)

    def failing(_data: bytes) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store.checkpointer._learning, "_register", failing)
    store.contexts.append(context, line(1), "x.v1")
    store.checkpointer.flush()
    deadline = time.monotonic() + 10
    while not store.writer.failed and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(ConvfsError, match="Input/output error"):
        store.contexts.append(context, line(2), "x.v1")
    with pytest.raises(ConvfsError):
        store.close()
    with Store.open(store.root) as again:
        assert again.contents.payload(again.writer.head(context).turn) == line(1)
        assert again.blobs.size(hash_bytes(line(1))) == len(line(1))


@pytest.mark.usefixtures("small_journals")
def test_commits_go_on_however_long_it_takes_to_learn(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both journals are filled meanwhile, again and again: they must be packed for what was learnt to be committed."""
    begun, enough = threading.Event(), threading.Event()
    train = checkpointer.train

    def slowly(samples: Sequence[bytes]) -> bytes | None:
        begun.set()
        assert enough.wait(30)
        return train(samples)

    def go_on(store: Store, context: int) -> None:
        for number in range(300):
            store.contexts.append(context, line(number) * 4, "x.v1")
            if number == 250:
                enough.set()

    monkeypatch.setattr(checkpointer, "train", slowly)
    with Store.open(memory_path / "store") as store:
        context = fill(store)
        store.contexts.append(context, line(1), "x.v1")
        store.checkpointer.flush()
        assert begun.wait(10)
        thread = threading.Thread(target=go_on, args=(store, context), daemon=True)
        thread.start()
        thread.join(25)
        enough.set()
        assert not thread.is_alive()
        wait_for_dictionary(store)
        assert findings(store) == []


def test_too_little_to_learn_from_is_looked_through_once(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by many short commands, each of which appends something."""
    monkeypatch.setattr(checkpointer, "_FEWEST_TURNS", 20)
    looked: list[int] = []
    samples = Learning._samples

    def counted(learning: Learning) -> list[bytes]:
        looked.append(learning._writer.turns.count)
        return samples(learning)

    monkeypatch.setattr(Learning, "_samples", counted)

    def append(count: int) -> None:
        with Store.open(memory_path / "store") as store:
            context = store.contexts.create().context
            for number in range(count):
                store.contexts.append(context, b"%d" % number, "some.type")

    append(19)
    assert looked == []
    for count in (1, 1, 10, 8):
        append(count)
    assert looked == [20]
    append(1)
    append(1)
    assert looked == [20, 40]
