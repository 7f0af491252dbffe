"""Collecting garbage."""

import os
import random
from pathlib import Path

import pytest

from store.content.compression import Member, pack_records
from store.content.sealed import GroupSealer, SealedGroup
from store.conversations.contexts import Append
from store.disk.blob_format import Compression, Form
from store.editing.editor import Editor
from store.errors import DamageError, NotFound
from store.ids import Hash, hash_bytes, hash_key
from store.retention.pruner import delete, prune_versions
from store.store import Store
from store.upkeep import copying
from store.upkeep.fsck import fsck
from store.upkeep.gc import Collected, CollectionSteps


def collect(store: Store, *, grace: float = 0, least: float = 0, dry_run: bool = False) -> Collected:
    # what a replica packs meanwhile stays until the next time
    store.checkpointer.flush()
    return finished(store.collector.steps(grace_seconds=grace, least_part=least, dry_run=dry_run))


def finished(steps: CollectionSteps) -> Collected:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: Collected = end.value
    return found


def text(seed: int, size: int = 3000) -> str:
    source = random.Random(seed)
    return " ".join(source.choice(("many", "words", "of", "a", "tale", str(source.random()))) for _ in range(size // 8))


def payload(seed: int) -> bytes:
    return f'{{"number": {seed}, "text": "{text(seed)}"}}'.encode()


def begin(store: Store, seeds: range) -> int:
    context = store.contexts.create(metadata={"project": "p", "name": f"c{seeds.start}"}).context
    store.contexts.append_many(context, [Append(payload(seed), "test") for seed in seeds])
    return context


def gone(store: Store, digest: Hash) -> bool:
    store.blobs = type(store.blobs)(store.blobs._source, 1 << 20)
    try:
        store.blobs.blob(digest)
    except NotFound:
        return True
    return False


def drop(store: Store, context: int) -> None:
    delete(store, context, store.writer.head(context).tip)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def test_nothing_goes_that_something_leads_to(store: Store) -> None:
    with store:
        contexts = [begin(store, range(10 * number, 10 * number + 10)) for number in range(5)]
        store.contexts.fork(contexts[0])
        size = store.files.packs.length(1)
        assert collect(store, dry_run=True) == Collected(young_bytes=0)
        assert collect(store) == Collected()
        assert size <= store.files.packs.length(1)
        assert fsck(store) == []


def test_what_was_deleted_for_good_is_taken_out(store: Store) -> None:
    with store:
        gone_context, kept = begin(store, range(20)), begin(store, range(15, 40))
        hashes = [store.turns.get(turn).payload_hash for turn in range(1, 46)]
        drop(store, gone_context)
        planned = collect(store, dry_run=True)
        assert planned.turns == 20
        assert planned.packs_rewritten == 1
        assert 10_000 < planned.freed_bytes < planned.bytes + 1
        assert store.turns.get(1).payload_hash == hashes[0]
        done = collect(store)
        assert (done.turns, done.blobs) == (20, 30)
        assert done.freed_bytes > 0
        assert all(store.turns.get(turn).reclaimed for turn in range(1, 21))
        assert all(gone(store, digest) for digest in hashes[:15])
        assert [store.contents.payload(turn) for turn in range(21, 46)] == [payload(seed) for seed in range(15, 40)]
        assert store.contexts.last(kept, 1)[0].payload_hash == hash_bytes(payload(39))
        assert fsck(store) == []
        assert collect(store).bytes == 0
    with Store.open(store.root) as again:
        assert fsck(again) == []
    with Store.open(store.root, reindex=True) as again:
        assert fsck(again) == []
        assert again.contents.payload(45) == payload(39)


def test_a_pack_of_garbage_alone_is_removed(store: Store) -> None:
    with store:
        context = begin(store, range(20))
        store.checkpointer.flush()
        store.intake.cold(roll=True)
        begin(store, range(20, 30))
        store.checkpointer.flush()
        drop(store, context)
        before = store.files.packs.numbers()
        done = collect(store, least=0.25)
        assert (done.packs_removed, done.packs_rewritten) == (1, 0)
        assert set(before) - set(store.files.packs.numbers()) == {before[0]}
        assert fsck(store) == []


def test_forks_and_versions_keep_what_they_share(store: Store) -> None:
    with store:
        context = begin(store, range(10))
        editor = Editor(store)
        editor.edit(context, {3: b'{"text": "' + text(99).encode() + b'"}'})
        fork = store.contexts.fork(context, at=store.contexts.last(context, 6)[0].turn_id).context
        hashes = [hash_bytes(payload(seed)) for seed in range(10)]
        assert collect(store).blobs == 0
        # the third record as it was is in an earlier version alone
        prune_versions(store, context, store.catalogue.versions(context)[-1].seq)
        assert collect(store).turns > 0
        assert gone(store, hashes[2])
        drop(store, context)
        collect(store)
        assert [gone(store, digest) for digest in hashes] == [False] * 2 + [True] + [False] * 2 + [True] * 5
        assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(fork, 5)][:2] == [
            payload(0),
            payload(1),
        ]
        assert fsck(store) == []


def test_overlays_keep_what_is_seen_through_them(tmp_path: Path) -> None:
    root = tmp_path / "store"
    Store.open(root).close()
    (root / "convfs.toml").write_text('edits = "overlay"\n')
    with Store.open(root) as store:
        context = begin(store, range(10))
        new = b'{"text": "' + text(99).encode() + b'"}'
        Editor(store).edit(context, {3: new})
        collect(store)
        assert store.contexts.last(context, 10)[2].payload_hash == hash_bytes(payload(2))
        assert not gone(store, hash_bytes(new))
        assert fsck(store) == []
        drop(store, context)
        collect(store)
        assert gone(store, hash_bytes(new))
        assert fsck(store) == []


def test_what_metadata_names_stays(store: Store) -> None:
    with store:
        context = begin(store, range(3))
        kept = [store.intake.put(text(seed).encode()) for seed in range(100, 104)]
        large = store.intake.put(random.Random(1).randbytes(1 << 16) * 1500)
        store.contexts.set_metadata(
            context,
            {
                "envelope_blob": kept[0].hex(),
                "artifact/0.bash.log": {"blob": kept[1].hex(), "size": 1, "modified_ns": 1},
                "sidecars": {"x": kept[2].hex()},
                "anything": [["nested", kept[3].hex().upper()], large.hex()],
            },
        )
        store.intake.reliance._lasting.clear()
        collect(store)
        assert not any(gone(store, digest) for digest in (*kept, large))
        store.contexts.set_metadata(context, {"anything": None})
        done = collect(store)
        assert [gone(store, digest) for digest in (*kept, large)] == [False, False, False, True, True]
        assert done.blobs > 2
        assert fsck(store) == []


def test_trees_of_files_stay(store: Store) -> None:
    with store:
        context = begin(store, range(3))
        leaf = store.intake.put(b"a file")
        inner = store.intake.put(b"\x93\xc4\x20" + leaf)
        root = store.intake.put(b"xxxxx" + inner + b"yy")
        other = store.intake.put(b"\xc4\x20" + b"another")
        store.contexts.attach_fs(2, root)
        store.intake.reliance._lasting.clear()
        collect(store)
        assert [gone(store, digest) for digest in (leaf, inner, root, other)] == [False, False, False, True]
        drop(store, context)
        collect(store)
        assert [gone(store, digest) for digest in (leaf, inner, root)] == [True] * 3
        assert fsck(store) == []


def test_what_nothing_names_yet_has_its_time(store: Store) -> None:
    with store:
        digest = store.intake.put(b"part of a tree that is to be attached")
        collect(store)
        assert not gone(store, digest)
        store.intake.reliance._lasting.clear()
        store.intake.cold(roll=True)
        assert collect(store, grace=3600).young_bytes > 0
        assert not gone(store, digest)
        for path in (store.root / "blobs").iterdir():
            os.utime(path, ns=(0, 0))
        # it was put once more
        assert store.intake.put(b"part of a tree that is to be attached") == digest
        store.intake.reliance._lasting.clear()
        collect(store, grace=3600)
        assert not gone(store, digest)
        # in a space it was written once more, for all machines
        store.intake.cold(roll=True)
        for path in (store.root / "blobs").iterdir():
            os.utime(path, ns=(0, 0))
        assert collect(store, grace=3600).blobs == 1
        assert gone(store, digest)


def test_what_lies_in_packs_twice_is_there_once(store: Store) -> None:
    with store:
        begin(store, range(20))
        store.checkpointer.flush()
        store.intake.cold(roll=True)
        writer = store.files.packs.rewrite()
        for _pack, _offset, record in store.files.packs.scan(numbers=[1]):
            from store.upkeep.sealer import _again

            writer.append(_again(record))  # type: ignore[arg-type]  # nothing is damaged
        writer.finish()
    with Store.open(store.root) as store:
        assert len(store.files.packs.numbers()) == 3
        done = collect(store)
        assert done.repeated_bytes > 10_000
        assert (done.packs_removed, done.packs_rewritten) == (1, 0)
        assert fsck(store) == []


def test_a_copy_that_is_made_of_another_blob_keeps_it(store: Store) -> None:
    """A blob that lies in two packs may be whole in one, and a delta in the other, which is to stay."""
    base = text(1, 40_000).encode()
    like, large = base + b" and a little more", text(3, 80_000).encode()
    with store:
        first = store.contexts.create().context
        store.contexts.append(first, base, "test")
        store.checkpointer.flush()
        store.intake.cold(roll=True)
        second = store.contexts.create().context
        store.contexts.append_many(second, [Append(one, "test") for one in (like, text(2, 40_000).encode())])
        store.checkpointer.flush()
        store.intake.cold(roll=True)
        [(pack, offset, _member)] = store.files.index.locate([hash_bytes(like)])[hash_bytes(like)]
        assert store.files.packs.read(pack, offset).compression == Compression.DELTA
        writer = store.files.packs.rewrite()
        for whole in (like, large):
            for record, _names in pack_records([Member(hash_bytes(whole), Form.PLAIN, len(whole), whole)], None):
                writer.append(record)
        writer.finish()
    with Store.open(store.root) as store:
        drop(store, first)
        done = collect(store, least=0.25)
        assert done.packs_removed + done.packs_rewritten > 0
        assert gone(store, hash_bytes(large))
        assert store.blobs.blob(hash_bytes(like)) == like
        assert fsck(store) == []


def test_where_something_is_damaged_nothing_goes(store: Store) -> None:
    with store:
        context = begin(store, range(10))
        begin(store, range(10, 20))
        drop(store, context)
    path = store.root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with Store.open(store.root, reindex=True) as store:
        with pytest.raises(DamageError):
            collect(store)
        assert store.files.packs.numbers()[0] == 1


@pytest.mark.of_one_machine("it changes the log")
def test_a_damaged_head_log_stops_it(store: Store) -> None:
    with store:
        context = begin(store, range(10))
        begin(store, range(10, 20))
        drop(store, context)
    path = store.root / "turns" / "heads.log"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with Store.open(store.root) as store:
        with pytest.raises(DamageError, match=r"heads\.log is damaged"):
            collect(store)
        assert not store.turns.get(1).reclaimed


def test_who_goes_on_from_a_turn_keeps_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store:
        context = begin(store, range(10))
        drop(store, context)
        steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)
        next(steps)
        # somebody remembers the turn
        fork = store.contexts.create(base_turn=5).context
        for _pause in steps:
            pass
        assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(fork, 5)] == [
            payload(seed) for seed in range(5)
        ]
        assert fsck(store) == []
        assert collect(store).turns == 5
        assert store.contents.payload(5) == payload(4)
        assert fsck(store) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_turns_that_come_meanwhile_lead_to_others(store: Store, dry_run: bool) -> None:
    with store:
        context = begin(store, range(10))
        steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=dry_run)
        next(steps)
        store.contexts.append_many(context, [Append(payload(seed), "test") for seed in range(10, 15)])
        assert finished(steps).turns == 0
        assert fsck(store) == []


