"""Every tool has every property that its sessions can have; what one has not is said, and is not there indeed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.chain import Recorded
from store.editing.editor import Editor
from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import BlockEdit, Event, EventEdit, Kind
from store.exporting.export import export, forms, target_named
from store.exporting.resume import plan
from store.exporting.sessions import SessionTarget
from store.formats.core.format import Source
from store.formats.registry import format_named, lens_for
from store.importing.importer import Importer
from store.importing.walk import discover, walk
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import exported
from tests.store.importing.tools import AGENT, ANSWERED, ASKED, CODE, FILE, MORE, TOOLS, Tool, write
from tests.store.insight.answers import report_of

PROPERTIES = {
    "home": "found where it lies",
    "request": "what was asked is a request, what was answered is an answer",
    "directory": "where it was worked in is known",
    "watch": "what is new comes in",
    "export": "the same bytes come out",
    "edit": "every text can be changed, and only it changes",
    "agents": "subagents are in their parent",
    "files": "the file that was read is known",
    "usage": "tokens and cost are counted once",
    "resume": "its program goes on with it",
    "others": "it becomes a session of every other tool",
}
EDITED = 'Said "anew" \\ é😀'


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> Tool:
    return TOOLS[request.param]


@pytest.fixture
def home(memory_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    write(memory_path / "home", tool.files)
    return memory_path / "home"


@pytest.fixture
def imported(store: Store, home: Path) -> Store:
    assert Importer(store).run([home]).errors == []
    return store


def events(store: Store, conversation: Conversation) -> list[Event]:
    rows = store.records.rows(conversation.head)
    return [event for _row, event in store.viewer.events(rows) if isinstance(event, Event)]


def words(found: list[Event], *kinds: Kind) -> str:
    return "\n".join(block.text or "" for event in found if event.kind in kinds or not kinds for block in event.blocks)


def talk(store: Store) -> Conversation:
    """Return the conversation in which the question is."""
    found = [one for one in store.library.conversations() if ASKED in words(events(store, one))]
    assert len(found) == 1
    return found[0]


def has(tool: Tool, name: str, *, there: bool) -> bool:
    """Return whether a property is to be proven; ``there`` must be false where it is said that there is no such."""
    assert there or name in tool.none, f"{tool.format}: {PROPERTIES[name]}"
    assert not (there and name in tool.none), f"{tool.format} has what is said to be missing: {PROPERTIES[name]}"
    return there


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{'':26}" + " ".join(f"{name:9}" for name in PROPERTIES))
        for name, tool in TOOLS.items():
            print(f"{name:26}" + " ".join(f"{'-' if one in tool.none else 'yes':9}" for one in PROPERTIES))
            for one, why in tool.none.items():
                print(f"{'':28}{one}: {why}")
    assert {name for tool in TOOLS.values() for name in tool.none} <= PROPERTIES.keys()


def test_it_is_found_where_it_lies(home: Path, tool: Tool) -> None:
    main = home / tool.main
    found = discover(home, home)
    below = any(main.is_relative_to(place) for place in found)
    if has(tool, "home", there=below):
        claimed = {one.path for place in found for one in walk(place) if isinstance(one, Source)}
        assert main in claimed or main.parent in claimed


def test_questions_answers_and_what_it_tells_of_itself(imported: Store, home: Path, tool: Tool) -> None:
    conversation = talk(imported)
    assert conversation.format == tool.format
    found = events(imported, conversation)
    has(tool, "request", there=ASKED in words(found, Kind.USER))
    # some tools keep an answer in the message of a call
    assert ANSWERED in words(found, Kind.ASSISTANT, Kind.TOOL_CALL)
    assert not [event for event in found if any(block.name.startswith("record") for block in event.blocks)]
    if has(tool, "directory", there="cwd" in conversation.metadata):
        assert conversation.metadata["cwd"] in ("/shop", str(home / "shop"))


def test_what_is_new_comes_in(imported: Store, home: Path, tool: Tool) -> None:
    before = talk(imported)
    assert Importer(imported).run([home], by_hand=False).grown == 0
    write(home, tool.grown)
    report = Importer(imported).run([home], by_hand=False)
    assert (report.errors, report.imported, report.grown) == ([], 0, 1)
    now = talk(imported)
    assert now.id == before.id
    assert MORE in words(events(imported, now))


def test_the_same_bytes_come_out(imported: Store, home: Path, tool: Tool) -> None:
    """With all files beside the session that are known to belong to it."""
    conversation = talk(imported)
    with exported(imported, conversation) as files:
        for name, content in files.items():
            there = [path for path in home.rglob(Path(name).name) if path.read_bytes() == content]
            assert there, name
        if tool.format == "antigravity":
            assert {Path(name).suffix for name in files} == {".jsonl", ".db"}
            assert len(files) == 3


def test_every_text_can_be_changed(imported: Store, home: Path, memory_path: Path, tool: Tool) -> None:
    """An export then says all of it, and nothing else changes; undone, all is as it was."""
    conversation = talk(imported)
    with exported(imported, conversation) as files:
        before = files
    changes: dict[int, bytes] = {}
    said: list[str] = []
    for row, event in imported.viewer.events(imported.records.rows(conversation.head)):
        assert isinstance(event, Event)
        lens = lens_for(imported.viewer.lens(imported.turns.get(row.turn)).type_name)
        for at, block in enumerate(event.blocks):
            if block.type != "text" or not block.path or not block.text:
                continue
            payload = changes.get(row.number) or imported.contents.payload(row.turn)
            told = Recorded(row.tool, row.parent, imported.contents.aliased)
            # what a tool has wrapped a question in stays as it is
            said.append(block.text.replace(ASKED, EDITED) if ASKED in block.text else f"{EDITED} {at}")
            change = BlockEdit(block.path, said[-1], block.name, "text", block.encoding)
            changes[row.number] = lens.edit(payload, EventEdit((change,)), told)
            was, now = lens.view(payload, told).blocks, lens.view(changes[row.number], told).blocks
            assert [one.text for one in now] == [one.text for one in (*was[:at], now[at], *was[at + 1 :])]
    assert len(said) >= 2
    Editor(imported).edit(conversation.id, changes)
    out = memory_path / "out"
    export(imported, imported.library.conversation(conversation.id), out, "native")
    with Store.open(memory_path / "other", renderer=FileRenderer()) as other:
        assert Importer(other).run([out]).errors == []
        found = [words(events(other, one)) for one in other.library.conversations()]
    assert [one for one in said if not any(one in text for text in found)] == []
    Editor(imported).restore(conversation.id, 1)
    with exported(imported, imported.library.conversation(conversation.id)) as files:
        assert files == before


def test_subagents_are_in_their_parent(imported: Store, tool: Tool) -> None:
    """As a conversation in that of the parent, or between its events."""
    conversation = talk(imported)
    nested = [one for one in imported.library.nested(conversation, every=True) if one.id != conversation.id]
    children = [one for one in nested if AGENT in words(events(imported, one))]
    inside = [event for event in events(imported, conversation) if event.header.get("sidechain")]
    has(tool, "agents", there=bool(children) or AGENT in words(inside))
    assert not (children and inside)


def test_the_file_that_was_read_is_known(imported: Store, tool: Tool) -> None:
    conversation = talk(imported)
    rows = imported.known_files.rows(conversation.id, conversation.head)
    row = next((one for one in rows if one.uri.partition("#")[0].endswith(FILE)), None)
    assert not any(one.uri.endswith(f"/shop{FILE}") for one in rows)
    if has(tool, "files", there=row is not None):
        assert row is not None
        known = imported.known_files.content(conversation.id, conversation.head, row, rows)
        assert known.decode().removesuffix("\n") == CODE.removesuffix("\n")


def test_tokens_and_cost_are_counted_once(imported: Store, home: Path, tool: Tool) -> None:
    """Of a session that has grown, as it is now."""
    write(home, tool.grown)
    assert Importer(imported).run([home], by_hand=False).grown == 1
    spent = report_of(imported).total
    if has(tool, "usage", there=spent.answers > 0):
        assert tool.spent is not None
        assert (spent.input, spent.output) == (tool.spent.input, tool.spent.output)
        assert spent.told_cost == (tool.cost or 0.0)
    else:
        assert tool.spent is None


def test_its_program_goes_on_with_it(imported: Store, tool: Tool) -> None:
    """With the session that is there; edited, that is told in one line or becomes a session of its own."""
    resuming = format_named(tool.format).resuming
    if has(tool, "resume", there=bool(resuming)):
        found = plan(imported, talk(imported), "", 0)
        assert (found.own, found.edited) == (True, False)
        assert found.session
        assert found.tool in {one.tool for one in resuming}
    else:
        with pytest.raises(UsageError, match="no program goes on with sessions of"):
            plan(imported, talk(imported), "", 0)


def test_it_becomes_a_session_of_every_other_tool(imported: Store, memory_path: Path, tool: Tool) -> None:
    """And is read back as one."""
    conversation = talk(imported)
    targets = [target_named(name) for name in forms()[1:]]
    for name in (one.name for one in targets):
        files = export(imported, conversation, memory_path / name, name).files
        written = "".join(path.read_bytes().decode("utf-8", "replace") for path in files)
        assert ANSWERED in written, name
    for name in (one.name for one in targets if isinstance(one, SessionTarget) and one.name == one.own):
        with Store.open(memory_path / f"{name} store", renderer=FileRenderer()) as other:
            assert Importer(other).run([memory_path / name]).errors == []
            [found] = [one for one in other.library.conversations() if ANSWERED in words(events(other, one))]
            assert found.format == name


def test_a_database_beside_a_session_is_kept_as_it_is(store: Store, memory_path: Path) -> None:
    """With its log while there is one; once that is written back, without it."""
    tool = TOOLS["Antigravity"]
    write(memory_path / "home", tool.files)
    [path] = (memory_path / "home").rglob("*.db")

    def rows() -> list[object]:
        Importer(store).run([memory_path / "home"], by_hand=False)
        out = memory_path / f"out {len(list(memory_path.iterdir()))}"
        export(store, talk(store), out, "native")
        [copy] = out.rglob("*.db")
        with closing(sqlite3.connect(copy)) as database:
            return [kind for (kind,) in database.execute("SELECT step_type FROM steps")]

    assert rows() == [14]
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("INSERT INTO steps VALUES (1, 15)")
        database.commit()
        assert path.with_name(f"{path.name}-wal").stat().st_size
        assert rows() == [14, 15]
        database.execute("UPDATE steps SET step_type = 21")
        database.commit()
    assert not path.with_name(f"{path.name}-wal").exists()
    assert rows() == [21, 21]
