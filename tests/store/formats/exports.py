"""Small exports of web services, written as the services write them."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(32)

Node = dict[str, object]


def said(
    identifier: str,
    parent: str | None,
    role: str,
    content: object,
    *,
    name: str | None = None,
    recipient: str = "all",
    time: float = 1_700_000_000.5,
    metadata: Mapping[str, object] = {},
) -> Node:
    """Return a node of ChatGPT's tree; ``content`` may be a text."""
    content = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    message = {
        "id": identifier,
        "author": {"role": role, "name": name, "metadata": {}},
        "create_time": time,
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "end_turn": None,
        "weight": 1.0,
        "metadata": dict(metadata),
        "recipient": recipient,
        "channel": None,
    }
    return {"id": identifier, "message": message, "parent": parent, "children": []}


def tree(identifier: str, *nodes: Node, current: str | None = None, title: str = "A talk") -> dict[str, object]:
    """Return a conversation of ChatGPT that holds nodes, the root before them; the last is the current one."""
    root: Node = {"id": "root", "message": None, "parent": None, "children": []}
    mapping: dict[str, Node] = {"root": root, **{str(node["id"]): node for node in nodes}}
    for node in mapping.values():
        children = [other["id"] for other in mapping.values() if other["parent"] == node["id"]]
        node["children"] = children
    return {
        "title": title,
        "create_time": 1_700_000_000.25,
        "update_time": 1_700_000_900.0,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": list(mapping)[-1] if current is None else current,
        "plugin_ids": None,
        "conversation_id": identifier,
        "default_model_slug": "gpt-5",
        "id": identifier,
    }


def asked(identifier: str, **more: object) -> dict[str, object]:
    """Return a conversation of ChatGPT with a question that was edited and an answer that was asked for again."""
    return tree(
        identifier,
        said("u1", "root", "user", "Why is the sky blue?"),
        said("a1", "u1", "assistant", "Because of <b>Rayleigh</b>."),
        said("a2", "u1", "assistant", "It scatters light.", time=1_700_000_100.0),
        said("u2", "a1", "user", "And at dusk?", time=1_700_000_200.0),
        said("u3", "root", "user", "Why is the sea blue?", time=1_700_000_300.0),
        said("a3", "u2", "assistant", "Red, the way is longer.", time=1_700_000_400.0),
        **more,  # type: ignore[arg-type]  # current and title, as tree has them
    )


def message(
    identifier: str, sender: str, *content: object, parent: str = "", text: str = "", **more: object
) -> dict[str, object]:
    """Return a message of claude.ai; what is a text of ``content`` becomes a part."""
    parts = [_part(part) if isinstance(part, str) else part for part in content]
    made: dict[str, object] = {
        "uuid": identifier,
        "text": text or "".join(part for part in content if isinstance(part, str)),
        "content": parts,
        "sender": sender,
        "created_at": "2025-03-05T10:11:12.131415Z",
        "updated_at": "2025-03-05T10:11:12.131415Z",
        "attachments": [],
        "files": [],
    }
    return made | ({"parent_message_uuid": parent} if parent else {}) | more


def talk(identifier: str, *messages: object, **more: object) -> dict[str, object]:
    """Return a conversation of claude.ai."""
    return {
        "uuid": identifier,
        "name": "A talk",
        "summary": "",
        "created_at": "2025-03-05T10:11:00Z",
        "updated_at": "2025-03-05T10:12:00Z",
        "account": {"uuid": "acc"},
        "chat_messages": list(messages),
        **more,
    }


def dumped(*conversations: object) -> bytes:
    """Return what an export's file of conversations holds."""
    return json.dumps(list(conversations)).encode()


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write an export's archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in members.items():
            written.writestr(zipfile.ZipInfo(name, (2025, 3, 5, 10, 11, 12)), content, zipfile.ZIP_DEFLATED)
    return path


def _part(text: str) -> dict[str, object]:
    return {"start_timestamp": None, "stop_timestamp": None, "type": "text", "text": text, "citations": []}
