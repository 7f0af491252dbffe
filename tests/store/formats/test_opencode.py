import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import UsageError
from store.events.event import EventEdit, FieldEdit, Kind
from store.formats.core.editing import Lens
from store.formats.core.look import Look
from store.formats.opencode import Opencode
from tests.store.formats.databases import Rendered, T, dump, dumped, opencode_database, opencode_parts
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, edit_of
from tests.store.formats.places import check

OPENCODE = Opencode()
LENSES: dict[str, Lens] = {lens.type_name: lens for lens in OPENCODE.lenses}
ROWS = LENSES["opencode.row.v1"]
SHOWN = [
    (Kind.USER, "", [("", "List the\nfiles")]),
    (Kind.SYSTEM, "", [("", "Called the Read tool")]),
    (Kind.USER, "", [("file", "file:///home/ada/a.py")]),
    (Kind.REASONING, "", [("", "I will look.")]),
    (Kind.TOOL_CALL, "bash", [("arguments.command", "ls\n-l"), ("result", "a.py\nb.py and some more\n")]),
    (Kind.TOOL_CALL, "read", [("error", "no such file")]),
    (Kind.ASSISTANT, "", [("", "Two files é.")]),
]


@pytest.fixture
def rendered(tmp_path: Path) -> Rendered:
    return Rendered(OPENCODE, opencode_database(tmp_path / "opencode.db"), tmp_path)


def storage(root: Path, *, indent: int | None = 2) -> Path:
    """Write the files of an older version under ``root`` and return that of the session."""
    session = {"id": "ses_1", "version": "0.15", "projectID": "p", "directory": "/home/ada/shop", "title": "Files"}
    path = root / "storage" / "session" / "p" / "ses_1.json"
    model = {"providerID": "anthropic", "modelID": "opus"}
    files: dict[Path, object] = {path: {**session, "time": {"created": T, "updated": T}}}
    for key, role in (("msg_1", "user"), ("msg_2", "assistant")):
        message = {"id": key, "sessionID": "ses_1", "role": role, "time": {"created": T}, **model}
        files[root / "storage" / "message" / "ses_1" / f"{key}.json"] = message
    for at, (key, part) in enumerate(opencode_parts()):
        if key != "msg_3":
            said = {"id": f"prt_{at:02}", "sessionID": "ses_1", "messageID": key, **part}
            files[root / "storage" / "part" / key / f"prt_{at:02}.json"] = said
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=indent, ensure_ascii=False))
    return path


def test_sessions_of_the_database(rendered: Rendered) -> None:
    first = rendered.events("ses_1")
    assert [
        (event.kind, event.tool, [(block.name, block.text) for block in event.blocks]) for event in first if event.kind
    ] == SHOWN
    answer = first[-2]
    assert (answer.header, answer.time_ms) == ({"model": "anthropic/opus"}, T + 17)
    assert first[9].header == {"id": "c2", "status": "error", "is_error": True, "model": "anthropic/opus"}
    second = [event for event in rendered.events("ses_2") if event.kind]
    assert [(event.kind, event.header.get("record")) for event in second] == [
        (Kind.SUMMARY, None),
        (Kind.NOTE, "telepathy"),
    ]
    about = rendered.parts["ses_2"].about
    assert (about.title, about.project, about.extra["parent_session"]) == ("Session 1", "shop", "ses_1")


def test_an_edit_changes_its_cell_alone(rendered: Rendered, tmp_path: Path) -> None:
    original = rendered.source.main
    before = dumped(original)
    edited = 0
    for at, record in enumerate(rendered.records):
        event = ROWS.view(record, Earlier())
        for block in event.blocks:
            if block.type == "json" or block.text is None:
                continue
            records = list(rendered.records)
            records[at] = ROWS.edit(record, edit_of(block, "new\n" + block.text), Earlier())
            (tmp_path / "edited").write_bytes(b"\n".join(records) + b"\n")
            target = tmp_path / f"edited-{edited}.db"
            OPENCODE.restore(original, tmp_path / "edited", target)
            [changed] = [line for line in dumped(target) if line not in before]
            [old] = [line for line in before if line not in dumped(target)]
            escaped = json.dumps(block.text, ensure_ascii=False)[1:-1]
            assert changed == old.replace(escaped, "new\\n" + escaped)
            edited += 1
    assert edited == 9


