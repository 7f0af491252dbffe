"""A repair brings back what something vouches for, says what is lost, and keeps the damaged bytes."""

import shutil
from pathlib import Path
from random import Random

import pytest

from fusefs.text.render import FileRenderer
from store import paths
from store.conversations.contexts import Append
from store.disk.blob_format import OVERHEAD, Record
from store.errors import NotFound
from store.importing.importer import Importer
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.repair import Repaired, repair
from tests.store.importing.sessions import lines, session

PAYLOADS = [b'{"type":"user","text":"%s"}' % Random(number).randbytes(300).hex().encode() for number in range(40)]


def filled(root: Path) -> Path:
    with Store.open(root, renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append_many(context, [Append(payload, "x.v1") for payload in PAYLOADS])
    return root


def damage(path: Path, offset: int, length: int) -> bytes:
    """Spoil some bytes of a file; return what they were spoilt to."""
    with path.open("r+b") as file:
        file.seek(offset)
        spoilt = bytes(byte ^ 0x55 for byte in file.read(length))
        file.seek(offset)
        file.write(spoilt)
    return spoilt


def spoil_records(root: Path) -> None:
    """Damage all records of a store's packs in their middles."""
    with Store.open(root) as store:
        packs = store.files.packs
        places = [
            (packs.path(pack), offset, OVERHEAD + len(record.stored))
            for pack, offset, record in packs.scan()
            if isinstance(record, Record)
        ]
    assert places
    for path, offset, length in places:
        damage(path, offset + length // 2, 8)


def repaired(root: Path, *sources: Path) -> Repaired:
    with Store.open(root, renderer=FileRenderer(), repair=True) as store:
        return repair(store, sources)


def sound(root: Path) -> list[str]:
    with Store.open(root, renderer=FileRenderer(), reindex=True) as store:
        return [finding.message for finding in fsck(store)]


def payloads(root: Path) -> list[bytes]:
    with Store.open(root, renderer=FileRenderer()) as store:
        return [store.contents.payload(turn.turn_id) for turn in store.contexts.last(1, 99)]


TURN_7 = 32 + 6 * 80


@pytest.mark.parametrize("byte", [0, 9, 17, 40, 70, 79])
def test_a_flipped_turn_is_put_back_by_its_checksum(tmp_path: Path, byte: int) -> None:
    root = filled(tmp_path / "store")
    damage(root / paths.TURN_LOG, TURN_7 + byte, 1)
    spoilt = (root / paths.TURN_LOG).read_bytes()[TURN_7 : TURN_7 + 80]
    done = repaired(root)
    assert (done.turns, done.lost) == (1, [])
    assert [path.read_bytes() for path in done.kept] == [spoilt]
    assert done.kept[0] == root / paths.DAMAGED / f"turns.log-{TURN_7}"
    assert sound(root) == []
    assert payloads(root) == PAYLOADS


def test_a_turn_with_more_damage_is_lost_unless_a_copy_has_it(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    other = filled(tmp_path / "other")
    damage(root / paths.TURN_LOG, TURN_7 + 8, 40)
    done = repaired(root, other)
    assert done.turns == 0
    assert [line.partition(",")[0] for line in done.lost] == ["turn 7"]
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    done = repaired(root, copy)
    assert (done.turns, done.lost) == (1, [])
    assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert sound(root) == []
    assert payloads(root) == PAYLOADS


def test_contents_are_taken_from_another_store_that_has_the_hash(tmp_path: Path) -> None:
    root, other = filled(tmp_path / "store"), filled(tmp_path / "other")
    spoil_records(root)
    done = repaired(root, other)
    assert done.taken == [f"{len(PAYLOADS)} contents from {other}"]
    assert done.lost == []
    assert done.kept
    assert sound(root) == []
    assert payloads(root) == PAYLOADS


def test_what_nothing_has_is_said_and_the_rest_is_sound(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    with Store.open(root, renderer=FileRenderer()) as store:
        store.sealer.now()
        more = [b'{"type":"user","text":"%d"}' % number for number in range(3)]
        store.contexts.append_many(1, [Append(payload, "x.v1") for payload in more])
        store.checkpointer.flush()
        [(pack, offset, _member)] = store.files.index.locate([store.turns.get(41).payload_hash]).popitem()[1]
        path = store.files.packs.path(pack)
    spoilt = damage(path, offset + 60, 8)
    done = repaired(root)
    assert done.taken == []
    assert done.lost == ["p/n, event 41", "p/n, event 42", "p/n, event 43"]
    assert any(spoilt in path.read_bytes() for path in done.kept)
    assert [message.partition(":")[0] for message in sound(root)] == ["turn 41", "turn 42", "turn 43"]
    # a second repair keeps nothing once more
    assert repaired(root).kept == []


def test_most_of_a_damaged_sealed_group_stays(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    with Store.open(root, renderer=FileRenderer()) as store:
        more = [b'{"type":"user","text":"%s"}' % Random(number).randbytes(500).hex().encode() for number in range(600)]
        store.contexts.append_many(1, [Append(payload, "x.v1") for payload in more])
        for _pause in store.sealer.steps():
            pass
        pack, offset, record = max(
            (one for one in store.files.packs.scan() if isinstance(one[2], Record)), key=lambda one: len(one[2].stored)
        )
        path = store.files.packs.path(pack)
    damage(path, offset + len(record.stored) * 7 // 8, 8)
    lost = len(repaired(root).lost)
    assert 0 < lost < 400
    assert len(sound(root)) == lost


@pytest.mark.of_one_machine("of copies of a replica one takes part in the space")
def test_contents_are_taken_from_the_file_that_was_imported(tmp_path: Path) -> None:
    root = tmp_path / "store"
    path = session(tmp_path, lines("Please fix the login bug.", "I will. " * 300, "Thank you."))
    with Store.open(root, renderer=FileRenderer()) as store:
        Importer(store).run([path])
    spoil_records(root)
    away = path.rename(tmp_path / "away.jsonl")
    kept = Path(shutil.copytree(root, tmp_path / "kept"))
    assert repaired(root).lost
    done = repaired(kept, away)
    assert done.lost == []
    assert done.taken
    assert sound(kept) == []
    # or where it was, without being told
    away.rename(path)
    assert repaired(root).lost == []
    assert sound(root) == []
    assert list((root / paths.SCRATCH).glob("*")) == []


def test_a_source_that_is_not_there_is_said_before_anything_is_done(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    with pytest.raises(NotFound, match="nothing to repair from"):
        repaired(root, tmp_path / "nowhere")


def test_a_redaction_erases_what_was_kept(tmp_path: Path) -> None:
    root = filled(tmp_path / "store")
    damage(root / paths.TURN_LOG, TURN_7 + 17, 1)
    [kept] = repaired(root).kept
    with Store.open(root, renderer=FileRenderer(), reindex=True) as store:
        Redaction(store, Secrets([b"nothing that is there"]), (), lambda *_: None).run()
    assert not kept.exists()
