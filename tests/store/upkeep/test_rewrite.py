"""Rewritten packs in the place of others."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from store.disk.blob_format import encode_record
from store.disk.file_header import Damage
from store.errors import DamageError
from store.ids import Hash
from store.index.index import BlobPlace
from store.paths import REWRITTEN
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.rebuild import blob_places
from tests.model import instead

TEXTS = [f'{{"text": "{number} {"a long text of its own " * 80}{number}"}}'.encode() for number in range(30)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with Store.open(root) as store:
        for text in TEXTS:
            context = store.contexts.create().context
            store.contexts.append(context, text, "test")
    return root


def copied(store: Store, numbers: list[int]) -> tuple[list[tuple[Hash, BlobPlace]], dict[int, int]]:
    """Write packs' records once more, as they are."""
    writer = store.files.packs.rewrite()
    packs = store.files.packs
    for _, _, found in packs.scan(numbers=numbers):
        assert not isinstance(found, Damage)
        writer.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
    writer.finish()
    return list(blob_places(packs, [writer.number], [])), {writer.number: writer.length}


def payloads(store: Store) -> list[bytes]:
    return [store.contents.payload(turn) for turn in range(1, len(TEXTS) + 1)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_everything_is_there_after_a_switch(root: Path, overwrite: bool) -> None:
    with Store.open(root) as store:
        cold = store.intake.cold(roll=True)
        assert cold == [1]
        assert payloads(store) == TEXTS
        store.rewriting.switch(*copied(store, cold), cold, overwrite=overwrite)
        assert store.files.packs.numbers() == [2, REWRITTEN + 1]
        assert payloads(store) == TEXTS
        assert fsck(store) == []
        # and once more, from what was rewritten
        cold = store.intake.cold(roll=False)
        assert cold == [REWRITTEN + 1]
        store.rewriting.switch(*copied(store, cold), cold)
        assert store.files.packs.numbers() == [2, REWRITTEN + 2]
    with Store.open(root) as store:
        assert payloads(store) == TEXTS
        assert fsck(store) == []
    with Store.open(root, reindex=True) as store:
        assert payloads(store) == TEXTS


def test_what_would_be_lost_stays(root: Path) -> None:
    with Store.open(root) as store:
        cold = store.intake.cold(roll=True)
        lost = store.turns.get(3).payload_hash
        places, packs = copied(store, cold)
        with pytest.raises(DamageError, match="would be lost"):
            store.rewriting.switch([], {}, cold)
        assert payloads(store) == TEXTS
        store.rewriting.switch([one for one in places if one[0] != lost], packs, cold, dropped={lost})
        with pytest.raises(DamageError, match="no blob"):
            store.contents.payload(3)
        assert store.contents.payload(4) == TEXTS[3]


def test_damaged_packs_stay(root: Path) -> None:
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with Store.open(root) as store:
        cold = store.intake.cold(roll=True)
        with pytest.raises(DamageError):
            store.rewriting.switch([], {}, cold, dropped={store.turns.get(turn).payload_hash for turn in range(1, 31)})
        assert path.exists()


class Killed(BaseException):
    pass


STEPS = ("replace_packs", "forget_packs", "remove")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("reindex", [False, True])
def test_whoever_is_killed_leaves_one_copy_or_two(
    root: Path, step: str, reindex: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def kill(*_arguments: object, **_more: object) -> None:
        raise Killed

    left = tmp_path / "left"
    with Store.open(root) as store:
        cold = store.intake.cold(roll=True)
        monkeypatch.setattr(store.files.packs if step == "remove" else store.files.index, step, kill)
        with pytest.raises(Killed):
            store.rewriting.switch(*copied(store, cold), cold)
        # as a killed process leaves it: what it has written is there
        shutil.copytree(root, left, ignore=lambda _folder, names: [name for name in names if name == "lock"])
        instead(left)
    with Store.open(left, reindex=reindex) as store:
        assert payloads(store) == TEXTS
        assert fsck(store) == []
        assert len(store.files.index.locate([store.turns.get(1).payload_hash])[store.turns.get(1).payload_hash]) == 2
        cold = store.intake.cold(roll=True)
        store.rewriting.switch(*copied(store, cold), cold)
        assert payloads(store) == TEXTS


def test_readers_do_not_notice(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(root) as store:
        source = store.blobs._source
        real: Callable[..., dict[Hash, list[BlobPlace]]] = source.locations  # type: ignore[assignment]
        switched: list[int] = []

        def locations(digests: list[Hash]) -> dict[Hash, list[BlobPlace]]:
            # between looking up and reading, the first time for each
            found = real(digests)
            if len(switched) < 6:
                cold = store.intake.cold(roll=True)
                switched.append(len(switched))
                store.rewriting.switch(*copied(store, cold), cold, overwrite=len(switched) % 2 == 0)
            return found

        monkeypatch.setattr(source, "locations", locations)
        hashes = [store.turns.get(turn).payload_hash for turn in range(1, 31)]
        assert store.blobs.size(hashes[7]) == len(TEXTS[7])
        assert store.blobs.blobs(hashes) == dict(zip(hashes, TEXTS, strict=True))
        assert len(switched) == 6


def test_readers_and_writers_go_on_while_packs_are_rewritten(root: Path) -> None:
    with Store.open(root) as store:
        ended = threading.Event()
        wrong: list[object] = []
        added: list[bytes] = []

        def read() -> None:
            hashes = [store.turns.get(turn).payload_hash for turn in range(1, 31)]
            while not ended.is_set():
                found = store.blobs.blobs(hashes)
                if list(found.values()) != TEXTS:
                    wrong.append(found)

        def write() -> None:
            number = 0
            while not ended.is_set():
                number += 1
                load = store.intake.load()
                payload = TEXTS[number % 30].replace(b"own", b"%d" % (number // 60))
                added.append(payload)
                load.payloads([payload])
                load.sync()

        threads = [threading.Thread(target=work) for work in (read, read, write)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(15):
                cold = store.intake.cold(roll=True)
                store.rewriting.switch(*copied(store, cold), cold)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert wrong == []
        load = store.intake.load()
        assert store.blobs.blobs(load.payloads(added)).keys() == set(load.payloads(added))
        assert fsck(store) == []
