"""Conversations to export, and what comes of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fusefs.text.render import FileRenderer
from store.events.conversation import Conversation
from store.exporting.event_json import event_object, shown_events
from store.exporting.export import Exported, export
from store.store import Store
from tests.store.importing.sessions import SESSION, by_source, imported, session

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Talk:
    """A session of Claude Code, line by line."""

    def __init__(self, folder: Path, name: str = SESSION) -> None:
        self.folder = folder
        self.name = name
        self.lines: list[dict[str, Any]] = []

    def line(self, role: str, said: object, parent: str | None = "", **fields: object) -> str:
        """Add a line after ``parent`` (the last one), and return its id."""
        number = len(self.lines)
        uuid = f"u{number}"
        if parent == "":
            parent = self.lines[-1]["uuid"] if self.lines else None
        self.lines.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "sessionId": SESSION,
                "cwd": "/home/ada/shop",
                "type": role,
                "message": {"role": role, "content": said},
                "uuid": uuid,
                "timestamp": f"2026-03-05T19:{number // 60 % 60:02}:{number % 60:02}.250Z",
            }
            | fields
        )
        return uuid

    def user(self, text: object, **fields: object) -> str:
        return self.line("user", text, **fields)

    def says(self, text: str, **fields: object) -> str:
        return self.line("assistant", [{"type": "text", "text": text}], **fields)

    def thinks(self, text: str, signature: str = "", **fields: object) -> str:
        part = {"type": "thinking", "thinking": text} | ({"signature": signature} if signature else {})
        return self.line("assistant", [part], **fields)

    def calls(self, call: str, tool: str, arguments: object, **fields: object) -> str:
        return self.line("assistant", [{"type": "tool_use", "id": call, "name": tool, "input": arguments}], **fields)

    def returns(self, call: str, content: object, failed: bool = False, **fields: object) -> str:
        part = {"type": "tool_result", "tool_use_id": call, "content": content}
        return self.line("user", [part | ({"is_error": True} if failed else {})], **fields)

    def bring(self, store: Store) -> Conversation:
        """Import it."""
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines)
        path = session(self.folder, content.encode(), self.name)
        imported(store, path)
        return by_source(store, path)


def shop(folder: Path) -> Talk:
    """Return a talk with a bit of everything that tools have in common."""
    talk = Talk(folder)
    talk.user("Fix the **login** bug")
    talk.thinks("The address may be the cause.", "c2lnbmVk")
    talk.says("I look at it.")
    talk.calls("toolu_1", "Read", {"file_path": "/home/ada/shop/login.py", "limit": 20})
    talk.returns("toolu_1", '     1→def login():\n     2→    return "x"\n')
    talk.calls("toolu_2", "Bash", {"edits": [{"old": 'say "x"', "new": "y"}], "command": "echo 'a'\nfalse"})
    talk.returns("toolu_2", [{"type": "text", "text": "exit code 1"}, image()], failed=True)
    talk.says("It is fixed.")
    talk.user([{"type": "text", "text": "And this?"}, image()])
    talk.says("That, too.")
    return talk


def image() -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def shown(store: Store, conversation: Conversation) -> list[dict[str, Any]]:
    """Return the events of a conversation as objects, without their numbers and times."""
    found = []
    for row, event in shown_events(store, conversation):
        shown = event_object(row, event)
        found.append({key: value for key, value in shown.items() if key not in ("event", "timestamp")})
    return found


def said(store: Store, conversation: Conversation) -> list[tuple[str, str, list[object]]]:
    """Return kind, tool and contents of each event, whatever else tools keep of it."""
    return [
        (event["kind"], event.get("tool") or "", [block.get("text", block.get("data")) for block in event["blocks"]])
        for event in shown(store, conversation)
    ]


def document(store: Store, conversation: Conversation, folder: Path, form: str) -> dict[str, Any]:
    """Export a conversation and return what its file says."""
    return json.loads(export(store, conversation, folder, form).files[-1].read_bytes())


def lines_of(done: Exported) -> list[dict[str, Any]]:
    """Return the lines of the file that was exported."""
    return [json.loads(line) for line in done.files[0].read_bytes().splitlines()]


@contextmanager
def brought_back(folder: Path, path: Path) -> Iterator[tuple[Store, Conversation]]:
    """Import the session at ``path`` into a store of its own."""
    with Store.open(folder / "other", renderer=FileRenderer()) as store:
        imported(store, path)
        yield store, by_source(store, path)


def lost(done: Exported) -> dict[str, tuple[int, ...]]:
    return {loss.what: loss.events for loss in done.lost}
