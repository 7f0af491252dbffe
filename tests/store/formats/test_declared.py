"""Formats that are a page of TOML: the page, what it makes of records, and the files of each tool."""

import base64
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import UsageError
from store.events.event import BlockEdit, Event, EventEdit, FieldEdit, Kind, ValuePath
from store.events.usage import NOTHING_RUNNING
from store.exporting.steps import steps_of
from store.formats import registry
from store.formats.core.composing import Particulars
from store.formats.core.format import Format, Source, line_spans
from store.formats.core.lens import Nothing
from store.formats.core.look import Look
from store.formats.declared import description
from store.formats.declared.format import DeclaredFormat
from store.formats.registry import FORMATS, format_named, guesses, is_described, lens_for
from store.importing.importer import Importer
from store.importing.trial import records_of, tried
from store.importing.walk import walk
from store.store import Store
from store.worktree.actions import Lines
from store.worktree.calls import asked_of
from tests.store.formats.test_recognition import DOCUMENTS, LINES, OTHERS
from tests.store.importing.sessions import native

MANUAL = Path(registry.__file__).parents[1] / "FORMATS.md"
[PAGE] = re.findall(r"^```toml\n(.*?)^```$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
DESCRIBED = [one.name for one in (*FORMATS, *guesses()) if is_described(one)]

CHAT = [
    {"chatlines": 1, "title": "Fix the login", "project": "shop", "at": "2026-03-05T19:31:54Z"},
    {"at": "2026-03-05T19:31:55Z", "from": "user", "text": "Why does the login fail?"},
    {"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "login.py"}},
    {"at": "2026-03-05T19:32:07Z", "from": "model", "text": "It returns nothing."},
    {"at": "2026-03-05T19:32:08Z", "what": "is this?"},
]


def chat(more: str = "") -> DeclaredFormat:
    return DeclaredFormat(description.read(PAGE + more, "chat-lines.toml"))


def events(format_: Format, records: list[dict[str, object]]) -> list[Event]:
    return [format_.lenses[0].view(json.dumps(record).encode(), Nothing()) for record in records]


def test_every_member_stands_in_the_manual() -> None:
    text = MANUAL.read_text(encoding="utf-8")
    pages = (description.Description, description.View, description.Session, description.Record, description.Spent)
    parts = (description.Database, description.Resume, description.Write, description.Call, description.Result)
    for page in (*pages, *parts):
        for name in page.__struct_fields__:
            assert re.search(rf"`{name}`|\b{name} = |\[+{name}", text), f"{page.__name__}.{name}"


def test_the_page_that_the_manual_shows(tmp_path: Path) -> None:
    format_ = chat()
    kinds = [Kind.RECORD, Kind.USER, Kind.TOOL_CALL, Kind.ASSISTANT, Kind.NOTE]
    seen = events(format_, CHAT)
    assert [event.kind for event in seen] == kinds
    assert [block.text for block in seen[1].blocks] == ["Why does the login fail?"]
    assert (seen[2].tool, seen[2].header["id"], seen[2].blocks[0].name) == ("read", "c1", "arguments")
    assert seen[1].time_ms == 1_772_739_115_000
    path = tmp_path / "login.chatlines"
    path.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
    source = format_.claim(Look(path))
    assert source is not None
    about = format_.about(source, path.read_bytes().splitlines())
    assert (about.title, about.project, about.session_id) == ("Fix the login", "shop", "login")
    (tmp_path / "other.jsonl").write_text('{"from": "user", "text": "x"}\n')
    assert format_.claim(Look(tmp_path / "other.jsonl")) is None


def test_texts_fields_and_times_are_edited_where_they_stand() -> None:
    lens = chat().lenses[0]
    record = b'{"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "a.py"}}'
    event = lens.view(record, Nothing())
    change = BlockEdit(event.blocks[0].path, '{"path": "b.py"}', type="json")
    assert lens.edit(record, EventEdit((change,)), Nothing()) == record.replace(b"a.py", b"b.py")
    renamed = lens.edit(record, EventEdit(fields=(FieldEdit("tool", "write"),)), Nothing())
    assert renamed == record.replace(b"read", b"write")
    later = lens.edit(record, EventEdit(fields=(FieldEdit("timestamp", "2026-03-05T20:00:00Z"),)), Nothing())
    assert later == record.replace(b"19:31:58", b"20:00:00")
    with pytest.raises(UsageError, match="'nonesuch'"):
        lens.edit(record, EventEdit(fields=(FieldEdit("nonesuch", "x"),)), Nothing())


@pytest.mark.parametrize(("stamp", "wanted"), [(1_772_739_115, 1_772_742_600), (1_772_739_115_000, 1_772_742_600_000)])
def test_times_that_are_numbers_stay_numbers(stamp: int, wanted: int) -> None:
    lens = chat().lenses[0]
    record = b'{"at":%d,"from":"user","text":"x"}' % stamp
    assert lens.view(record, Nothing()).time_ms == 1_772_739_115_000
    edited = lens.edit(record, EventEdit(fields=(FieldEdit("timestamp", "2026-03-05T20:30:00Z"),)), Nothing())
    assert edited == b'{"at":%d,"from":"user","text":"x"}' % wanted


def test_what_a_person_adds_is_written_as_the_page_says() -> None:
    lens = chat().lenses[0]
    made = json.loads(lens.compose(Kind.USER, "Try again.", None, 1_772_739_115_000))
    assert made == {"at": "2026-03-05T19:31:55.000Z", "from": "user", "text": "Try again."}
    with pytest.raises(UsageError, match="no reasoning can be written by hand in chat-lines"):
        lens.compose(Kind.REASONING, "No.", None, 0)
    more = '\n[new.call]\nfrom = "model"\ncalls = "$tool"\nid = "$id"\nwith = "$arguments"\n'
    lens = chat(more).lenses[0]
    particulars = Particulars(tool="read", document={"path": "a"})
    call = json.loads(lens.compose(Kind.TOOL_CALL, "", None, 0, particulars))
    assert (call["calls"], call["with"]) == ("read", {"path": "a"})
    assert call["id"]
    more = '\n[new.result]\nid = "$id"\n"of?" = "$asked.calls"\n"none?" = "$asked.nothing"\n'
    answer = Particulars(id="c1", asked=b'{"calls": "read"}')
    made = json.loads(chat(more).lenses[0].compose(Kind.TOOL_RESULT, "x", None, 0, answer))
    assert made == {"id": "c1", "of": "read"}


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("name = ", "is no TOML"),
        ('name = "x"', "describes no format: Object missing required field `records`"),
        ('name = "x"\nrecords = []\nnonesuch = 1', "unknown field `nonesuch`"),
        ('name = "X y"\nrecords = []', "small letters"),
        ('name = "x"\nrecords = []\ncontainer = "box"', "container is lines or document or database"),
        ('name = "x"\nrecords = []\ncontainer = "database"', "has a section [database]"),
        ('name = "x"\nrecords = []\npath = "("', "no regular expression"),
        ('name = "x"\nrecords = [{ kind = "shout" }]', "no kind 'shout'"),
        ('name = "x"\nrecords = [{ each = "a" }]', "'parts' say what its elements show"),
        ('name = "x"\nrecords = []\nrecord = { id = "a.b" }', "a member of the record itself"),
        ('name = "x"\nrecords = []\n[new.shout]\na = 1', "no kind 'shout'"),
    ],
)
def test_a_page_that_is_wrong_says_so(page: str, told: str) -> None:
    with pytest.raises(UsageError, match=r"x\.toml") as raised:
        description.read(page, "x.toml")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture
