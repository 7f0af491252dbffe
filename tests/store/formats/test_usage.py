"""The usage of answers, as each tool writes it."""

import json
from collections.abc import Sequence

import pytest

from store.events.usage import NOTHING_RUNNING, Tokens, Usage
from store.formats.aider import AiderLens
from store.formats.api_messages import ApiMessageLens
from store.formats.claude_code.lens import ClaudeCodeLens
from store.formats.codex.lens import CodexLens
from store.formats.core.editing import Lens
from store.formats.core.token_counts import counted
from store.formats.gemini_cli.lens import GeminiCliLens
from store.formats.llm import LlmJsonLens
from store.formats.opencode import OpencodeMessageLens, OpencodeRowLens
from store.formats.openhands import OpenHandsLens
from store.formats.pi.lens import PiLens
from store.formats.swe_agent import SweAgentLens


def told(lens: Lens, records: Sequence[object]) -> list[Usage]:
    """Return what a session's records, given as what they say, tell of usage."""
    running = NOTHING_RUNNING
    found = []
    for record in records:
        payload = record.encode() if isinstance(record, str) else json.dumps(record).encode()
        usage, running = lens.usage(payload, running)
        if usage is not None:
            found.append(usage)
    return found


CLAUDE = {"input_tokens": 3, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 50, "output_tokens": 7}


def claude_line(usage: object, **more: object) -> dict[str, object]:
    message = {"id": "msg_1", "role": "assistant", "model": "claude-opus-4-5", "content": [], "usage": usage}
    return {"type": "assistant", "uuid": "u1", "message": message, **more}


def test_claude_code_names_an_answer_by_its_message() -> None:
    hour = {**CLAUDE, "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 30}}
    lines = [
        {"type": "user", "message": {"role": "user", "content": 'what is "usage"?'}},
        claude_line({**CLAUDE, "output_tokens": 1}),
        claude_line(hour, costUSD=0.25),
        {"type": "progress", "data": {"type": "agent_progress", "message": claude_line(CLAUDE)}},
    ]
    first, second, third = told(ClaudeCodeLens(), lines)
    assert {first.answer, second.answer, third.answer} == {"msg_1"}
    assert first.tokens == Tokens(3, 1, 200, 50)
    assert (second.tokens, second.cost) == (Tokens(3, 7, 200, 50, 20), 0.25)
    assert third == Usage("msg_1", "claude-opus-4-5", Tokens(3, 7, 200, 50))


def test_what_claude_code_says_itself_took_nothing() -> None:
    line = claude_line(dict.fromkeys(CLAUDE, 0))
    assert told(ClaudeCodeLens(), [line, "not json"]) == []


def codex_count(*numbers: int) -> dict[str, int]:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")
    return dict(zip(names, (*numbers, numbers[0] + numbers[2]), strict=True))


def codex_line(total: Sequence[int], last: Sequence[int]) -> dict[str, object]:
    info = {"total_token_usage": codex_count(*total), "last_token_usage": codex_count(*last)}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info, "rate_limits": {}}}


def codex_meta(session: str) -> dict[str, object]:
    return {"type": "session_meta", "payload": {"id": session}}


def codex_model(model: str) -> dict[str, object]:
    return {"type": "turn_context", "payload": {"model": model}}


