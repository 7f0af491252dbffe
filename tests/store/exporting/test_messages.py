"""Messages as the APIs of models take them."""

from pathlib import Path

from store.exporting.export import export
from store.store import Store
from tests.store.exporting.talks import PNG, Talk, document, lines_of, lost, shop
from tests.store.exporting.test_forms import check_anthropic, check_openai


def test_anthropic(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "a", "anthropic")
    assert lost(done) == {}
    messages = document(store, conversation, tmp_path / "b", "anthropic")["messages"]
    check_anthropic(messages)
    assert messages[0] == {"role": "user", "content": [{"type": "text", "text": "Fix the **login** bug"}]}
    thought, said, call = messages[1]["content"]
    assert thought == {"type": "thinking", "thinking": "The address may be the cause.", "signature": "c2lnbmVk"}
    assert said == {"type": "text", "text": "I look at it."}
    assert call["input"] == {"file_path": "/home/ada/shop/login.py", "limit": 20}
    (result,) = messages[4]["content"]
    assert result["is_error"] is True
    assert result["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}


def test_openai(store: Store, tmp_path: Path) -> None:
    conversation = shop(tmp_path).bring(store)
    done = export(store, conversation, tmp_path / "a", "openai")
    assert lost(done) == {
        "a thought": (2,),
        "an image": (7,),
        "that a call failed, but for what its result says": (7,),
    }
    messages = document(store, conversation, tmp_path / "b", "openai")["messages"]
    check_openai(messages)
    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert messages[1]["content"] == "I look at it."
    assert messages[1]["tool_calls"][0]["function"] == {
        "name": "Read",
        "arguments": '{"file_path":"/home/ada/shop/login.py","limit":20}',
    }
    assert messages[3]["content"] is None
    assert messages[6]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


def test_the_prompt_stands_where_the_api_wants_it(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Be brief.", isMeta=True)
    talk.says("Hello.")
    conversation = talk.bring(store)
    found = document(store, conversation, tmp_path / "a", "anthropic")
    assert found["system"] == "Be brief."
    # the first turn must be the user's
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    messages = document(store, conversation, tmp_path / "b", "openai")["messages"]
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello."}]


def test_a_note_between_a_call_and_its_result_ends_nothing(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.user("Go")
    talk.calls("a", "Read", {})
    talk.line("system", "", type="system", subtype="informational", content="so")
    talk.calls("b", "Read", {})
    talk.returns("a", "A")
    talk.returns("b", "B")
    conversation = talk.bring(store)
    check_openai(document(store, conversation, tmp_path / "a", "openai")["messages"])
    check_anthropic(document(store, conversation, tmp_path / "b", "anthropic")["messages"])
    messages = [line["message"] for line in lines_of(export(store, conversation, tmp_path / "c", "pi"))[1:-1]]
    assert [message["role"] for message in messages] == ["user", "assistant", "toolResult", "toolResult"]
