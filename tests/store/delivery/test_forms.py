"""The forms that messages are sent in."""

import json
from pathlib import Path
from typing import Any

import pytest

from fusefs.cli.show import FORMS as CHOICES
from store.delivery.context import FORMS, Context
from store.errors import UsageError
from store.exporting.export import export
from store.store import Store
from tests.store.delivery.talk import LONG, Talk, document, resource
from tests.store.exporting.talks import PNG, shop


def test_the_forms_of_the_command_are_those_that_there_are(talk: Talk) -> None:
    assert tuple(FORMS) == CHOICES
    with pytest.raises(UsageError, match="no format xml of messages: choose one of anthropic, openai, jsonl"):
        Context(talk.store.library, talk.store.settings, talk.conversation, "xml")


@pytest.mark.parametrize("form", ["anthropic", "openai"])
def test_where_nothing_repeats_it_is_what_an_export_says(store: Store, tmp_path: Path, form: str) -> None:
    conversation = shop(tmp_path).bring(store)
    written = export(store, conversation, tmp_path / "out", form)
    context = Context(store.library, store.settings, conversation, form)
    assert b"".join(context.messages()) == written.files[0].read_bytes()
    assert context.report.lost == list(written.lost)
    told = document(store, conversation, form)
    assert told["format"] == form
    assert told["messages"] == json.loads(written.files[0].read_bytes())["messages"]
    assert told["lost"] == json.loads(json.dumps([{"what": loss.what, "events": loss.events} for loss in written.lost]))


def sent(talk: Talk, form: str) -> str:
    """Return what is sent of a file that was returned twice, and check that it is what the API takes."""
    talk.asks("Look", resource())
    talk.reads("One file:", resource())
    talk.says("I know it.")
    text = b"".join(Context(talk.store.library, talk.store.settings, talk.conversation, form).messages()).decode()
    assert text.count("Unchanged: as in event 1") == 1
    assert text.count("procedure") == 0
    return text


def test_anthropic(talk: Talk) -> None:
    found: dict[str, Any] = json.loads(sent(talk, "anthropic"))
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user", "assistant"]
    [result] = found["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "call_1")
    assert [part["text"].partition(":")[0] for part in result["content"]] == ["One file", "Unchanged"]
    assert found["messages"][0]["content"][1]["text"].endswith(LONG)


def test_openai(talk: Talk) -> None:
    found = json.loads(sent(talk, "openai"))
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "tool", "assistant"]
    result = found["messages"][2]
    assert result["tool_call_id"] == "call_1"
    assert result["content"].startswith("One file:\n\nUnchanged: as in event 1")


def test_lines_say_everything(talk: Talk) -> None:
    lines = [json.loads(line) for line in sent(talk, "jsonl").splitlines()]
    assert [(line["role"], line["kind"], line["event"]) for line in lines] == [
        ("user", "user", 1),
        ("assistant", "tool_call", 2),
        ("tool", "tool_result", 3),
        ("assistant", "assistant", 4),
    ]
    assert lines[0]["content"][1] == {
        "type": "resource",
        "uri": "file:///shop/library.py",
        "mime": "text/x-python",
        "text": LONG,
    }
    assert (lines[1]["tool"], lines[1]["id"], lines[1]["arguments"]) == ("fs_read_file", "call_1", {"path": "x"})
    assert lines[2]["id"] == "call_1"
    assert lines[2]["timestamp"] == "2026-03-05T19:00:00.000Z"


def test_lines_hold_pictures_and_thoughts_as_well(store: Store, tmp_path: Path) -> None:
    lines = document(store, shop(tmp_path).bring(store))["messages"]
    blocks = [block for line in lines for block in line["content"]]
    assert [block["data"] for block in blocks if block["type"] == "image"] == [PNG, PNG]
    [thought] = [line for line in lines if line["kind"] == "reasoning"]
    assert thought["signature"] == "c2lnbmVk"
    assert [line["is_error"] for line in lines if line.get("is_error")] == [True]


def test_a_conversation_in_which_nothing_was_said(talk: Talk) -> None:
    assert talk.document("anthropic")["messages"] == []
    assert talk.document("openai")["messages"] == []
    assert talk.document("jsonl")["messages"] == []
    assert b"".join(Context(talk.store.library, talk.store.settings, talk.conversation, "jsonl").messages()) == b""
    assert json.loads(
        b"".join(Context(talk.store.library, talk.store.settings, talk.conversation, "anthropic").messages())
    ) == {"messages": []}


def test_text_that_is_no_unicode_is_sent_as_far_as_it_can_be(talk: Talk) -> None:
    bad = {"uri": "file:///x", "mimeType": "text/plain", "text": LONG + "\ud800"}
    talk.asks("Look", bad)
    talk.reads(bad)
    document = talk.document("anthropic")
    assert document["saved"]["references"] == 1
    assert "\ufffd" in document["messages"][0]["content"][1]["text"]
