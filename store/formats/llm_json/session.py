"""What ``llm logs --json`` prints: one array of responses, those of a conversation are one."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.events.event import Path as Place
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_cuts import Choice, cut_spans
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.llm_json.lens import LlmJsonLens
from store.formats.look import Look
from store.formats.times import milliseconds
from store.formats.titles import first_line

_OURS = frozenset(("conversation_id", "datetime_utc", "prompt", "response"))
_may_be = re.compile(rb'"datetime_utc"').search


class LlmJson(Format):
    """Logs of Simon Willison's llm, printed."""

    name = "llm-json"
    lenses = (LlmJsonLens(),)
    main_type = LlmJsonLens.type_name
    joints = (b"[", b", ", b"]")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield nothing: llm itself keeps a database."""
        return iter(())

    def claim(self, look: Look) -> Source | None:
        """Claim an array of responses."""
        listed = as_list(look.document) if _may_be(look.head) else []
        return Source(self.name, look.path, look.path) if listed and as_object(listed[0]).keys() >= _OURS else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the responses."""
        return cut_spans(data, start, _choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversations, each under llm's id; a response without one is its own."""
        found: dict[str, list[int]] = {}
        for at, span in enumerate(spans):
            record = _object(bytes(data[span.start : span.end]))
            key = as_text(record.get("conversation_id")) or as_text(record.get("id")) or f"{source.path.name} {at}"
            found.setdefault(key, []).append(at)
        return [
            Part(key, positions, self.about(source, [bytes(data[spans[at].start : spans[at].end]) for at in positions]))
            for key, positions in found.items()
        ]

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a conversation by its name, or its first prompt."""
        said = [_object(record) for record in records]
        names = [as_text(record.get(key)) for key in ("conversation_name", "prompt") for record in said]
        return About(
            title=first_line(next(filter(None, names), "")),
            started_ms=next((time for record in said if (time := milliseconds(record.get("datetime_utc")))), 0),
            session_id=next((found for record in said if (found := as_text(record.get("conversation_id")))), ""),
        )


def _object(record: bytes) -> JsonObject:
    decoded = decode(record)
    return as_object(decoded.value) if decoded else {}


def _choose(path: Place) -> Choice:
    return Choice.TAKE if path else Choice.ENTER
