"""New events of every kind, in every format: held as the tool's own, or refused with a reason."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fusefs.editing.json_changes import JsonChanges
from fusefs.text import events_json
from fusefs.tree.view import draw_elements
from store.conversations.chain import Recorded
from store.errors import ConvfsError
from store.events.event import Event, Kind
from store.formats.registry import lens_for
from store.importing.exporter import came_in_files, export_native
from store.importing.importer import Importer
from store.store import Store
from tests.fusefs.editing.fixtures_of_tools import APPENDED, FILES, append, written
from tests.fusefs.tree.mounting import Mounted, can_mount, mounted, new_store, work_directory

ARGUMENTS = '{"path": "new.py", "lines": 3}'
NEW: dict[Kind, tuple[str, str]] = {
    Kind.SYSTEM: ("system.md", "Be brief, and no\nmore."),
    Kind.USER: ("user.md", 'And "so"?'),
    Kind.REASONING: ("reasoning.md", "I will look <there>."),
    Kind.TOOL_CALL: ("call-look.md", ARGUMENTS),
    Kind.TOOL_RESULT: ("result-look.md", "x = 1\ny = 2"),
    Kind.ASSISTANT: ("assistant.md", "It is é 1."),
    Kind.QUESTION: ("question.md", "Shall I?"),
    Kind.ANSWER: ("answer.md", "Yes, do."),
    Kind.SUMMARY: ("summary.md", "---\nfrom_turn: 0\nto_turn: 0\n---\nIt was looked at."),
    Kind.CONFIG: ("config.md", '{"style": "brief"}'),
    Kind.NOTE: ("note.md", "A note."),
}
COMMANDS = {"swe-agent, steps": "look new.py", "mini-swe-agent": "look new.py"}
TOOLS = {"mini-swe-agent": "bash"}
"""The form of a call in formats whose calls are no JSON."""


class Cell(NamedTuple):
    """The outcome of a gesture: "held", or the reason why not."""

    format: str
    kind: str
    gesture: str
    outcome: str


def text_of(kind: Kind, name: str) -> str:
    return COMMANDS.get(name, ARGUMENTS) if kind is Kind.TOOL_CALL else NEW[kind][1]


def reason(events: Path, file: str) -> str:
    """Return the reason that is noted for the refusal of a file."""
    project, name = events.parts[-3:-1]
    [noted] = (events.parents[3] / ".convfs" / "errors").glob(f"{project}--{name}--events--{file}.txt")
    return " ".join(noted.read_text().splitlines()[-1].split())


def try_all(events: Path, name: str) -> Iterator[Cell]:
    """Write an event of each kind, and say what became of it."""
    for kind, (usual, _text) in NEW.items():
        file = usual.replace("look", TOOLS.get(name, "look"))
        path = events / file
        before = sorted(os.listdir(events))
        try:
            path.write_text(text_of(kind, name) + "\n")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            assert path.read_text() == text_of(kind, name) + "\n"
            yield Cell(name, kind.word, "new file", reason(events, file))
            path.unlink()
            assert sorted(os.listdir(events)) == before
            continue
        yield Cell(name, kind.word, "new file", "held")


def holding(events: Path, kind: Kind, text: str) -> list[str]:
    """Return the files of events of a kind that hold the lines of a text."""
    words = (kind.word, "call") if kind is Kind.TOOL_RESULT else (kind.word,)
    listed = [name for name in os.listdir(events) if name[6:].removesuffix(".md").partition("-")[0] in words]
    return [name for name in listed if all(line in (events / name).read_text() for line in text.splitlines())]


NEW_NAMES = {kind.word: name.partition("-")[0].removesuffix(".md") for kind, (name, _text) in NEW.items()}
EXPECTED_TEXTS = {
    Kind.TOOL_CALL: "new.py",
    Kind.SUMMARY: "It was looked at.",
    Kind.CONFIG: "brief",
}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Tried"]:
    yield from Tried.made(tmp_path_factory.mktemp("sessions"))


class Tried:
    """All formats with all kinds tried in a mount, and the store afterwards."""

    def __init__(
        self, cells: list[Cell], store_path: Path, seen: dict[tuple[str, str], list[str]], native: dict[str, str]
    ) -> None:
        self.cells = cells
        self.store_path = store_path
        self.seen = seen
        """The files that show what was written, by format and kind."""
        self.native = native
        """The tools' own files in the mount, by name."""

    @staticmethod
    def made(folder: Path) -> Iterator["Tried"]:
        if not can_mount():
            pytest.skip("/dev/fuse or fusermount3 is not there")
        directory = Path(tempfile.mkdtemp(prefix="store-", dir=work_directory()))
        store_path = directory / "store"
        contexts: dict[str, str] = {}
        with new_store(store_path) as store:
            for name in FILES:
                known = {conversation.id for conversation in store.library.conversations()}
                report = Importer(store).run([written(folder, name)])
                assert report.errors == [], name
                made = [one for one in store.library.conversations() if one.id not in known]
                assert made, name
                for at, conversation in enumerate(made):
                    called = f"{name} {at + 1}" if len(made) > 1 else name
                    contexts[called] = f"{conversation.project}/{conversation.name}"
            for name in APPENDED:
                conversation = store.library.conversation(append(store, name))
                contexts[name] = f"{conversation.project}/{conversation.name}"
        cells: list[Cell] = []
        seen: dict[tuple[str, str], list[str]] = {}
        with mounted(store_path) as mount:
            for name, path in contexts.items():
                events = mount.root / "conversations" / path / "events"
                cells += try_all(events, name)
                for kind in NEW:
                    text = EXPECTED_TEXTS.get(kind, NEW[kind][1])
                    seen[name, kind.word] = holding(events, kind, text)
            check_listing(mount)
            own = (mount.root / ".convfs" / "native").rglob("*")
            native = {path.name: path.read_text() for path in own if path.is_file()}
        yield Tried(cells, store_path, seen, native)
        shutil.rmtree(directory)


