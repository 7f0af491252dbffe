"""Whatever is said in a conversation: a reference leads to what stands there in full, and nothing is sent in vain."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.delivery.answers import Offered
from store.delivery.deliveries import Deliveries
from store.store import Store
from tests.store.delivery.talk import Reference, Talk, read, resource

LOOKBACK = 2
URIS = ("file:///a", "file:///b", "FILE:///a")
CONTENTS = ("short", "x" * 80, "y" * 80)
MIN_BYTES = 70

RESOURCES = st.tuples(st.sampled_from(URIS), st.sampled_from(CONTENTS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.lists(RESOURCES, max_size=2)),
        st.tuples(st.just("read"), st.lists(RESOURCES, min_size=1, max_size=3)),
        st.tuples(st.just("say"), st.just([])),
        st.tuples(st.just("note"), st.just([])),
        st.tuples(st.just("compact"), st.just([])),
        st.tuples(st.just("check"), st.lists(RESOURCES, min_size=1, max_size=2)),
    ),
    max_size=14,
)


def do(talk: Talk, what: str, resources: list[tuple[str, str]]) -> None:
    parts = [resource(uri, content) for uri, content in resources]
    match what:
        case "ask":
            talk.asks("Go on", *parts)
        case "read":
            talk.reads(*parts)
        case "say":
            talk.says()
        case "note":
            talk.event("turn_start")
        case "compact":
            talk.compacts(0, 0, summary="It began.")
        case _:
            check(talk, resources)


def check(talk: Talk, resources: list[tuple[str, str]]) -> None:
    """Whoever has followed the conversation gives the same answers as whoever looks at it for the first time."""
    blocks = [Offered(uri, text=content) for uri, content in resources]
    followed = talk.store.deliveries.check(talk.context, blocks)
    assert followed == Deliveries(talk.store.library, talk.store.settings).check(talk.context, blocks)
    # and the same as if the result were in the conversation
    call = talk.calls()
    assert [answer.message for answer in followed] == [
        answer.message
        for answer in Deliveries(talk.store.library, talk.store.settings).check(talk.context, blocks, call=call)
    ]
    talk.returns(call, *(resource(uri, content) for uri, content in resources))
    sent = [block["text"] for block in talk.messages()[-1]["content"]]
    assert sent == [answer.message or content for answer, (_uri, content) in zip(followed, resources, strict=True)]


def returned(talk: Talk) -> dict[int, list[tuple[str, str]]]:
    """Return by event what each result returned: URIs and contents."""
    turns = range(1, talk.store.writer.turns.count + 1)
    events = [json.loads(payload) for _turn, payload in talk.store.contents.payloads(turns)]
    parts = {number: event.get("content") for number, event in enumerate(events, 1) if "id" in event}
    return {
        number: [(part["resource"]["uri"], part["resource"]["text"]) for part in found]
        for number, found in parts.items()
        if found
    }


def verify(lines: list[dict[str, Any]], requests_before: int, results: dict[int, list[tuple[str, str]]]) -> None:
    """Check what is sent against what is sent before it, and nothing else."""
    turn = requests_before
    full: dict[tuple[str, str], tuple[int, int]] = {}
    latest: dict[str, str] = {}
    for line in lines:
        turn += line["kind"] == "user"
        delivered, seen = {}, {}
        # texts of people and summaries are no resources
        whole = [(block.get("uri", ""), block["text"]) for block in line["content"]]
        keys = results[line["event"]] if line["role"] == "tool" else whole
        for key, block in zip(keys, line["content"], strict=True):
            uri, content = key
            seen[uri] = content
            said = read(block["text"], content)
            if not isinstance(said, Reference):
                assert said == content
                if line["role"] == "tool" and len(content) > MIN_BYTES and key in full:
                    assert turn - max(1, full[key][1]) > LOOKBACK
                delivered[key] = line["event"], turn
                continue
            assert line["role"] == "tool"
            event, at = full[key]
            assert said == Reference(event, max(1, at), again=latest[uri] != content)
            assert turn - max(1, at) <= LOOKBACK
            assert len(content) > MIN_BYTES
        full |= {key: where for key, where in delivered.items() if key[0]}
        latest |= {uri: content for uri, content in seen.items() if uri}


@settings(
    max_examples=1000 if os.environ.get("CONVFS_LARGE_TESTS") else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_references_lead_somewhere_and_nothing_is_sent_in_vain(
    memory_path: Path, steps: list[tuple[str, list[tuple[str, str]]]]
) -> None:
    with Store.open(memory_path / uuid.uuid4().hex, renderer=FileRenderer()) as store:
        talk = Talk(store)
        talk.sets(conversation={"deduplication": {"min_bytes": MIN_BYTES, "lookback_turns": LOOKBACK}})
        for what, resources in steps:
            do(talk, what, resources)
        asked = sum(what == "ask" for what, _resources in steps)
        for last in (None, 1, 2):
            lines = talk.messages(last=last)
            verify(lines, asked - sum(line["kind"] == "user" for line in lines), returned(talk))
