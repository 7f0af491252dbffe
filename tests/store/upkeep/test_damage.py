"""Any byte of any file changes: every answer is right or a ConvfsError, and fsck says what is wrong.

``CONVFS_DAMAGED_PLACES`` sets at how many places of each file; with ``CONVFS_LARGE_TESTS=1`` it is 30.
"""

import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.disk import file_header
from store.disk.journal import Journal
from store.store import Store
from store.upkeep.fsck import fsck
from tests.model import freeze, instead
from tests.store.upkeep.everything import Answers, ask, differing, fill, questions

KINDS = {"turns.log": file_header.TURN_LOG, "heads.log": file_header.HEAD_LOG}
PLACES = int(os.environ.get("CONVFS_DAMAGED_PLACES") or ("30" if os.environ.get("CONVFS_LARGE_TESTS") == "1" else "10"))
Harm = Callable[[bytearray, random.Random], None]

pytestmark = pytest.mark.of_one_machine("of copies of a replica one takes part in the space")


def flip(data: bytearray, source: random.Random) -> None:
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def shorten(data: bytearray, source: random.Random) -> None:
    del data[source.randrange(len(data)) :]


def blank(data: bytearray, source: random.Random) -> None:
    start = source.randrange(len(data)) & ~511
    data[start : start + 512] = bytes(len(data[start : start + 512]))


def lengthen(data: bytearray, source: random.Random) -> None:
    data += source.randbytes(source.choice((1, 40, 700)))


class Kept:
    """A store as its files lie there, and the right answers to everything."""

    def __init__(self, root: Path, answers: Answers) -> None:
        self.root = root
        self.answers = answers

    def files(self) -> list[Path]:
        return sorted(path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())


@pytest.fixture
def closed(memory_path: Path) -> Kept:
    fill(memory_path / "store", memory_path)
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        answers = ask(store)
        assert len(answers) == len(questions(store))
        assert fsck(store) == []
    return Kept(memory_path / "store", answers)


@pytest.fixture
def killed(closed: Kept) -> Kept:
    opened = instead(Path(shutil.copytree(closed.root, closed.root.with_name("opened"))))
    with Store.open(opened, renderer=FileRenderer()) as store:
        store.contexts.append_many(2, [Append(b"late %d" % number * 30, "late.type") for number in range(5)])
        store.contexts.create(metadata={"project": "shop", "name": "late"})
        store.contexts.set_metadata(2, {"title": "late"})
        store.intake.put(b"late blob " * 500)
        store.contexts.append(3, b'{"type":"user","text":"the very last"}', "jp.event.v1")
        answers = ask(store)
        return Kept(freeze(store, closed.root.with_name("killed")), answers)


def each_place(kept: Kept, harm: Harm, check: Callable[[Path, Store, Answers], None], places: int = PLACES) -> None:
    """Do harm to one file after the other, here and there, and let ``check`` look at the store opened again."""
    source = random.Random(17)
    copy = kept.root.with_name("copy")
    for path in kept.files():
        for _ in range(min(places, (kept.root / path).stat().st_size)):
            instead(Path(shutil.copytree(kept.root, copy)))
            data = bytearray((copy / path).read_bytes())
            harm(data, source)
            (copy / path).write_bytes(data)
            # no damage to one file keeps a store from opening
            with Store.open(copy, renderer=FileRenderer()) as store:
                answers = ask(store)
                assert differing(answers, kept.answers) == [], path
                check(path, store, answers)
            shutil.rmtree(copy)


@pytest.mark.parametrize("harm", [flip, blank, shorten])
def test_a_closed_store(closed: Kept, harm: Harm) -> None:
    def check(path: Path, store: Store, answers: Answers) -> None:
        found = fsck(store)
        if path.parts[0] in ("turns", "blobs") and harm is flip:
            assert found or (path.name == "turns.jump" and store.recovered)
            # the index still knows what the head log has lost, but not how far a version had come at some moment, nor
            # what was not sealed
            if path.name == "heads.log":
                lost = closed.answers.keys() - answers.keys()
                assert all(" at " in name or name == "open turns" for name in lost)
        if path.parts[0] == "journal":
            assert answers.keys() == closed.answers.keys()
        if answers.keys() != closed.answers.keys():
            assert found or store.recovered

    each_place(closed, harm, check)


