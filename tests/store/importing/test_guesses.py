"""Files that are nobody's for sure are read as a guess when asked for, and one of which little is seen says so."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import pytest

from store.events.event import Event as Told
from store.importing.drop import take
from store.importing.importer import Importer, ImportReport
from store.importing.watch import Watching
from store.store import Store
from tests.store.formats.test_recognition import ID, LINES, qwen
from tests.store.importing.sessions import exported, lines, session

TOLD = "more than a tenth of its texts is in no event"


def said(number: int) -> str:
    return f"Please {chr(97 + number) * 5} why the login fails again"


def unknown_session(folder: Path) -> Path:
    """Write a session that is like one of Qwen Code, of a tool that nobody knows."""
    path = folder / f"{ID}.jsonl"
    records = []
    for number in range(1, 21):
        message = {"role": "user", "pieces": [{"text": said(number)}]}
        records.append(qwen("user" if number % 2 else "assistant", number, message=message))
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def hidden(count: int, of: int) -> bytes:
    """Return a session of Claude Code in which so many texts are in members that no version of it has."""
    records = [json.loads(line) for line in lines(*map(said, range(of))).splitlines()]
    for record in records[:count]:
        record["message"] = record["message"] | {"content": [], "parts": [{"text": record["message"]["content"]}]}
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_a_file_that_is_named_is_read_as_a_guess(store: Store, tmp_path: Path) -> None:
    path = unknown_session(tmp_path)
    for report in (Importer(store).run([tmp_path]), Importer(store).run([tmp_path], format_name="claude-code")):
        assert (report.imported, report.skipped) == (0, 1)
        assert "holds no session of" in report.errors[0]
    report = Importer(store).run([path], format_name="claude-code")
    assert (report.imported, report.errors) == (1, [])
    assert [TOLD in line for line in report.warnings] == [True]
    [conversation] = store.library.conversations()
    with exported(store, conversation) as files:
        assert files == {path.name: path.read_bytes()}


@pytest.mark.parametrize("name", ["gemini-cli", "pi", "opencode", "llm-logs", "jp", "chatgpt", "aider", "api-messages"])
@pytest.mark.parametrize("tool", ["Qwen Code", "Cursor"])
def test_a_wrong_guess_is_told_or_kept_whole(store: Store, tmp_path: Path, name: str, tool: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in LINES[tool][1]))
    report = Importer(store).run([path], format_name=name)
    assert report.imported or report.errors
    for conversation in store.library.conversations():
        with exported(store, conversation) as files:
            assert path.read_bytes() in files.values()


@pytest.mark.parametrize(("count", "of", "is_told"), [(0, 20, False), (2, 20, False), (3, 20, True), (2, 4, False)])
def test_texts_in_no_event_are_told(store: Store, tmp_path: Path, count: int, of: int, is_told: bool) -> None:
    report = Importer(store).run([session(tmp_path, hidden(count, of))])
    assert report.imported == 1
    assert [TOLD in line for line in report.warnings] == [True] * is_told


@pytest.mark.logs("more than a tenth")
def test_reports_of_what_is_put_down_and_logs_say_so(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_down = session(tmp_path / "import", hidden(8, 10))
    with take(store, put_down, tmp_path / "apart") as taken_in:
        assert TOLD in taken_in.said
    home = session(tmp_path / "home", hidden(9, 12).replace(b"login", b"logout")).parent
    ended, seen = Event(), Event()

    def taken(paths: Sequence[Path]) -> ImportReport:
        report = Importer(store).run(paths, by_hand=False)
        if report.conversations:
            seen.set()
        return report

    watching = Watching(lambda: [home], taken, store.root)
    with caplog.at_level(logging.WARNING, logger="store.importing.watch"):
        thread = Thread(target=watching.run, args=(ended, lambda: None))
        thread.start()
        try:
            assert seen.wait(60)
        finally:
            ended.set()
            thread.join()
    assert [TOLD in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize(
    "record",
    [
        {"speaker": "human", "utterance": "Why does the login fail?", "ts": 1_772_739_114},
        {"role": "user", "whatever": {"it is": "Why does the login fail?"}},
        {"question": "Why does the login fail?", "answer": "It returns nothing."},
    ],
)
def test_no_text_of_a_guess_is_hidden(store: Store, tmp_path: Path, record: dict[str, object]) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert Importer(store).run([path]).tools["guess-lines"].imported == 1
    [conversation] = store.library.conversations()
    [(_row, event)] = store.viewer.events(store.records.rows(conversation.head))
    assert isinstance(event, Told)
    assert any("Why does the login fail?" in (block.text or "") for block in event.blocks)
    with exported(store, conversation) as files:
        assert files == {path.name: path.read_bytes()}