def check_listing(mount: Mounted) -> None:
    """Fail unless every file in the mount is as long as it says."""
    for path in (mount.root / "conversations").rglob("events/*"):
        assert path.stat().st_size == len(path.read_bytes()), path


def test_every_kind_is_held_or_refused_with_a_reason(tried: Tried) -> None:
    for cell in tried.cells:
        print(" | ".join(cell))
    for cell in tried.cells:
        if cell.outcome == "held":
            assert len(tried.seen[cell.format, cell.kind]) == 1, (cell, tried.seen[cell.format, cell.kind])
        else:
            assert not tried.seen[cell.format, cell.kind], cell
            assert f"/events/{NEW_NAMES[cell.kind]}" in cell.outcome, cell
            assert cell.outcome.endswith("; the text is kept as it is"), cell
            assert "write" in cell.outcome or "edit" in cell.outcome, cell
            assert len(cell.outcome) < 300, cell
    held = {(cell.format, cell.kind) for cell in tried.cells if cell.outcome == "held"}
    assert held >= HELD
    assert len(held) > 150


WORDS = "system user reasoning call result assistant"
HELD = {
    (name, kind)
    for name, kinds in {
        "claude-code": f"{WORDS} summary config note",
        "codex": f"{WORDS} summary note",
        "gemini-cli": "user reasoning call result assistant note",
        "gemini-cli, document": "user reasoning call result assistant note",
        "pi": f"{WORDS} summary note",
        "jp": "user reasoning call result assistant question answer summary config",
        "opencode 1": f"{WORDS} summary",
        "llm-logs 1": WORDS,
        "openhands": f"{WORDS} summary",
        "openhands, software kit": f"{WORDS} summary",
        "openhands, a file an event": f"{WORDS} summary",
        "swe-agent": WORDS,
        "swe-agent, steps": "call result",
        "mini-swe-agent": WORDS,
        "aider": "user assistant note",
        "specstory": "user reasoning call assistant",
        "api-messages, chat": WORDS,
        "api-messages, Anthropic": WORDS,
        "api-messages, Gemini": "user reasoning call result assistant",
        "api-messages, Responses": WORDS,
        "messages-jsonl": "user assistant system",
        "chatgpt": f"{WORDS} note",
        "claude-ai": "user reasoning call result assistant",
        "text": "user assistant system reasoning summary note",
        "cxdb": WORDS,
    }.items()
    for kind in kinds.split()
}