def forgotten() -> Iterator[None]:
    yield
    registry._learned.clear()


@pytest.mark.usefixtures("forgotten")
def test_a_format_of_ones_own(tmp_path: Path) -> None:
    """Files of it are imported, edited and exported like those of any other."""
    folder = tmp_path / "store" / "formats"
    folder.mkdir(parents=True)
    (folder / "chat-lines.toml").write_text(PAGE)
    (folder / "claude-code.toml").write_text(PAGE.replace("chat-lines", "claude-code"))
    (folder / "broken.toml").write_text("name = ")
    path = tmp_path / "login.chatlines"
    path.write_text("".join(json.dumps(line) + "\n" for line in CHAT))
    with Store.open(tmp_path / "store") as store:
        assert [("no TOML" in line, "of this name" in line) for line in store.warnings] == [
            (True, False),
            (False, True),
        ]
        report = Importer(store).run([path])
        assert (report.errors, report.tools["chat-lines"].imported) == ([], 1)
        assert native(store, path) == path.read_bytes()
    assert tried(path).kinds == Counter(record=1, user=1, call=1, assistant=1, note=1)


def test_every_page_describes_its_format() -> None:
    pages = {path.stem for path in registry._DESCRIPTIONS.glob("*.toml")}
    assert pages == set(DESCRIBED)
    for name in DESCRIBED:
        format_ = format_named(name)
        assert format_.main_type == f"{name}.record.v1"
        assert lens_for(format_.main_type) is format_.lenses[0]
        list(format_.homes(Path("/nonexistent"), Path("/")))


