"""A small invented session of Claude Code, with an event of every sort that people edit."""

import json
from pathlib import Path

SESSION = "5d1c7c1e-6d0f-4a6e-8f0a-3f5b7a9e2c11"
PROJECT, CONVERSATION = "garden", "2026-03-05-tidy-up-the-notes"
LONG = "".join(f"{number:06} a row of a long table that is not worth reading\n" for number in range(6000)).rstrip()
TEXT = "The notes fall into two parts.\n\nThe first is about alpha, the longer one.\nThe second is about omega."
OUTPUT = "alpha.md  12 lines\nomega.md   7 lines\nBoth end with a newline."
COMMAND = 'cd notes\nfor name in *.md; do\n    printf \'%s  %s lines\\n\' "$name" "$(wc -l <"$name")"\ndone'

EVENTS = ["00001-user.md", "00002-assistant.md", "00003-call-Bash.md", "00004-result-Bash.md", "00006-assistant.md"]
"""The files of the session's events; the fifth record is bookkeeping."""

USER, ANSWER, CALL, RESULT, LARGE = EVENTS


def records() -> list[dict[str, object]]:
    """Return the lines of the session."""
    call = {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": COMMAND}}
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": OUTPUT, "is_error": False}
    return [
        _record(1, "user", "Tidy up the notes.\nThey are about alpha."),
        _record(2, "assistant", [{"type": "text", "text": TEXT}]),
        _record(3, "assistant", [call]),
        _record(4, "user", [result]) | {"toolUseResult": {"stdout": OUTPUT, "stderr": "", "interrupted": False}},
        {"type": "file-history-snapshot", "messageId": "m5", "snapshot": {}, "isSnapshotUpdate": False},
        _record(6, "assistant", [{"type": "text", "text": f"Here is all of alpha.\n\n{LONG}"}], parent=4),
    ]


def _record(number: int, role: str, content: object, *, parent: int | None = None) -> dict[str, object]:
    message: dict[str, object] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"model": "claude-test-1", "id": f"msg_{number}", "type": "message"}
    above = parent if parent is not None else number - 1
    return {
        "parentUuid": f"u{above}" if above else None,
        "sessionId": SESSION,
        "cwd": f"/home/ada/{PROJECT}",
        "version": "2.0.0",
        "type": role,
        "message": message,
        "uuid": f"u{number}",
        "timestamp": f"2026-03-05T19:31:{number:02}.000Z",
    }


def write_session(directory: Path) -> Path:
    """Write the session as the tool itself would, and return its file."""
    path = directory / f"{SESSION}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records()), encoding="utf-8")
    return path
