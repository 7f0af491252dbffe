"""Each check finds what it is there to find, and says where."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.content.compression import Member, pack_delta, pack_records
from store.content.delta import difference
from store.conversations.contexts import Append
from store.disk import head_format, turn_format
from store.disk.blob_format import OVERHEAD, Compression, Form, Record, codec, encode_record
from store.disk.head_format import Body, Commit, ContextCreated, HeadMoved
from store.disk.pack import PackSet
from store.disk.turn_format import Turn
from store.ids import Hash, hash_bytes, type_tag
from store.store import Store
from store.upkeep.fsck import CHECKS, Violation, fsck, reindex

NOWHERE = hash_bytes(b"nowhere")


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append_many(
            context, [Append(b'{"type":"user","text":"%d"}' % number, "x.v1") for number in range(4)]
        )
        store.intake.put(b"a blob")
        store.library.conversations()
        store.checkpointer.flush()
        assert fsck(store) == []
        yield store


def turn(store: Store, **changes: object) -> None:
    """Write a turn as the log would never have it, with a COMMIT that counts it."""
    number = store.files.turns.count + 1
    fields = {
        "turn_id": number,
        "parent": number - 1,
        "depth": number - 1,
        "codec": 7,
        "type_tag": type_tag("x.v1"),
        "payload_hash": store.turns.get(1).payload_hash,
        "flags": 0,
        "created_ms": 1,
    }
    store.files.turns.append(turn_format.encode(Turn(**(fields | changes))))  # type: ignore[arg-type]
    frames(store, (0, Commit(number, 1, 32, store.files.heads.length)))


def frames(store: Store, *bodies: tuple[int, Body], seq: int = 0) -> None:
    """Write frames behind everything, and let the index know of them."""
    writer = store.writer
    written = []
    for context, body in bodies:
        writer.seq = seq or writer.seq + 1
        store.files.heads.append(head_format.encode(writer.seq, context, body))
        written.append(head_format.HeadFrame(0, writer.seq, context, body))
    store.files.index.apply(written)


def blob(store: Store, record: bytes, *names: Hash) -> None:
    store.intake.write([(record, list(names))], store.intake.reliance.region())
    store.intake.sync()


def found(store: Store) -> list[tuple[str, str]]:
    """Return check and message of everything that is found; nothing is changed by looking."""
    before = {
        path: path.read_bytes() for path in store.root.rglob("*.*") if path.is_file() and "index" not in path.name
    }
    findings = fsck(store)
    assert fsck(store) == findings
    assert before == {path: path.read_bytes() for path in before}
    return [(finding.check, finding.message) for finding in findings]


def test_a_parent_that_comes_later(store: Store) -> None:
    turn(store, parent=9)
    assert found(store) == [("turns", "turn 5 has the later turn 9 as its parent")]


def test_a_depth_that_is_not_the_parents_and_one(store: Store) -> None:
    turn(store, parent=2, depth=3)
    turn(store, parent=0, depth=1)
    assert found(store) == [
        ("turns", "turn 5 has depth 3 below one of depth 1"),
        ("turns", "turn 6 is a root at depth 1"),
    ]


def test_a_payload_that_is_nowhere(store: Store) -> None:
    turn(store, payload_hash=NOWHERE)
    assert found(store) == [("payloads", f"turn 5: no blob {NOWHERE.hex()} in this store")]


def test_a_blob_that_does_not_have_its_hash(store: Store) -> None:
    """Its checksum is right: it was written so."""
    wrong = hash_bytes(b"other")
    blob(store, encode_record(codec(Compression.RAW, Form.PLAIN), 5, wrong, b"\0\1\2\3\4"), wrong)
    [(check, message)] = found(store)
    assert check == "packs"
    assert "do not have its hash" in message


def test_a_delta_whose_base_is_not_there(store: Store) -> None:
    data = b"something " * 99
    name = hash_bytes(data)
    blob(store, pack_delta(Member(name, Form.PLAIN, len(data), data), NOWHERE, difference(b"", data)), name)
    [(check, message)] = found(store)
    assert check == "packs"
    assert name.hex() in message
    assert NOWHERE.hex() in message


def test_a_skeleton_whose_content_is_nowhere(store: Store) -> None:
    text = b'{"text":"%s"}' % (b"long " * 500)
    load = store.intake.load()
    load.payloads([text])
    [_content, skeleton] = load._group
    load._group.clear()
    record, names = pack_records([skeleton])[0]
    blob(store, record, *names)
    [(check, message)] = found(store)
    assert check == "packs"
    assert hash_bytes(text).hex() in message or "no blob" in message


def test_a_record_that_is_damaged(store: Store) -> None:
    path = store.root / "blobs" / "00000001.pack"
    [(pack, offset, _)] = store.files.index.locate([store.turns.get(1).payload_hash])[store.turns.get(1).payload_hash]
    data = bytearray(path.read_bytes())
    data[offset + 60] ^= 1
    path.write_bytes(data)
    store.close()
    with Store.open(store.root) as again:
        [first, *rest] = found(again)
        assert first[0] == "packs"
        assert first[1].startswith(f"0000000{pack}.pack, offset {offset}: ")
        assert [check for check, _ in rest] == ["payloads"] * 4


def test_frames_that_do_not_rise(store: Store) -> None:
    frames(store, (0, Commit(4, 1, 32, 0)), seq=2)
    [(check, message), *_rest] = found(store)
    assert check == "head log"
    assert "seq 2 comes after" in message


def test_a_commit_that_counts_wrongly(store: Store) -> None:
    frames(store, (0, Commit(7, 1, 32, 0)))
    assert found(store) == [("head log", "the last COMMIT counts 7 turns, but turns.log has 4")]
    frames(store, (0, Commit(4, 1, 32, 0)))
    assert found(store) == [("head log", f"COMMIT {store.writer.seq} counts 4 turns after 7")]


def test_damaged_headers(store: Store) -> None:
    for name in ("turns.log", "heads.log"):
        path = store.root / "turns" / name
        data = bytearray(path.read_bytes())
        data[15] ^= 1
        path.write_bytes(data)
    store.close()
    with Store.open(store.root) as again:
        assert [check for check, _ in found(again)] == ["turns", "head log"]


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ([(1, HeadMoved(9, 1, 5, "append"))], "the head of context 1: there is no turn 9"),
        ([(1, HeadMoved(3, 1, 5, "append"))], "head 3 of context 1 has depth 2"),
        ([(8, HeadMoved(3, 2, 5, "append"))], "the head of context 8 moved, but it was never created"),
        ([(1, ContextCreated(0, 5, 0))], "context 1 was created twice"),
    ],
)
def test_heads_that_are_wrong(store: Store, bodies: list[tuple[int, Body]], message: str) -> None:
    frames(store, *bodies, (0, Commit(4, 1, 32, 0)))
    [(check, said)] = found(store)
    assert check == "heads"
    assert said.startswith(message)


def test_references_that_lead_nowhere(store: Store) -> None:
    store.contexts.set_metadata(
        1, {"sidecars": {"a.txt": NOWHERE.hex(), "b.txt": "no hash", "c.txt": hash_bytes(b"a blob").hex()}}
    )
    store.writer.submit(
        Request(
            0,
            aliases=(("sha256", b"d" * 32, NOWHERE), ("sha256", b"e" * 32, hash_bytes(b"a blob"))),
            dictionaries=((0, NOWHERE),),
        )
    )
    findings = fsck(store)
    assert [(finding.check, finding.severity) for finding in findings] == [
        ("references", "error"),
        ("references", "error"),
        ("references", "warning"),
        ("references", "error"),
    ]
    assert "p/n, a.txt" in findings[0].message
    assert "p/n, b.txt" in findings[1].message
    assert (b"d" * 32).hex() in findings[2].message
    assert "dictionary" in findings[3].message


def edit(sql: str) -> Callable[[Store], None]:
    def change(store: Store) -> None:
        with store.files.index.db.writing() as connection:
            connection.execute(sql)

    return change


@pytest.mark.parametrize(
    ("change", "check", "said"),
    [
        (edit("DELETE FROM blobs WHERE member = 0"), "index", "blobs: only what the logs say has"),
        (edit("INSERT INTO blobs VALUES (1, 2, 3, 4)"), "index", "blobs: only the index has"),
        (edit("UPDATE types SET name = 'y'"), "index", "types: only"),
        (edit("INSERT INTO dictionaries VALUES (0, x'00')"), "index", "dictionaries: only the index"),
        (edit("UPDATE views SET file_size = file_size + 1 WHERE turn = 2"), "views", "views: the row (2,"),
        (edit("UPDATE measures SET events = 9"), "views", "measures: the row (1,"),
    ],
)
def test_an_index_that_says_something_else(
    store: Store, change: Callable[[Store], None], check: str, said: str
) -> None:
    change(store)
    findings = [finding for finding in fsck(store) if finding.check == check]
    assert findings
    assert all(finding.message.startswith(said) or "only" in finding.message for finding in findings)
    assert all("run convfs reindex" in finding.message for finding in findings)
    store.close()
    assert reindex(store.root, FileRenderer()) == []
    with Store.open(store.root, renderer=FileRenderer()) as again:
        assert fsck(again) == []


def test_a_check_that_cannot_go_on_is_a_finding(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    edit("UPDATE contexts SET title = 'x'")(store)
    by_check: dict[str, list[Violation]] = {}
    for finding in fsck(store):
        by_check.setdefault(finding.check, []).append(finding)
    assert set(by_check) == {"edits", "references", "index", "views"}


def test_progress_names_each_check(store: Store) -> None:
    named: list[str] = []
    assert fsck(store, named.append) == []
    assert named == [
        "turns",
        "jumps",
        "head log",
        "heads",
        "edits",
        "patches",
        "notes",
        "deleted",
        "packs",
        "payloads",
        "references",
        "index",
        "views",
    ]
    assert len(CHECKS) == len(named)


def test_it_looks_at_what_is_still_in_the_journal(store: Store) -> None:
    store.contexts.append(1, b"just now", "x.v1")
    assert fsck(store) == []
    assert store.files.journal.used == 0


def test_reindex_measures_everything_and_says_how_far_it_is(store: Store) -> None:
    other = store.contexts.create(metadata={"project": "p", "name": "other"}).context
    store.contexts.append(other, b"{}", "x.v1")
    before = store.library.conversations()
    store.close()
    told: list[tuple[int, int]] = []
    assert reindex(store.root, FileRenderer(), lambda done, of: told.append((done, of))) == []
    assert told == [(1, 2), (2, 2)]
    with Store.open(store.root, renderer=FileRenderer()) as again:
        assert len(again.files.index.db.query("SELECT * FROM measures")) == 2
        assert again.library.conversations() == before


@pytest.mark.of_one_machine("it changes the log")
def test_reindex_tells_of_damage(store: Store) -> None:
    store.close()
    path = store.root / "turns" / "heads.log"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    notes = reindex(store.root, FileRenderer())
    assert len(notes) == 2
    assert notes[0].startswith("heads.log, offset 32: ")
    assert notes[1].startswith("the log had lost, and has again: ")


def test_a_damaged_group_of_very_many_is_read_a_few_times_and_loses_what_is_damaged_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = Random(1)
    texts = [noise.randbytes(400).hex().encode() for _ in range(600)]
    store.contexts.append_many(1, [Append(b'{"type":"user","text":"%s"}' % text, "x.v1") for text in texts])
    for _pause in store.sealer.steps():
        pass
    store.library.conversations()
    packs = store.files.packs
    pack, offset, record = max(
        (one for one in packs.scan() if isinstance(one[2], Record)), key=lambda one: len(one[2].stored)
    )
    with packs.path(pack).open("r+b") as file:
        file.seek(offset + OVERHEAD + len(record.stored) * 7 // 8)
        file.write(b"damaged!")
    store.blobs.forget()
    reads: list[tuple[int, int]] = []
    read = PackSet.read
    monkeypatch.setattr(
        PackSet, "read", lambda self, *place, **how: (reads.append(place), read(self, *place, **how))[1]
    )
    monkeypatch.setattr(store.blobs._shelf.source, "read", packs.read)
    lost = [finding for finding in fsck(store) if finding.check == "payloads"]
    assert 0 < len(lost) < 400
    assert reads.count((pack, offset)) <= 4
