"""A text that stands in its place in another shape than tools write today: its event shows it, and it can be edited."""

import json

import pytest

from store.events.event import Kind
from store.formats.registry import lens_for
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of

TEXT = 'Fix the "login"'
HERE = "$here"
SHAPES: dict[str, object] = {
    "a list": [TEXT],
    "a list of parts": [{"type": "text", "text": TEXT}],
    "parts of a new type": [None, {"type": "hologram", "words": TEXT}],
    "an object": {"words": TEXT},
}

CLAUDE, CODEX, GEMINI, KIT = "claude-code.line.v1", "codex.line.v1", "gemini-cli.record.v1", "openhands.event.v1"
PI = "pi.entry.v1"
PLACES: dict[str, tuple[str, dict[str, object]]] = {
    "a request to Claude Code": (CLAUDE, {"type": "user", "message": {"role": "user", "content": HERE}}),
    "its answer": (CLAUDE, {"type": "assistant", "message": {"role": "assistant", "content": HERE}}),
    "a text in it": (CLAUDE, {"type": "assistant", "message": {"content": [{"type": "text", "text": HERE}]}}),
    "its thought": (CLAUDE, {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": HERE}]}}),
    "a call's input in Codex": (
        CODEX,
        {"type": "response_item", "payload": {"type": "custom_tool_call", "call_id": "c", "name": "x", "input": HERE}},
    ),
    "its compaction": (CODEX, {"type": "compacted", "payload": {"message": HERE}}),
    "its instructions": (CODEX, {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": HERE}}}),
    "a thought of Gemini": (GEMINI, {"type": "gemini", "id": "g", "content": "", "thoughts": [{"description": HERE}]}),
    "a summary of pi": (PI, {"type": "compaction", "id": "a", "summary": HERE}),
    "its error": (PI, {"type": "message", "message": {"role": "assistant", "content": [], "errorMessage": HERE}}),
    "its user's command": (PI, {"type": "message", "message": {"role": "bashExecution", "command": HERE}}),
    "its branch": (PI, {"type": "message", "message": {"role": "branchSummary", "summary": HERE}}),
    "a thought in a part": ("cline.record.v1", {"role": "assistant", "content": [{"type": "think", "think": HERE}]}),
    "a thought beside the content": (
        "hermes.record.v1",
        {"role": "assistant", "content": "", "reasoning_content": HERE},
    ),
    "a step of Antigravity": (
        "antigravity.record.v1",
        {"step_index": 1, "source": "MODEL", "type": "A_NEW_ONE", "thinking": HERE},
    ),
    "an event of OpenHands": (KIT, {"kind": "ANewEvent", "timestamp": "2026", "source": "agent", "said": HERE}),
    "its message without a kind": (KIT, {"source": "agent", "llm_message": {"role": "assistant", "content": HERE}}),
}


def _with(value: object, text: object) -> object:
    if isinstance(value, dict):
        return {key: _with(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [_with(one, text) for one in value]
    return text if value == HERE else value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("where", PLACES)
def test_it_is_shown_and_edited(where: str, shape: str) -> None:
    name, record = PLACES[where]
    lens = lens_for(name)
    payload = json.dumps(_with(record, SHAPES[shape])).encode()
    event = lens.view(payload, Earlier())
    assert event.kind is not Kind.RECORD
    [shown] = [block for block in event.blocks if block.type == "text" and TEXT in (block.text or "")]
    edited = lens.edit(payload, edit_of(shown, "Leave it."), Earlier())
    assert edited == payload.replace(json.dumps(TEXT).encode(), b'"Leave it."')


LATER = {"type": "hologram", "id": 7, "words": "Fix the login of the shop"}


@pytest.mark.parametrize("name", ["antigravity", "cline-tasks", "gemini-cli", "jan", "mistral-vibe"])
def test_a_record_of_a_later_version_is_a_note(name: str) -> None:
    lens = lens_for(f"{name}.record.v1")
    event = lens.view(json.dumps(LATER).encode(), Earlier())
    assert event.kind is Kind.NOTE
    assert "the login of the shop" in (event.blocks[0].text or "")
    quiet = json.dumps(LATER | {"words": "state:ready"}).encode()
    assert lens.view(quiet, Earlier()).kind is Kind.RECORD


def test_a_result_of_nothing_is_a_result() -> None:
    record = {"role": "tool", "tool_call_id": "c", "content": "", "name": "ran the command at last"}
    event = lens_for("mistral-vibe.record.v1").view(json.dumps(record).encode(), Earlier())
    assert (event.kind, event.blocks) == (Kind.TOOL_RESULT, ())


@pytest.mark.parametrize("nothing", [None, 5, True, [], {}, [None]])
@pytest.mark.parametrize("where", PLACES)
def test_where_no_text_stands_nothing_ends(where: str, nothing: object) -> None:
    name, record = PLACES[where]
    payload = json.dumps(_with(record, nothing)).encode()
    event = lens_for(name).view(payload, Earlier())
    assert lens_for(name).view(payload, Earlier()) == event
    assert lens_for(name).without([payload], frozenset()) == {0: payload}