OF_LINES = {
    "Qwen Code": ("qwen-code", ["record", "user", "assistant", "user"]),
    "Qwen Code that only counts": ("qwen-code", ["record"]),
    "Hermes' gateway": ("hermes-lines", ["record", "user", "call", "result"]),
    "Droid": ("droid", ["record", "user", "call", "result"]),
    "Kimi Code": ("kimi-code", ["record", "record", "record"]),
    "kimi-cli": ("kimi-cli", ["system", "user", "record"]),
    "Cursor": ("cursor", ["user", "assistant", "record"]),
    "Codex on stdout": ("codex-exec", ["record", "assistant"]),
}


@pytest.mark.parametrize("tool", OF_LINES)
def test_lines_of_tools_that_are_described(tool: str) -> None:
    name, kinds = OF_LINES[tool]
    assert [event.kind.word for event in events(format_named(name), LINES[tool][1])] == kinds


def test_what_subagents_say_between_the_lines_of_their_parent(tmp_path: Path) -> None:
    """It is marked as such, gives the session no title, and counts once."""
    answer = {"messageId": "m1", "content": "Found.", "toolRequests": [], "model": "m", "outputTokens": 7}
    lines: list[dict[str, object]] = [
        {"type": "session.start", "data": {"sessionId": "s", "copilotVersion": "1.0.74"}},
        {"type": "user.message", "agentId": "t1", "data": {"content": "Search the files"}},
        {"type": "user.message", "data": {"content": "Fix the login", "transformedContent": "Fix the login"}},
        {"type": "assistant.message", "agentId": "t1", "data": answer},
    ]
    seen = events(format_named("copilot-cli"), lines)
    assert [event.header.get("agent") for event in seen] == [None, "t1", None, "t1"]
    assert [event.header.get("sidechain") for event in seen] == [None, True, None, True]
    path = tmp_path / "s" / "events.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tried(path).about.title == "Fix the login"
    lens = format_named("copilot-cli").lenses[0]
    usage, _running = lens.usage(json.dumps(lines[3]).encode(), NOTHING_RUNNING)
    assert usage is not None
    assert (usage.tokens.output, usage.answer) == (7, "m1")