def test_what_is_added_is_a_message_and_what_is_deleted_a_part(rendered: Rendered, tmp_path: Path) -> None:
    records = list(rendered.records)
    last = next(record for record in records if b"Two files" in record)
    for kind, text, now in ((Kind.USER, "And now?", T + 1000), (Kind.ASSISTANT, "Nothing.", T + 2000)):
        composed = ROWS.compose(kind, text, last, now)
        event = ROWS.view(composed, Earlier())
        check(event)
        assert (event.kind, event.blocks[0].text, event.time_ms) == (kind, text, now)
        records.insert(records.index(last) + 1, composed)
        last = composed
    records = [record for record in records if b'"c1"' not in record]
    (tmp_path / "edited").write_bytes(b"\n".join(records) + b"\n")
    target = tmp_path / "target.db"
    OPENCODE.restore(rendered.source.main, tmp_path / "edited", target)
    again = Rendered(OPENCODE, target, tmp_path)
    texts = [event.blocks[0].text for event in again.events("ses_1") if event.kind]
    assert texts[-3:] == ["Two files é.", "And now?", "Nothing."]
    assert "ls\n-l" not in texts
    with closing(sqlite3.connect(target)) as found:
        [(data,)] = found.execute("SELECT data FROM message WHERE data LIKE '%Nothing%' OR data LIKE '%cost%'")
    assert json.loads(data)["modelID"] == "opus"
    for kind, previous in ((Kind.TOOL_CALL, last), (Kind.USER, b"{}"), (Kind.USER, None)):
        with pytest.raises(UsageError):
            ROWS.compose(kind, "x", previous, T)


def test_a_copy_of_an_output_is_edited_too(rendered: Rendered) -> None:
    [record] = [record for record in rendered.records if b'"c1"' in record]
    event = ROWS.view(record, Earlier())
    edited = ROWS.edit(record, edit_of(event.blocks[1], "a.py\n"), Earlier())
    state = ("json", "data", "state")
    assert changed_paths(record, edited) == {(*state, "output"), (*state, "metadata", "output")}
    with pytest.raises(UsageError, match="became"):
        ROWS.edit(record, EventEdit((), (FieldEdit("is_error", True),)), Earlier())
    renamed = ROWS.edit(record, EventEdit((), (FieldEdit("tool", "sh"),)), Earlier())
    assert renamed == record.replace(b'"bash"', b'"sh"')


def test_sessions_of_files(tmp_path: Path) -> None:
    path = storage(tmp_path)
    source = OPENCODE.claim(Look(path))
    assert source
    assert OPENCODE.rendition(source, tmp_path) is None
    data = path.read_bytes()
    [span] = OPENCODE.spans(memoryview(data), 0)
    assert OPENCODE.parts(source, memoryview(data), [span]) is None
    assert (span.start, span.end) == (0, len(data))
    events = []
    for file, kind in zip(source.first, source.first_types, strict=True):
        events.append(LENSES[kind].view(Path(file).read_bytes(), Earlier()))
        check(events[-1])
    assert [
        (event.kind, event.tool, [(block.name, block.text) for block in event.blocks]) for event in events if event.kind
    ] == SHOWN
    about = OPENCODE.about(source, [])
    assert (about.title, about.project, about.session_id, about.started_ms) == ("Files", "shop", "ses_1", T)
    record = Path(source.first[1]).read_bytes()
    lens = LENSES[source.first_types[1]]
    edited = lens.edit(record, edit_of(lens.view(record, Earlier()).blocks[0], "Delete them"), Earlier())
    assert edited == record.replace(rb"List the\nfiles", b"Delete them")


def test_what_is_no_session_of_files(tmp_path: Path) -> None:
    path = storage(tmp_path)
    for other in (tmp_path / "storage").rglob("*.json"):
        assert (OPENCODE.claim(Look(other)) is not None) == (other == path)
    path.write_bytes(path.read_bytes()[:40])
    assert OPENCODE.claim(Look(path))
    path.rename(path.with_name("ses_2.json"))
    assert not OPENCODE.claim(Look(path.with_name("ses_2.json")))


def test_where_sessions_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCODE_DB", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    data = tmp_path / "data" / "opencode"
    storage(data)
    assert list(OPENCODE.homes(tmp_path, tmp_path)) == [data / "storage" / "session"]
    opencode_database(data / "opencode.db")
    assert list(OPENCODE.homes(tmp_path, tmp_path)) == [data / "opencode.db"]
    monkeypatch.setenv("OPENCODE_DB", str(opencode_database(tmp_path / "x.db")))
    assert list(OPENCODE.homes(tmp_path, tmp_path)) == [tmp_path / "x.db", data / "opencode.db"]


def test_what_is_damaged_or_failed_is_a_note(tmp_path: Path) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path)) as found:
        found.execute("UPDATE part SET data = '{\"type\": ' WHERE id = 'prt_00'")
        error = dump({"role": "assistant", "error": {"name": "Aborted", "data": {"message": "It was aborted."}}})
        found.execute("UPDATE message SET data = ? WHERE id = 'msg_2'", (error,))
        found.commit()
    rendered = Rendered(OPENCODE, path, tmp_path)
    notes = [event for event in rendered.events("ses_1") if event.kind is Kind.NOTE]
    assert [event.blocks[0].text for event in notes] == ['{"type": ', "It was aborted."]
    assert notes[1].header == {"record": "error", "error": "Aborted"}
