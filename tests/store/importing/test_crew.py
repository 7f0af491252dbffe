"""Imports with the help of other processes: the same store as without, whatever becomes of these."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.content.sealed import names_of
from store.disk.blob_format import Record
from store.disk.file_header import Damage
from store.events.event import Event
from store.filing import Filing
from store.formats import jp as jp_format
from store.formats.core.format import Source
from store.formats.registry import learn
from store.importing import crew, importer, prepared
from store.importing.crew import Crew
from store.importing.importer import Importer, ImportReport
from store.importing.prepared import Preparer
from store.importing.walk import walk
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.formats.test_declared import CHAT, PAGE, forgotten  # noqa: F401  (a fixture)
from tests.store.importing.helped import helped_by, write_sessions
from tests.store.importing.sessions import (
    NO_SAMPLES,
    SAMPLES,
    by_source,
    event,
    jp,
    jp_source,
    lines,
    long_lines,
    native,
    session,
)
from tests.store.importing.test_workspace import attached, put


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every import, and all filing, helped by two processes."""
    helped_by(monkeypatch, 2)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of sessions: many small ones, a long one, one with huge strings, a fork, and one of nonsense."""
    folder = tmp_path_factory.mktemp("sessions")
    write_sessions(folder)
    session(folder, b"no JSON\n" + lines("One"), "strange")
    return folder


def opened(root: Path) -> Store:
    return Store.open(root, renderer=FileRenderer())


def told(report: ImportReport) -> list[object]:
    return [report.imported, report.records, report.bytes_read, report.errors, report.warnings, report.conversations]


_LEFT_OUT = frozenset(("time_ms", "created_ms", "updated_ms", "pack_length"))


def comparable(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        named = msgspec.structs.asdict(value)
        return type(value).__name__, [comparable(part) for name, part in named.items() if name not in _LEFT_OUT]
    return value


def content(store: Store) -> list[object]:
    """Return everything that an import has written, but for when, and with what else a blob was packed."""
    turns = [comparable(turn) for turn in store.files.turns.range(1, store.files.turns.count)]
    frames = [frame for frame in store.files.heads.frames() if not isinstance(frame, Damage)]
    blobs = sorted(name for _pack, _at, record in store.files.packs.scan() for name in names_of(whole(record)))
    names = ("views", "resources", "measures")
    tables = [store.files.index.db.query(f"SELECT * FROM {name} ORDER BY 1, 2") for name in names]
    return [turns, [(frame.context, comparable(frame.body)) for frame in frames], blobs, tables]


def whole(record: Record | Damage) -> Record:
    assert isinstance(record, Record)
    return record


def imported(store: Store, *paths: Path, by_hand: bool = True) -> ImportReport:
    """Import, and file what follows from it."""
    report = Importer(store).run(paths, by_hand=by_hand)
    Filing(store).run()
    return report


def test_the_store_is_the_same_with_and_without_help(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "helped") as store:
        first, with_help = told(imported(store, sessions)), content(store)
        assert fsck(store) == []
    helped_by(monkeypatch, 0)
    with opened(tmp_path / "alone") as store:
        second, without = told(imported(store, sessions)), content(store)
    assert first == second
    for one, other in zip(with_help, without, strict=True):
        assert one == other


def test_it_is_the_same_where_nothing_draws(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "helped") as store:
        first, with_help = told(Importer(store).run([sessions])), content(store)
        updated = {path: by_source(store, path).updated_ms for path in sessions.rglob("*.jsonl")}
    helped_by(monkeypatch, 0)
    with Store.open(tmp_path / "alone") as store:
        assert told(Importer(store).run([sessions])) == first
        assert content(store) == with_help
        assert {path: by_source(store, path).updated_ms for path in updated} == updated


def test_content_beside_sessions_is_read_by_who_prepares_them(
    tmp_path: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [b"Some content\n" * 200, b"Other content\n" * 300, b"Much\n" * 100_000]
    gone, damaged = b"It has no file\n", b"Its file is none\n"
    for held in here:
        put(tmp_path / ".jp", held)
    put(tmp_path / ".jp", damaged, stored=b"no gzip")
    named = [*here, gone, *here, damaged, *here]
    for number, text in enumerate(("here", "there")):
        jp(tmp_path, [event(text=text), *map(attached, named)], name=f"1772752354{number}-{text}")
    read: set[bytes] = set()
    reading = jp_format.read_blob

    def noted(root: Path, digest: bytes) -> bytes:
        read.add(digest)
        return reading(root, digest)

    monkeypatch.setattr(jp_format, "read_blob", noted)
    found = []
    for count in (2, 0):
        helped_by(monkeypatch, count)
        with opened(tmp_path / f"by-{count}") as store:
            report = imported(store, tmp_path / ".jp")
            # this process has read what nobody could
            expected = [gone, damaged] if count else named
            assert read == {hashlib.sha256(held).digest() for held in expected}
            assert (len(report.errors), len(report.warnings)) == (2, 2)
            found.append([told(report), *content(store)])
            events = [store.records.event(row) for row in store.records.rows(store.catalogue.page()[0].head)]
            texts = [block.text for seen in events if isinstance(seen, Event) for block in seen.blocks if block.uri]
            assert [text for text in texts if "not in the store" not in (text or "")] == [*map(bytes.decode, here)] * 3
            assert fsck(store) == []
    for one, other in zip(*found, strict=True):
        assert one == other


def test_what_is_much_beside_a_session_is_left_to_who_has_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_OUTSIDE_BYTES", 100)
    small, large = b"small" * 10, b"large" * 30
    put(tmp_path / ".jp", small)
    put(tmp_path / ".jp", large)
    folder = jp(tmp_path, [*(event(second=second) for second in range(3)), *map(attached, (small, large, small))])
    [chunk] = Preparer(1024, tmp_path).chunks(jp_source(folder))
    # what follows one that could not be seen is not seen here, either
    assert [record.payload is not None for record in chunk.records[-3:]] == [False, True, True]
    assert [digest for _algorithm, digest, _hash in chunk.aliases] == [hashlib.sha256(small).digest()]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
def test_files_of_every_tool_come_in_the_same(
    tmp_path: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "helped") as store:
        first, with_help = told(imported(store, SAMPLES, by_hand=False)), content(store)
    helped_by(monkeypatch, 0)
    with opened(tmp_path / "alone") as store:
        second, without = told(imported(store, SAMPLES, by_hand=False)), content(store)
    assert first == second
    for one, other in zip(with_help, without, strict=True):
        assert one == other


def searched(store: Store) -> list[list[object]]:
    """Return what queries find."""
    found: list[list[object]] = []
    for query in ("words", "pytest", "/word[s] of/", "kind:result 1", "a b"):
        hits = list(store.search.run(query))
        found.append(sorted((hit.conversation.source, hit.row.number, hit.lines) for hit in hits if hit.row))
    return found


_KILLED = """
import os, signal, sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store import filing
from store.importing import group, importer
from store.index.database import Database
from store.store import Store

