"""Opening a store after whatever happened to it."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from store.commit.checkpointer import Checkpointer
from store.content.compression import Member, pack_records
from store.conversations.contexts import Append
from store.disk import durable
from store.disk.blob_format import Form
from store.disk.file_header import HEADER_SIZE
from store.errors import DamageError, FormatTooNew, NotFound, StoreBusy
from store.ids import hash_bytes
from store.index.database import DERIVED_FROM_LOGS
from store.store import Store
from store.upkeep import recovery
from tests.model import findings, freeze, ids, instead

TABLES = (*DERIVED_FROM_LOGS, "blobs")
REPOSITORY = Path(__file__).parents[3]


def fill(store: Store) -> None:
    for number in range(3):
        context = store.contexts.create(metadata={"project": "p", "name": f"n{number}", "number": number}).context
        for step in range(5):
            store.contexts.append(
                context, b'{"number":%d,"text":"%s"}' % (number, b"word " * 99 * step), f"type.{step % 2}"
            )
        store.contexts.fork(context, store.contexts.last(context, 2)[0].turn_id)
        store.contexts.append_many(context, [Append(b"%d" % step * 900, "x.v1") for step in range(3)])
        store.intake.put(b"blob %d " % number * 300)


def tables(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Return what the index says, in an order that does not depend on how it came to be."""
    store.writer.settle()
    query = store.files.index.db.query
    return {table: sorted(query(f"SELECT * FROM {table}"), key=repr) for table in TABLES}


@pytest.fixture
def root(memory_path: Path) -> Path:
    with Store.open(memory_path / "store") as store:
        fill(store)
    return memory_path / "store"


@pytest.mark.of_one_machine  # a replica notes what it knows of its space
def test_a_store_that_is_only_looked_at_syncs_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(durable, "fdatasync", synced.append)
    with Store.open(root) as store:
        assert store.contexts.last(1, 2)
    assert synced == []
    with Store.open(root) as store:
        store.contexts.append(1, b"{}", "x.v1")
    assert synced


def mark(store: Store) -> None:
    """Put something into the index that a new one does not have."""
    store.files.index.db.set_state("marked", 1)


def marked(store: Store) -> bool:
    return store.files.index.db.state("marked") == 1


