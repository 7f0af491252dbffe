"""ChatGPT's exports: how they are told from others, how they are cut, which conversations and branches they hold.

An export is an archive, or its folder, with ``conversations.json``, a list of conversations, and the images and files
that they name. What the service itself answers for one conversation, which many tools save, is the same object alone.
"""

import re
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache, partial
from pathlib import Path

import msgspec
from msgspec import Struct

from store.errors import NotFound
from store.formats import export_files
from store.formats.chatgpt import removal
from store.formats.chatgpt.assets import ALGORITHM, by_id, named_files
from store.formats.chatgpt.lens import ChatGptLens
from store.formats.export_format import Conversation, ExportFormat
from store.formats.format import About, ExternalBlob, Source
from store.formats.json_view import JsonObject, as_text
from store.formats.message_tree import Node
from store.formats.times import of_seconds
from store.formats.titles import first_line

_begins_like_one = re.compile(rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"').match
_mapping = re.compile(
    rb'(?<!\\)"mapping"\s*+:\s*+\{\s*+(?:\}|"(?:[^"\\]|\\.)*+"\s*+:\s*+\{\s*+"(?:id|message|parent|children)"\s*+:)'
).search
_usual_start = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"title"\s*+:\s*+(?:"(?:[^"\\]|\\.)*+"|null)\s*+,'
    rb'\s*+"create_time"\s*+:\s*+[0-9.eE+-]++\s*+,\s*+"update_time"\s*+:',
    re.DOTALL,
).match
_FILES = frozenset(
    (
        "conversation_asset_file_names.json",
        "export_manifest.json",
        "group_chats.json",
        "library_files.json",
        "message_feedback.json",
        "model_comparisons.json",
        "shared_conversations.json",
        "shopping.json",
        "sora.json",
        "user.json",
        "user_settings.json",
    )
)
"""What an export has besides conversations and what they name; not ``chat.html``, which says all of it again."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_is_asset = re.compile(
    r"file[-_][0-9A-Za-z].*|[\w-]+\.dat|" + _UUID + r"\.(?:gif|jpe?g|png|wav|webp)", re.DOTALL
).fullmatch
_is_folder = re.compile(r"dalle-generations|user-[\w-]+|audio|" + _UUID).fullmatch
_TOLD = {"default_model_slug": "model", "gizmo_id": "gpt"}


class _Message(Struct):
    create_time: object = None


class _Node(Struct):
    id: object = None
    parent: object = None
    message: _Message | None = None


_node = msgspec.json.Decoder(_Node).decode


class ChatGpt(ExportFormat):
    """OpenAI's ChatGPT."""

    name = "chatgpt"
    lenses = (ChatGptLens(),)
    main_type = ChatGptLens.type_name
    holder = "mapping"
    keyed = "id"
    leaf = ("current_node", "id")
    read = frozenset(("conversation_id", "create_time", "current_node", "id", "title", *_TOLD))

    def begins(self, head: bytes) -> bool:
        """Say whether there is a conversation's tree in the head, or what conversations begin with."""
        if _begins_like_one(head) is None:
            return False
        # a plain search takes a fraction of the other's time, and most files are none
        return (b'"mapping"' in head and _mapping(head) is not None) or _usual_start(head) is not None

    def belongs(self, name: str, is_folder: bool) -> bool:
        """Say whether it is a file that an export has, or an image or a file that messages name."""
        return bool(_is_folder(name)) if is_folder else name in _FILES or _is_asset(name) is not None

    def told(self, members: JsonObject, records: Sequence[bytes]) -> Conversation:
        """Return what is said of a conversation."""
        session = as_text(members.get("conversation_id")) or as_text(members.get("id"))
        extra = {name: value for key, name in _TOLD.items() if (value := as_text(members.get(key)))}
        title, started = first_line(as_text(members.get("title"))), of_seconds(members.get("create_time"))
        nodes = [_linked(record) for record in records]
        about = About(title, self.name, started, session, extra)
        return Conversation(session, nodes, as_text(members.get("current_node")), about)

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield the images and files that a node names."""
        for identifier in named_files(payload):
            yield ExternalBlob(ALGORITHM, identifier.encode(), partial(self._read, source.path, identifier))

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other nodes, linked past those that are gone; calls and their results go together."""
        return removal.without(records, deleted)

    def _read(self, path: Path, identifier: str) -> bytes:
        name = _by_id(export_files.files_beside(path, self.belongs)).get(identifier)
        if name is None:
            raise NotFound(f"{identifier} is not among the files of {path.name}")
        return export_files.read_beside(path, name)


def _linked(record: bytes) -> Node:
    try:
        node = _node(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Node("", "")
    time = of_seconds(node.message.create_time) if node.message else 0
    return Node(as_text(node.id), as_text(node.parent), time)


@lru_cache(4)
def _by_id(names: tuple[str, ...]) -> dict[str, str]:
    return by_id(names)
