"""Thoughts and calls within texts of Open WebUI: in parts, whole again, and edited where they stand."""

import html
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.events.event import BlockEdit, EventEdit, Kind
from store.formats.core.lens import Nothing
from store.formats.declared.details import parted, whole
from store.formats.registry import format_named
from tests.store.formats.databases import Rendered
from tests.store.formats.test_declared_databases import filled, restored

ARGUMENTS = html.escape(json.dumps(json.dumps({"city": "Zürich"})))
RESULT = html.escape(json.dumps('{"sun": "yes & <hot>"}', ensure_ascii=False))
TEXT = (
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n'
    "&gt; They ask &lt;me&gt;.\n&gt; \n&gt; I look.\n</details>\n\nI look it up.\n"
    f'<details type="tool_calls" done="true" id="c1" name="weather" arguments="{ARGUMENTS}" result="{RESULT}">\n'
    "<summary>Tool Executed</summary>\n</details>\nIt is sunny é."
)
THOUGHT = "&gt; They ask &lt;me&gt;.\n&gt; \n&gt; I look."
CHAT = "CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat JSON, created_at INT, updated_at INT)"


def database(folder: Path) -> Path:
    messages = {
        "u1": {"id": "u1", "parentId": None, "childrenIds": ["a1"], "role": "user", "content": "Is it sunny?"},
        "a1": {"id": "a1", "parentId": "u1", "childrenIds": [], "role": "assistant", "content": TEXT},
    }
    chat = json.dumps({"title": "Sun", "history": {"messages": messages, "currentId": "a1"}})
    return filled(folder / "webui.db", CHAT, [("chat", ("c1", "ada", "Sun", chat, 1, 2))])


def test_thoughts_and_calls_are_blocks_of_the_event(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    rendered = Rendered(format_named("open-webui"), database(tmp_path), tmp_path / "scratch")
    *_before, event = rendered.events("c1")
    assert (event.kind, event.tool, event.header["id"]) == (Kind.TOOL_CALL, "weather", "c1")
    assert [(block.name, block.text) for block in event.blocks] == [
        ("thinking", "They ask <me>.\n\nI look."),
        ("subject", "Thought for 3 seconds"),
        ("", "I look it up.\n"),
        ("output", '{"sun": "yes & <hot>"}'),
        ("arguments", '{\n  "city": "Zürich"\n}'),
        ("", "It is sunny é."),
    ]


@pytest.mark.parametrize(("at", "old"), [(0, THOUGHT), (5, "It is sunny é."), (3, RESULT)])
def test_a_part_is_edited_in_its_text(tmp_path: Path, at: int, old: str) -> None:
    (tmp_path / "scratch").mkdir()
    rendered = Rendered(format_named("open-webui"), database(tmp_path), tmp_path / "scratch")
    record = rendered.records[-1]
    lens = rendered.format.lenses[0]
    block = lens.view(record, Nothing()).blocks[at]
    changed = lens.edit(record, EventEdit((BlockEdit(block.path, "Other <words>.", block.name),)), Nothing())
    out = restored(rendered, [*rendered.records[:-1], changed], tmp_path / "out.db")
    with closing(sqlite3.connect(out)) as opened:
        [(chat,)] = opened.execute("SELECT chat FROM chat").fetchall()
    new = {0: "&gt; Other &lt;words&gt;.", 3: html.escape('"Other <words>."'), 5: "Other <words>."}[at]
    assert json.loads(chat)["history"]["messages"]["a1"]["content"] == TEXT.replace(old, new)


PIECES = st.lists(
    st.sampled_from(
        [
            TEXT,
            "text",
            "\n",
            '<details type="reasoning">',
            "<summary>x</summary>\n",
            "> line\n",
            "&gt; a\n",
            "</details>",
            '<details type="tool_calls" name="x" arguments="no json" result="{}">\n<summary>y</summary>\n</details>',
            '<details type="tool_calls" arguments="&quot;\\u00fc&quot;"><summary></summary></details>',
        ]
    )
    | st.text(max_size=4),
    max_size=8,
).map("".join)


@given(PIECES)
def test_parts_are_the_same_text_again(text: str) -> None:
    message = json.dumps({"role": "assistant", "content": text}).encode()
    assert json.loads(whole(parted(message, "content"), "content")) == json.loads(message)