@pytest.mark.parametrize("head", [12345, -1, 1 << 70])
def test_metadata_may_say_anything(store: Store, head: int) -> None:
    with store:
        store.contexts.set_metadata(begin(store, range(3)), {"imported_head": head})
        for dry_run in (True, False):
            assert collect(store, dry_run=dry_run).turns == 0


def test_blobs_that_are_about_to_be_named_stay(store: Store) -> None:
    with store:
        digests = [store.intake.put(text(seed).encode()) for seed in range(5)]
        store.intake.reliance._lasting.clear()
        load = store.intake.load()
        load.blob(text(0).encode())
        with store.intake.reliance.relying():
            load_within = store.intake.load()
            load_within.payloads([payload(7)])
            load_within.sync()
            del load_within
            steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)
            next(steps)
            late = store.intake.load()
            late.blob(text(1).encode())
            for _pause in steps:
                late.blob(text(2).encode())
                late.sync()
        late.sync()
        assert [gone(store, digest) for digest in digests] == [False, False, False, True, True]
        assert not gone(store, hash_bytes(payload(7)))
        del load, late
        collect(store)
        assert all(gone(store, digest) for digest in digests)
        assert fsck(store) == []


def test_it_gives_way_to_others_that_rewrite(store: Store) -> None:
    with store:
        begin(store, range(3))
        with store.rewriting.alone:
            steps = store.collector.steps(grace_seconds=0, dry_run=False, wait=False)
            with pytest.raises(StopIteration) as end:
                next(steps)
            assert end.value.value == Collected()