CODEX = [
    codex_meta("one"),
    codex_model("gpt-5.4"),
    {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
    codex_line((100, 60, 10, 4), (100, 60, 10, 4)),
    codex_line((100, 60, 10, 4), (100, 60, 10, 4)),
    codex_model("gpt-5.5"),
    codex_line((250, 150, 30, 9), (150, 90, 20, 5)),
]


def test_codex_counts_on_and_on() -> None:
    first, second = told(CodexLens(), CODEX)
    assert (first.model, first.tokens) == ("gpt-5.4", Tokens(40, 10, 60, reasoning=4))
    assert (second.model, second.tokens) == ("gpt-5.5", Tokens(60, 20, 90, reasoning=5))
    assert first.answer != second.answer


def test_a_fork_of_a_codex_session_tells_of_the_same_answers() -> None:
    fork = [codex_meta("two"), *CODEX, codex_line((300, 200, 40, 9), (50, 50, 10, 0))]
    ours, theirs = told(CodexLens(), CODEX), told(CodexLens(), fork)
    assert theirs[:2] == ours
    assert theirs[2].tokens == Tokens(0, 10, 50)
    assert theirs[2].answer not in {usage.answer for usage in ours}


def test_codex_may_begin_to_count_anew() -> None:
    again = [*CODEX, codex_line((20, 0, 5, 0), (20, 0, 5, 0))]
    assert told(CodexLens(), again)[2].tokens == Tokens(20, 5)
    # a line that says the same of the session once more begins nothing
    grown = [*CODEX, codex_meta("one"), codex_line((260, 150, 31, 9), (10, 0, 1, 0))]
    assert told(CodexLens(), grown)[2].tokens == Tokens(10, 1)


def test_turns_of_codex_exec() -> None:
    line = {"type": "event_msg", "payload": {"type": "turn.completed", "usage": codex_count(50, 20, 5, 0)}}
    assert told(CodexLens(), [codex_model("gpt-5"), line]) == [Usage("", "gpt-5", Tokens(30, 5, 20))]


def test_gemini_cli_counts_the_cache_within_the_input_and_thoughts_beside_the_output() -> None:
    counts = {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 3, "total": 118}
    message = {"id": "m1", "type": "gemini", "model": "gemini-2.5-pro", "content": "", "tokens": counts}
    assert told(GeminiCliLens(), [message]) == [Usage("m1", "gemini-2.5-pro", Tokens(63, 15, 40, reasoning=5))]


def test_pi_says_what_an_answer_cost() -> None:
    usage = {"input": 10, "output": 4, "cacheRead": 20, "cacheWrite": 6, "cost": {"input": 1, "total": 1.5}}
    message = {"role": "assistant", "model": "claude-opus-4-5", "usage": usage, "timestamp": 1767225600000}
    line = {"type": "message", "id": "0a1b2c3d", "message": message}
    (found,) = told(PiLens(), [line, {**line, "message": {"role": "user", "content": '"usage"'}}])
    assert (found.answer, found.tokens, found.cost) == ("0a1b2c3d@1767225600000", Tokens(10, 4, 20, 6), 1.5)
    usage["cost"] = {"total": 0}
    assert told(PiLens(), [line])[0].cost is None


def test_oh_my_pi_tells_of_answers_beside_the_conversation() -> None:
    usage = {"input": 12, "output": 3, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.001}}
    line = {"type": "model_usage", "id": "u1", "timestamp": "2026-03-05T19:31:54Z", "purpose": "title"}
    [found] = told(PiLens(), [{**line, "model": "claude-haiku-4-5", "usage": usage}])
    expected = Usage("u1@2026-03-05T19:31:54Z", "claude-haiku-4-5", Tokens(12, 3), 0.001)
    assert found == expected


def opencode_message(**more: object) -> dict[str, object]:
    tokens = {"input": 12, "output": 3, "reasoning": 2, "cache": {"read": 30, "write": 4}}
    chosen = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
    return {"role": "assistant", "time": {"created": 1730000102000}, **chosen, "tokens": tokens, "cost": 0.02, **more}


def test_opencode_tells_of_an_answer_in_its_message() -> None:
    expected = Usage("1730000102000@claude-sonnet-4-5", "claude-sonnet-4-5", Tokens(12, 5, 30, 4, 0, 2), 0.02)
    row = {"table": "message", "key": {"id": "msg_2"}, "json": {"data": opencode_message()}}
    part = {"table": "part", "json": {"data": {"type": "step-finish", **opencode_message()}}}
    assert told(OpencodeRowLens(), [row, part]) == [expected]
    files = [opencode_message(id="msg_1"), opencode_message(role="user")]
    assert told(OpencodeMessageLens(), files) == [expected]


