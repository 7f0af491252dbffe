"""Event files, and the sizes of all that is drawn of an event.

Most commands draw nothing: what draws more than an event's file is imported where it is called, and they start sooner.
"""

import re
from collections.abc import Iterable, Iterator

from blake3 import blake3

from fusefs.text import RENDERER_VERSION, grammar
from fusefs.text.resource_names import lines_of, numbered_path, resource_path
from store.errors import ConvfsError
from store.events.conversation import Conversation, Drawn, EventRow, Link, Sizes
from store.events.event import Block, Event, Kind, utf8
from store.results import with_documents

_RESOURCES = "../resources/"
_BLOBS = "../../../../.convfs/blobs/"
_NO_HASH = "0" * 64

# Markdown ends a link's target at a space or a parenthesis; letters of any script may stay.
_IN_LINK = re.compile(r"[^\w/.@~+,=:-]")


def render_event(number: int, event: Event) -> bytes:
    """Return the file of event ``number`` (``fusefs.text.grammar`` describes it)."""
    event = with_documents(event)
    text = grammar.head(number, event) + grammar.body(event.blocks, lambda block: _target(number, event, block))
    return utf8(text)


class FileRenderer:
    """Measures what :func:`render_event`, the transcript and ``events.json`` will hold; draws transcripts."""

    version: int = RENDERER_VERSION

    def measure(self, number: int, event: Event, format: str, payload_size: int) -> Sizes:
        """Return the exact sizes of what event ``number`` is drawn as.

        ``format`` is that of its conversation, ``payload_size`` the size of the producer's own bytes. Records
        without a file have sizes 0 but for the JSON element.
        """
        from fusefs.text import transcript
        from fusefs.text.events_json import element_size

        json = element_size(number, event, format, payload_size)
        if event.kind is Kind.RECORD:
            return Sizes(0, 0, json)
        event = with_documents(event)
        body = grammar.body_size(event.blocks, lambda block: _target(number, event, block, hashed=False))
        return Sizes(grammar.head_size(number, event) + body, transcript.section_size(number, event), json)

    def drawn(self, number: int, event: Event) -> Drawn:
        """Return the file and the section of event ``number``, both empty for bookkeeping."""
        from fusefs.text import transcript

        if event.kind is Kind.RECORD:
            return Drawn(b"", b"", 0)
        event = with_documents(event)
        head = grammar.head(number, event)
        body = grammar.body(event.blocks, lambda block: _target(number, event, block))
        # links lead elsewhere in what is searched
        content = 0 if any(block.text is None for block in event.blocks) else len(utf8(head))
        return Drawn(utf8(head + body), transcript.section(number, event), content)

    def element(self, number: int, event: Event, format: str, payload_size: int) -> tuple[int, list[bytes]]:
        """Return the size of the JSON element of event ``number``, and the contents that it can name."""
        from fusefs.text.events_json import sized

        return sized(number, event, format, payload_size)

    def file(self, number: int, event: Event) -> bytes:
        """Return the file of event ``number``."""
        return render_event(number, event)

    def section(self, number: int, event: Event) -> bytes:
        """Return the section of event ``number`` in the transcript; links lead where a mount has them."""
        from fusefs.text import transcript

        return transcript.section(number, event)

    def content(self, event: Event) -> str:
        """Return the content of an event's file, but for where links lead, valid Unicode; "" for bookkeeping."""
        from fusefs.text.transcript import blob_target

        if event.kind is Kind.RECORD:
            return ""
        text = grammar.body(with_documents(event).blocks, blob_target)
        return text if text.isascii() else utf8(text).decode()

    def contents(self, event: Event) -> list[bytes]:
        """Return the contents of an event that ``events.json`` can name by their hashes."""
        from fusefs.text.events_json import contents

        return contents(event)

    def described(self, title: str, *labels: str) -> list[tuple[int, str]]:
        """Return the lines of ``metadata.json`` that have the title and each label, each with its number."""
        from fusefs.text.metadata import described

        return described(title, labels)

    def first_line(self, number: int, event: Event) -> int:
        """Return the line of an event's file that follows its head."""
        return grammar.head(number, event).count("\n") + 1

    def transcript(
        self,
        conversation: Conversation,
        events: Iterable[tuple[EventRow, Event | ConvfsError]],
        link: Link | None = None,
    ) -> Iterator[bytes]:
        """Yield the pieces of a transcript; links lead as ``link`` says, by default to blobs."""
        from fusefs.text import transcript

        yield transcript.head(conversation)
        for row, event in events:
            if isinstance(event, ConvfsError):
                yield transcript.unreadable(row, event)
            else:
                yield transcript.section(row.number, event, link or transcript.blob_target)


def _target(number: int, event: Event, block: Block, *, hashed: bool = True) -> str:
    """Return a link to a block that is not text: into ``resources/`` if it is there, else to the blob itself."""
    if block.uri:
        for resource in event.resources:
            if resource.uri == block.uri:
                path = numbered_path(resource_path(resource.uri, resource.mime), number, None, lines_of(resource.uri))
                return _RESOURCES + _IN_LINK.sub(_percent, path)
    return _BLOBS + (blake3(block.data or b"").hexdigest() if hashed else _NO_HASH)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
