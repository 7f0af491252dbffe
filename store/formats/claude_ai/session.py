"""claude.ai's exports: how they are told from others, how they are cut, which conversations they hold.

An export is an archive, or its folder, with ``conversations.json``, a list of conversations, each with its messages in
``chat_messages``. What the service itself answers for one conversation, which many tools save, is the same object
alone; there messages are a tree, and ``current_leaf_message_uuid`` says which of them was seen last.
"""

import re
from collections.abc import Sequence, Set

import msgspec
from msgspec import Struct

from store.formats import tree_removal
from store.formats.claude_ai.content import said_in
from store.formats.claude_ai.lens import ClaudeAiLens
from store.formats.export_format import Conversation, ExportFormat
from store.formats.format import About
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.message_tree import Node
from store.formats.times import milliseconds
from store.formats.titles import first_line
from store.formats.tree_removal import Shape

_ASKED_AMONG = 4
_begins_like_one = re.compile(rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"').match
_messages = re.compile(rb'(?<!\\)"chat_messages"\s*+:\s*+\[\s*+(?:\]|\{)').search
_usual_start = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"uuid"\s*+:\s*+"[0-9a-f-]++"\s*+,\s*+"name"\s*+:\s*+"(?:[^"\\]|\\.)*+"\s*+,'
    rb'\s*+(?:"summary"|"model"|"created_at")\s*+:',
    re.DOTALL,
).match
_FILES = frozenset(("memories.json", "projects.json", "users.json"))
_is_project = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json").fullmatch
_SHAPE = Shape("uuid", "parent_message_uuid", ("parent_message_uuid",), ("content",), lambda _message: iter(()))


class _Message(Struct):
    uuid: object = None
    parent_message_uuid: object = None
    created_at: object = None


_message = msgspec.json.Decoder(_Message).decode


class ClaudeAi(ExportFormat):
    """Anthropic's claude.ai."""

    name = "claude-ai"
    lenses = (ClaudeAiLens(),)
    main_type = ClaudeAiLens.type_name
    holder = "chat_messages"
    leaf = ("current_leaf_message_uuid", "uuid")
    read = frozenset(("created_at", "current_leaf_message_uuid", "model", "name", "project", "uuid"))

    def begins(self, head: bytes) -> bool:
        """Say whether there are a conversation's messages in the head, or what conversations begin with."""
        if _begins_like_one(head) is None:
            return False
        # a plain search takes a fraction of the other's time, and most files are none
        return (b'"chat_messages"' in head and _messages(head) is not None) or _usual_start(head) is not None

    def belongs(self, name: str, is_folder: bool) -> bool:
        """Say whether it is a file that an export has."""
        return name == "projects" if is_folder else name in _FILES or _is_project(name) is not None

    def told(self, members: JsonObject, records: Sequence[bytes]) -> Conversation:
        """Return what is said of a conversation."""
        session, model = as_text(members.get("uuid")), as_text(members.get("model"))
        title = first_line(as_text(members.get("name"))) or _first_question(records)
        project = as_text(as_object(members.get("project")).get("name")) or self.name
        started = milliseconds(members.get("created_at"))
        about = About(title, project, started, session, {"model": model} if model else {})
        current = as_text(members.get("current_leaf_message_uuid"))
        return Conversation(session, [_linked(record) for record in records], current, about)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other messages, linked past those that are gone; a call and its result are in one message."""
        return list(tree_removal.without(records, deleted, _SHAPE).values())


def _linked(record: bytes) -> Node:
    try:
        message = _message(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Node("", "")
    parent = as_text(message.parent_message_uuid)
    return Node(as_text(message.uuid), parent, milliseconds(message.created_at))


def _first_question(records: Sequence[bytes]) -> str:
    """Return what the first message asks, which has no other title."""
    for record in records[:_ASKED_AMONG]:
        decoded = decode(record)
        message = as_object(decoded.value) if decoded else {}
        for block in said_in(message).blocks if message.get("sender") == "human" else ():
            if block.text and block.path:
                return first_line(block.text)
    return ""