def test_aider_prints_rounded_numbers() -> None:
    passages = [
        "# aider chat started at 2026-03-05 19:31:54",
        "> Main model: gpt-4o with diff edit format  \n> Git repo: .git with 3 files  ",
        "Tokens: 9k sent, 9 received.",
        "> Tokens: 3.2k sent, 1k cache write, 2k cache hit, 21 received. Cost: $0.0082 message, $1.20 session.  ",
        "> Tokens: 1,234 sent, 1.1M received.  ",
    ]
    first, second = told(AiderLens(), passages)
    assert first == Usage("", "gpt-4o", Tokens(200, 21, 2000, 1000), 0.0082, 1772739114000)
    assert (second.tokens, second.cost) == (Tokens(1234, 1_100_000), None)
    earlier = [
        "> Models: gpt-4 with diff edit format, weak model gpt-3  ",
        "> Tokens: 5,244 sent, 604 received. Cost: $0.02 request, $0.30 session.  ",
    ]
    assert told(AiderLens(), earlier) == [Usage("", "gpt-4", Tokens(5244, 604), 0.02)]


def test_calls_of_one_answer_in_openhands() -> None:
    usage: dict[str, object] = {"prompt_tokens": 100, "completion_tokens": 8, "prompt_tokens_details": {}}
    usage |= {"cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}
    answer = {"id": "chatcmpl-1", "model": "claude-3-5-sonnet", "usage": usage, "choices": []}
    records = [{"id": n, "action": "run", "tool_call_metadata": {"model_response": answer}} for n in (1, 2)]
    assert told(OpenHandsLens(), records) == [Usage("chatcmpl-1", "claude-3-5-sonnet", Tokens(10, 8, 60, 30))] * 2


def test_a_run_of_swe_agent_ends_in_its_sums() -> None:
    end = {"exit_status": "submitted", "model_stats": {"instance_cost": 0.5, "tokens_sent": 900, "tokens_received": 80}}
    assert told(SweAgentLens(), [end]) == [Usage("", "", Tokens(900, 80), 0.5)]
    assert told(SweAgentLens(), [{"model_stats": {"instance_cost": 0, "tokens_sent": 0}}]) == []


def test_responses_of_llm() -> None:
    response = {"id": "r1", "model": "gpt-4o", "prompt": "?", "response": "!", "input_tokens": 8, "output_tokens": 2}
    assert told(LlmJsonLens(), [response]) == [Usage("r1", "gpt-4o", Tokens(8, 2))]


def test_answers_of_apis() -> None:
    chat = {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}}
    google = {"promptTokenCount": 40, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 10}
    answers: list[object] = [
        {"id": "c1", "model": "gpt-5", "choices": [], "usage": chat},
        {"responseId": "g1", "modelVersion": "gemini-2.5-pro", "candidates": [], "usageMetadata": google},
        {"encoding": "utf-8", "string": json.dumps({"id": "m1", "model": "claude-opus-4-1", "usage": CLAUDE})},
        {"role": "user", "content": 'tell me of "usage"'},
    ]
    assert told(ApiMessageLens(), answers) == [
        Usage("c1", "gpt-5", Tokens(30, 9, 20)),
        Usage("g1", "gemini-2.5-pro", Tokens(30, 5, 10, reasoning=2)),
        Usage("m1", "claude-opus-4-1", Tokens(3, 7, 200, 50)),
    ]


def test_the_responses_api_counts_the_cache_within_the_input() -> None:
    usage = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 12}
    assert counted({**usage, "output_tokens_details": {"reasoning_tokens": 8}}) == Tokens(26, 12, 64, reasoning=8)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "many", "output_tokens": None},
        {"input_tokens": -5, "output_tokens": True},
        {"input_tokens": 1 << 70},
        {"cache_creation": [], "completion_tokens_details": 3, "prompt_tokens_details": {"cached_tokens": "x"}},
    ],
)
def test_counts_that_are_none_count_nothing(usage: dict[str, object]) -> None:
    assert counted(usage) == Tokens()
