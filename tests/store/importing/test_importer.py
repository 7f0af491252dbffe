"""The report of an import, and files that are no session."""

import os
from pathlib import Path

import pytest

from store.disk import durable
from store.errors import StoreFailed, UsageError
from store.events.event import DELETED
from store.formats.claude_code.session import ClaudeCode
from store.formats.core.look import Look
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import by_source, event, imported, jp, line, lines, long_lines, native, session


def test_a_report(store: Store, tmp_path: Path) -> None:
    one, two = session(tmp_path, lines("One", "Two"), "a"), session(tmp_path, lines("Other"), "b")
    (tmp_path / "notes.md").write_text("# Notes")
    report = imported(store, tmp_path)
    assert (report.imported, report.grown, report.unchanged, report.skipped) == (2, 0, 0, 1)
    assert (report.records, report.bytes_read) == (3, one.stat().st_size + two.stat().st_size)
    assert report.conversations == ["shop/2026-03-05-one", "shop/2026-03-05-other"]
    with one.open("ab") as file:
        file.write(line("Three", 2))
    report = imported(store, tmp_path)
    assert (report.imported, report.grown, report.unchanged, report.skipped) == (0, 1, 1, 1)
    assert (report.records, report.conversations) == (1, ["shop/2026-03-05-one"])


def test_the_store_itself_is_passed_by(store: Store, tmp_path: Path) -> None:
    session(store.root / "scratch", lines("One"), "a")
    session(tmp_path, lines("One"), "b")
    assert imported(store, tmp_path).imported == 1
    report = Importer(store).run([store.root])
    assert report.imported == 1


def test_a_dry_run_changes_nothing(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"), "a")
    before = store.files.heads.length
    report = Importer(store).run([tmp_path], dry_run=True)
    assert (report.imported, report.grown, report.unchanged) == (1, 0, 0)
    assert store.files.heads.length == before
    imported(store, tmp_path)
    path.write_bytes(lines("One", "Two"))
    session(tmp_path, lines("Other"), "b")
    report = Importer(store).run([tmp_path], dry_run=True)
    assert (report.imported, report.grown, report.unchanged) == (1, 1, 0)
    assert by_source(store, path).records == 1


def test_progress_adds_up(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"\n" + long_lines(20))
    seen: list[tuple[int, str]] = []
    Importer(store).run([path], progress=lambda size, name: seen.append((size, name)))
    assert sum(size for size, _name in seen) == path.stat().st_size - 1
    assert {name for _size, name in seen} == {path.name}


def test_a_directory_without_sessions_is_an_error(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.md").write_text("# Notes")
    (tmp_path / "binary").write_bytes(os.urandom(100_000))
    paths = [tmp_path / name for name in ("empty", "notes", "binary", "missing")]
    report = Importer(store).run(paths)
    assert report.skipped == 2
    assert report.errors == [
        f"{paths[0]}: holds no session of a tool that is known (`convfs formats`)",
        f"{paths[1]}: holds no session of a tool that is known (`convfs formats`)",
        f"{paths[2]}: holds no session of a tool that is known (`convfs formats`)",
        f"{paths[3]}: No such file or directory",
    ]


def test_one_format_only(store: Store, tmp_path: Path) -> None:
    session(tmp_path, lines("One"))
    folder = jp(tmp_path, [event()])
    report = Importer(store).run([tmp_path], format_name="jp")
    assert report.imported == 1
    assert by_source(store, folder).format == "jp"
    with pytest.raises(UsageError, match="no format 'nosuch'"):
        Importer(store).run([tmp_path], format_name="nosuch")


def test_an_error_in_one_session_stops_no_other(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, lines("One"), "a")
    bad = session(tmp_path, lines("Bad"), "b")
    session(tmp_path, lines("Three"), "c")
    real = ClaudeCode.claim

    def claim(self: ClaudeCode, look: Look) -> object:
        source = real(self, look)
        if look.path == bad:
            bad.unlink()
        return source

    monkeypatch.setattr(ClaudeCode, "claim", claim)
    report = Importer(store).run([tmp_path])
    assert report.imported == 2
    assert report.errors == [f"{bad}: [Errno 2] No such file or directory: '{bad}'"]


def test_a_store_that_failed_stops_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        session(tmp_path, lines(f"Text {number}"), f"a{number}")
    tried = 0

    def fdatasync(fd: int) -> None:
        nonlocal tried
        tried += 1
        raise OSError(28, "No space left on device")

    store = Store.open(tmp_path / "store")
    monkeypatch.setattr(durable, "fdatasync", fdatasync)
    with pytest.raises(StoreFailed, match="No space left"):
        Importer(store).run([tmp_path / "projects"])
    assert tried < 3
    monkeypatch.undo()
    with pytest.raises(StoreFailed):
        store.close()


def test_without_a_renderer(tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two"))
    with Store.open(tmp_path / "store") as store:
        imported(store, tmp_path / "projects")
        assert native(store, path) == path.read_bytes()
        path.write_bytes(lines("One", "Two", "Three"))
        imported(store, tmp_path / "projects")
        assert native(store, path) == path.read_bytes()


def test_subagents_are_conversations_of_their_own(store: Store, tmp_path: Path) -> None:
    main = session(tmp_path, lines("Main"), "a")
    beside = session(tmp_path, lines("Beside"), "agent-1")
    below = session(tmp_path, lines("Below"), "agent-2", project="-home-ada-shop/a/subagents")
    assert imported(store, tmp_path).imported == 3
    assert {by_source(store, path).project for path in (main, beside, below)} == {"shop"}


def test_a_session_under_a_link_is_the_one_that_was_named(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"), "a")
    imported(store, path.parent / ".." / path.parent.name / "a.jsonl")
    assert by_source(store, path).records == 1


def test_what_grows_behind_a_patch_is_summed_up_anew(store: Store, tmp_path: Path) -> None:
    """Nobody has looked at the conversation since the patch, so its sums are those of before."""
    path = session(tmp_path, lines("One", "Two", "Three"))
    imported(store, path)
    [entry] = store.catalogue.page()
    [(first, _count)] = store.records.runs(entry.head)
    store.contexts.patch(entry.id, {first: DELETED})
    with path.open("ab") as file:
        file.write(line("Four", 3))
    imported(store, path)
    [grown] = store.library.conversations("shop")
    rows = store.views.rows(store.records.runs(grown.head), 1)
    assert grown.records == len(rows) == 4
    assert grown.events == 3
    assert fsck(store) == []