ACP: list[tuple[dict[str, object], str]] = [
    ({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Why?"}}, "user"),
    ({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "Hm."}}, "reasoning"),
    ({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "read", "rawInput": {"path": "a"}}, "call"),
    (
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c1",
            "content": [{"type": "content", "content": {"type": "text", "text": "def login"}}],
        },
        "result",
    ),
    ({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}, "record"),
    ({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Because."}}, "assistant"),
    ({"sessionUpdate": "turn_completed"}, "record"),
]


def test_a_display_log_of_grok_stands_for_a_session_without_history(tmp_path: Path) -> None:
    lines = [{"timestamp": 1784278801, "params": {"update": update}} for update, _kind in ACP]
    format_ = format_named("grok-updates")
    seen = events(format_, [dict(line) for line in lines])
    assert [event.kind.word for event in seen] == [kind for _update, kind in ACP]
    assert [block.text for block in seen[3].blocks] == ["def login"]
    path = tmp_path / "s1" / "updates.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tried(path).source.format == "grok-updates"
    (path.parent / "chat_history.jsonl").write_text('{"type": "user", "content": "Why?"}\n')
    assert [source.format for source in walk(path.parent) if isinstance(source, Source)] == ["grok-build"]


OF_DOCUMENTS = {
    "Amp": "amp",
    "Continue": "continue",
    "Hermes": "hermes",
    "Hermes that was told to save": "hermes",
}


@pytest.mark.parametrize("tool", OF_DOCUMENTS)
def test_documents_of_tools_that_are_described(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(DOCUMENTS[tool], indent=2))
    found = tried(path)
    assert found.source.format == OF_DOCUMENTS[tool]
    assert found.kinds["user"] == 1
    assert found.about.title


@pytest.mark.skipif(not OTHERS.is_dir(), reason=f"no sessions of other tools at {OTHERS} (CONVFS_SAMPLES)")
def test_sessions_of_other_tools_come_out_as_they_went_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And every text in them can be changed in its event, without any other byte."""
    rows: list[tuple[str, int, int, int, int, int]] = []
    counts: dict[str, Counter[str]] = {}
    with Store.open(tmp_path / "store") as store:
        for source in walk(OTHERS):
            if not isinstance(source, Source) or source.format not in DESCRIBED:
                continue
            format_name = source.format
            report = Importer(store).run([source.path], by_hand=True)
            assert report.errors == []
            counted = counts.setdefault(format_name, Counter())
            counted["files"] += 1
            format_ = format_named(format_name)
            for record in records_of(source, format_):
                counted += _changed(format_, record)
            # one that grew elsewhere goes on in the same conversation
            if store.catalogue.by_source(str(source.path)) is not None:
                assert native(store, source.path) == source.path.read_bytes()
    rows = [
        (name, *(counted[what] for what in ("files", "shown", "bookkeeping", "edited", "left")))
        for name, counted in sorted(counts.items())
    ]
    with capsys.disabled():
        print(f"\n{'':16} {'files':>6} {'shown':>6} {'kept':>6} {'edits':>6} {'notes':>6}")
        for name, *numbers in rows:
            print(f"{name:16} " + " ".join(f"{number:6}" for number in numbers))
    assert len(rows) > 15


def _with(value: object, path: ValuePath, text: str) -> object:
    """Return a value with another text at a path; a string on the way there holds JSON."""
    if not path:
        return text
    if isinstance(value, str):
        return json.dumps(_with(json.loads(value), path, text))
    if isinstance(value, dict):
        return value | {path[0]: _with(value[path[0]], path[1:], text)}
    assert isinstance(value, list)
    return [_with(one, path[1:], text) if at == path[0] else one for at, one in enumerate(value)]


def _same(one: object, other: object) -> bool:
    """Compare values; strings that hold JSON may be spelled in another way."""
    if isinstance(one, str) and isinstance(other, str) and one[:1] in ("{", "["):
        return one == other or json.loads(one) == json.loads(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _changed(format_: Format, record: bytes) -> Counter[str]:
    """Change each text of a record, and count them."""
    lens = format_.lenses[0]
    event = lens.view(record, Nothing())
    counted: Counter[str] = Counter(shown=event.kind is not Kind.RECORD, bookkeeping=event.kind is Kind.RECORD)
    counted["left"] += event.kind is Kind.NOTE and any(block.name.startswith("record") for block in event.blocks)
    for block in event.blocks:
        if block.type != "text" or not block.path or not block.text:
            continue
        edited = lens.edit(record, EventEdit((BlockEdit(block.path, "Other words."),)), Nothing())
        now = lens.view(edited, Nothing())
        assert any("Other words." in (other.text or "") for other in now.blocks)
        wanted = _with(json.loads(record), block.path, "Other words.")
        for place, text in lens.twins(json.loads(record), block.path, block.text, "Other words."):
            wanted = _with(wanted, place, text)
        assert _same(json.loads(edited), wanted)
        counted["edited"] += 1
    return counted


def test_an_edit_is_written_back_into_the_database(tmp_path: Path) -> None:
    path = tmp_path / "crush.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, created_at INTEGER);"
            "CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT,"
            " created_at INTEGER);"
            "INSERT INTO sessions VALUES ('s', 'Login', 1772739114), ('empty', 'Nothing', 1772739114)"
        )
        for number, role, text in ((1, "user", "Why?"), (2, "assistant", "Because.")):
            parts = json.dumps([{"type": "text", "data": {"text": text}}])
            row = (f"m{number}", "s", role, parts, "gpt", 1772739114 + number)
            database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", row)
        database.commit()
    format_ = format_named("crush")
    source = format_.claim(Look(path))
    assert source is not None
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    lines = format_.rendition(source, scratch)
    assert lines is not None
    records = lines.read_bytes().splitlines()
    [part] = format_.parts(source, memoryview(lines.read_bytes()), list(line_spans(memoryview(lines.read_bytes()), 0)))
    assert (part.key, part.about.title, len(part.records)) == ("s", "Login", 3)
    lens = format_.lenses[0]
    event = lens.view(records[1], Nothing())
    records[1] = lens.edit(records[1], EventEdit((BlockEdit(event.blocks[0].path, "Why not?"),)), Nothing())
    edited = tmp_path / "edited.jsonl"
    # the answer is deleted
    edited.write_bytes(b"".join(record + b"\n" for record in format_.without(records, {2})))
    format_.restore(path, edited, tmp_path / "out.db")
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        rows = database.execute("SELECT id, parts FROM messages").fetchall()
    assert [(one, json.loads(parts)) for one, parts in rows] == [
        ("m1", [{"type": "text", "data": {"text": "Why not?"}}])
    ]


def test_programs_that_go_on_with_described_sessions() -> None:
    found = {one.tool: one for name in DESCRIBED for one in format_named(name).resuming}
    assert {tool: one.words for tool, one in found.items()} == {
        "agy": ("agy", "--conversation", "{session}"),
        "cline": ("cline", "--id", "{session}"),
        "continue": ("cn", "--fork", "{session}"),
        "copilot-cli": ("copilot", "--resume", "{session}"),
        "crush": ("crush", "--session", "{session}"),
        "droid": ("droid", "--resume", "{session}"),
        "goose": ("goose", "session", "--resume", "--session-id", "{session}"),
        "grok-build": ("grok", "--resume", "{session}"),
        "hermes": ("hermes", "--resume", "{session}"),
        "kimi-code": ("kimi", "--session", "{session}"),
        "kimi-cli": ("kimi", "--session", "{session}"),
        "kiro-cli": ("kiro-cli", "chat", "--resume-id", "{session}"),
        "qwen-code": ("qwen", "--resume", "{session}"),
        "mistral-vibe": ("vibe", "--resume", "{session}"),
    }
    home = found["qwen-code"].home
    assert home is not None
    assert home(Path("/home/ada")) == Path("/home/ada/.qwen/projects")


def test_a_call_may_be_called_as_the_member_that_holds_it(tmp_path: Path) -> None:
    lens = lens_for("agent-stream.record.v1")
    record = json.dumps(LINES["Cursor on stdout"][1][2]).encode()
    event = lens.view(record, Nothing())
    assert (event.kind, event.tool) == (Kind.TOOL_CALL, "readToolCall")
    call, result = steps_of(1, event)
    assert call.arguments == {"path": "a.py"}
    assert result.text.endswith("x\ny")
    assert list(asked_of(call)[0]) == [Lines("a.py")]
    with pytest.raises(UsageError):
        lens.edit(record, EventEdit(fields=(FieldEdit("tool", "other"),)), Nothing())


def test_results_of_several_calls_in_a_record_are_told_apart() -> None:
    lens = lens_for("opencode-v2.record.v1")
    tools = [
        {"type": "tool", "name": "read", "id": f"t{at}", "state": {"input": {"path": name}, "output": f"of {name}"}}
        for at, name in enumerate("ab")
    ]
    record = {"cells": {"type": "assistant"}, "json": {"data": {"content": tools}}}
    event = lens.view(json.dumps(record).encode(), Nothing())
    steps = [(step.kind, step.id, step.text) for step in steps_of(1, event)]
    assert steps == [
        (Kind.TOOL_CALL, "t0", ""),
        (Kind.TOOL_CALL, "t1", ""),
        (Kind.TOOL_RESULT, "t0", "of a"),
        (Kind.TOOL_RESULT, "t1", "of b"),
    ]


@pytest.mark.parametrize("source", [[*b"\x89PNG"], base64.b64encode(b"\x89PNG").decode()])
@pytest.mark.parametrize("key", ["data", "Bytes", None])
def test_images_of_kiro(source: object, key: str | None) -> None:
    """In a request and in a result, and in its database."""
    image = {"format": "Jpg", "source": {"kind": "bytes", key: source} if key else source}
    part = {"kind": "image", "data": image}
    result = {"kind": "toolResult", "data": {"toolUseId": "c1", "status": "success", "content": [part]}}
    asked = {"user": {"content": {"Prompt": {"prompt": "Why?"}}, "images": [image]}}
    records: list[tuple[str, object]] = [
        ("kiro", {"version": "v1", "kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Why?"}, part]}}),
        ("kiro", {"version": "v1", "kind": "ToolResults", "data": {"content": [result]}}),
        ("kiro-db", {"table": "conversations_v2", "key": {"key": "/p"}, "json": {"value": asked}}),
    ]
    for name, record in records:
        lens = lens_for(f"{name}.record.v1")
        said = json.dumps(record).encode()
        event = lens.view(said, Nothing())
        [resource] = event.resources
        assert (event.blocks[-1].type, resource.mime, resource.content) == ("image", "image/jpeg", b"\x89PNG")
        edited = lens.edit_resource(said, 0, b"\xff\0", Nothing())
        [now] = lens.view(edited, Nothing()).resources
        assert (now.content, len(json.loads(edited))) == (b"\xff\0", len(json.loads(said)))


def test_results_in_vs_code_are_found_by_the_ids_that_they_stand_under() -> None:
    """In any order; one whose call is not there is nobody's."""
    calls = [{"name": "read_file", "arguments": f'{{"filePath":"/{name}"}}', "id": f"c{name}"} for name in "abc"]
    brought = {f"c{name}": {"content": [{"value": f"of {name}"}]} for name in "xca"}
    record = {"metadata": {"toolCallRounds": [{"toolCalls": calls}], "toolCallResults": brought}}
    lens = lens_for("vscode-chat.record.v1")
    event = lens.view(json.dumps(record).encode(), Nothing())
    steps = {step.id: step.text for step in steps_of(1, event) if step.kind is Kind.TOOL_RESULT}
    assert steps["ca"] == "of a"
    assert steps["cc"] == "of c"
    assert [step.id for step in steps_of(1, event) if step.kind is Kind.TOOL_CALL] == ["ca", "cb", "cc"]
    assert "of x" in "".join(block.text or "" for block in event.blocks)
    change = BlockEdit(next(block.path for block in event.blocks if block.text == "of a"), "Changed.")
    edited = json.loads(lens.edit(json.dumps(record).encode(), EventEdit((change,)), Nothing()))
    assert edited["metadata"]["toolCallResults"]["ca"] == {"content": [{"value": "Changed."}]}


def test_views_of_one_value_follow_each_other_and_one_stands_in_for_all() -> None:
    page = """
name = "chat-lines"
[[records]]
when = { ran = true }
call = { name = ["program", "ran.kind"], id = "id", arguments = "ran" }
without = ["kind"]
otherwise = { json = "rest", without = ["kind"] }
then = [
  { when = { code = 1 }, head = { is_error = true } },
  { when = { code = 0 }, head = { is_error = false } },
  { named = { said = "out" }, each = "files", parts = [
    { image = { data = "url", mime = "mime", name = "name", id = "id", label = "made" } },
  ] },
]
[[records]]
when = { odd = true }
text = "text"
otherwise = { json = "odd", without = ["kind"] }
[new.user]
text = "$text"
by = "$null"
"""
    format_ = DeclaredFormat(description.read(page, "chat-lines.toml"))
    files = [
        {"url": "data:text/plain;base64,aGk=", "mime": "text/plain", "name": "a.txt", "id": "f1"},
        {"url": "file:///b.txt", "name": "b.txt"},
    ]
    ran: dict[str, object] = {
        "ran": {"kind": "sh", "command": "ls"},
        "id": "c1",
        "code": 1,
        "out": "no",
        "files": files,
    }
    call, named, odd, text = events(
        format_, [ran, ran | {"program": "bash"}, {"odd": {"kind": 1, "a": 2}}, {"odd": 1, "text": "Hi"}]
    )
    assert (call.kind, call.tool, named.tool) == (Kind.TOOL_CALL, "sh", "bash")
    assert call.header == {"id": "c1", "is_error": True}
    assert [(block.type, block.name, block.text, block.data) for block in call.blocks] == [
        ("json", "arguments", '{\n  "command": "ls"\n}', None),
        ("text", "said", "no", None),
        ("resource", "made", None, b"hi"),
        ("text", "made", "file:///b.txt", None),
    ]
    assert [resource.uri for resource in call.resources] == ["attachment:f1/a.txt"]
    assert [block.text for block in odd.blocks] == ['{\n  "a": 2\n}']
    assert [block.text for block in text.blocks] == ["Hi"]
    lens = format_.lenses[0]
    payload = json.dumps(ran).encode()
    renamed = json.loads(lens.edit(payload, EventEdit((), (FieldEdit("tool", "zsh"),)), Nothing()))
    assert renamed == ran | {"ran": {"kind": "zsh", "command": "ls"}}
    assert json.loads(lens.compose(Kind.USER, "Hello", None, 0)) == {"text": "Hello", "by": None}


def test_names_of_sessions_are_no_patterns(tmp_path: Path) -> None:
    """Whatever a folder is called, only what has its very name belongs to the session."""
    page = """
name = "chat-lines"
path = "(?P<session>[^/]+)/talk.chatlines"
besides = ["../{session}.db"]
records = []
"""
    format_ = DeclaredFormat(description.read(page, "chat-lines.toml"))
    for name in ("*", "[a-z]", "{stem}", "a"):
        path = tmp_path / name / "talk.chatlines"
        path.parent.mkdir()
        path.write_text("{}\n")
        (tmp_path / f"{name}.db").touch()
    for name in ("*", "[a-z]", "{stem}", "a"):
        source = format_.claim(Look(tmp_path / name / "talk.chatlines"))
        assert source is not None
        assert [beside for beside, _path in source.sidecars] == [f"{name}.db"]


def test_an_export_of_opencode_that_tells_of_itself_at_the_end_is_one(tmp_path: Path) -> None:
    texts = ("Why?", "So. " * 20_000)
    messages = [
        {"parts": [{"text": text, "type": "text", "messageID": f"m{at}", "sessionID": "s1"}], "info": {"role": "user"}}
        for at, text in enumerate(texts)
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"messages": messages, "info": {"id": "s1", "time": {"created": 1}, "title": "Login"}}))
    found = tried(path)
    assert (found.source.format, found.kinds["user"]) == ("opencode-export", 2)