def test_what_is_held_is_in_the_exported_file_and_comes_back(tried: Tried, tmp_path: Path) -> None:
    """Each conversation is exported as its tool's own files, and imported into an empty store."""
    with new_store(tried.store_path) as store:
        wanted = {}
        for conversation in store.library.conversations():
            if not came_in_files(conversation):
                continue
            target = tmp_path / f"{conversation.id}"
            target.mkdir()
            export_native(store, conversation, target)
            wanted[target] = texts(store, conversation.id)
    assert len(wanted) > len(FILES) - 1
    for target, expected in wanted.items():
        with new_store(target.with_suffix(".store")) as again:
            report = Importer(again).run([target])
            assert report.errors == [], target
            found = [texts(again, conversation.id) for conversation in again.library.conversations()]
        lost = [[text for text in expected if text not in one] for one in found]
        assert [] in lost, (sorted(target.rglob("*")), min(lost, key=len))


@pytest.mark.parametrize("name", ["claude-code", "codex", "pi", "specstory"])
def test_what_is_held_is_in_the_native_file_at_once(tried: Tried, name: str) -> None:
    file = tried.native[FILES[name][0]]
    held = [cell.kind for cell in tried.cells if cell.format == name and cell.outcome == "held"]
    texts_of = {kind.word: EXPECTED_TEXTS.get(kind, text.splitlines()[0]) for kind, (_, text) in NEW.items()}
    for kind in held:
        assert texts_of[kind] in file.replace('\\"', '"'), kind


def test_the_same_can_be_added_in_events_json(tried: Tried) -> None:
    """Each new record's element, added again without its number, is a record of the same kind and text."""
    added = 0
    with new_store(tried.store_path) as store:
        for conversation in store.library.conversations():
            rows = [row for row in store.records.rows(conversation.head) if not row.deleted]
            drawn = json.loads(b"".join(events_json.document(part for *_, part in draw_elements(store, rows))))
            for row, element in [*zip(rows, drawn, strict=True)][-6:]:
                event = store.records.event(row)
                if row.kind is Kind.RECORD or (conversation.name in APPENDED and row is not rows[-1]):
                    # a text alone is of the kind of the one before it
                    continue
                again = {key: value for key, value in element.items() if key != "$event"}
                again |= {"timestamp": "2026-03-06 00:00:00.0"} if conversation.format == "jp" else {}
                changes = JsonChanges(store, conversation.id, conversation.head, conversation.records)
                rewrite = changes.work_out(json.dumps([*drawn, again]).encode())
                assert rewrite is not None
                [one] = rewrite.added
                seen = lens_for(one.type_name, one.encoding).view(one.payload, Recorded(row.tool, 0, no_blobs))
                assert (seen.kind, said(seen)) == (event.kind, said(event)), (conversation.name, element)
                added += 1
    assert added > 100


def no_blobs(_algorithm: str, _digest: bytes) -> bytes | None:
    return None


def said(event: Event) -> list[str | None]:
    return [block.text for block in event.blocks]


def texts(store: Store, context: int) -> list[tuple[str, str]]:
    """Return the kinds and texts of what is shown of a conversation."""
    conversation = store.library.conversation(context)
    found = []
    for _row, event in store.viewer.events(store.records.rows(conversation.head)):
        assert not isinstance(event, ConvfsError)
        found += [(event.kind.word, block.text or "") for block in event.blocks if event.kind is not Kind.RECORD]
    return found
