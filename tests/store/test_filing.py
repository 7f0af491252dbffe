"""Filing with the help of other processes: the same as without, whatever becomes of these, and of the store."""

import importlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store import drawing, filing
from store.commit import pace
from store.commit.request import Request
from store.disk.head_format import Reclaimed
from store.events.conversation import EventRow
from store.events.event import Kind
from store.filing import Filing
from store.importing.importer import Importer
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.service import background
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.helped import helped_by, write_sessions
from tests.store.importing.sessions import lines, long_lines, session
from tests.store.importing.test_database_changes import MADE
from tests.waiting import until

# a replica leaves what would have to be fetched to the jobs of its daemon
pytestmark = pytest.mark.of_one_machine

SECRET = b"sk-sesame-0123456789abcdef"


@pytest.fixture(autouse=True)
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every import, and all filing, helped by two processes."""
    helped_by(monkeypatch, 2)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of sessions: many small ones, a long one, one with huge strings, a fork, one with a secret.

    There is a database, too.
    """
    folder = tmp_path_factory.mktemp("sessions")
    write_sessions(folder)
    schema, write = MADE["goose"]
    with closing(sqlite3.connect(folder / "sessions.db")) as database, database:
        database.executescript(schema)
        for number in range(5):
            write(database, number, 8)
    session(folder, lines(f"open {SECRET.decode()}", "words of no secret"), "secret")
    return folder


def opened(root: Path) -> Store:
    return Store.open(root, renderer=FileRenderer())


def shown(store: Store) -> list[EventRow]:
    entries = store.catalogue.page()
    return [row for entry in entries for row in store.records.rows(entry.head) if row.kind is not Kind.RECORD]