def _part(status: str, **state: object) -> dict[str, object]:
    return {"type": "tool", "tool": "bash", "callID": f"c{status}{len(state)}", "state": {"status": status, **state}}


def _item(kind: str, status: str, **more: object) -> dict[str, object]:
    return {"type": "item.completed", "item": {"id": "i1", "type": kind, "status": status, **more}}


FAILING: dict[str, tuple[str, dict[str, object], list[tuple[str, bool]]]] = {
    "an export of opencode": (
        "opencode-export",
        {
            "info": {"role": "assistant"},
            "parts": [
                _part("error", error="No such file"),
                _part("completed", output="a.txt"),
                _part("completed"),
                _part("running"),
            ],
        },
        [("No such file", True), ("a.txt", False), ("", False)],
    ),
    "opencode's newest tables": (
        "opencode-v2",
        {
            "cells": {"type": "assistant"},
            "json": {"data": {"content": [_part("error", error="No") | {"id": "c", "name": "b"}]}},
        },
        [("No", True)],
    ),
    "a command of Codex": (
        "codex-exec",
        _item("command_execution", "failed", command="ls x", aggregated_output="No such file", exit_code=1),
        [("No such file", True)],
    ),
    "a change of files by Codex": ("codex-exec", _item("file_change", "failed", changes=[]), [("", True)]),
    "Cursor's editor": (
        "cursor-ide",
        {
            "json": {
                "value": {
                    "type": 2,
                    "toolFormerData": {"name": "b", "toolCallId": "c", "status": "error", "error": "No"},
                }
            }
        },
        [("No", True)],
    ),
}


