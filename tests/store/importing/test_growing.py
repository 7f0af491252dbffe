"""Sessions that change between imports: what is new is brought in, and nothing else."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.importing import reading as reading_module
from store.importing import session as session_module
from store.importing import snapshot as sidecars_module
from store.importing.snapshot import Cursor, Snapshot
from store.store import Store
from tests.store.importing.sessions import (
    bring,
    by_source,
    claude_source,
    event,
    exported,
    fresh_name,
    imported,
    jp,
    jp_source,
    lines,
    long_lines,
    native,
    payloads,
    session,
)

together = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def settle() -> None:
    """Wait until files that were written can be told from ones that will be."""
    time.sleep(0.03)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the list of the files of sessions that are read from now on."""
    opened: list[Path] = []

    class Noting(Snapshot):
        def __init__(self, path: Path | str, scratch: Path, known: Cursor | None = None) -> None:
            opened.append(Path(path))
            super().__init__(path, scratch, known)

    for module in (session_module, reading_module, sidecars_module):
        monkeypatch.setattr(module, "Snapshot", Noting)
    return opened


def test_an_unchanged_session_costs_a_stat(store: Store, tmp_path: Path, read: list[Path]) -> None:
    path = session(tmp_path, lines("One", "Two"))
    folder = jp(tmp_path, [event()])
    settle()
    assert imported(store, tmp_path / "projects", tmp_path / ".jp").imported == 2
    assert set(read) == {path, *folder.iterdir()}
    read.clear()
    seq, turns = store.files.heads.length, store.files.turns.count
    report = imported(store, tmp_path / "projects", tmp_path / ".jp", path, folder, folder / "events.json")
    assert (report.unchanged, report.records, report.bytes_read) == (5, 0, 0)
    assert read == []
    assert (store.files.heads.length, store.files.turns.count) == (seq, turns)


def test_a_touched_session_is_read_and_nothing_is_new(store: Store, tmp_path: Path, read: list[Path]) -> None:
    path = session(tmp_path, lines("One", "Two"))
    settle()
    imported(store, path)
    os.utime(path)
    settle()
    turns = store.files.turns.count
    report = imported(store, path)
    assert (report.unchanged, report.grown, report.records) == (1, 0, 0)
    assert read == [path, path]
    assert store.files.turns.count == turns
    assert len(store.catalogue.versions(by_source(store, path).id)) == 1
    imported(store, path)
    assert len(read) == 2


def test_a_change_right_after_an_import_is_seen(store: Store, tmp_path: Path) -> None:
    """Within one tick of the clock that stamps files, size and time stay as they were."""
    path = session(tmp_path, lines("Aaa"))
    for text in ("Bbb", "Ccc", "Ddd", "Eee"):
        imported(store, path)
        path.write_bytes(lines(text))
        imported(store, path)
        assert native(store, path) == lines(text)


def test_growing_appends_only_what_is_new(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"")
    assert imported(store, path).skipped == 1
    for number in range(6):
        with path.open("ab") as file:
            file.write(lines(f"Text {number}", start=number))
        settle()
        turns = store.files.turns.count
        report = imported(store, path)
        assert (report.imported + report.grown, report.records) == (1, 1)
        assert store.files.turns.count == turns + 1
        assert native(store, path) == path.read_bytes()
    assert [version.records for version in store.catalogue.versions(by_source(store, path).id)] == [1, 2, 3, 4, 5, 6]
    assert len(store.catalogue.page()) == 1


def test_growing_holds_nothing_of_what_is_known(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session(tmp_path, long_lines(100))
    imported(store, path)
    held: list[int] = []

    class Noting(Snapshot):
        def __init__(self, path: Path | str, scratch: Path, known: Cursor | None = None) -> None:
            super().__init__(path, scratch, known)
            held.append(len(self.data))

    for module in (session_module, reading_module, sidecars_module):
        monkeypatch.setattr(module, "Snapshot", Noting)
    new = long_lines(1, start=100)
    with path.open("ab") as file:
        file.write(new)
    report = imported(store, path)
    assert held == [len(new) + 4096 + 1]
    assert report.bytes_read == len(new) + 1
    assert native(store, path) == path.read_bytes()


def test_a_line_that_is_being_written(store: Store, tmp_path: Path) -> None:
    whole = lines("One", "Two", "Three")
    path = session(tmp_path, b"")
    for end in (40, 90, whole.index(b"\n"), whole.index(b"\n") + 1, 300, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:end])
        imported(store, path)
        assert native(store, path) == whole[:end]
        assert payloads(store, path) == [piece for piece in whole[:end].split(b"\n") if piece]


