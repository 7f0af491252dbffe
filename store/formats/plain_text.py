"""Records that are nothing but a text: ``text.assistant.v1`` and its like, whose payload is what was said, in UTF-8.

Programs that stream what a model says append these: the text can be shown, and is the same, from its first word on.
"""

from msgspec import structs

from store.errors import UsageError
from store.events.event import Compaction, Event, Kind
from store.formats.editing import EditableLens
from store.formats.lens import Before
from store.formats.unknown import as_it_is

KINDS = (Kind.SYSTEM, Kind.USER, Kind.ASSISTANT, Kind.REASONING, Kind.SUMMARY, Kind.NOTE)
"""The kinds of events that are a text and nothing else."""


class TextLens(EditableLens):
    """Sees payloads that are a text as events of one kind; blank ones are bookkeeping."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.type_name = type_named(kind)

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event whose text is ``payload``."""
        event = as_it_is(payload, self.kind)
        if event.kind is Kind.SUMMARY:
            return structs.replace(event, compaction=Compaction(event.blocks))
        return event

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return the text, for a record of this lens's kind."""
        if kind is not self.kind or kind not in KINDS:
            raise UsageError(f"a record of type {self.type_name} is no {kind.name.lower()} that can be written")
        if not text.strip():
            raise UsageError("there is nothing to say: write a text")
        return text.encode("utf-8", "replace")


def type_named(kind: Kind) -> str:
    """Return the type of texts of a kind."""
    return f"text.{kind.name.lower()}.v1"


TEXT_LENSES = tuple(TextLens(kind) for kind in KINDS)
"""The lenses for texts."""
