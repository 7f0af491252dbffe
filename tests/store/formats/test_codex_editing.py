import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import BlockEdit, EventEdit, FieldEdit, Kind
from store.formats.codex.lens import CodexLens
from store.formats.codex.session import Codex
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import changed_paths, check_text_edit, edit_of
from tests.store.formats.rollouts import call, event, item, line, message, meta, output, spelled

LENS = CodexLens()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def shown(payload: bytes, block: int = 0) -> str | None:
    return LENS.view(payload, Earlier()).blocks[block].text


@given(TEXTS)
def test_an_argument_is_edited_within_its_document(text: str) -> None:
    """All bytes of the document but the argument's stay: the numbers, the order, the spaces."""
    document = '{"n": 1.50, "cmd": "ls\\n\\u00e9", "n": 2, "z": [ ]}'
    payload = spelled(item("function_call", name="x", call_id="c1", arguments=document))
    seen = LENS.view(payload, Earlier())
    at = next(at for at, block in enumerate(seen.blocks) if block.name == "arguments.cmd")
    if not text or not any(character in '"\\' or character < " " for character in text):
        text += "\n"
    changed = check_text_edit(LENS, payload, Earlier(), seen, at, text)
    assert changed == {("payload", "arguments")}
    now = json.loads(LENS.edit(payload, edit_of(seen.blocks[at], text), Earlier()))["payload"]["arguments"]
    assert now.startswith('{"n": 1.50, "cmd": ')
    assert now.endswith(', "n": 2, "z": [ ]}')
    assert json.loads(now)["cmd"] == text


def test_the_json_of_arguments_is_edited_within_its_string() -> None:
    payload = spelled(call("exec_command", cmd="a\nb", workdir="/tmp", limit=5))
    block = LENS.view(payload, Earlier()).blocks[0]
    assert block.type == "json"
    edited = LENS.edit(payload, edit_of(block, (block.text or "").replace("/tmp", "/")), Earlier())
    assert json.loads(edited)["payload"]["arguments"] == '{"cmd": "a\\nb", "workdir": "/", "limit": 5}'
    with pytest.raises(UsageError, match="already"):
        LENS.edit(payload, edit_of(block, '{"cmd": "x", "workdir": "/tmp", "limit": 5}'), Earlier())


def test_a_wrapped_output_is_edited_in_its_wrapping_and_so_is_its_exit_code() -> None:
    wrapped = json.dumps(
        {"output": "a\n", "metadata": {"exit_code": 0, "duration_seconds": 0.0}}, separators=(",", ":")
    )
    payload = spelled(output(wrapped))
    block = LENS.view(payload, Earlier()).blocks[0]
    edited = LENS.edit(payload, edit_of(block, "b\n"), Earlier())
    assert edited == payload.replace(b'\\"a\\\\n\\"', b'\\"b\\\\n\\"')
    edited = LENS.edit(payload, EventEdit(fields=(FieldEdit("exit_code", 1),)), Earlier())
    assert edited == payload.replace(b'exit_code\\":0', b'exit_code\\":1')


def test_a_string_that_is_no_unicode_cannot_be_changed() -> None:
    payload = b'{"type":"response_item","payload":{"type":"function_call","arguments":"{\\"a\\":\\"\\ud800\\\\n\\"}"}}'
    seen = LENS.view(payload, Earlier())
    assert seen.lossy
    with pytest.raises(UsageError, match="Unicode"):
        LENS.edit(payload, edit_of(seen.blocks[0], "x\n"), Earlier())


def test_the_output_of_a_command_is_edited_wherever_its_event_has_it() -> None:
    fields = {"stdout": "a\n", "stderr": "", "aggregated_output": "a\n", "formatted_output": "b\n"}
    payload = spelled(event("exec_command_end", call_id="c", **fields))
    block = next(block for block in LENS.view(payload, Earlier()).blocks if block.name == "event.aggregated_output")
    edited = LENS.edit(payload, edit_of(block, "new\n"), Earlier())
    assert changed_paths(payload, edited) == {("payload", "aggregated_output"), ("payload", "stdout")}
    assert json.loads(edited)["payload"]["stdout"] == "new\n"


def test_an_image_in_a_url_is_replaced() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"old image").decode()
    payload = spelled(item("message", role="user", content=[{"type": "input_image", "image_url": url}]))
    edited = LENS.edit_resource(payload, 0, b"new image", Earlier())
    assert LENS.view(edited, Earlier()).resources[0].content == b"new image"
    assert edited == payload.replace(base64.b64encode(b"old image"), base64.b64encode(b"new image"))
    assert LENS.edit_resource(payload, 0, b"old image", Earlier()) == payload