def test_a_record_that_went_on_after_it_seemed_finished(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"")
    for content in (b"{}\n{}\n", b"{}\n{}", b"{}\n{}{}\n", b"{}\n{}{}{}\n\n", b"{}\n{}\n"):
        path.write_bytes(content)
        bring(store, claude_source(path))
        assert native(store, path) == content
        assert payloads(store, path) == [piece for piece in content.split(b"\n") if piece]


def test_rewritten_in_the_middle_shares_what_stands_before(store: Store, tmp_path: Path) -> None:
    texts = [f"Text {number}" for number in range(10)]
    path = session(tmp_path, lines(*texts))
    imported(store, path)
    before = store.turns.path_to_root(by_source(store, path).head)
    texts[4] = "Corrected"
    path.write_bytes(lines(*texts))
    report = imported(store, path)
    assert (report.grown, report.records) == (1, 6)
    assert native(store, path) == lines(*texts)
    after = store.turns.path_to_root(by_source(store, path).head)
    assert [turn.turn_id for turn in after[:4]] == [turn.turn_id for turn in before[:4]]
    assert after[4].turn_id > before[-1].turn_id
    assert [turn.payload_hash for turn in after[5:]] == [turn.payload_hash for turn in before[5:]]
    versions = store.catalogue.versions(by_source(store, path).id)
    assert [(version.action, version.records, version.head) for version in versions] == [
        ("import", 10, before[-1].turn_id),
        ("import", 10, after[-1].turn_id),
    ]


@pytest.mark.parametrize(("kept", "records"), [(10, 9), (5, 5), (1, 1), (0, 0)])
def test_shrunk(store: Store, tmp_path: Path, kept: int, records: int) -> None:
    whole = lines(*(f"Text {number}" for number in range(9)))
    path = session(tmp_path, whole)
    imported(store, path)
    turns = store.files.turns.count
    content = b"".join(whole.splitlines(keepends=True)[:kept])
    path.write_bytes(content)
    report = imported(store, path)
    assert (report.grown, report.records) == (int(kept < 9), 0)
    assert native(store, path) == content
    conversation = by_source(store, path)
    assert (conversation.records, conversation.events) == (records, records)
    assert store.files.turns.count == turns
    path.write_bytes(whole)
    imported(store, path)
    assert native(store, path) == whole
    assert store.catalogue.versions(conversation.id)[-1].records == 9


def test_replaced_by_another(store: Store, tmp_path: Path) -> None:
    """Nothing of the first is left on the branch, however many batches the second takes."""
    path = session(tmp_path, lines("One", "Two"))
    imported(store, path)
    for content in (lines("Three", "Four", "Five"), long_lines(3000, 20), lines("Six")):
        path.write_bytes(content)
        imported(store, path)
        assert native(store, path) == content
        turns = store.turns.path_to_root(by_source(store, path).head)
        assert [turn.depth for turn in turns] == list(range(len(turns)))
        assert len(turns) == content.count(b"\n")


