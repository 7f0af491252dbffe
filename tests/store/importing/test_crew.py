"""Imports with the help of other processes: the same store as without, whatever becomes of these."""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.disk.file_header import Damage
from store.disk.head_format import Reclaimed
from store.events.conversation import EventRow
from store.events.event import Kind
from store.formats.core.format import Source
from store.formats.registry import learn
from store.importing import crew, importer, prepared
from store.importing.crew import Crew
from store.importing.group import Group
from store.importing.importer import Importer, ImportReport
from store.importing.walk import walk
from store.search.documents import Gathered, Key
from store.store import Store
from store.upkeep.fsck import fsck
from tests.bench import corpus
from tests.store.formats.test_declared import CHAT, PAGE, forgotten  # noqa: F401  (a fixture)
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, by_source, lines, long_lines, native, session


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every import helped by two processes."""
    monkeypatch.setattr(importer, "_WORTH_BYTES", 1)
    monkeypatch.setattr(importer, "processes", lambda: 2)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of sessions: many small ones, a long one, one with huge strings, a fork, and one of nonsense."""
    folder = tmp_path_factory.mktemp("sessions")
    corpus.write_corpus(folder, sessions=12, events=40)
    session(folder, long_lines(2500), "long")
    session(folder, lines("big " * 700_000, "words of some sort", "more " * 300_000), "huge")
    session(folder, lines(*"abcdefgh"), "first")
    session(folder, lines(*"abcdefgh", "and then on"), "fork")
    session(folder, b"no JSON\n" + lines("One"), "strange")
    return folder


def opened(root: Path) -> Store:
    return Store.open(root, renderer=FileRenderer())


def told(report: ImportReport) -> list[object]:
    return [report.imported, report.records, report.bytes_read, report.errors, report.warnings, report.conversations]


_TIMES = frozenset(("time_ms", "created_ms", "updated_ms"))


