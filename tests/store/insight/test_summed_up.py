"""Usage that stands beside the records of a session, as the sum of all its answers: counted once."""

import json
from pathlib import Path

import pytest

from store.importing.importer import Importer
from store.store import Store
from tests.store.insight.answers import report_of

Files = dict[str, object]
Counts = tuple[int, int, int, int, float]
"""Input, output, read from a cache, written to it, US dollars."""

ASKED = {"role": "user", "content": [{"type": "text", "text": "Why does the login fail?"}]}
TOLD = {"role": "assistant", "content": [{"type": "text", "text": "It returns nothing."}]}
COUNTED = {"metrics": {"tokens": {"prompt": 5, "completion": 3, "cached": 4}, "cost": 0.25}}
TASK = {"tokensIn": 7, "tokensOut": 5, "cacheReads": 3, "cacheWrites": 2, "totalCost": 0.5}
TASK_FILE = "saoudrizwan.claude-dev/tasks/17/api_conversation_history.json"
HISTORY = {"id": "17", "ts": 1767225600000, "task": "Fix it", "modelId": "m", **TASK}

VIBE = [{"role": "user", "content": "Why?", "message_id": "1"}]
VIBE_STATS = {"session_prompt_tokens": 20, "session_completion_tokens": 10, "session_cost": 0.5}
KIRO_TURNS = [{"input_token_count": 12, "output_token_count": 4}, {"input_token_count": 3, "output_token_count": 1}]
KIMI_USAGE = {"input_other": 10, "output": 20, "input_cache_read": 5, "input_cache_creation": 1}
KIMI_STATUS = {"timestamp": 1.0, "message": {"type": "StatusUpdate", "payload": {"token_usage": KIMI_USAGE}}}
DROID = [
    {"type": "session_start", "id": "d1", "title": "Fix it", "cwd": "/p"},
    {"type": "message", "id": "m1", "timestamp": "2026-03-05T19:00:00Z", "message": ASKED},
]
DROID_USAGE = {"inputTokens": 9, "outputTokens": 8, "cacheReadTokens": 7, "cacheCreationTokens": 6, "thinkingTokens": 5}
KIT = [
    {
        "id": f"{number}",
        "timestamp": "2026-03-05T19:00:00",
        "source": role,
        "llm_message": {"role": role, "content": [{"type": "text", "text": "Why?"}]},
        "kind": "MessageEvent",
    }
    for number, role in enumerate(("user", "assistant"))
]
KIT_USAGE = {"prompt_tokens": 30, "completion_tokens": 6, "cache_read_tokens": 20, "cache_write_tokens": 4}
KIT_STATE = {
    "agent": {"llm": {"model": "m"}},
    "stats": {"usage_to_metrics": {"agent": {"accumulated_cost": 0.5, "accumulated_token_usage": KIT_USAGE}}},
}
REQUEST = {"requestId": "r", "message": {"text": "Why?", "parts": []}, "response": [{"value": "Because."}]}
VSCODE = {
    "version": 3,
    "sessionId": "v1",
    "responderUsername": "GitHub Copilot",
    "requests": [REQUEST | {"promptTokens": 100, "completionTokens": 10}, REQUEST | {"promptTokens": 50}],
}
GOOSE = [
    {"working_dir": "/p", "message_count": 1, "accumulated_input_tokens": 11, "accumulated_output_tokens": 2},
    {"role": "user", "created": 1767225600, "content": [{"type": "text", "text": "Why?"}]},
]

CONTINUE_USAGE = {
    "totalCost": 0.5,
    "promptTokens": 70,
    "completionTokens": 14,
    "promptTokensDetails": {"cachedTokens": 10},
}
LM_STUDIO = {
    "type": "multiStep",
    "steps": [
        {"type": "contentBlock", "content": [{"type": "text", "text": "Because."}], "genInfo": {"stats": stats}}
        for stats in (
            {"promptTokensCount": 10, "predictedTokensCount": 2},
            {"promptTokensCount": 30, "predictedTokensCount": 3},
        )
    ],
}

HERMES = {"id": "h1", "source": "cli", "model": "m", "started_at": 1767225600.5}
HERMES_TAKEN = {"input_tokens": 9, "output_tokens": 8, "cache_read_tokens": 7, "cache_write_tokens": 6}
HERMES_USAGE = HERMES_TAKEN | {"actual_cost_usd": 0.5, "messages": [{"role": "user", "content": "Why?"}]}

