import json
from pathlib import Path

import pytest

from store.events.event import Kind
from store.formats.api_messages import ApiMessages
from store.formats.core.format import Source
from store.formats.core.look import Look
from tests.store.formats.chat_records import chat, encoded
from tests.store.formats.earlier import Earlier

FORMAT = ApiMessages()
(LENS,) = FORMAT.lenses
ASKED = {"role": "user", "content": "Why does the login fail?"}
TOLD = {"role": "assistant", "content": "It returns nothing."}
REQUEST: dict[str, object] = {"model": "gpt-9", "messages": [ASKED, TOLD], "temperature": 1}


def interaction(messages: list[object], answer: object) -> dict[str, object]:
    request = {"method": "POST", "url": "https://x", "content": {"model": "m", "messages": messages}}
    return {"request": request, "response": {"status_code": 200, "headers": {"a": "b"}, "content": answer}}


def written(folder: Path, *documents: object, name: str = "talk.json", indent: int | None = None) -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(document, indent=indent) for document in documents))
    return path


def seen(path: Path) -> list[tuple[Kind, str]]:
    data = path.read_bytes()
    events = [LENS.view(data[one.start : one.end], Earlier()) for one in FORMAT.spans(memoryview(data), 0)]
    return [(event.kind, next((block.text or "" for block in event.blocks), "")) for event in events]


SYSTEM = (Kind.SYSTEM, "Be brief.")
TALK = [(Kind.USER, "Why does the login fail?"), (Kind.ASSISTANT, "It returns nothing.")]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "events"),
    [
        ([ASKED, TOLD], TALK),
        (REQUEST, TALK),
        ({"system": "Be brief.", "messages": [ASKED, TOLD], "max_tokens": 9}, [SYSTEM, *TALK]),
        ({"messages": [ASKED, TOLD], "system": [{"type": "text", "text": "Be brief."}]}, [*TALK, SYSTEM]),
        ({"model": "m", "instructions": "Be brief.", "input": [ASKED, TOLD]}, [SYSTEM, *TALK]),
        (
            {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"parts": [{"text": "Why?"}]}]},
            [SYSTEM, (Kind.USER, "Why?")],
        ),
        ({"custom_id": "1", "method": "POST", "url": "/v1", "body": REQUEST}, TALK),
        ({"custom_id": "1", "params": {"model": "m", "messages": [ASKED, TOLD]}}, TALK),
        ({"interactions": [interaction([ASKED], chat("It returns nothing."))]}, TALK),
        ({"interactions": [interaction([ASKED], {"data": encoded(chat("It returns nothing.")), "size": 9})]}, TALK),
        (
            {
                "interactions": [
                    {
                        "request": {"method": "post", "body_segments": [{"contents": [{"parts": [{"text": "Why?"}]}]}]},
                        "response": {"body_segments": [{"candidates": [{"content": {"parts": [{"text": "So."}]}}]}]},
                    }
                ]
            },
            [(Kind.USER, "Why?"), (Kind.ASSISTANT, "So.")],
        ),
    ],
)
def test_messages_are_found_wherever_requests_have_them(
    tmp_path: Path, document: object, events: list[tuple[Kind, str]], indent: int | None
) -> None:
    path = written(tmp_path, document, indent=indent)
    assert FORMAT.claim(Look(path)) == Source("api-messages", path, path)
    assert seen(path) == events


def test_of_a_long_file_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, [ASKED, {"role": "user", "content": "long " * 50_000}, TOLD])
    assert FORMAT.claim(Look(path))


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        [1],
        {"messages": []},
        {"messages": [{"type": "user", "content": "x"}]},
        {"messages": ["x"], "input": "y"},
        {"sessionId": "s", "messages": [ASKED]},
        {"trajectory": [], "messages": [ASKED]},
        {"role": "user", "content": "x"},
        [{"type": "function_call"}],
        [{"role": "admin", "content": "x"}],
        [{"role": ["user"], "content": "x"}],
        [{"role": "user", "name": "Ada"}],
        [ASKED, {"name": "Ada"}, TOLD],
        {"interactions": [{"request": {"method": "GET", "body": ""}}]},
        {"interactions": [{"request": {"method": "POST", "body": {"user": "x"}}}]},
        {"openapi": "3", "paths": {}},
        "text",
    ],
)
def test_other_documents_are_not_claimed(tmp_path: Path, document: object) -> None:
    assert FORMAT.claim(Look(written(tmp_path, document))) is None


def parts_of(path: Path) -> list[list[int]] | None:
    source = FORMAT.claim(Look(path))
    assert source
    data = memoryview(path.read_bytes())
    parts = FORMAT.parts(source, data, list(FORMAT.spans(data, 0)))
    return None if parts is None else [list(part.records) for part in parts]


def test_one_request_is_one_conversation(tmp_path: Path) -> None:
    assert parts_of(written(tmp_path, REQUEST)) is None
    assert parts_of(written(tmp_path, [ASKED, ASKED])) is None


def test_lines_are_a_conversation_each(tmp_path: Path) -> None:
    path = written(tmp_path, REQUEST, {"messages": [ASKED]}, REQUEST, name="tuning.jsonl")
    assert parts_of(path) == [[0, 1], [2], [3, 4]]
    source = FORMAT.claim(Look(path))
    data = memoryview(path.read_bytes())
    parts = FORMAT.parts(source, data, list(FORMAT.spans(data, 0))) if source else None
    assert parts
    assert len({part.key for part in parts}) == 3
    assert {part.about.title for part in parts} == {"Why does the login fail?"}
    # the same line elsewhere is the same conversation
    other = written(tmp_path, {"messages": [ASKED]}, [TOLD, ASKED], name="other.jsonl")
    data = memoryview(other.read_bytes())
    again = FORMAT.parts(Source("api-messages", other, other), data, list(FORMAT.spans(data, 0)))
    assert again
    assert again[0].key == parts[1].key


def test_what_a_later_request_says_again_is_no_record_of_the_conversation(tmp_path: Path) -> None:
    first = interaction([ASKED], chat("It returns nothing."))
    later = interaction([ASKED, TOLD, {"role": "user", "content": "Fix it"}], chat("Done."))
    assert parts_of(written(tmp_path, {"interactions": [first, later]})) == [[0, 1, 3, 4, 5]]


def test_a_conversation_is_called_after_the_first_request(tmp_path: Path) -> None:
    path = written(tmp_path, REQUEST)
    about = FORMAT.about(Source("api-messages", path, path), [b'"Be brief."', b"{", json.dumps(ASKED).encode()])
    assert (about.title, about.session_id) == ("Why does the login fail?", "talk")
    assert FORMAT.about(Source("api-messages", path, path), [b"{}"]).title == ""
    assert list(FORMAT.homes(tmp_path, tmp_path)) == []