def without_times(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        named = msgspec.structs.asdict(value)
        return type(value).__name__, [without_times(part) for name, part in named.items() if name not in _TIMES]
    return value


def content(store: Store) -> list[object]:
    """Return everything that an import has written, but for when."""
    turns = [without_times(turn) for turn in store.files.turns.range(1, store.files.turns.count)]
    frames = [frame for frame in store.files.heads.frames() if not isinstance(frame, Damage)]
    packs = b"".join(path.read_bytes()[64:] for path in sorted((store.root / "blobs").glob("*.pack")))
    names = ("views", "resources", "measures")
    tables = [store.files.index.db.query(f"SELECT * FROM {name} ORDER BY 1, 2") for name in names]
    return [turns, [(frame.context, without_times(frame.body)) for frame in frames], packs, tables]


def test_the_store_is_the_same_with_and_without_help(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "helped") as store:
        first, with_help = told(Importer(store).run([sessions])), content(store)
        assert fsck(store) == []
    monkeypatch.setattr(importer, "processes", lambda: 0)
    with opened(tmp_path / "alone") as store:
        second, without = told(Importer(store).run([sessions])), content(store)
    assert first == second
    for one, other in zip(with_help, without, strict=True):
        assert one == other


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
def test_files_of_every_tool_come_in_the_same(
    tmp_path: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "helped") as store:
        first, with_help = told(Importer(store).run([SAMPLES], by_hand=False)), content(store)
    monkeypatch.setattr(importer, "processes", lambda: 0)
    with opened(tmp_path / "alone") as store:
        second, without = told(Importer(store).run([SAMPLES], by_hand=False)), content(store)
    assert first == second
    for one, other in zip(with_help, without, strict=True):
        assert one == other


def rows(store: Store) -> Iterator[EventRow]:
    for entry in store.catalogue.page():
        yield from (row for row in store.records.rows(entry.head) if row.kind is not Kind.RECORD)


def test_the_texts_of_what_comes_in_are_there_at_once(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        shown = list(rows(store))
        renderer = FileRenderer()
        drawn = [(row, renderer.file(row.number, store.records.event(row))) for row in shown]
        sections = [(row, renderer.section(row.number, store.records.event(row))) for row in shown]
        contents = {row.turn: renderer.content(store.records.event(row)) for row in shown}
        asked: list[int] = []
        events = type(store.viewer).events

        def drawing(viewer: object, some: list[EventRow]) -> object:
            asked.extend(row.turn for row in some)
            return events(store.viewer, some)

        monkeypatch.setattr(type(store.viewer), "events", drawing)
        assert list(store.texts.files_of(shown)) == drawn
        assert list(store.texts.sections_of(shown)) == sections
        kept = list(store.texts.contents_of(shown))
        assert {row.turn for row, _content in kept} == contents.keys()
        assert all(content is None or content.text == contents[row.turn] for row, content in kept)
        # a fork shares turns that were drawn once: nearly nothing is left to be drawn
        assert len(asked) < len(shown) // 20


def searched(store: Store) -> list[list[object]]:
    """Return what queries find."""
    found: list[list[object]] = []
    for query in ("words", "pytest", "/word[s] of/", "kind:result 1", "a b"):
        hits = list(store.search.run(query))
        found.append(sorted((hit.conversation.source, hit.row.number, hit.lines) for hit in hits if hit.row))
    return found


def filed(store: Store) -> list[object]:
    """Return what the search index knows of turns, whatever the numbers of documents are, and what queries find."""
    db, found = store.search.db, searched(store)
    contents = "SELECT turn, content FROM turns JOIN contents USING (document) ORDER BY 1, 2"
    resources = "SELECT turn, uri, content FROM turns JOIN resources USING (document) ORDER BY 1, 2, 3"
    keys = "SELECT turn, payload, sight FROM turns JOIN documents ON id = document ORDER BY 1"
    assert all(found[:2])
    return [*(db.query(query) for query in (keys, contents, resources)), *found]


def test_a_search_after_an_import_reads_nothing_that_is_not_indexed(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_FILED_BYTES", 100_000)
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        # of a fork, what it shares was brought in by the other one
        assert store.search.unfiled <= 9
        while store.search.step():
            pass
        assert store.search.unfiled == 0
        by_import = filed(store)
        store.search.renew()
        assert store.search.unfiled == store.files.turns.count
        while store.search.step():
            pass
        assert filed(store) == by_import


_KILLED = """
import os, signal, sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.importing import group, importer, prepared
from store.index.database import Database
from store.store import Store

importer._WORTH_BYTES, importer.processes = 1, lambda: 2
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
    for at in range(step, changes, step):
        assert killed(at) == ""
        with opened(tmp_path / f"store-{at}") as store:
            searched(store)
            Importer(store).run([sessions])
            assert {path: native(store, path) for path in exported} == exported
            assert searched(store) == found
            while store.search.step():
                pass
            assert searched(store) == found
            assert fsck(store) == []


@pytest.mark.parametrize("event", ["dropped", "renewed"])
def test_words_of_turns_that_may_be_gone_are_not_filed(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    with opened(tmp_path / "store") as store:
        filings = Crew.filings

        def late(self: Crew) -> Iterator[tuple[Gathered, dict[int, Key]]]:
            for one in filings(self):
                if event == "renewed":
                    store.search.renew()
                else:
                    store.writer.submit(Request(0, move_head=False, notes=[Reclaimed(((1, 1),))]))
                yield one

        monkeypatch.setattr(Crew, "filings", late)
        Importer(store).run([sessions])
        assert store.search.unfiled == store.files.turns.count


def test_words_are_filed_while_others_are_committed(
    tmp_path: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are filed when the import ends."""
    corpus.write_corpus(tmp_path / "sessions", sessions=40, events=100)
    begun, committed, seen = threading.Event(), threading.Event(), list[bool]()
    commit = Group.commit

    def noted(self: Group) -> list[Exception | None]:
        if begun.is_set():
            committed.set()
        return commit(self)

    monkeypatch.setattr(Group, "commit", noted)
    with opened(tmp_path / "store") as store:
        add = store.search.add

        def slow(gathered: Gathered, shown: dict[int, Key], opening: int) -> None:
            begun.set()
            seen.append(committed.wait(20))
            add(gathered, shown, opening)

        monkeypatch.setattr(store.search, "add", slow)
        Importer(store).run([tmp_path / "sessions"])
        assert seen[0]
        assert store.search.unfiled == 0


def test_what_goes_wrong_with_words_ends_the_import(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_gathered: Gathered, _shown: dict[int, Key], _opening: int) -> None:
        raise ValueError("no words")

    with opened(tmp_path / "store") as store:
        monkeypatch.setattr(store.search, "add", failing)
        with pytest.raises(ValueError, match="no words"):
            Importer(store).run([sessions])
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("convfs-filing")]


def test_a_process_that_dies_is_missed_by_nobody(
    tmp_path: Path, sessions: Path, helped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Crew] = []

    class Dying(Crew):
        def of(self, source: Source) -> crew.Records | None:
            if not started:
                started.append(self)
                for member in self._members:
                    member._process.kill()
                    member._process.wait()
            return super().of(source)

    monkeypatch.setattr(importer, "Crew", Dying)
    with opened(tmp_path / "helped") as store:
        report = Importer(store).run([sessions])
        assert started
        [warning] = report.warnings
        assert "2 of the processes" in warning
        assert report.errors == []
        with_help = content(store)
    monkeypatch.setattr(importer, "processes", lambda: 0)
    with opened(tmp_path / "alone") as store:
        Importer(store).run([sessions])
        assert content(store) == with_help


_LACKING = """
from fusefs.text.render import FileRenderer

class Lacking(FileRenderer):
    def drawn(self, number, event):
        import nothing_of_this_name
"""


def test_a_process_that_lacks_a_module_says_so_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lacking.py").write_text(_LACKING)
    monkeypatch.syspath_prepend(tmp_path)
    renderer = importlib.import_module("lacking").Lacking()
    session(tmp_path, long_lines(300))
    [source] = [found for found in walk(tmp_path / "projects") if isinstance(found, Source)]
    helpers = Crew(1, renderer, 1024, tmp_path, tmp_path)
    try:
        helpers.give(source, source.main.stat().st_size)
        records = helpers.of(source)
        assert records is not None
        assert records.take() == []
        assert helpers.lost == 1
    finally:
        helpers.close()
    assert capfd.readouterr().err == (
        "a process that was to help with the import cannot: No module named 'nothing_of_this_name'\n"
    )


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
        "from fusefs.text.render import FileRenderer\n"
        "from store.importing.crew import Crew\n"
        "crew = Crew(2, FileRenderer(), 1024, Path(sys.argv[1]), Path(sys.argv[1]))\n"
        "print(*[member._process.pid for member in crew._members], flush=True)\n"
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


def test_what_is_prepared_of_other_sessions_waits_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_HELD_BYTES", 1 << 20)
    for number in range(6):
        session(tmp_path, long_lines(600, start=1000 * number), f"s{number}")
    sources = [found for found in walk(tmp_path / "projects") if isinstance(found, Source)]
    helpers = Crew(1, FileRenderer(), 1024, tmp_path, tmp_path)
    try:
        for source in sources:
            helpers.give(source, source.main.stat().st_size)
        [member] = helpers._members
        # the third first: what was made of those before it must not hold it up
        records = helpers.of(sources[2])
        assert records is not None
        assert sum(map(len, iter(records.take, []))) == 600
        assert member._held_bytes < 8 << 20
        assert helpers.of(sources[1]) is None
        last = helpers.of(sources[5])
        assert last is not None
        assert sum(map(len, iter(last.take, []))) == 600
    finally:
        helpers.close()
    assert not any(thread.name == "convfs-crew" for thread in threading.enumerate())
    assert not os.path.exists(f"/proc/{member._process.pid}/exe")


@pytest.mark.usefixtures("forgotten")
def test_formats_that_users_describe_are_prepared_too(tmp_path: Path) -> None:
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "chat-lines.toml").write_text(PAGE)
    learn(folder)
    path = tmp_path / "login.chatlines"
    path.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
    [source] = [found for found in walk(path) if isinstance(found, Source)]
    helpers = Crew(1, FileRenderer(), 1024, tmp_path, folder)
    try:
        helpers.give(source, path.stat().st_size)
        records = helpers.of(source)
        assert records is not None
        assert sum(map(len, iter(records.take, []))) == len(CHAT)
    finally:
        helpers.close()
