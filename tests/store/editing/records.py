"""Records that depend on each other, and conversations made of them."""

import json
from collections.abc import Sequence

from store.conversations.contexts import Append
from store.disk.turn_format import DELETED
from store.store import Store

TYPE = "claude-code.line.v1"


def said(text: str, uuid: str = "", parent: str | None = None) -> bytes:
    """Return a line that says something, and may be followed by others."""
    line = {"type": "user", "message": {"role": "user", "content": text}, "parentUuid": parent}
    return json.dumps(line | ({"uuid": uuid} if uuid else {})).encode()


def called(tool: str, call: str, uuid: str = "", parent: str | None = None) -> bytes:
    """Return a line that calls a tool."""
    content = [{"type": "tool_use", "id": call, "name": tool, "input": {"command": "ls"}}]
    line = {"type": "assistant", "message": {"role": "assistant", "content": content}, "parentUuid": parent}
    return json.dumps(line | ({"uuid": uuid} if uuid else {})).encode()


def returned(text: str, call: str, uuid: str = "", parent: str | None = None) -> bytes:
    """Return a line with what a tool returned; reading a file makes a resource."""
    content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
    line = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parentUuid": parent,
        "toolUseResult": {"type": "text", "file": {"filePath": f"/src/{call}.py", "content": text}},
    }
    return json.dumps(line | ({"uuid": uuid} if uuid else {})).encode()


def dialogue(count: int) -> list[bytes]:
    """Return ``count`` lines, each following the one before."""
    return [said(f"Line {number}", f"u{number}", f"u{number - 1}" if number else None) for number in range(count)]


def conversation(store: Store, payloads: Sequence[bytes], name: str = "talk") -> int:
    """Make a conversation of lines."""
    context = store.contexts.create(metadata={"project": "p", "name": name}).context
    store.contexts.append_many(context, [Append(payload, TYPE) for payload in payloads])
    return context


def shown(store: Store, context: int, head: int | None = None) -> list[bytes | None]:
    """Return the payloads of a conversation, None in the place of what was deleted."""
    head = store.writer.head(context).tip if head is None else head
    turns = store.turns.path_to_root(head) if head else []
    return [None if turn.flags & DELETED else store.contents.payload(turn.turn_id) for turn in turns]


def history(store: Store, context: int) -> list[str]:
    """Return the actions of all versions."""
    return [version.action for version in store.catalogue.versions(context)]
