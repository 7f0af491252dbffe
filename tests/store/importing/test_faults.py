"""A fault of convfs itself costs a line: what it was about is kept or left, and all else comes in."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from store.commit.request import Request
from store.commit.writer import Writer
from store.conversations.viewer import Viewer
from store.editing.editor import Editor
from store.errors import ConvfsError, UsageError, told
from store.events.event import Event
from store.formats import registry
from store.formats.claude_code.lens import ClaudeCodeLens
from store.formats.claude_code.session import ClaudeCode
from store.formats.core.lens import Nothing
from store.formats.registry import learn
from store.formats.specstory import SpecStoryLens
from store.importing import skipped
from store.importing.group import events_of
from store.importing.importer import Importer
from store.importing.prepared import Preparer
from store.importing.walk import Unreadable, claim, walk
from store.store import Store
from tests.fusefs.tree.mounting import until
from tests.store.importing.faulty import ERRORS, WORD, fail
from tests.store.importing.parted_formats import Braid, know
from tests.store.importing.sessions import lines, session
from tests.store.importing.test_watching import Watched

FAULT = "a fault of convfs: KeyError 'x' in tests/"


def events_shown(store: Store, path: Path) -> list[Event]:
    """Return the events of the conversation of a session."""
    entry = store.catalogue.by_source(str(path))
    assert entry is not None
    return list(events_of(store, entry.head))


def two_sessions(folder: Path) -> tuple[Path, Path]:
    """Write a session that a faulty format fails of, and another one."""
    return session(folder, lines(f"The {WORD} one.", "Yes."), WORD), session(folder, lines("Another.", "No."), "other")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["claim", "spans", "type_of", "about", "titles", "blobs"])
def test_a_session_costs_a_line_and_others_come_in(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    bad, good = two_sessions(tmp_path)
    with monkeypatch.context() as patch:
        fail(patch, ClaudeCode, name, error)
        report = Importer(store).run([tmp_path / "projects"])
        assert report.imported == 1
        [line] = report.errors
        assert line.startswith(f"{bad}: ")
        assert "\n" not in line
        assert ("more memory" if isinstance(error, MemoryError) else type(error).__name__) in line
        assert store.catalogue.by_source(str(good)) is not None
        # nothing of it is there
        assert store.catalogue.by_source(str(bad)) is None
        # named by itself, and again
        [again] = Importer(store).run([bad]).errors
        assert again == line
    assert Importer(store).run([tmp_path / "projects"]).imported == 1


def test_a_directory_that_cannot_be_told_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session(tmp_path, lines("Hello."), project=WORD)

    def claimed(self: ClaudeCode, look: object) -> None:
        if getattr(look, "path", None) == path.parent:
            raise KeyError("x")

    monkeypatch.setattr(registry.format_named("jp"), "claim", claimed.__get__(registry.format_named("jp")))
    found = list(walk(tmp_path))
    assert [one.path for one in found] == [path.parent, path]
    assert isinstance(found[0], Unreadable)
    assert "KeyError" in found[0].reason


def test_records_that_a_lens_fails_of_are_kept_and_shown_as_they_are(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two_sessions(tmp_path)
    fail(monkeypatch, ClaudeCodeLens, "shown", KeyError("x"))
    report = Importer(store).run([tmp_path / "projects"])
    assert report.imported == 2
    [line] = report.errors
    assert line.startswith(f"{bad}: kept, with records shown as they are: {FAULT}")
    [first, second] = events_shown(store, bad)
    assert first.header["note"] == first.fault
    assert first.fault.startswith(FAULT)
    assert first.blocks[0].text == lines(f"The {WORD} one.").decode().rstrip("\n")
    assert second.blocks[0].text == "Yes."
    assert [event.fault for event in events_shown(store, good)] == ["", ""]
    # it can be edited, as what it is
    entry = store.catalogue.by_source(str(bad))
    assert entry is not None
    Editor(store).edit(entry.id, {1: lines("Edited.").rstrip(b"\n")})
    assert events_shown(store, bad)[0].blocks[0].text == "Edited."


def test_a_helper_tells_of_records_that_a_lens_fails_of(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two_sessions(tmp_path)
    fail(monkeypatch, ClaudeCodeLens, "shown", KeyError("x"))
    preparer = Preparer(4096, store.files.aside.scratch)
    seen = {}
    for path in (bad, good):
        source = claim(path, [ClaudeCode()])
        assert source is not None
        [chunk] = preparer.chunks(source)
        seen[path] = chunk.seen
    assert seen[bad].count == seen[good].count == 2
    assert seen[bad].fault.startswith(FAULT)
    assert not seen[good].fault


def test_a_passage_that_a_lens_fails_of_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpecStoryLens, "passage", lambda _self, text: {}[text])
    event = SpecStoryLens().view(b"A passage.", Nothing())
    assert [block.text for block in event.blocks] == ["A passage."]
    assert "KeyError" in event.fault


def test_what_cannot_be_read_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    lens = ClaudeCodeLens()
    for error in (UsageError("away"), OSError(5, "the disk"), MemoryError()):
        with monkeypatch.context() as patch:
            fail(patch, ClaudeCodeLens, "shown", error)
            with pytest.raises(type(error)):
                lens.view(lines(WORD).rstrip(), Nothing())


def test_a_session_that_cannot_be_measured_keeps_no_others_of_its_group_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two_sessions(tmp_path)
    with monkeypatch.context() as patch:
        fail(patch, Viewer, "measure", KeyError("x"))
        report = Importer(store).run([tmp_path / "projects"])
    assert report.imported == 1
    [line] = report.errors
    assert line.startswith(f"{bad}: a fault of convfs: KeyError 'x'")
    assert store.catalogue.by_source(str(bad)) is None
    assert store.catalogue.by_source(str(good)) is not None
    assert Importer(store).run([tmp_path / "projects"]).imported == 1


def test_a_commit_that_fails_costs_each_of_its_sessions_a_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the second begins as the first, which is committed for that
    paths = session(tmp_path, lines("One.", "Yes."), "a"), session(tmp_path, lines("One.", "No."), "b")

    def fails(_writer: Writer, requests: Sequence[Request]) -> None:
        if requests:
            raise KeyError("x")

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "submit_all", fails)
        report = Importer(store).run([tmp_path / "projects"])
    assert sorted(error.partition(": a fault")[0] for error in report.errors) == [*map(str, paths)]
    assert Importer(store).run([tmp_path / "projects"]).imported == 2


def test_a_conversation_of_a_file_of_many_costs_a_line(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(monkeypatch, Braid())
    path = tmp_path / "some.braid"
    path.write_text(f"a:one\nb:{WORD}\na:two\nc:three\n#d=b/1\nd:four\n")
    with monkeypatch.context() as patch:
        fail(patch, Braid, "type_of", KeyError("x"))
        report = Importer(store).run([path])
        assert report.imported == 2
        [line] = report.errors
        assert line.startswith(f"{path}: b: a fault of convfs: KeyError 'x'")
    # with the conversation that goes on from it
    assert Importer(store).run([path]).imported == 2


def test_what_the_progress_raises_ends_the_import(store: Store, tmp_path: Path) -> None:
    bad, _good = two_sessions(tmp_path)

    def progress(_size: int, _session: str) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        Importer(store).run([bad], progress=progress)
    assert Importer(store).run([bad]).imported == 1


def test_a_page_that_cannot_be_read_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text("")
    monkeypatch.setattr(registry, "_described", lambda *_: {}["x"])
    [line] = learn(tmp_path)
    assert line.startswith(f"{tmp_path / 'mine.toml'}: a fault of convfs: KeyError 'x'")


def test_what_is_skipped_is_listed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{WORD}.json"
    path.write_text("[]")
    guess = registry.guesses()[0]
    fail(monkeypatch, type(guess), "claim", KeyError("x"))
    monkeypatch.setattr(skipped, "walk", lambda *_, **__: [skipped.Skipped(path)])
    [(_path, reason)] = skipped.skipped([path], tmp_path)
    assert reason.startswith("a fault of convfs: KeyError 'x'")


@pytest.mark.logs(r"KeyError 'x'", rf"{WORD}.jsonl: a fault of convfs: KeyError 'x'")
def test_a_watch_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path)
    monkeypatch.setattr("store.importing.watch._RETRY_SECONDS", 0.2)
    try:
        with watched.running():
            watched.fail = KeyError("x")
            path = watched.path()
            path.write_bytes(lines("One."))
            until(lambda: len(watched.said(path)) == 1)
            with monkeypatch.context() as patch:
                fail(patch, ClaudeCode, "claim", KeyError("x"))
                other = watched.path(name=f"{WORD}.jsonl")
                other.write_bytes(lines("Two."))
                until(lambda: [other] in watched.taken)
                path.write_bytes(lines("One.", "Three."))
                until(lambda: len(watched.said(path)) == 2)
            other.write_bytes(lines("Two.", "Four."))
            until(lambda: len(watched.said(other)) == 2)
    finally:
        watched.store.close()


def test_an_error_is_told_with_its_place() -> None:
    with pytest.raises(ValueError, match="not a") as raised:
        raise ValueError("not a\nnumber")
    here = "tests/store/importing/test_faults.py"
    assert str(told(raised.value)).startswith(f"a fault of convfs: ValueError not a number in {here}:")
    known = ConvfsError("as it is")
    assert told(known) is known