BESIDE: dict[str, tuple[Files, Counts]] = {
    "Hermes": (
        {".hermes/sessions/saved/hermes_conversation_1.json": HERMES | HERMES_USAGE},
        (9, 8, 7, 6, 0.5),
    ),
    "Mistral Vibe": (
        {".vibe/logs/session/s1/messages.jsonl": VIBE, ".vibe/logs/session/s1/meta.json": {"stats": VIBE_STATS}},
        (20, 10, 0, 0, 0.5),
    ),
    "Cline": (
        {TASK_FILE: [ASKED, TOLD], "saoudrizwan.claude-dev/state/taskHistory.json": [HISTORY]},
        (7, 5, 3, 2, 0.5),
    ),
    "Roo Code": (
        {"tasks/17/api_conversation_history.json": [ASKED], "tasks/17/history_item.json": TASK},
        (7, 5, 3, 2, 0.5),
    ),
    "Cline that tells a part": (
        {"tasks/17/api_conversation_history.json": [ASKED, TOLD | COUNTED], "tasks/17/history_item.json": TASK},
        (7, 5, 4, 2, 0.5),
    ),
    "Cline that tells all": (
        {
            "tasks/17/api_conversation_history.json": [ASKED, TOLD | COUNTED],
            "tasks/17/history_item.json": {
                "tokensIn": 5,
                "tokensOut": 3,
                "cacheReads": 1,
                "cacheWrites": 3,
                "totalCost": 0.25,
            },
        },
        (5, 3, 4, 0, 0.25),
    ),
    "Droid": (
        {".factory/sessions/-p/d1.jsonl": DROID, ".factory/sessions/-p/d1.settings.json": {"tokenUsage": DROID_USAGE}},
        (9, 8, 7, 6, 0),
    ),
    "kimi-cli": (
        {
            ".kimi/sessions/h/s1/context.jsonl": [{"role": "_checkpoint", "id": 0}, ASKED],
            ".kimi/sessions/h/s1/wire.jsonl": [{"type": "metadata"}, KIMI_STATUS, KIMI_STATUS],
        },
        (20, 40, 10, 2, 0),
    ),
    "Kiro": (
        {
            ".kiro/sessions/cli/k1.jsonl": [
                {"version": "v1", "kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Why?"}]}}
            ],
            ".kiro/sessions/cli/k1.json": {
                "session_state": {"conversation_metadata": {"user_turn_metadatas": KIRO_TURNS}}
            },
        },
        (15, 5, 0, 0, 0),
    ),
    "OpenHands": (
        {f"conversations/c1/events/event-{at:05}-{at}.json": event for at, event in enumerate(KIT)}
        | {"conversations/c1/base_state.json": KIT_STATE},
        (6, 6, 20, 4, 0.5),
    ),
    "VS Code": ({"chatSessions/v1.json": VSCODE}, (150, 10, 0, 0, 0)),
    "VS Code's changes": ({"chatSessions/v1.jsonl": [{"kind": 0, "v": VSCODE}]}, (150, 10, 0, 0, 0)),
    "Continue": (
        {
            "sessions/c1.json": {
                "sessionId": "c1",
                "title": "Fix it",
                "workspaceDirectory": "/p",
                "history": [{"message": {"role": "user", "content": "Why?"}, "contextItems": []}],
                "usage": CONTINUE_USAGE,
            }
        },
        (60, 14, 10, 0, 0.5),
    ),
    "LM Studio": ({"1.conversation.json": {"createdAt": 1, "messages": [{"versions": [LM_STUDIO]}]}}, (40, 5, 0, 0, 0)),
    "Goose before its database": ({"goose/sessions/g1.jsonl": GOOSE}, (11, 2, 0, 0, 0)),
}


def write(folder: Path, files: Files) -> None:
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        in_lines = path.suffix == ".jsonl" and isinstance(held, list)
        path.write_text("".join(json.dumps(line) + "\n" for line in held) if in_lines else json.dumps(held))


def spent(store: Store) -> Counts:
    total = report_of(store).total
    return total.input, total.output, total.cache_read, total.cache_write, total.told_cost


@pytest.mark.parametrize("tool", BESIDE)
def test_what_stands_beside_records_counts_once(tmp_path: Path, store: Store, tool: str) -> None:
    """Also when it comes in again, and as a copy; what records tell themselves is a part of it."""
    files, wanted = BESIDE[tool]
    for folder in (tmp_path / "there", tmp_path / "there", tmp_path / "copy"):
        write(folder, files)
        assert Importer(store).run([folder]).errors == []
        assert spent(store) == wanted


def test_a_sum_that_grows_is_counted_again(tmp_path: Path, store: Store) -> None:
    files: Files = {"s1/messages.jsonl": VIBE, "s1/meta.json": {"session_id": "s1", "stats": VIBE_STATS}}
    write(tmp_path / "session", files)
    Importer(store).run([tmp_path])
    assert spent(store)[:2] == (20, 10)
    grown = {"session_id": "s1", "stats": VIBE_STATS | {"session_prompt_tokens": 90, "session_cost": 0.75}}
    write(tmp_path / "session", {"s1/meta.json": grown})
    Importer(store).run([tmp_path])
    assert spent(store) == (90, 10, 0, 0, 0.75)
    assert report_of(store).total.answers == 1