importer.MUCH_BYTES, importer.processes = 1, lambda: 2
filing.WORTH_RECORDS, filing.processes = 1, lambda: 2
group._BYTES, group._BATCH_RECORDS = 100_000, 700
writing, left = Database.writing, int(sys.argv[3])

def counted(self, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return writing(self, **options)

Database.writing = counted
with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store:
    importer.Importer(store).run([Path(sys.argv[2])])
    filing.Filing(store).run()
print(left)
"""


def test_an_import_that_is_killed_at_any_change_of_a_database_is_completed_by_the_next(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(at: int) -> str:
        words = [sys.executable, "-c", _KILLED, tmp_path / f"store-{at}", sessions, str(at)]
        return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=at == 0).stdout

    changes = -int(killed(0))
    with opened(tmp_path / "store-0") as store:
        exported = {path: native(store, path) for path in sorted(sessions.rglob("*.jsonl"))}
        found = searched(store)
    step = 1 if os.environ.get("CONVFS_LARGE_TESTS") else changes // 4
    # how many there are depends a little on which process was faster
    for at in range(step, changes - changes // 8, step):
        assert killed(at) == ""
        with opened(tmp_path / f"store-{at}") as store:
            searched(store)
            imported(store, sessions)
            assert {path: native(store, path) for path in exported} == exported
            assert searched(store) == found
            while store.search.step():
                pass
            assert searched(store) == found
            assert fsck(store) == []


def test_a_process_that_dies_is_missed_by_nobody(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Crew] = []

    class Dying(Crew):
        def of(self, source: Source) -> crew.Records | None:
            if not started:
                started.append(self)
                for member in self._members:
                    member._helper._process.kill()
                    member._helper._process.wait()
            return super().of(source)

    monkeypatch.setattr(importer, "Crew", Dying)
    with opened(tmp_path / "helped") as store:
        report = Importer(store).run([sessions])
        assert started
        [warning] = report.warnings
        assert "2 of the processes" in warning
        assert report.errors == []
        Filing(store).run()
        with_help = content(store)
    helped_by(monkeypatch, 0)
    with opened(tmp_path / "alone") as store:
        imported(store, sessions)
        assert content(store) == with_help


def test_a_small_import_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_arguments: object) -> Crew:
        raise AssertionError

    monkeypatch.setattr(importer, "Crew", unwanted)
    monkeypatch.setattr(importer, "processes", lambda: 2)
    session(tmp_path, long_lines(300))
    with opened(tmp_path / "store") as store:
        assert Importer(store).run([tmp_path / "projects"]).imported == 1


def test_a_file_that_changes_meanwhile_comes_in_as_it_was_and_then_as_it_is(
    tmp_path: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [session(tmp_path, lines(f"One {name}", "Two", "Three"), name) for name in "abcd"]
    before = {path: path.read_bytes() for path in paths}

    class Late(Crew):
        def of(self, source: Source) -> crew.Records | None:
            records = super().of(source)
            assert records is not None
            # what was prepared has been read by now
            read = iter([records.take(), records.take()])
            monkeypatch.setattr(records, "take", lambda: next(read))
            lines_before = before[source.path]
            if source.path.stem == "d":
                source.path.unlink()
            elif source.path.stem == "c":
                source.path.write_bytes(lines_before.replace(b'"Two"', b'"Two, and more"'))
            else:
                source.path.write_bytes(lines_before + lines("Four"))
            return records

    with opened(tmp_path / "store") as store:
        with monkeypatch.context() as patch:
            patch.setattr(importer, "Crew", Late)
            assert Importer(store).run([tmp_path / "projects"]).imported == 4
        assert fsck(store) == []
        for path in paths:
            assert native(store, path) == before[path]
        again = Importer(store).run([tmp_path / "projects"])
        assert (again.grown, again.imported) == (3, 0)
        for path in paths[:3]:
            assert native(store, path) == path.read_bytes()
            [(_row, text)] = store.texts.files_of(store.records.rows(by_source(store, path).head)[1:2])
            assert isinstance(text, bytes)
            assert (b"Two, and more" in text) == (path.stem == "c")


def test_processes_end_with_the_one_that_they_help(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from store.importing.crew import Crew\n"
        "crew = Crew(2, 1024, Path(sys.argv[1]), Path(sys.argv[1]))\n"
        "print(*[member._helper._process.pid for member in crew._members], flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with closing(process.stdout):
        helpers = list(map(int, process.stdout.readline().split()))
        assert len(helpers) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        until = time.monotonic() + 30
        while any(Path(f"/proc/{helper}/cmdline").exists() and running(helper) for helper in helpers):
            assert time.monotonic() < until
            time.sleep(0.05)


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def count(records: crew.Records) -> int:
    """Take all records; return how many there are."""
    return sum(map(len, iter(lambda: records.take().records, [])))


def test_what_is_prepared_of_other_sessions_waits_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_HELD_BYTES", 1 << 20)
    for number in range(6):
        session(tmp_path, long_lines(600, start=1000 * number), f"s{number}")
    sources = [found for found in walk(tmp_path / "projects") if isinstance(found, Source)]
    helpers = Crew(1, 1024, tmp_path, tmp_path)
    try:
        for source in sources:
            helpers.give(source, source.main.stat().st_size)
        [member] = helpers._members
        # the third first: what was made of those before it must not hold it up
        records = helpers.of(sources[2])
        assert records is not None
        assert count(records) == 600
        assert member._held_bytes < 8 << 20
        assert helpers.of(sources[1]) is None
        last = helpers.of(sources[5])
        assert last is not None
        assert count(last) == 600
    finally:
        helpers.close()
    assert not any(thread.name == "convfs-crew" for thread in threading.enumerate())
    assert not os.path.exists(f"/proc/{member._helper._process.pid}/exe")


@pytest.mark.usefixtures("forgotten")
def test_formats_that_users_describe_are_prepared_too(tmp_path: Path) -> None:
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "chat-lines.toml").write_text(PAGE)
    learn(folder)
    path = tmp_path / "login.chatlines"
    path.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
    [source] = [found for found in walk(path) if isinstance(found, Source)]
    helpers = Crew(1, 1024, tmp_path, folder)
    try:
        helpers.give(source, path.stat().st_size)
        records = helpers.of(source)
        assert records is not None
        assert count(records) == len(CHAT)
    finally:
        helpers.close()