def unseen(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the turns, as they come, that are drawn from now on."""
    asked: list[int] = []
    events = type(store.viewer).events

    def drawing(_viewer: object, some: Sequence[EventRow]) -> object:
        asked.extend(row.turn for row in some)
        return events(store.viewer, some)

    monkeypatch.setattr(type(store.viewer), "events", drawing)
    return asked


def tables(store: Store) -> list[object]:
    """Return all that follows from the conversations, whatever the numbers of documents and blocks are."""
    rows = shown(store)
    index = [store.files.index.db.query(f"SELECT * FROM {name} ORDER BY 1, 2") for name in ("views", "resources")]
    sums = store.files.index.db.query("SELECT * FROM measures ORDER BY 1")
    keys = "SELECT turn, payload, sight FROM turns JOIN documents ON id = document ORDER BY 1"
    contents = "SELECT turn, content FROM turns JOIN contents USING (document) ORDER BY 1, 2"
    named = "SELECT turn, uri, content FROM turns JOIN resources USING (document) ORDER BY 1, 2, 3"
    words = [store.search.db.query(query) for query in (keys, contents, named)]
    texts = [list(store.texts.files_of(rows)), list(store.texts.sections_of(rows)), texts_of(store)]
    found = [sorted(str((hit.conversation.name, hit.lines)) for hit in store.search.run(q)) for q in ("words", "a b")]
    assert all(words) or not words[0]
    return [index, sums, words, texts, found]


def texts_of(store: Store) -> list[int]:
    """Return the turns that have texts."""
    spans = store.texts.db.query("SELECT first, count FROM spans ORDER BY 1")
    return [turn for first, count in spans for turn in range(first, first + count)]


def test_all_is_filed_as_without_help(tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for count in (2, 0):
        helped_by(monkeypatch, count)
        with opened(tmp_path / f"by-{count}") as store:
            Importer(store).run([sessions])
            Filing(store).run()
            assert (store.search.unfiled, store.texts.behind(), store.catalogue.without_sums()) == (0, [], [])
            found.append(tables(store))
            assert fsck(store) == []
    for one, other in zip(*found, strict=True):
        assert one == other


def test_an_import_draws_nothing_and_filing_all_at_once(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        assert store.search.unfiled == store.files.turns.count
        assert len(store.catalogue.without_sums()) == len(store.catalogue.page())
        drawn = unseen(store, monkeypatch)
        told: list[tuple[int, int]] = []
        Filing(store, lambda done, records: told.append((done, records))).run()
        rows = shown(store)
        renderer = FileRenderer()
        # a fork shares turns that were drawn once
        assert len(drawn) < len(rows) // 20
        assert told == sorted(told)
        assert told[-1] == (store.files.turns.count, store.files.turns.count)
        drawn.clear()
        files = list(store.texts.files_of(rows))
        assert drawn == []
        assert files == [(row, renderer.file(row.number, store.records.event(row))) for row in rows]


def test_what_is_not_filed_yet_is_measured_and_found_all_the_same(tmp_path: Path, sessions: Path) -> None:
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        [hit] = [hit for hit in store.search.run("secret") if hit.row]
        assert hit.row is not None
        assert hit.row.file_size > 0
        before = {entry.id: store.library.with_its_sums(entry) for entry in store.catalogue.page()}
        Filing(store).run()
        assert {entry.id: store.library.with_its_sums(entry) for entry in store.catalogue.page()} == before


def test_without_a_cache_of_texts_words_and_measures_are_filed(tmp_path: Path, sessions: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "convfs.toml").write_text("text_cache_share = 0\n")
    with opened(tmp_path / "store") as store:
        assert not store.texts.is_kept
        Importer(store).run([sessions])
        Filing(store).run()
        assert (store.search.unfiled, store.catalogue.without_sums()) == (0, [])
        assert not (tmp_path / "store" / "texts.db").exists()


def test_what_has_grown_or_was_edited_is_filed_too(tmp_path: Path) -> None:
    path = session(tmp_path, long_lines(300))
    with opened(tmp_path / "store") as store:
        Importer(store).run([path])
        entry = store.catalogue.page()[0]
        [row] = store.records.rows(entry.head)[4:5]
        Filing(store).run()
        path.write_bytes(path.read_bytes() + lines("And words of growth"))
        Importer(store).run([path])
        Filing(store).run()
        assert (store.search.unfiled, store.texts.behind(), store.catalogue.without_sums()) == (0, [], [])
        assert texts_of(store) == [one.turn for one in shown(store)]
        assert row in store.records.rows(store.catalogue.page()[0].head)


@pytest.mark.parametrize("event", ["reclaimed", "renewed", "redacted"])
def test_nothing_of_turns_that_may_be_gone_is_filed(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        file, happened = Filing._file, list[bool]()

        def late(self: Filing) -> None:
            if not happened:
                happened.append(True)
                if event == "renewed":
                    store.search.renew()
                    store.texts.renew()
                elif event == "reclaimed":
                    store.writer.submit(Request(0, move_head=False, notes=[Reclaimed(((1, 1),))]))
                else:
                    Redaction(store, Secrets([SECRET])).run()
            file(self)

        monkeypatch.setattr(Filing, "_file", late)
        with monkeypatch.context() as patch:
            # what comes after the helpers files what is left
            patch.setattr(Filing, "_file_rest", lambda _self, _behind: None)
            Filing(store).run()
            assert happened
            assert texts_of(store) == []
            # of words that were there before, only those of the reclaimed turn go
            assert store.search.unfiled == (1 if event == "reclaimed" else store.files.turns.count)
        Filing(store).run()
        assert store.search.unfiled == 0
        assert bool(list(store.search.run(SECRET.decode()))) == (event != "redacted")
        if event == "redacted":
            for name in ("search.db", "texts.db", "index.db"):
                assert SECRET not in (tmp_path / "store" / name).read_bytes()
            texts = dict(store.texts.files_of(shown(store)))
            assert not any(SECRET in text for text in texts.values() if isinstance(text, bytes))
        assert fsck(store) == []


@pytest.mark.logs("a process that helped with filing has ended")
def test_a_process_that_dies_is_missed_by_nobody(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = filing._Member.give

    def dying(self: filing._Member, job: filing._Job) -> None:
        given(self, job)
        self._helper._process.kill()

    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        with monkeypatch.context() as patch:
            patch.setattr(filing._Member, "give", dying)
            Filing(store).run()
        assert "has ended before that" in caplog.text
        with_death = tables(store)
        assert store.search.unfiled == 0
    helped_by(monkeypatch, 0)
    with opened(tmp_path / "alone") as store:
        Importer(store).run([sessions])
        Filing(store).run()
        assert tables(store) == with_death


def test_whatever_ends_it_early_leaves_no_process_and_the_rest_for_later(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members: list[filing._Member] = []
    init = filing._Member.__init__

    def noted(self: filing._Member, *rest: object) -> None:
        members.append(self)
        init(self, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(filing._Member, "__init__", noted)
    monkeypatch.setattr(filing, "_FILED_RECORDS", 100)

    def enough(done: int, _records: int) -> None:
        if done > 1000:
            raise KeyboardInterrupt

    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        with pytest.raises(KeyboardInterrupt):
            Filing(store, enough).run()
        assert len(members) == 2
        assert all(member._helper._process.poll() is not None for member in members)
        assert not any(thread.name == "convfs-filing" for thread in threading.enumerate())
        assert 0 < len(texts_of(store)) < len(shown(store))
    with opened(tmp_path / "store") as store:
        Filing(store).run()
        assert (store.search.unfiled, store.texts.behind(), store.catalogue.without_sums()) == (0, [], [])
        assert fsck(store) == []


_KILLED = """
import sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store import filing
from store.store import Store

filing.WORTH_RECORDS, filing.processes, filing._FILED_RECORDS = 1, lambda: 2, 100

def told(done, records):
    if done > int(sys.argv[2]):
        print(done, flush=True)
        sys.stdin.read()

with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store:
    filing.Filing(store, told).run()
"""


@pytest.mark.parametrize("done", [0, 700, 2000])
def test_filing_that_is_killed_is_completed_by_the_next(tmp_path: Path, sessions: Path, done: int) -> None:
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
    words = [sys.executable, "-c", _KILLED, tmp_path / "store", str(done)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > done
        process.send_signal(signal.SIGKILL)
        process.wait()
    with opened(tmp_path / "store") as store:
        Filing(store).run()
        after = tables(store)
        assert fsck(store) == []
    with opened(tmp_path / "other") as store:
        Importer(store).run([sessions])
        Filing(store).run()
        assert tables(store) == after


_LACKING = """
from fusefs.text.render import FileRenderer

class Lacking(FileRenderer):
    def drawn(self, number, event):
        import nothing_of_this_name
"""


@pytest.mark.logs("a process that helped with filing has ended")
def test_a_process_that_lacks_a_module_says_so_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lacking.py").write_text(_LACKING)
    monkeypatch.syspath_prepend(tmp_path)
    renderer = importlib.import_module("lacking").Lacking()
    with Store.open(tmp_path / "store", renderer=renderer) as store:
        Importer(store).run([session(tmp_path, long_lines(300))])
        with monkeypatch.context() as patch:
            patch.setattr(Filing, "_file_rest", lambda _self, _behind: None)
            Filing(store).run()
        assert texts_of(store) == []
    # the other one had no work
    assert capfd.readouterr().err == (
        "a process that was to help cannot: No module named 'nothing_of_this_name'\n"
    )


def test_memory_is_bounded_by_what_helpers_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filing, "_GIVEN_BYTES", 100_000)
    monkeypatch.setattr(filing, "_PIECE_BYTES", 50_000)
    most: list[int] = []
    give: Callable[[filing._Member, filing._Job], None] = filing._Member.give

    def noted(self: filing._Member, job: filing._Job) -> None:
        give(self, job)
        most.append(self.bytes)

    monkeypatch.setattr(filing._Member, "give", noted)
    with opened(tmp_path / "store") as store:
        Importer(store).run([session(tmp_path, long_lines(2500))])
        Filing(store).run()
    assert len(most) > 50
    assert max(most) < 250_000



def test_words_are_given_out_in_parts(tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the helpers are other processes
    monkeypatch.setattr(drawing, "_WORDS_BYTES", 1)
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        drawer = drawing.Drawer(FileRenderer())
        new = Filing(store)._new(dict(store.catalogue.without_sums()))
        kinds = [what for one in new for job in Filing(store)._pieces(one) for what, _data in drawer.work(0, job.piece)]
        assert kinds.count(drawing.WORDS) == kinds.count(drawing.DRAWN)
        assert [what for what, _data in drawer.work(0, None)] == [drawing.DONE]


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a daemon file even little, and soon."""
    monkeypatch.setattr(background, "WORTH_RECORDS", 1)
    monkeypatch.setattr(background, "_LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("watchful")
def test_a_daemon_files_what_is_there_and_what_comes(tmp_path: Path, sessions: Path) -> None:
    with opened(tmp_path / "store") as store:
        # not as one of the others begins
        Importer(store).run([session(tmp_path, long_lines(300, start=9000))])
        with background.filing(store):
            until(lambda: store.search.unfiled == 0)
            Importer(store).run([sessions])
            # what a fork has itself is left to the jobs
            until(lambda: (store.search.unfiled, len(store.texts.behind())) == (1, 1))
        Filing(store).run()
        assert store.search.unfiled == 0
        by_daemon = tables(store)
        store.search.renew()
        store.texts.renew()
        Filing(store).run()
        assert tables(store) == by_daemon


@pytest.mark.usefixtures("watchful")
def test_a_daemon_that_ends_does_not_wait_until_all_is_filed(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Filing._drawn
    begun = threading.Event()

    def noted(self: Filing, *rest: object) -> None:
        begun.set()
        drawn(self, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Filing, "_drawn", noted)
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        with background.filing(store):
            assert begun.wait(60)
        assert store.search.unfiled > 0
        assert not store.filing.locked()
        assert not any(thread.name.startswith("convfs-filing") for thread in threading.enumerate())


@pytest.mark.usefixtures("watchful")
def test_a_daemon_does_not_begin_to_file_while_very_much_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_MANY_A_SECOND", 0)
    monkeypatch.setattr(background, "_LOOK_SECONDS", 1.0)
    with opened(tmp_path / "store") as store, background.filing(store):
        context = store.contexts.create().context
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            store.contexts.append(context, b"{}", "bench.entry.v1")
            time.sleep(0.01)
        assert store.search.unfiled == store.files.turns.count
        # nothing comes any more
        until(lambda: store.search.unfiled == 0)


@pytest.mark.usefixtures("watchful")
def test_a_daemon_that_files_waits_while_very_much_is_appended(
    tmp_path: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_BREATH_SECONDS", 1.0)
    drawn, pieces, begun = Filing._drawn, list[int](), threading.Event()
    with opened(tmp_path / "store") as store:
        Importer(store).run([sessions])
        context = store.contexts.create().context

        def noted(self: Filing, *rest: object) -> None:
            if not pieces:
                # it looks for the first time after this
                store.contexts.append(context, b"{}", "bench.entry.v1")
                monkeypatch.setattr(pace, "_MANY_A_SECOND", 0)
                begun.set()
            pieces.append(1)
            drawn(self, *rest)  # type: ignore[arg-type]  # as it was called

        monkeypatch.setattr(Filing, "_drawn", noted)
        with background.filing(store):
            assert begun.wait(60)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                store.contexts.append(context, b"{}", "bench.entry.v1")
                time.sleep(0.01)
            assert len(pieces) == 1
            until(lambda: len(pieces) > 1)


def test_two_do_not_file_the_same_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filing, "_STEP_SECONDS", 0.01)
    told: list[tuple[int, int]] = []

    def enough(done: int, records: int) -> None:
        told.append((done, records))
        raise KeyboardInterrupt

    with opened(tmp_path / "store") as store:
        Importer(store).run([session(tmp_path, long_lines(300))])
        with store.filing, pytest.raises(KeyboardInterrupt):
            Filing(store, enough).run()
        assert told == [(0, 0)]
        assert store.search.unfiled == store.files.turns.count
