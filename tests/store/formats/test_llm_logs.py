import sqlite3
from pathlib import Path

import pytest

from store.errors import UsageError
from store.events.event import Event, EventEdit, FieldEdit, Kind
from store.formats.core.look import Look
from store.formats.llm import LlmLogs
from tests.store.formats.databases import PNG, Rendered, dumped, llm_database
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of

LLM = LlmLogs()
LENS = LLM.lenses[0]


@pytest.fixture
def rendered(tmp_path: Path) -> Rendered:
    return Rendered(LLM, llm_database(tmp_path / "logs.db"), tmp_path)


def shown(events: list[Event]) -> list[tuple[Kind, str, list[str | None]]]:
    return [(event.kind, event.tool, [block.text for block in event.blocks]) for event in events if event.kind]


def test_older_conversations(rendered: Rendered) -> None:
    events = rendered.events("c1")
    assert shown(events) == [
        (Kind.SYSTEM, "", ["Be brief"]),
        (Kind.USER, "", ["All about birds", None, "https://x/y.png", "Name a pelican"]),
        (Kind.ASSISTANT, "", ["Percy"]),
        (Kind.USER, "", ["Which files?"]),
        (Kind.REASONING, "", ["I must look."]),
        (Kind.TOOL_CALL, "ls", ["a\nb"]),
        (Kind.TOOL_RESULT, "ls", ["x.py", None]),
        (Kind.ASSISTANT, "", ["One file."]),
    ]
    [user] = [event for event in events if len(event.blocks) == 4]
    assert user.blocks[1].data == PNG
    assert [resource.uri for resource in user.resources] == ["/home/ada/birds.md", "attachment:a1/2.png"]
    assert events[3].header == {"model": "gpt"}
    assert events[2].time_ms == 1739745270374
    assert rendered.parts["c1"].about.title == "Names for pets"
    assert rendered.parts["lone"].about.title == "Hi"


def test_newer_conversations_share_what_they_have_in_common(rendered: Rendered) -> None:
    assert shown(rendered.events("t1")) == [
        (Kind.SYSTEM, "", ["Be kind"]),
        (Kind.USER, "", ["All about birds", "\nSum it up"]),
        (Kind.USER, "", [None]),
        (Kind.REASONING, "", ["Let me see."]),
        (Kind.TOOL_CALL, "bash", ["ls\n-l"]),
        (Kind.TOOL_RESULT, "bash", ["total 0"]),
        (Kind.ASSISTANT, "", ["Nothing."]),
    ]
    fork, keys = rendered.parts["t2"], list(rendered.parts)
    assert (keys[fork.base], fork.shared, fork.about.forked_from) == ("t1", 6, "t1")
    assert [event.blocks[0].text for event in rendered.events("t2") if event.kind] == ["Never mind"]
    assert [event.header.get("model") for event in rendered.events("u3")] == [None, None, "gpt-5"]
    assert sorted(number for part in rendered.parts.values() for number in part.records) == list(
        range(len(rendered.records))
    )


def test_every_text_is_edited_in_its_cell_alone(rendered: Rendered, tmp_path: Path) -> None:
    original = rendered.source.main
    before, bytes_before = dumped(original), original.read_bytes()
    edited = 0
    for at, record in enumerate(rendered.records):
        event = LENS.view(record, Earlier())
        for block in event.blocks:
            if block.type == "json" or block.text is None:
                continue
            records = list(rendered.records)
            records[at] = LENS.edit(record, edit_of(block, 'new "é"\n' + block.text), Earlier())
            rendition, target = tmp_path / "edited.jsonl", tmp_path / f"edited-{edited}.db"
            rendition.write_bytes(b"\n".join(records) + b"\n")
            LLM.restore(original, rendition, target)
            changed = [line for line in dumped(target) if line not in before]
            table = [line for line in changed if "_fts" not in line.split("(")[0]]
            assert len(table) == 1, changed
            assert 'new "é"' in table[0] or 'new \\"é\\"' in table[0]
            edited += 1
    assert edited > 18
    assert original.read_bytes() == bytes_before


def test_what_is_deleted_leaves_its_cell_empty_or_its_row(rendered: Rendered, tmp_path: Path) -> None:
    records = rendered.records
    gone = {at for at, record in enumerate(records) if b'"Which files?"' in record or b'"name":"ls","output"' in record}
    assert len(gone) == 2
    left = LLM.without(records, gone)
    assert len(left) == len(records) - 3
    (tmp_path / "left").write_bytes(b"\n".join(left) + b"\n")
    LLM.restore(rendered.source.main, tmp_path / "left", tmp_path / "target.db")
    found = sqlite3.connect(tmp_path / "target.db")
    assert found.execute("SELECT prompt, reasoning FROM responses WHERE id = 'r1'").fetchall() == [
        (None, "I must look.")
    ]
    for table, count in (("tool_calls", 0), ("tool_results", 0), ("conversations", 1), ("responses", 4), ("parts", 10)):
        assert found.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
    found.close()


def test_fields_are_edited_where_they_stand(rendered: Rendered) -> None:
    [call] = [record for record in rendered.records if b'"tool_calls"' in record]
    [part] = [record for record in rendered.records if b'"tool_call"' in record]
    for record, old, new in ((call, b'"ls"', b'"dir"'), (part, b'"bash"', b'"dir"')):
        edited = LENS.edit(record, EventEdit((), (FieldEdit("tool", "dir"),)), Earlier())
        assert edited == record.replace(old, new)
        assert LENS.view(LENS.edit(record, EventEdit((), (FieldEdit("id", "z"),)), Earlier()), Earlier()).header == {
            "id": "z"
        }
    [result] = [record for record in rendered.records if b'"tool_results"' in record]
    with pytest.raises(UsageError, match="call's file"):
        LENS.edit(result, EventEdit((), (FieldEdit("tool", "dir"),)), Earlier())
    with pytest.raises(UsageError, match="by hand"):
        LENS.compose(Kind.NOTE, "hi", result, 1)


def test_other_databases_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "logs.db"
    with sqlite3.connect(path) as found:
        found.execute("CREATE TABLE responses (id)")
    assert not LLM.claim(Look(path))
    (tmp_path / "text.db").write_bytes(b"conversations responses")
    assert not LLM.claim(Look(tmp_path / "text.db"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".config" / "io.datasette.llm").mkdir(parents=True)
    assert list(LLM.homes(tmp_path, tmp_path)) == [tmp_path, tmp_path / ".config" / "io.datasette.llm"]
