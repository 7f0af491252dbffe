import json
from collections.abc import Sequence, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.removal import links_of_message, without_calls
from tests.store.formats.chat_records import MESSAGES
from tests.store.formats.mutations import mutated

USE = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
OTHER = {"type": "tool_use", "id": "b", "name": "Grep", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
OTHER_RESULT = {"type": "tool_result", "tool_use_id": "b", "content": "y"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def without_messages(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    return list(without_calls(records, deleted, links_of_message).values())


def said(role: str, *content: object) -> bytes:
    return json.dumps({"role": role, "content": list(content)}).encode()


def plain(role: str, text: str, **more: object) -> bytes:
    return json.dumps({"role": role, "content": text, **more}).encode()


@pytest.mark.parametrize(
    ("records", "deleted", "left"),
    [
        ([plain("user", "a"), plain("assistant", "b")], {0}, [plain("assistant", "b")]),
        ([said("assistant", USE), said("user", RESULT), plain("user", "c")], {1}, [plain("user", "c")]),
        ([said("assistant", USE), said("user", RESULT)], {0}, []),
        (
            [said("assistant", {"type": "text", "text": "t"}, USE), said("user", RESULT)],
            {1},
            [said("assistant", {"type": "text", "text": "t"})],
        ),
        (
            [said("assistant", USE, OTHER), said("user", RESULT), said("user", OTHER_RESULT)],
            {2},
            [said("assistant", USE), said("user", RESULT)],
        ),
        (
            [plain("assistant", "t", tool_calls=[CALL]), plain("tool", "x", tool_call_id="a")],
            {1},
            [plain("assistant", "t")],
        ),
        ([plain("assistant", "", tool_calls=[CALL]), plain("tool", "x", tool_call_id="a")], {1}, []),
        (
            [b'{"type":"function_call","call_id":"a"}', b'{"type":"function_call_output","call_id":"a"}', b'"s"'],
            {0},
            [b'"s"'],
        ),
        ([said("user", RESULT), b"no json"], {1}, [said("user", RESULT)]),
    ],
)
def test_calls_go_with_their_results(records: Sequence[bytes], deleted: set[int], left: Sequence[bytes]) -> None:
    assert without_messages(records, deleted) == left
    assert without_messages(records, frozenset()) == records


@given(st.lists(mutated([record for record, *_ in MESSAGES]), max_size=6), st.sets(st.integers(0, 7)))
def test_nothing_makes_it_fail(records: list[bytes], deleted: set[int]) -> None:
    left = without_messages(records, deleted)
    assert len(left) <= len(records) - len({at for at in deleted if at < len(records)})
    assert without_messages(left, frozenset()) == left