@pytest.mark.parametrize("tool", FAILING)
def test_results_beside_their_calls_say_what_failed(tool: str) -> None:
    """A result that brought nothing is one, too; what still runs has none."""
    name, record, wanted = FAILING[tool]
    [event] = events(format_named(name), [record])
    results = [step for step in steps_of(1, event) if step.kind is Kind.TOOL_RESULT]
    assert [(step.text, step.failed) for step in results] == wanted


def test_what_a_page_does_not_know_is_shown_beside_the_rest_if_it_says_something() -> None:
    """But what it shows already, what its page says to be repeated, and what is no prose are not."""
    page = """
[[records]]
when = { kind = "talk" }
kind = "user"
text = "data.said"
each = "data.parts"
parts = [{ text = "text" }]
"""
    said = "Why does the login fail?"
    data = {"said": said, "again": said, "parts": [{"text": "It does.", "why": "It returns nothing at all."}]}
    record = {"kind": "talk", "data": data, "id": "a-b-c-d", "note": "This was late last night."}
    telling = page.replace("[[records]]", '[record]\nrepeats = ["note"]\n\n[[records]]', 1)
    for text, more in ((page, ["other.note"]), (telling, [])):
        [event] = events(DeclaredFormat(description.read(f'name = "a"\n{text}', "a.toml")), [record])
        assert [block.name for block in event.blocks] == ["", "", "other.why", *more]
        assert event.kind is Kind.USER
    lens = DeclaredFormat(description.read(f'name = "a"\n{page}', "a.toml")).lenses[0]
    payload = json.dumps(record).encode()
    edited = lens.edit(payload, EventEdit((BlockEdit(("note",), "It was on Monday morning."),)), Nothing())
    assert json.loads(edited)["note"] == "It was on Monday morning."
    with pytest.raises(UsageError, match="at least four words"):
        lens.edit(payload, EventEdit((BlockEdit(("note",), "Monday."),)), Nothing())
