"""Sessions whose lines tell what answers took, and what was counted of them."""

import json
from pathlib import Path

from store.events.usage import Tokens
from store.insight.report import StatsReport
from store.paths import INSIGHT
from store.store import Store

CLAUDE = "claude-code.line.v1"
CODEX = "codex.line.v1"
MODEL = "claude-opus-4-5-20251101"


def asked(number: int) -> bytes:
    """Return a line of Claude Code that asks for something."""
    message = {"role": "user", "content": f"question {number}"}
    return _line(number, "user", message)


def answered(number: int, answer: str, output: int, sent: int = 10, model: str = MODEL, day: int = 5) -> bytes:
    """Return a line of Claude Code with a part of an answer."""
    usage = {"input_tokens": sent, "output_tokens": output, "cache_read_input_tokens": 100}
    content = [{"type": "text", "text": f"part {number}"}]
    message = {"id": answer, "role": "assistant", "model": model, "content": content, "usage": usage}
    return _line(number, "assistant", message, day)


def called(number: int, tool: str) -> bytes:
    """Return a line of Claude Code with the call of a tool."""
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"command": "ls"}}
    return _line(number, "assistant", {"role": "assistant", "content": [call]})


def returned(number: int, call: int) -> bytes:
    """Return a line of Claude Code with the result of the call on line ``call``."""
    result = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": "a\nb\n"}
    return _line(number, "user", {"role": "user", "content": [result]})


def _line(number: int, kind: str, message: dict[str, object], day: int = 5) -> bytes:
    record = {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90",
        "timestamp": f"2026-03-{day:02}T19:00:{number % 60:02}.000Z",
        "message": message,
    }
    return json.dumps(record).encode()


def counted_on(*total: int) -> bytes:
    """Return a line of Codex that has counted input, cached input and output so far."""
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    info = {"total_token_usage": dict(zip(names, total, strict=True))}
    payload = {"type": "token_count", "info": info}
    return json.dumps({"timestamp": "2026-03-05T19:00:00Z", "type": "event_msg", "payload": payload}).encode()


def about(what: str, **payload: str) -> bytes:
    """Return a line of Codex that says what goes on to hold: a ``session_meta`` or a ``turn_context``."""
    return json.dumps({"timestamp": "2026-03-05T19:00:00Z", "type": what, "payload": payload}).encode()


def report_of(store: Store) -> StatsReport:
    """Return what is known of a store when everything has been counted."""
    insight = store.insight
    insight.count()
    found = insight.report()
    assert found.complete
    return found


def took(store: Store) -> tuple[int, Tokens]:
    """Return how many answers there are and what they took."""
    total = report_of(store).total
    return total.answers, Tokens(total.input, total.output, total.cache_read, total.cache_write, 0, total.reasoning)


def counted(store: Store) -> dict[str, object]:
    """Return all that was counted, however it came to be."""
    store.checkpointer.quiesce()
    store.insight.count()
    ledger = store.insight._opened().ledger
    return {
        "accounts": sorted(map(repr, ledger.accounts())),
        "uses": sorted(map(repr, ledger.uses())),
        "holdings": sorted(map(repr, ledger.holdings().values())),
        "bytes": ledger.bytes,
        "last": ledger.last,
        "report": report_of(store),
    }


def forget(root: Path) -> None:
    """Delete all that was counted of a store that is closed."""
    (root / INSIGHT).unlink()
