import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.events.event import EventEdit, FieldEdit, Kind
from store.formats.core.look import Look
from store.formats.llm import LlmJson
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import check_text_edit, edit_of, made_or_refused
from tests.store.formats.mutations import mutated
from tests.store.formats.places import check

FORMAT = LlmJson()
(LENS,) = FORMAT.lenses


def response(number: int, conversation: str, **more: object) -> dict[str, object]:
    return {
        "id": f"r{number}",
        "model": "m",
        "prompt": f"Question {number}",
        "system": None,
        "response": f"Answer {number}\nand more",
        "conversation_id": conversation,
        "datetime_utc": f"2026-03-05T19:31:{number:02}+00:00",
        "conversation_name": "",
        "attachments": [],
    } | more


LOGS = [response(0, "a", system="Be brief."), response(1, "b"), response(2, "a", tool_calls=[{"name": "ls"}])]


def written(folder: Path, value: object) -> Path:
    path = folder / "logs.json"
    path.write_text(json.dumps(value, indent=2))
    return path


def test_a_response_and_its_prompt_are_one_event() -> None:
    event = LENS.view(json.dumps(LOGS[0]).encode(), Earlier())
    check(event)
    assert (event.kind, event.header, event.time_ms) == (Kind.ASSISTANT, {"id": "r0", "model": "m"}, 1772739060000)
    said = [(block.name, block.text) for block in event.blocks]
    assert said == [("system", "Be brief."), ("prompt", "Question 0"), ("", "Answer 0\nand more")]


@pytest.mark.parametrize("record", LOGS, ids=str)
def test_every_text_and_field_can_be_edited(record: dict[str, object]) -> None:
    payload = json.dumps(record).encode()
    event = LENS.view(payload, Earlier())
    for at, block in enumerate(event.blocks):
        if block.type == "text":
            assert check_text_edit(LENS, payload, Earlier(), event, at, 'Other "text"\n') == {block.path}
    edited = LENS.edit(payload, EventEdit(fields=(FieldEdit("model", "other"),)), Earlier())
    assert json.loads(edited) == record | {"model": "other"}


def test_responses_of_a_conversation_are_one(tmp_path: Path) -> None:
    source = FORMAT.claim(Look(written(tmp_path, LOGS)))
    assert source
    data = memoryview(source.main.read_bytes())
    parts = FORMAT.parts(source, data, list(FORMAT.spans(data, 0)))
    assert [(part.key, list(part.records), part.about.title) for part in parts] == [
        ("a", [0, 2], "Question 0"),
        ("b", [1], "Question 1"),
    ]


@pytest.mark.parametrize("value", [[], {}, [1], [{"prompt": "x", "response": "y"}], LOGS[0]])
def test_other_documents_are_not_claimed(tmp_path: Path, value: object) -> None:
    assert FORMAT.claim(Look(written(tmp_path, value))) is None


@given(mutated(LOGS), st.text(max_size=8))
def test_no_record_makes_the_lens_fail(payload: bytes, text: str) -> None:
    event = LENS.view(payload, Earlier())
    check(event)
    for block in event.blocks:
        if block.text is not None:
            made_or_refused(lambda block=block: LENS.edit(payload, edit_of(block, text), Earlier()))  # type: ignore[misc]
