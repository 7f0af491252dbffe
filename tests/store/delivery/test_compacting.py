"""The rest of a conversation after compactions, and of its last exchanges only."""

import json
from pathlib import Path

import pytest

from store.errors import UsageError
from store.store import Store
from tests.store.delivery.talk import LONG, Reference, Talk, document, numbered, resource, result, told
from tests.store.exporting.talks import Talk as Session
from tests.store.importing.sessions import by_source, imported

# -- exchanges of a conversation of JP -----------------------------------------------------------------------------


def exchanges(talk: Talk, count: int) -> None:
    for number in range(1, count + 1):
        talk.asks(f"request {number}")
        talk.says(f"answer {number}")


def test_a_summary_stands_for_all_that_it_takes_the_place_of(talk: Talk) -> None:
    exchanges(talk, 3)
    talk.compacts(0, 1, summary={"summary": "It began."})
    exchanges(talk, 1)
    assert told(talk) == ["It began.", "request 3", "answer 3", "request 1", "answer 1"]


def test_a_summary_of_the_middle_stands_in_the_middle(talk: Talk) -> None:
    exchanges(talk, 4)
    talk.compacts(1, 2, summary="It went on.")
    assert told(talk) == ["request 1", "answer 1", "It went on.", "request 4", "answer 4"]


def test_a_later_summary_takes_the_place_of_an_earlier_one(talk: Talk) -> None:
    exchanges(talk, 4)
    talk.compacts(1, 1, summary="Two.")
    talk.compacts(3, 3, summary="Four.")
    talk.compacts(0, 2, summary="One to three.")
    assert told(talk) == ["One to three.", "Four."]


@pytest.mark.parametrize("span", [(-1, 1), (2, 1), (9, 9), ("0", 1)])
def test_a_compaction_of_nothing_changes_nothing(talk: Talk, span: tuple[int, int]) -> None:
    exchanges(talk, 2)
    talk.compacts(*span, summary="Nothing.")
    assert [text for text in told(talk) if text != "Nothing."] == ["request 1", "answer 1", "request 2", "answer 2"]


def test_more_than_there_is_may_be_summarized(talk: Talk) -> None:
    exchanges(talk, 2)
    talk.compacts(1, 99, summary="The rest.")
    assert told(talk) == ["request 1", "answer 1", "The rest."]
    exchanges(talk, 1)
    # what the summary is of is told by number, and this is not the ninety-ninth
    assert told(talk)[:3] == ["request 1", "answer 1", "The rest."]


def test_what_follows_a_compaction_in_the_same_exchange_stays(talk: Talk) -> None:
    talk.asks("request 1")
    talk.reads(resource())
    talk.compacts(0, 0, summary="It began.")
    talk.says("answer 1")
    exchanges(talk, 1)
    talk.compacts(5, 6, summary="Of the future.")
    assert told(talk) == ["It began.", "answer 1", "request 1", "answer 1"]


def test_what_was_thought_and_called_may_be_left_out(talk: Talk) -> None:
    for number in range(2):
        talk.asks(f"request {number}")
        talk.thinks("Hm.")
        talk.reads(resource(f"file:///{number}"))
    talk.compacts(0, 0, reasoning="strip", tool_calls={"policy": "strip", "request": True, "response": True})
    lines = talk.messages()
    assert [line["kind"] for line in lines] == [
        *("user", "tool_call", "tool_result"),
        *("user", "reasoning", "tool_call", "tool_result"),
    ]
    assert lines[1]["arguments"] == {}
    assert lines[2]["content"] == [{"type": "text", "text": "[left out: fs_read_file succeeded]"}]
    assert lines[5]["arguments"] == {"path": "x"}
    talk.compacts(0, 0, tool_calls="strip-responses")
    assert talk.messages()[1]["arguments"] == {"path": "x"}
    talk.compacts(0, 1, tool_calls="omit")
    assert [line["kind"] for line in talk.messages()] == ["user", "user", "reasoning"]


@pytest.mark.parametrize(
    "policy", [{"summary": "It read a file."}, {"tool_calls": "strip"}, {"tool_calls": {"policy": "omit"}}]
)
def test_a_delivery_that_a_compaction_dropped_does_not_count(talk: Talk, policy: dict[str, object]) -> None:
    talk.asks()
    talk.reads(resource())
    talk.asks()
    talk.compacts(0, 0, **policy)
    talk.reads(resource())
    talk.reads(resource())
    where = Reference(7, 2)
    assert talk.results()[-2:] == [[LONG], [where]]


