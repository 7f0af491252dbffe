"""Sealing whole stores: nothing is lost, all comes in the order in which it is read, and in less."""

import errno
import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from store.conversations.contexts import Append
from store.disk.blob_format import Compression, Record
from store.errors import DamageError, StoreFull
from store.ids import Hash, hash_bytes
from store.paths import REWRITTEN
from store.service import upkeep
from store.service.call import Holder
from store.service.jobs import SealingJob
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.sealer import Sealed, reading_order
from tests.model import instead
from tests.store.upkeep.everything import fill as fill_with_everything

TEXT = "a line of what a tool returned, number %d of conversation %d\n"


def payload(conversation: int, number: int) -> bytes:
    text = TEXT % (number, conversation) * 40
    return json.dumps({"uuid": f"{conversation:08}-{number:08}", "role": "user", "content": text}).encode()


def finished(steps: Generator[None, None, Sealed]) -> Sealed:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Sealed = done.value
            return result


def seal(store: Store) -> Sealed:
    return finished(store.sealer.steps())


def records(store: Store) -> list[Record]:
    return [found for _pack, _offset, found in store.files.packs.scan() if isinstance(found, Record)]


def fill(store: Store, conversations: int = 6, turns: int = 30) -> dict[Hash, bytes]:
    """Have several conversations grow side by side."""
    contexts = [store.contexts.create().context for _ in range(conversations)]
    written = {}
    for number in range(turns):
        for context in contexts:
            data = payload(context, number)
            store.contexts.append(context, data, "test")
            written[hash_bytes(data)] = data
    return written


