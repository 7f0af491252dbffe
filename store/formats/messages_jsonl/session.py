"""Files of message lines: how they are told from others, and what they are called.

``conversations/ID/messages.jsonl``, content beside that in ``content/ID/data``. A line is ``{"role": "user", "content":
[{"type": "text", "text": …}, {"type": "image", "content_id": …}]}``; a content of one part may stand without the list.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from store.formats.chat_messages import first_request
from store.formats.format import About, ExternalBlob, Format, Source, Span
from store.formats.json_view import as_text, is_object
from store.formats.lines import line_spans
from store.formats.look import Look
from store.formats.messages_jsonl.contents import referenced_blobs
from store.formats.messages_jsonl.lens import MessageLineLens
from store.formats.titles import first_line

_ROLES = frozenset(("assistant", "supervisor", "system", "user"))
_USUAL = frozenset(("role", "content", "id", "name", "timestamp", "created", "created_at", "model", "metadata"))
_FILE = "messages.jsonl"
_LOOKED_AT = 20


class MessagesJsonl(Format):
    """Lines of messages, as tools write them that keep content by id."""

    name = "messages-jsonl"
    lenses = (MessageLineLens(),)
    main_type = MessageLineLens.type_name

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield nothing: no tool says where it keeps them."""
        return iter(())

    def claim(self, look: Look) -> Source | None:
        """Claim a file whose lines are messages and nothing more."""
        head = look.head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
        if not head.startswith(b"{"):
            return None
        found = look.objects(_LOOKED_AT)
        if not found or not all(map(_is_line, found)):
            return None
        return Source(self.name, look.path, look.path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines."""
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a conversation by its first request; it is called after its folder."""
        folder = source.path.parent
        in_place = source.path.name == _FILE
        return About(
            title=first_line(first_request(records)),
            project=folder.parent.parent.name if in_place and folder.parent.name == "conversations" else "",
            session_id=folder.name if in_place else source.path.stem,
        )

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield the content that a line names."""
        return referenced_blobs(source.path.parent, payload)


def _is_line(line: object) -> bool:
    if not is_object(line) or not line.keys() <= _USUAL or as_text(line.get("role")) not in _ROLES:
        return False
    content = line.get("content")
    parts = content if isinstance(content, list) else [content]
    return all(isinstance(part, str) or _is_part(part) for part in parts)


def _is_part(part: object) -> bool:
    if not is_object(part):
        return False
    return isinstance(part.get("type"), str) and bool({"text", "content_id"} & part.keys())