def test_an_attachment_that_a_compaction_dropped_does_not_count(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.says()
    talk.asks()
    talk.compacts(0, 0, summary="It looked.")
    talk.reads(resource())
    assert talk.results() == [[LONG]]


def test_a_reference_whose_content_was_dropped_becomes_the_content(talk: Talk) -> None:
    talk.asks()
    talk.reads(resource())
    talk.asks()
    talk.reads(resource())
    assert talk.results()[1] != [LONG]
    talk.compacts(0, 0, summary="It read a file.")
    assert talk.results() == [[LONG]]


# -- the last exchanges --------------------------------------------------------------------------------------------


def test_the_last_exchanges(talk: Talk) -> None:
    exchanges(talk, 3)
    assert told(talk, last=1) == ["request 3", "answer 3"]
    assert told(talk, last=2) == ["request 2", "answer 2", "request 3", "answer 3"]
    assert told(talk, last=3) == told(talk, last=99) == told(talk)
    with pytest.raises(UsageError, match="1 or more"):
        talk.messages(last=0)


def test_what_is_not_among_the_last_exchanges_was_not_delivered(talk: Talk) -> None:
    for _ in range(3):
        talk.asks()
        talk.reads(resource())
    second = Reference(6, 2)
    assert talk.results(last=2) == [[LONG], [second]]
    assert talk.results(last=1) == [[LONG]]


def test_a_summary_comes_with_the_exchanges_after_it_and_not_with_fewer(talk: Talk) -> None:
    exchanges(talk, 2)
    talk.compacts(0, 1, summary="It began.")
    exchanges(talk, 2)
    assert told(talk, last=2) == ["request 1", "answer 1", "request 2", "answer 2"]
    assert told(talk, last=3)[0] == "It began."


def test_the_prompt_always_comes(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Be brief.", isMeta=True)
    for number in range(3):
        session.user(f"request {number}")
        session.says(f"answer {number}")
    conversation = session.bring(store)
    assert document(store, conversation, "anthropic", last=1) == {
        "format": "anthropic",
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "request 2"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "answer 2"}]},
        ],
        "saved": {"references": 0, "bytes": 0, "tokens": 0},
        "lost": [],
    }
    assert document(store, conversation, "openai", last=1)["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_result_whose_call_is_not_sent_is_not_sent(talk: Talk) -> None:
    talk.asks("one")
    call = talk.calls()
    talk.asks("two")
    talk.returns(call, resource())
    talk.reads(resource())
    assert talk.results(last=1) == [[LONG]]


def test_exchanges_begin_with_requests_and_files_may_come_apart(talk: Talk) -> None:
    talk.event("chat_request", resources=[resource()], content=None)
    talk.asks("What is this?")
    talk.says()
    talk.asks("And this?")
    talk.reads(resource())
    assert talk.results() == [[Reference(1, 1)]]
    talk.asks("Interrupted.")
    talk.asks("Again.")
    talk.reads(resource("file:///other"))
    talk.reads(resource("file:///other"))
    assert talk.results()[-1] == [Reference(10, 4)]


# -- the compactions of other tools --------------------------------------------------------------------------------


def test_claude_code_goes_on_from_a_summary(store: Store, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.user("Be brief.", isMeta=True)
    session.user("Look")
    read_file(session, "toolu_1")
    session.line("system", "Conversation compacted", subtype="compact_boundary", content="Conversation compacted")
    session.user("It read a file.", isCompactSummary=True)
    session.user("Go on")
    read_file(session, "toolu_2")
    session.line("system", "…", subtype="away_summary", content="While you were away …")
    read_file(session, "toolu_3")
    conversation = session.bring(store)
    lines = document(store, conversation)["messages"]
    assert [line["content"][0]["text"] for line in lines[:3]] == ["Be brief.", "It read a file.", "Go on"]
    [second, third] = [result(line) for line in lines if line["role"] == "tool"]
    assert second == numbered(LONG)
    assert third == Reference(9, 2)


def test_pi_keeps_the_end_of_what_it_compacts(store: Store, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-05T19:00:00Z"}]
    said = [("user", "one"), ("assistant", "first"), ("user", "two"), ("assistant", "second")]
    for number, (role, text) in enumerate(said):
        content = [{"type": "text", "text": text}]
        lines.append(entry("message", number, message={"role": role, "content": content, "timestamp": 1}))
    lines.append(entry("compaction", 4, summary="It began.", shortSummary="…", firstKeptEntryId="e2", tokensBefore=9))
    lines.append(entry("message", 5, message={"role": "user", "content": "three", "timestamp": 1}))
    path = tmp_path / "2026-03-05_s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    imported(store, path)
    messages = document(store, by_source(store, path))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["It began.", "two", "second", "three"]


def test_codex_goes_on_from_what_stands_in_the_compaction(store: Store, tmp_path: Path) -> None:
    def messages(history: list[object], message: str, name: str) -> list[str]:
        lines = [
            {"type": "session_meta", "payload": {"id": name, "cwd": "/shop"}},
            *(spoken("user", "one"), spoken("assistant", "first")),
            {"type": "compacted", "payload": {"message": message, "replacement_history": history}},
            *(spoken("user", "two"), spoken("assistant", "second")),
        ]
        path = tmp_path / f"rollout-2026-03-05T19-00-00-{name}.jsonl"
        path.write_text("".join(json.dumps({"timestamp": "2026-03-05T19:00:00Z", **line}) + "\n" for line in lines))
        imported(store, path)
        found = document(store, by_source(store, path))["messages"]
        return [block["text"] for line in found for block in line["content"]]

    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}
    summary = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "It began."}]}
    secret = {"type": "compaction", "encrypted_content": "xyz"}
    assert messages([asked, summary], "", "0b6f0000-0000-4000-8000-000000000001") == [
        *("one", "It began."),
        *("two", "second"),
    ]
    assert messages([], "It began.", "0b6f0000-0000-4000-8000-000000000002") == ["It began.", "two", "second"]
    # what only its own model can read stands for nothing
    found = messages([asked, secret], "", "0b6f0000-0000-4000-8000-000000000003")
    assert found == ["one", "first", "two", "second"]