def test_sums_follow(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"))
    contents = [lines("One", "Two"), lines("One", "Two", "Three"), lines("One", "Other"), lines("One"), lines("X")]
    for content in contents:
        path.write_bytes(content)
        imported(store, path)
        conversation = by_source(store, path)
        rows = store.records.rows(conversation.head)
        assert conversation.events == len(rows) == content.count(b"\n")
        assert conversation.transcript_size == sum(row.section_size for row in rows)
        assert conversation.json_size == sum(row.json_size for row in rows)


def test_times(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"))
    imported(store, path)
    first = by_source(store, path)
    assert first.updated_ms == first.created_ms == 1772737200000
    path.write_bytes(lines("One", "Two", "Three"))
    imported(store, path)
    assert by_source(store, path).updated_ms == first.created_ms + 2000
    path.write_bytes(lines("One", "Two"))
    imported(store, path)
    assert by_source(store, path).created_ms == first.created_ms
    assert by_source(store, path).updated_ms == first.created_ms + 2000


states = st.lists(
    st.tuples(
        st.lists(st.sampled_from([b"a", b"bb", b"{}", b"\0", b"", b"\r"]), max_size=6).map(b"\n".join),
        st.sampled_from([b"", b"\n", b"\n\n"]),
    ).map(b"".join),
    min_size=2,
    max_size=6,
)


@together
@given(states)
def test_any_states_of_a_file(shared: Store, contents: list[bytes]) -> None:
    path = shared.root.parent / f"{fresh_name()}.jsonl"
    for content in contents:
        path.write_bytes(content)
        bring(shared, claude_source(path))
        assert native(shared, path) == content
        assert payloads(shared, path) == [piece for piece in content.split(b"\n") if piece]
    recorded = [version.records for version in shared.catalogue.versions(by_source(shared, path).id)]
    expected = [len([piece for piece in content.split(b"\n") if piece]) for content in contents]
    assert recorded == [
        count
        for number, (count, content) in enumerate(zip(expected, contents, strict=True))
        if _records(content) != (_records(contents[number - 1]) if number else [])
    ]


def _records(content: bytes) -> list[bytes]:
    return [piece for piece in content.split(b"\n") if piece]


@together
@given(st.binary(max_size=120), st.lists(st.integers(0, 120), min_size=1, max_size=5))
def test_prefix_after_prefix_of_any_array(shared: Store, content: bytes, ends: list[int]) -> None:
    folder = shared.root.parent / fresh_name()
    folder.mkdir()
    whole = b'[\n  {"type": "x"},\n  ' + content + b"\n]"
    for end in [*sorted(ends), len(whole)]:
        (folder / "events.json").write_bytes(whole[:end])
        bring(shared, jp_source(folder))
        assert native(shared, folder) == whole[:end]


@together
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_going_on_is_the_same_as_beginning_anew(shared: Store, before: bytes, after: bytes) -> None:
    grown, whole = (shared.root.parent / f"{fresh_name()}.jsonl" for _ in range(2))
    grown.write_bytes(before)
    bring(shared, claude_source(grown))
    for path in (grown, whole):
        path.write_bytes(before + after)
        bring(shared, claude_source(path))
    assert payloads(shared, grown) == payloads(shared, whole)
    one, other = by_source(shared, grown), by_source(shared, whole)
    assert one.metadata.get("envelope") == other.metadata.get("envelope")
    assert (one.records, one.events, one.transcript_size, one.json_size) == (
        other.records,
        other.events,
        other.transcript_size,
        other.json_size,
    )
    assert one.title == other.title


def test_a_jp_conversation_goes_on(store: Store, tmp_path: Path) -> None:
    events = [event(second=second, text=f"Text {second}") for second in range(3)]
    folder = jp(tmp_path, events)
    imported(store, folder)
    for second in range(3, 6):
        events.append(event(second=second, text=f"Text {second}"))
        jp(tmp_path, events)
        turns = store.files.turns.count
        imported(store, folder)
        assert store.files.turns.count == turns + 1
        assert native(store, folder) == (folder / "events.json").read_bytes()


def test_the_configuration_of_a_jp_conversation_changes(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event(second=second) for second in range(3)])
    config = folder / "base_config.json"
    imported(store, folder)
    for content in (b'{"other": 1}', None, b"{}"):
        settle()
        config.unlink(missing_ok=True)
        if content is not None:
            config.write_bytes(content)
        settle()
        imported(store, folder)
        with exported(store, by_source(store, folder)) as files:
            assert files.get(f"{folder.name}/base_config.json") == content
            assert files[f"{folder.name}/events.json"] == (folder / "events.json").read_bytes()
        assert by_source(store, folder).records == 3 + (content is not None)


def test_an_envelope_that_differs_from_there_on(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"")
    for content in (b"{}\n{}\n{}\n", b"{}\n{}\n{}\n\n\n{}\r\n", b"{}\n{}\n{}\n\n{}\r\n", b"\n{}\n{}\n", b"\n\n"):
        path.write_bytes(content)
        bring(store, claude_source(path))
        assert native(store, path) == content


def test_growing_by_more_than_a_batch(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, long_lines(10))
    imported(store, path)
    with path.open("ab") as file:
        file.write(long_lines(5000, 40, start=10))
    report = imported(store, path)
    assert report.records == 5000
    assert native(store, path) == path.read_bytes()
    assert by_source(store, path).events == 5010


@pytest.mark.parametrize("same_size", [True, False])
def test_changed_without_a_trace_in_size(store: Store, tmp_path: Path, same_size: bool) -> None:
    """A program may set back the time of a file; the time of the change itself it cannot."""
    path = session(tmp_path, lines("One"))
    settle()
    imported(store, path)
    status = path.stat()
    path.write_bytes(lines("Two" if same_size else "Three"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    imported(store, path)
    assert native(store, path) == path.read_bytes()


def test_a_session_moves_to_another_name(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("One"))
    imported(store, path)
    moved = path.with_name("other.jsonl")
    path.rename(moved)
    known = by_source(store, path)
    report = imported(store, moved)
    assert (report.imported, report.grown, report.records) == (0, 1, 0)
    assert native(store, moved) == lines("One")
    assert by_source(store, moved).id == known.id
    assert len(store.catalogue.versions(known.id)) == 1


def test_the_first_file_beside_a_session_is_new(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Build it"))
    settle()
    assert imported(store, path).imported == 1
    assert imported(store, path).unchanged == 1
    output = path.with_suffix("") / "tool-results" / "toolu_01.txt"
    output.parent.mkdir(parents=True)
    output.write_text("long output")
    imported(store, path)
    assert list(by_source(store, path).metadata["sidecars"]) == [f"{path.stem}/tool-results/toolu_01.txt"]