@pytest.mark.parametrize("sealed", [False, True])
def test_what_stays_is_copied_as_it_is(store: Store, monkeypatch: pytest.MonkeyPatch, sealed: bool) -> None:
    """Only what lies in one record with garbage is packed anew; and what was not sealed can be another time."""
    texts = [random.Random(number).randbytes(6000).hex().encode() for number in range(400)]
    packed: list[int] = []

    def anew(members: list[Member], dictionary: tuple[Hash, bytes] | None) -> list[tuple[bytes, list[Hash]]]:
        packed.append(len(members))
        return pack_records(members, dictionary)

    def sealed_anew(group: GroupSealer, member: Member) -> None:
        packed.append(1)
        add(group, member)

    add = GroupSealer.add_content
    monkeypatch.setattr(copying, "pack_records", anew)
    monkeypatch.setattr(GroupSealer, "add_content", sealed_anew)
    with store:
        for start in range(0, 400, 10):
            context = store.contexts.create().context
            store.contexts.append_many(context, [Append(text, "test") for text in texts[start : start + 10]])
        if sealed:
            for _pause in store.sealer.steps():
                pass
        drop(store, 20)
    packed.clear()
    # nothing that wrote any of it is there any more
    with Store.open(store.root) as store:
        collected = collect(store)
        assert (collected.blobs, collected.packs_rewritten) == (10, 1)
        # a sealed group is compressed less well than before, and this noise hardly at all
        assert collected.freed_bytes > 50_000 or sealed
        assert sum(packed) < 250
        kept = [turn for turn in range(1, 401) if not 191 <= turn <= 200]
        for sealing in (False, True):
            if sealing:
                for _pause in store.sealer.steps():
                    pass
            assert (store.sealer.unsealed_bytes() == 0) == (sealed or sealing)
            assert [store.contents.payload(turn) for turn in kept] == [texts[turn - 1] for turn in kept]
            assert fsck(store) == []