@pytest.mark.parametrize(
    "forgotten",
    [
        {"forgotten_event_ids": [1, 2, 3]},
        {"forgotten_events_start_id": 1, "forgotten_events_end_id": 3, "forgotten_event_ids": None},
    ],
)
def test_openhands_forgets_some_events(store: Store, forgotten: dict[str, object]) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    stamp = "2026-03-05T19:00:00.000000"

    def event(number: int, what: str, source: str, **args: object) -> None:
        stored = {"id": number, "timestamp": stamp, "source": source, "action": what, "args": args}
        store.contexts.append(context, json.dumps(stored).encode(), "openhands.event.v1")

    event(0, "message", "user", content="one")
    event(1, "message", "agent", content="first")
    event(2, "read", "agent", path="/shop/a.py")
    stored = {"id": 3, "timestamp": stamp, "cause": 2, "observation": "read", "content": "x", "extras": {"path": "/a"}}
    store.contexts.append(context, json.dumps(stored).encode(), "openhands.event.v1")
    event(4, "message", "user", content="two")
    event(5, "condensation", "agent", summary="It read a file.", summary_offset=1, **forgotten)
    event(6, "message", "agent", content="second")
    messages = document(store, store.library.conversation(context))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["one", "It read a file.", "two", "second"]
    event(7, "condensation", "agent", summary="It began.", forgotten_event_ids=[0, 4, 5, 99], summary_offset=0)
    messages = document(store, store.library.conversation(context))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["It began.", "second"]
    event(8, "condensation", "agent", summary="Of what is not here.", forgotten_event_ids=[77])
    messages = document(store, store.library.conversation(context))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["It began.", "second", "Of what is not here."]


def test_opencode_goes_on_from_a_summary_in_several_parts(store: Store) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context

    def part(speaker: str, text: str) -> None:
        stored = {"id": "prt", "type": "text", "text": text, "time": {"start": 1772712000000}}
        store.contexts.append(context, json.dumps(stored).encode(), f"opencode.{speaker}-part.v1")

    for speaker, text in (
        *(("user", "one"), ("assistant", "first")),
        *(("summary", "It began."), ("summary", "And went on."), ("user", "two")),
    ):
        part(speaker, text)
    messages = document(store, store.library.conversation(context))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["It began.", "And went on.", "two"]


def test_a_program_that_says_a_summary_means_one(store: Store) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    for kind, text in (("user", "one"), ("assistant", "first"), ("summary", "It began."), ("user", "two")):
        store.contexts.append(context, text.encode(), f"text.{kind}.v1")
    messages = document(store, store.library.conversation(context))["messages"]
    assert [line["content"][0]["text"] for line in messages] == ["It began.", "two"]


def entry(what: str, number: int, **fields: object) -> dict[str, object]:
    parent = f"e{number - 1}" if number else None
    stamp = f"2026-03-05T19:00:{number:02}.000Z"
    return {"type": what, "id": f"e{number}", "parentId": parent, "timestamp": stamp, **fields}


def spoken(role: str, text: str) -> dict[str, object]:
    kind = "input_text" if role == "user" else "output_text"
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "payload": payload}


def read_file(session: Session, call: str) -> None:
    path = "/home/ada/shop/login.py"
    session.calls(call, "Read", {"file_path": path})
    detail = {"filePath": path, "content": LONG, "startLine": 1, "numLines": 20, "totalLines": 20}
    session.returns(call, numbered(LONG), toolUseResult={"type": "text", "file": detail})