def another_boot(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    (directory / "boot").write_text("another boot\n")
    monkeypatch.setattr(recovery, "_BOOT_ID", directory / "boot")


# -- the index -----------------------------------------------------------------------------------------------------


def test_an_index_made_anew_has_the_same_rows(root: Path) -> None:
    with Store.open(root) as store:
        grown = tables(store)
        mark(store)
    with Store.open(root, reindex=True) as store:
        assert not marked(store)
        assert tables(store) == grown
        assert findings(store) == []


@pytest.mark.parametrize("what", ["deleted", "garbage", "empty", "another's", "older", "altered", "cut off"])
def test_an_index_that_is_not_this_stores_is_made_anew(root: Path, memory_path: Path, what: str) -> None:
    with Store.open(root) as store:
        grown = tables(store)
        mark(store)
    path = root / "index.db"
    if what == "deleted":
        path.unlink()
    elif what == "garbage":
        path.write_bytes(random.Random(1).randbytes(30_000))
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "another's":
        with Store.open(memory_path / "other") as other:
            other.contexts.create()
        shutil.copyfile(memory_path / "other" / "index.db", path)
    elif what == "older":
        change(path, "UPDATE state SET value = 1 WHERE key = 'schema'")
    elif what == "altered":
        change(path, "ALTER TABLE types ADD COLUMN more")
    else:
        path.write_bytes(path.read_bytes()[:8192])
    with Store.open(root) as store:
        assert not marked(store)
        assert tables(store) == grown
        assert findings(store) == []


def change(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


def test_an_index_is_kept_after_a_clean_close_and_another_boot(
    root: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(root) as store:
        mark(store)
    another_boot(monkeypatch, memory_path)
    with Store.open(root) as store:
        assert marked(store)


def test_an_index_is_kept_after_a_kill_and_brought_up_to_the_logs(root: Path, memory_path: Path) -> None:
    with Store.open(root) as store:
        mark(store)
        fresh = store.contexts.create(metadata={"project": "p", "name": "new"}).context
        turn = store.contexts.append(fresh, b"unsettled", "new.type")
        copy = freeze(store, memory_path / "copy")
    with Store.open(copy) as store:
        assert marked(store)
        assert store.recovered == ["recovered 2 commits from the journal"]
        assert store.library.conversation(fresh).name == "new"
        assert store.contents.payload(turn.turn_id) == b"unsettled"
        assert findings(store) == []


def test_the_index_of_a_copy_is_not_trusted(root: Path, memory_path: Path) -> None:
    with Store.open(root) as store:
        mark(store)
        store.contexts.create()
        # nothing says that all of its files are of one moment
        copied = Path(shutil.copytree(root, memory_path / "copied"))
        brought_back = freeze(store, memory_path / "copy")
    with Store.open(copied) as store:
        assert not marked(store)
        assert "is a copy" in store.recovered[0]
        assert findings(store) == []
    shutil.copytree(brought_back, memory_path / "backup")
    shutil.rmtree(brought_back)
    (memory_path / "backup").rename(brought_back)
    with Store.open(brought_back) as store:
        assert not marked(store)
        assert findings(store) == []


def test_an_index_that_was_in_use_is_not_trusted_after_another_boot(
    root: Path, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(root) as store:
        mark(store)
        store.contexts.create()
        copy = freeze(store, memory_path / "copy")
    another_boot(monkeypatch, memory_path)
    with Store.open(copy) as store:
        assert not marked(store)
        assert findings(store) == []


def test_an_index_ahead_of_the_logs_is_not_trusted(root: Path) -> None:
    with Store.open(root) as store:
        mark(store)
    change(root / "index.db", "UPDATE state SET value = value + 1 WHERE key = 'seq'")
    with Store.open(root) as store:
        assert not marked(store)
        assert findings(store) == []


def test_an_older_copy_of_the_index_is_brought_up_to_the_logs(root: Path) -> None:
    older = (root / "index.db").read_bytes()
    with Store.open(root) as store:
        fill(store)
        grown = tables(store)
    (root / "index.db").write_bytes(older)
    with Store.open(root) as store:
        assert tables(store) == grown
        assert findings(store) == []


def test_a_damaged_row_is_an_error_and_gone_after_the_next_opening(root: Path) -> None:
    change(root / "index.db", "UPDATE contexts SET head = head - 1 WHERE id = 1")
    with Store.open(root) as store:
        with pytest.raises(DamageError, match="run convfs reindex"):
            store.writer.head(1)
        assert store.writer.head(3).depth == 7
    with Store.open(root) as store:
        assert store.writer.head(1).depth == 7
        assert findings(store) == []


@pytest.mark.of_one_machine("a replica says in its space that it is there")
def test_opening_and_closing_writes_nothing(root: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        paths = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}

    before = state()
    with Store.open(root) as store:
        assert store.writer.head(1).depth == 7
        assert store.library.find("p", "n0") is not None
    assert state() == before


@pytest.mark.of_one_machine("a replica has its keys and its place besides")
def test_a_small_closed_store_is_small(root: Path) -> None:
    assert sum(path.stat().st_blocks * 512 for path in root.rglob("*")) < 200_000


# -- processes -----------------------------------------------------------------------------------------------------


def test_a_second_process_is_told_that_the_store_is_in_use(root: Path) -> None:
    script = f"from pathlib import Path; from store.store import Store; Store.open(Path({str(root)!r}))"
    with Store.open(root):
        with pytest.raises(StoreBusy):
            Store.open(root)
        run = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True)
        assert "StoreBusy" in run.stderr.splitlines()[-1]
    Store.open(root).close()


WRITER = """
import sys, threading
from pathlib import Path
from store.store import Store
from store.upkeep import recovery
recovery.JOURNAL_BYTES = 256 << 10
store = Store.open(Path(sys.argv[1]))
lock = threading.Lock()
def work(number):
    context = store.contexts.create(metadata={"project": "p", "name": sys.argv[2] + str(number)}).context
    for step in range(100_000):
        payload = b"%d %d " % (number, step) * (step * 7 % 400 + 1)
        turn = store.contexts.append(context, payload, "x.v%d" % (step % 5))
        with lock:
            sys.stdout.write(f"{context} {turn.turn_id} {number} {step}\\n")
            sys.stdout.flush()
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
threading.Event().wait()
"""


def test_kill_dash_nine(memory_path: Path) -> None:
    """Again and again, of one store; whatever was acknowledged is there."""
    acknowledged: dict[int, bytes] = {}
    branches: dict[int, list[int]] = {}
    source = random.Random(3)
    for attempt in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(memory_path / "store"), f"life{attempt}-"],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(source.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        for line in [first, *process.stdout.read().splitlines(keepends=True)]:
            if line.endswith("\n"):
                context, turn, number, step = map(int, line.split())
                acknowledged[turn] = b"%d %d " % (number, step) * (step * 7 % 400 + 1)
                branches.setdefault(context, []).append(turn)
        process.stdout.close()
        process.wait()
        with Store.open(memory_path / "store") as store:
            for context, turns in branches.items():
                assert ids(store.contexts.last(context, 1 << 30))[: len(turns)] == turns
            assert dict(store.contents.payloads(list(acknowledged))) == acknowledged
            assert findings(store) == []
    assert len(acknowledged) > 100


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["turns/turns.log", "turns/heads.log", "blobs/00000001.pack", "journal/1", "journal/2", "journal/checkpoint"],
)
@pytest.mark.parametrize("field", ["version", "flags"])
def test_a_newer_format_is_refused_in_one_line(root: Path, name: str, field: str) -> None:
    data = bytearray((root / name).read_bytes())
    data[8 if field == "version" else 10] += 1
    data[28:32] = zlib.crc32(data[:28]).to_bytes(4, "little")
    (root / name).write_bytes(data)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(FormatTooNew, match=r"^[^\n]*this convfs reads version 1[^\n]*$"):
        Store.open(root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_newer_record_at_the_end_of_a_pack_is_not_cut(root: Path) -> None:
    path = root / "blobs" / "00000001.pack"
    record = bytearray(pack_records([Member(hash_bytes(b"x"), Form.PLAIN, 1, b"x")])[0][0])
    record[4] = 9
    record[-4:] = zlib.crc32(record[:-4]).to_bytes(4, "little")
    with path.open("ab") as file:
        file.write(record)
    before = path.read_bytes()
    with pytest.raises(FormatTooNew, match="update convfs"):
        Store.open(root)
    assert path.read_bytes() == before


def test_what_a_killed_load_had_written_is_filed(root: Path) -> None:
    """Killed before anything in the index changed, which therefore looks like one that was closed."""
    script = (
        "import os, signal, sys; from pathlib import Path; from store.store import Store;"
        " load = Store.open(Path(sys.argv[1])).intake.load(); load.blob(b'huge ' * 1000); load._flush();"
        " os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run([sys.executable, "-c", script, root], cwd=REPOSITORY, check=False)
    assert run.returncode == -signal.SIGKILL
    with Store.open(root) as store:
        assert store.blobs.blob(hash_bytes(b"huge " * 1000)) == b"huge " * 1000
        assert findings(store) == []


@pytest.mark.of_one_machine("a replica is made before it is opened")
def test_no_store_and_none_wanted(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store at"):
        Store.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


def test_a_failed_opening_leaves_nothing_open(root: Path) -> None:
    header = b"CVFSPACK" + bytes([2]) + bytes(19)
    (root / "blobs" / "00000001.pack").write_bytes(header + zlib.crc32(header).to_bytes(4, "little"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(FormatTooNew):
            Store.open(root)
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_stores_log_is_refused(root: Path, memory_path: Path) -> None:
    with Store.open(memory_path / "other") as other:
        fill(other)
    shutil.copyfile(memory_path / "other" / "turns" / "heads.log", root / "turns" / "heads.log")
    with pytest.raises(DamageError, match="belongs to the store"):
        Store.open(root)


def test_a_torn_record_is_cut_and_sound_ones_behind_it_are_kept(root: Path, memory_path: Path) -> None:
    """As after a power failure: what was not synced is there in part, in any order."""
    path = root / "blobs" / "00000001.pack"
    torn, sound = (
        pack_records([Member(hash_bytes(data), Form.PLAIN, len(data), data)])[0][0]
        for data in (os.urandom(9000), b"sound" * 50)
    )
    whole = path.read_bytes()
    path.write_bytes(whole + torn[:300] + bytes(len(torn) - 300) + sound + torn[:100])
    with Store.open(root) as store:
        assert store.recovered == [f"cut {len(torn) + 100} bytes of an unfinished write from the packs"]
        assert store.blobs.blob(hash_bytes(b"sound" * 50)) == b"sound" * 50
        assert findings(store) == []
    assert path.read_bytes() == whole + sound


@pytest.mark.of_one_machine("a replica fetches what its journal lacks")
def test_a_commit_whose_journal_entry_is_damaged_is_not_forgotten(root: Path, memory_path: Path) -> None:
    """The last entry of a journal looks unfinished then; but the logs already have what it said."""
    with Store.open(root) as store:
        store.contexts.append(1, b"in the entry before", "x.v1")
        used = store.files.journal.used
        store.contexts.append(1, b"in the damaged entry", "x.v1")
        store.contexts.set_metadata(1, {"title": "in a sound one"})
        damaged = freeze(store, memory_path / "damaged")
        expected = store.contexts.last(1, 3)
    path = damaged / "journal" / "1"
    data = bytearray(path.read_bytes())
    # both of the last entries: nothing sound is behind the damage
    for offset in range(4096 + used, len(data)):
        data[offset] ^= 0xFF if data[offset] else 0
    path.write_bytes(data)
    with Store.open(damaged) as store:
        assert store.contexts.last(1, 3) == expected
        assert store.library.conversation(1).metadata["title"] == "in a sound one"
        assert store.contents.payload(expected[1].turn_id) == b"in the entry before"
        with pytest.raises(DamageError, match="no blob"):
            store.contents.payload(expected[2].turn_id)
        assert [note for note in store.recovered if "has lost 2 commits" in note]
        assert [finding.check for finding in findings(store)] == ["payloads"]


def test_without_checkpoint_and_journals_the_logs_tell(root: Path, memory_path: Path) -> None:
    with Store.open(root) as store:
        store.contexts.append(1, b"journalled", "x.v1")
        copy = freeze(store, memory_path / "copy")
        last = store.contexts.last(1, 2)
    shutil.rmtree(copy / "journal")
    with Store.open(copy) as store:
        assert store.contexts.last(1, 2) == last
        assert [finding.check for finding in findings(store)] == ["payloads"]


def test_what_the_journal_holds_is_cut_and_grouped_at_the_next_opening(root: Path, memory_path: Path) -> None:
    text = b'{"text":"%s"}' % (b"the same long text " * 200)
    with Store.open(root) as store:
        for number in range(20):
            store.contexts.append(1, text[:-1] + b',"number":%d}' % number, "x.v1")
        copy = freeze(store, memory_path / "copy")
    before = (root / "blobs" / "00000001.pack").stat().st_size
    with Store.open(copy) as store:
        assert store.files.packs.end[1] - before < len(text)
        assert findings(store) == []
        assert store.files.packs.end[1] > HEADER_SIZE


def test_what_several_journals_hold_is_packed_while_commits_go_on(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 64 << 10)
    packing = threading.Event()
    monkeypatch.setattr(Checkpointer, "_hold_back", lambda _self: packing.wait(60))
    payloads = [b'{"n":%d,"text":"%s"}' % (number, os.urandom(3000).hex().encode()) for number in range(40)]
    root, copies = memory_path / "store", [memory_path / "first", memory_path / "second"]
    with Store.open(root) as store:
        context = store.contexts.create().context
        for payload in payloads:
            store.contexts.append(context, payload, "x.v1")
        assert len(list((root / "journal").glob("[0-9]"))) > 3
        assert [data for _turn, data in store.contents.payloads(ids(store.contexts.last(context, 99)))] == payloads
        copy_unpacked(store, copies[0])
        packing.set()
    assert sorted(path.name for path in (root / "journal").iterdir()) == ["1", "2", "checkpoint"]
    packing.clear()
    with Store.open(copies[0]) as store:
        assert store.files.packs.end == (1, HEADER_SIZE)
        store.contexts.append(context, b"at once", "x.v1")
        copy_unpacked(store, copies[1])
        packing.set()
    for copy in copies:
        with Store.open(copy) as store:
            assert [data for _turn, data in store.contents.payloads(ids(store.contexts.last(context, 99)))] == [
                *payloads,
                b"at once",
            ]
            assert findings(store) == []
            assert store.files.journal.backlog == 0


def copy_unpacked(store: Store, target: Path) -> None:
    """Copy a store whose packing is held back as a kill would leave it."""
    writer = store.writer
    with writer.commit_lock, writer._applying._lock, writer.index.db._lock:
        shutil.copytree(store.root, target)
    instead(target)
