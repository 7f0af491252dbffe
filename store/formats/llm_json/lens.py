"""A response as ``llm logs --json`` prints it, with the prompt that it answers: one event."""

from store.events.event import Block, Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.blocks import argument_blocks
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_list, as_text, decode, is_object, scalar
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.times import milliseconds
from store.formats.token_counts import counted
from store.formats.unknown import as_it_is

_TEXTS = (("system", "system"), ("prompt", "prompt"), ("reasoning", "thinking"), ("response", ""))
_BESIDE = ("prompt_fragments", "system_fragments", "tool_calls", "tool_results", "attachments", "schema_json")
_HEADER = ("id", "model")


class LlmJsonLens(EditableLens):
    """Sees responses; their prompts are blocks of their own."""

    type_name = "llm-json.response.v1"
    telling = (b'"input_tokens"', b'"output_tokens"')

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a response and its prompt make; damaged ones are notes."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        record = decoded.value
        seen = _response(record) if is_object(record) else BOOKKEEPING
        time = milliseconds(record.get("datetime_utc")) if is_object(record) else 0
        return Event(
            seen.kind, header=seen.header, blocks=seen.blocks, time_ms=time, native=record, lossy=decoded.lossy
        )

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what a response took."""
        tokens = counted(record)
        model = as_text(record.get("resolved_model")) or as_text(record.get("model"))
        return (Usage(as_text(record.get("id")), model, tokens) if tokens.total else None), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a response holds field ``key``."""
        return Place((key,)) if key in _HEADER else None


def _response(record: JsonObject) -> Shown:
    header: Header = {}
    for key in _HEADER:
        if (said := scalar(record.get(key))) is not None:
            header[key] = said
    blocks: list[Block] = []
    for key, name in _TEXTS:
        place: Path = (key,)
        if text := as_text(record.get(key)):
            blocks.append(Block("text", text, name=name, path=place))
    for key in _BESIDE:
        if as_list(record.get(key)) or is_object(record.get(key)):
            blocks += argument_blocks(record[key], (key,), key)
    return Shown(Kind.ASSISTANT, tuple(blocks), header=header) if blocks else BOOKKEEPING