@pytest.mark.parametrize("harm", [flip, blank, shorten])
def test_a_rebuild_after_damage(closed: Kept, harm: Harm) -> None:
    """Facts of the old index are in the new one, or it is told that they are not, and the old one is kept."""
    source = random.Random(23)
    copy = closed.root.with_name("copy")
    for _ in range(PLACES):
        shutil.copytree(closed.root, copy)
        data = bytearray((copy / "turns/heads.log").read_bytes())
        harm(data, source)
        (copy / "turns/heads.log").write_bytes(data)
        with Store.open(copy, renderer=FileRenderer()) as store:
            before = ask(store)
        with Store.open(copy, renderer=FileRenderer(), reindex=True) as store:
            after, said = ask(store), store.recovered
        # what has its place among the frames no index knows
        others = ("versions", " at ", "open turns")
        known = {asked for asked in before if not any(word in asked for word in others)}
        lost = [asked for asked in known if after.get(asked) != before[asked]]
        assert not lost or ((copy / "index.kept-1").exists() and any("cannot be proved" in line for line in said)), lost
        shutil.rmtree(copy)


@pytest.mark.parametrize("harm", [flip, blank])
def test_a_store_that_was_killed(killed: Kept, harm: Harm) -> None:
    def check(path: Path, store: Store, answers: Answers) -> None:
        if answers.keys() != killed.answers.keys():
            assert fsck(store)
        if path.name in ("checkpoint", "index.db-wal", "index.db-shm"):
            assert answers.keys() == killed.answers.keys()
            assert fsck(store) == []

    each_place(killed, harm, check)


@pytest.mark.parametrize("name", ["turns.log", "heads.log"])
def test_whatever_is_torn_off_a_log_behind_the_checkpoint_comes_back(killed: Kept, name: str) -> None:
    store_id = file_header.read(killed.root / "turns" / name, KINDS[name])
    with closing(Journal(killed.root / "journal", store_id)) as journal:
        assert journal.checkpoint is not None
        state = journal.checkpoint
    certain = state.heads_length if name == "heads.log" else 32 + 80 * state.turn_count
    whole = (killed.root / "turns" / name).read_bytes()
    assert len(whole) > certain + 80
    copy = killed.root.with_name("copy")
    for end in range(certain, len(whole), 31):
        instead(Path(shutil.copytree(killed.root, copy)))
        (copy / "turns" / name).write_bytes(whole[:end])
        with Store.open(copy, renderer=FileRenderer()) as store:
            assert ask(store) == killed.answers
            assert fsck(store) == []
        shutil.rmtree(copy)


def test_garbage_behind_the_end_of_any_file_is_cut_and_mentioned(closed: Kept, killed: Kept) -> None:
    def check(path: Path, store: Store, answers: Answers) -> None:
        assert answers.keys() == kept.answers.keys()
        if not path.name.startswith("index.db"):
            assert fsck(store) == []

    for kept in (closed, killed):
        each_place(kept, lengthen, check, places=3)


def test_a_damaged_turn_is_told_once(closed: Kept) -> None:
    """One flipped bit is no flood of findings."""
    path = closed.root / "turns" / "turns.log"
    data = bytearray(path.read_bytes())
    data[32 + 80 * 7 + 20] ^= 4
    path.write_bytes(data)
    with Store.open(closed.root) as store:
        # the turn, and the head that it once was
        assert [finding.check for finding in fsck(store)] == ["turns", "heads"]


@pytest.mark.parametrize("name", ["blobs/00000001.pack", "journal/checkpoint"])
def test_a_file_is_gone(closed: Kept, name: str) -> None:
    (closed.root / name).unlink()
    with Store.open(closed.root, renderer=FileRenderer()) as store:
        answers = ask(store)
        assert differing(answers, closed.answers) == []
        if name == "journal/checkpoint":
            assert answers == closed.answers
            assert fsck(store) == []
            assert "checkpoint is lost" in store.recovered[0]
        else:
            assert fsck(store)


def test_journals_may_be_deleted_once_the_store_is_closed(closed: Kept) -> None:
    shutil.rmtree(closed.root / "journal")
    with Store.open(closed.root, renderer=FileRenderer()) as store:
        assert ask(store) == closed.answers
        assert fsck(store) == []
        store.contexts.append(2, b"goes on", "x.v1")
    with Store.open(closed.root) as store:
        assert fsck(store) == []
        assert store.contents.payload(store.writer.head(2).turn) == b"goes on"