METERED = [{"unit": "credit", "value": 0.25}, {"unit": "request", "value": 1}, {"unit": "credit", "value": 0.5}]
SPOKEN = {"timestamp": "2026-08-01T11:00:05Z", "payload": {"type": "user", "content": "Why?"}}
SUMMED = {"type": "usage_summary", "promptTurnSummaries": [{"unit": "credit", "usage": 0.375}]}
CREDITS: dict[str, tuple[Files, float]] = {
    "its command line": (
        {
            ".kiro/sessions/cli/k1.jsonl": [
                {"version": "v1", "kind": "Prompt", "data": {"content": [{"kind": "text", "data": "Why?"}]}}
            ],
            ".kiro/sessions/cli/k1.json": {
                "session_state": {
                    "conversation_metadata": {
                        "user_turn_metadatas": [{"metering_usage": METERED}, {"metering_usage": METERED}]
                    }
                }
            },
        },
        1.5,
    ),
    "its newer sessions": (
        {
            ".kiro/sessions/shop/sess_1/messages.jsonl": [
                SPOKEN,
                SPOKEN | {"payload": SUMMED},
                SPOKEN | {"payload": SUMMED},
            ],
            ".kiro/sessions/shop/sess_1/session.json": {"id": "sess_1", "modelId": "auto"},
        },
        0.75,
    ),
}


@pytest.mark.parametrize("program", CREDITS)
def test_credits_of_kiro_are_told_and_cost_nothing(tmp_path: Path, store: Store, program: str) -> None:
    files, credited = CREDITS[program]
    write(tmp_path, files)
    assert Importer(store).run([tmp_path]).errors == []
    [conversation] = store.library.conversations()
    usage = conversation.metadata["usage"]
    assert isinstance(usage, dict)
    assert usage["credits"] == credited
    assert "cost" not in usage
    assert spent(store) == (0, 0, 0, 0, 0)
    # a copy takes none
    write(tmp_path / "copy", files)
    Importer(store).run([tmp_path])
    assert len(store.library.conversations()) == 2
    assert report_of(store).credits == credited


def test_running_sums_of_copilot_count_once_with_what_its_answers_tell(tmp_path: Path, store: Store) -> None:
    """Its answers tell their output, the ends of its runs the input of all of them so far."""

    def ended(sent: int) -> dict[str, object]:
        usage = {"inputTokens": sent, "outputTokens": 7, "cacheReadTokens": 40, "cacheWriteTokens": 0}
        return {
            "type": "session.shutdown",
            "data": {"sessionStartTime": 1767225600000, "modelMetrics": {"m": {"usage": usage}}},
        }

    answer = {"messageId": "m1", "content": "Found.", "toolRequests": [], "model": "m", "outputTokens": 7}
    lines: list[dict[str, object]] = [
        {"type": "session.start", "data": {"sessionId": "s", "copilotVersion": "1.0.74"}},
        {"type": "assistant.message", "data": answer},
        ended(100),
        ended(150),
    ]
    write(tmp_path, {"s/events.jsonl": lines})
    Importer(store).run([tmp_path])
    assert spent(store)[:4] == (110, 7, 40, 0)


@pytest.mark.parametrize("told", [1 << 90, -5, 1e300, float("nan"), "7", None, [3], {"a": 1}, True])
def test_sums_that_make_no_sense_count_nothing(tmp_path: Path, store: Store, told: object) -> None:
    stats = {"session_prompt_tokens": told, "session_completion_tokens": 3, "session_cost": told}
    write(tmp_path, {"s1/messages.jsonl": VIBE, "s1/meta.json": {"session_id": "s1", "stats": stats}})
    assert Importer(store).run([tmp_path]).errors == []
    assert spent(store) == (0, 3, 0, 0, 0)


@pytest.mark.parametrize("told", [1 << 60, -5, 1e300, "7", None, [3], {"a": 1}, True])
def test_sums_of_another_store_that_make_no_sense_count_nothing(tmp_path: Path, store: Store, told: object) -> None:
    write(tmp_path, {"s1/messages.jsonl": VIBE, "s1/meta.json": {"session_id": "s1"}})
    Importer(store).run([tmp_path])
    [conversation] = store.library.conversations()
    store.contexts.set_metadata(conversation.id, {"usage": {"input": told, "output": 4, "cost": told}})
    assert spent(store) == (0, 4, 0, 0, 0)