def test_it_ends_however_much_is_appended_meanwhile(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        fill(store)
        context = store.contexts.create().context
        count = 0

        def append(_progress: object) -> None:
            nonlocal count
            count += 1
            assert count < 1000
            store.contexts.append(context, payload(9, count), "test")

        report = Holder(store).call(upkeep.seal(), append)
        assert report.packs == 1
        assert count
        assert seal(store).blobs >= count
        assert fsck(store) == []


def test_everything_is_there_in_less(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        written = fill(store)
        sealed = seal(store)
        assert sealed.bytes_after < 0.7 * sealed.bytes_before
        assert store.files.packs.numbers() == [2, REWRITTEN + 1]
        assert [record.compression for record in records(store)] == [Compression.SEALED]
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []
    with Store.open(tmp_path / "store", reindex=True) as store:
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []


def test_what_is_sealed_stays_sealed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        fill(store)
        seal(store)
        assert seal(store) == Sealed()
        before = store.files.packs.numbers()
    with Store.open(tmp_path / "store") as store:
        assert store.files.packs.numbers() == before
        assert seal(store) == Sealed()


def test_small_sealed_packs_are_sealed_together(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        written = {}
        for _ in range(10):
            written |= fill(store, 1, 10)
            seal(store)
        assert len(store.files.packs.numbers()) <= 4
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []


def test_conversations_lie_in_the_order_in_which_they_are_read(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        fill(store)
        seal(store)
        for context in range(1, 7):
            hashes = [hash_bytes(payload(context, number)) for number in range(30)]
            found = store.files.index.locate(hashes)
            members = [found[digest][0][2] for digest in hashes]
            assert members == list(range(members[0], members[0] + 30))


def test_branches_are_read_one_after_the_other(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        one, two = (store.contexts.create().context for _ in range(2))
        for number in range(3):
            store.contexts.append(one, b"%d" % number, "test")
            store.contexts.append(two, b"%d" % -number, "test")
        fork = store.contexts.create(3).context
        store.contexts.append(fork, b"forked", "test")
        store.contexts.append(one, b"goes on", "test")
        assert list(reading_order(store.files.turns, 1)) == [1, 3, 5, 8, 2, 4, 6, 7]
        assert list(reading_order(store.files.turns, 4)) == [4, 6, 5, 8, 7]


def test_all_kinds_of_blobs_are_sealed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    noise = os.urandom(50_000)
    version = "".join(f"line {number}\n" for number in range(3000))
    with Store.open(root) as store:
        written = fill(store)
        huge = b"".join(b"%d of a long log\n" % number for number in range(40_000))
        load = store.intake.load()
        kept = {load.huge(memoryview(huge)): huge, load.blob(noise): noise, load.blob(b""): b""}
        before = json.dumps({"text": version}).encode()
        after = json.dumps({"text": version.replace("line 7\n", "line seven\n")}).encode()
        [first] = load.payloads([before])
        load.sync()
        [second] = load.payloads([after], {hash_bytes(after): first})
        kept |= {first: before, second: after}
        load.sync()
        assert Compression.DELTA in {record.compression for record in records(store)}
        seal(store)
        kinds = {record.compression for record in records(store)}
        assert kinds == {Compression.SEALED, Compression.CHUNKS, Compression.DELTA, Compression.RAW}
        assert store.blobs.blobs(list(kept)) == kept
        assert store.blobs.part(hash_bytes(huge), 500_000, 40) == huge[500_000:500_040]
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []


def test_a_run_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        written = fill(store)
        steps = store.sealer.steps()
        for _ in range(5):
            next(steps)
        steps.close()
        assert store.files.packs.numbers() == [1, 2]
        assert not list((tmp_path / "store" / "blobs").glob("r*"))
        assert store.blobs.blobs(list(written)) == written
        assert seal(store).packs == 1


def test_what_comes_meanwhile_is_kept(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        written = fill(store)
        steps = store.sealer.steps()
        number = 0
        while True:
            try:
                next(steps)
            except StopIteration:
                break
            number += 1
            data = payload(1, 100 + number % 50)
            store.contexts.append(1, data, "test")
            written[hash_bytes(data)] = data
            if number % 4 == 0:
                store.checkpointer.flush()
            assert store.blobs.blobs(list(written)) == written
        assert number > 3
        assert store.blobs.blobs(list(written)) == written
        store.checkpointer.quiesce()
        assert fsck(store) == []


def test_damaged_packs_are_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with Store.open(root) as store:
        fill(store)
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with Store.open(root) as store:
        with pytest.raises(DamageError):
            seal(store)
        assert list(store.sealer.damaged) == [1]
        assert path.exists()
        written = fill(store)
        assert seal(store).packs == 1
        assert path.exists()
        assert store.blobs.blobs(list(written)) == written


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["finish", "replace_packs", "forget_packs", "remove", "set_state"])
@pytest.mark.parametrize("reindex", [False, True])
def test_whoever_is_killed_loses_nothing(
    tmp_path: Path, step: str, reindex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_arguments: object, **_more: object) -> None:
        raise Killed

    root, left = tmp_path / "store", tmp_path / "left"
    with Store.open(root) as store:
        written = fill(store)
        owner = {
            "finish": "store.disk.pack.PackWriter",
            "remove": "store.disk.pack.PackSet",
            "set_state": "store.index.database.Database",
        }.get(step, "store.index.index.Index")
        with monkeypatch.context() as patched:
            patched.setattr(f"{owner}.{step}", kill)
            with pytest.raises(Killed):
                seal(store)
        # as a killed process leaves it: what it has written is there
        shutil.copytree(root, left, ignore=lambda _folder, names: [name for name in names if name == "lock"])
        instead(left)
    with Store.open(left, reindex=reindex) as store:
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []
        seal(store)
        assert store.blobs.blobs(list(written)) == written
        assert fsck(store) == []
        assert len(store.files.packs.appended()) == 1


def test_a_store_with_everything_in_it_is_sealed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    fill_with_everything(root, tmp_path / "sessions")
    with Store.open(root) as store:
        turns = [turn for _, turn in store.files.turns.scan() if not isinstance(turn, DamageError)]
        hashes = [turn.payload_hash for turn in turns if not turn.reclaimed]
        before = store.blobs.blobs(hashes)
        found = fsck(store)
        seal(store)
        assert store.blobs.blobs(hashes) == before
        assert fsck(store) == found


def test_a_damaged_sealed_group_is_found(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with Store.open(root) as store:
        written = fill(store, conversations=6, turns=60)
        seal(store)
    path = root / "blobs" / "r00000001.pack"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with Store.open(root) as store:
        found = fsck(store)
        assert {finding.check for finding in found} == {"packs", "payloads"}
        # all that stands before the damage can be read: it is in another stretch than the first conversation
        first = dict(list(written.items())[::6])
        assert store.blobs.blobs(list(first)) == first
    with Store.open(root, reindex=True) as store:
        assert any("r00000001.pack" in note for note in store.recovered)


def test_appends_many_at_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        context = store.contexts.create().context
        store.contexts.append_many(context, [Append(payload(1, number), "test") for number in range(500)])
        seal(store)
        assert [store.contents.payload(turn) for turn in range(1, 501)] == [payload(1, number) for number in range(500)]


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Store.open(tmp_path / "store") as store:
        written = fill(store)
        with monkeypatch.context() as patched:
            patched.setattr("store.disk.pack.PackWriter.finish", full)
            with pytest.raises(StoreFull):
                seal(store)
        assert not list((tmp_path / "store" / "blobs").glob("r*"))
        assert store.blobs.blobs(list(written)) == written
        assert seal(store).packs == 1


def test_what_was_read_from_packs_that_are_gone_is_sealed_with_less(tmp_path: Path) -> None:
    """A run that could not switch is not tried again and again with the same packs."""
    with Store.open(tmp_path / "store") as store:
        written = fill(store)
        store.checkpointer.flush()
        lost = store.rewriting.switch

        def refuse(*_arguments: object, **_more: object) -> None:
            raise DamageError("no")

        store.rewriting.switch = refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(DamageError):
            seal(store)
        assert seal(store) == Sealed()
        store.rewriting.switch = lost  # type: ignore[method-assign]
        assert store.blobs.blobs(list(written)) == written


def test_a_daemon_seals_by_itself(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "convfs.toml").write_text("[sealing]\nat_bytes = 3000\n")
    with Store.open(tmp_path / "store") as store:
        job = SealingJob(store)
        assert not job.step()
        written = fill(store)
        store.checkpointer.flush()
        steps = 0
        while job.step():
            steps += 1
            assert steps < 1000
        assert [record.compression for record in records(store)] == [Compression.SEALED]
        assert store.blobs.blobs(list(written)) == written
        # who needs the packs to itself does not wait for it
        fill(store)
        store.checkpointer.flush()
        steps_of_another = store.sealer.steps()
        next(steps_of_another)
        assert not job.step()
        steps_of_another.close()
        assert job.step() or store.sealer.unsealed_bytes() < 3000
        job.close()
        assert store.rewriting.alone.acquire(blocking=False)
        store.rewriting.alone.release()


def test_a_daemon_may_be_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "convfs.toml").write_text("[sealing]\nat_bytes = 0\nbackground = false\n")
    with Store.open(tmp_path / "store") as store:
        fill(store)
        store.checkpointer.flush()
        assert not SealingJob(store).step()
        assert store.files.packs.numbers() == [1]