def test_fields() -> None:
    payload = spelled(call("shell"))
    edited = LENS.edit(payload, EventEdit(fields=(FieldEdit("tool", "exec"),)), Earlier())
    assert json.loads(edited)["payload"]["name"] == "exec"
    with pytest.raises(UsageError, match="change 'tool' in the call's"):
        LENS.edit(spelled(output("a")), EventEdit(fields=(FieldEdit("tool", "exec"),)), Earlier())
    with pytest.raises(UsageError, match="what the record is"):
        LENS.edit(spelled(event("error", message="x")), EventEdit(fields=(FieldEdit("record", "y"),)), Earlier())
    with pytest.raises(UsageError, match="holds"):
        LENS.edit(spelled(message("user", "x")), EventEdit(fields=(FieldEdit("mood", "y"),)), Earlier())


@pytest.mark.parametrize(
    ("kind", "role", "part"),
    [
        (Kind.USER, "user", "input_text"),
        (Kind.ASSISTANT, "assistant", "output_text"),
        (Kind.SYSTEM, "developer", "input_text"),
    ],
)
def test_new_lines_are_as_the_program_writes_them(kind: Kind, role: str, part: str) -> None:
    wanted = {"type": "message", "role": role, "content": [{"type": part, "text": "Gut → so"}]}
    said = LENS.compose(kind, "Gut → so", spelled(meta()), 1_772_739_114_356)
    assert json.loads(said) == {"timestamp": "2026-03-05T19:31:54.356Z", "type": "response_item", "payload": wanted}
    assert said == spelled(json.loads(said))
    seen = LENS.view(said, Earlier())
    assert (seen.kind, seen.blocks[0].text) == (kind, "Gut → so")
    assert json.loads(LENS.compose(kind, "Gut → so", b'{"record_type":"state"}\r', 0)) == wanted


def test_a_new_line_has_the_number_after_the_last() -> None:
    assert json.loads(LENS.compose(Kind.USER, "So?", spelled(meta() | {"ordinal": 7}), 0))["ordinal"] == 8
    assert "ordinal" not in json.loads(LENS.compose(Kind.USER, "So?", spelled(meta()), 0))


def test_what_cannot_be_written_by_hand() -> None:
    with pytest.raises(UsageError, match="write user"):
        LENS.compose(Kind.CONFIG, "x", None, 0)
    with pytest.raises(UsageError, match="empty"):
        LENS.compose(Kind.USER, "", None, 0)


def without(records: list[dict[str, object]], *deleted: int) -> list[dict[str, object]]:
    left = Codex().without([spelled(record) for record in records], set(deleted))
    return [json.loads(record) for record in left]


def test_a_call_goes_with_its_output_its_events_and_the_reasoning_before_it() -> None:
    thought = item("reasoning", summary=[], encrypted_content="x")
    records = [
        message("user", "Fix it"),
        item("reasoning", summary=[], encrypted_content="y"),
        message("assistant", "I look"),
        thought,
        event("token_count"),
        call("shell"),
        event("exec_command_end", call_id="c1"),
        output("a"),
        message("assistant", "Done"),
    ]
    assert without(records, 5) == [*records[:3], records[4], records[8]]
    assert without(records, 7) == without(records, 5)


def test_an_item_goes_with_the_event_that_says_the_same_and_out_of_compactions() -> None:
    asked, kept = message("user", "Fix it"), message("user", "Thanks")
    history = [asked["payload"], kept["payload"]]
    records = [
        meta(),
        asked,
        event("user_message", message="Fix it"),
        event("agent_message", message="Done"),
        message("assistant", "Done"),
        kept,
        event("user_message", message="Thanks"),
        line("compacted", {"message": "", "replacement_history": history}),
    ]
    compacted = line("compacted", {"message": "", "replacement_history": history[1:]})
    assert without(records, 1) == [records[0], *records[3:7], compacted]
    twice = [*records, asked]
    assert without(twice, 8) == records
    history.insert(0, {"type": "compaction", "encrypted_content": "x"})
    assert without([*twice[:7], line("compacted", {"replacement_history": history * 2})], 1)[-1] == line(
        "compacted", {"replacement_history": [history[0], *history[2:], *history]}
    )
    del history[0]
    assert without(records, 4) == [*records[:3], *records[5:]]
    assert without(records) == records


def test_a_damaged_line_is_edited_as_it_is() -> None:
    seen = LENS.view(b'{"timestamp":"20', Earlier())
    edit = EventEdit((BlockEdit((), '{"record_type":"state"}'),))
    assert LENS.edit(b'{"timestamp":"20', edit, Earlier()) == b'{"record_type":"state"}'
    with pytest.raises(UsageError, match="one line"):
        LENS.edit(b'{"timestamp":"20', edit_of(seen.blocks[0], "a\nb"), Earlier())