def test_a_sealed_group_is_looked_through_by_its_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blobs are not decompressed and hashed, unless the index lacks the name of one: then none is lost by that."""
    with store:
        dropped, kept = begin(store, range(20)), begin(store, range(10, 40))
        store.checkpointer.flush()
        store.intake.cold(roll=True)
        for _pause in store.sealer.steps():
            pass
        drop(store, dropped)
        hashed = []
        names = SealedGroup.names
        monkeypatch.setattr(SealedGroup, "names", lambda group: hashed.append(len(group)) or names(group))
        planned = collect(store, dry_run=True)
        assert (planned.turns, planned.blobs, hashed) == (20, 20, [])
        content = hash_bytes(text(39).encode())
        with store.files.index.db.writing() as sql:
            assert sql.execute("DELETE FROM blobs WHERE key = ?", (hash_key(content),)).rowcount == 1
        assert collect(store, dry_run=True).blobs == planned.blobs
        assert hashed
        assert collect(store).blobs == planned.blobs
        assert store.contexts.last(kept, 1)[0].payload_hash == hash_bytes(payload(39))
    with Store.open(store.root, reindex=True) as again:
        assert [again.contents.payload(turn) for turn in range(21, 51)] == [payload(seed) for seed in range(10, 40)]
        assert fsck(again) == []
