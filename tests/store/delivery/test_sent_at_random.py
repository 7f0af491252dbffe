"""Whatever is said in a conversation: a reference leads to what stands there in full, and nothing is sent in vain."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Any

from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.delivery.answers import Offered
from store.delivery.deliveries import Deliveries
from store.store import Store
from tests.store.delivery.talk import Talk, resource

LOOKBACK = 2
URIS = ("file:///a", "file:///b", "FILE:///a")
CONTENTS = ("short", "x" * 40, "y" * 40)
MIN_BYTES = 30

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
_reference = re.compile(
    r"The file has not changed: the content of (\S+) is that of "
    r"(?:the attachment at turn (\d+)|the result of tool call `(\w+)` in turn (\d+)) "
    r"\(checksum blake3:([0-9a-f]{64})\)\. Read it there\."
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


def verify(lines: list[dict[str, Any]], requests_before: int) -> None:
    """Check what is sent against what is sent before it, and nothing else."""
    turn = requests_before
    full: dict[tuple[str, str], tuple[int, str]] = {}
    for line in lines:
        turn += line["kind"] == "user"
        delivered = {}
        for block in line["content"]:
            found = _reference.fullmatch(block["text"])
            if found is None:
                key = block.get("uri", ""), block["text"]
                if line["role"] == "tool" and len(block["text"]) >= MIN_BYTES and key in full:
                    assert turn - max(1, full[key][0]) > LOOKBACK
                delivered[key] = turn, line.get("id", "") if line["role"] == "tool" else ""
                continue
            assert line["role"] == "tool"
            uri, attached, call, returned, checksum = found.groups()
            [(where, content)] = [
                (full[key], key[1]) for key in full if key[0] == uri and blake3(key[1].encode()).hexdigest() == checksum
            ]
            assert (max(1, where[0]), where[1]) == (int(attached or returned), call or "")
            assert turn - max(1, where[0]) <= LOOKBACK
            assert len(content) >= MIN_BYTES
        full |= {key: where for key, where in delivered.items() if key[0]}


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
            verify(lines, asked - sum(line["kind"] == "user" for line in lines))
