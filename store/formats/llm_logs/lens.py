"""A line of what ``logs.db`` holds as an event."""

from store.errors import UsageError
from store.events.event import Block, BlockType, Event, Kind, Path, Resource
from store.formats.blocks import argument_blocks
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, scalar
from store.formats.lens import Before
from store.formats.media import from_base64, mime_of, suffix_of
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_KINDS = {"assistant": Kind.ASSISTANT, "system": Kind.SYSTEM, "user": Kind.USER}
_OF_RESPONSES = (
    ("system", Kind.SYSTEM),
    ("prompt", Kind.USER),
    ("reasoning", Kind.REASONING),
    ("response", Kind.ASSISTANT),
)


class LlmLogsLens(EditableLens):
    """Sees the lines that rows are made into."""

    type_name = "llm-logs.row.v1"
    one_line = True

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a line tells of."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        row: JsonObject = decoded.value
        match row.get("table"):
            case "responses":
                shown = _response(row)
            case "parts":
                shown = _part(row, before)
            case "tool_calls":
                shown = _call(row, as_object(row.get("cells")), ("cells",))
            case "tool_results":
                shown = _result(row, as_object(row.get("cells")), ("cells",), before)
            case _:
                shown = BOOKKEEPING
        time = milliseconds(as_object(row.get("about")).get("time"))
        return shown.event(row, time, lossy=decoded.lossy)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        cells, payload = as_object(record.get("cells")), as_object(as_object(record.get("json")).get("payload"))
        is_call = record.get("table") == "tool_calls" or cells.get("type") == "tool_call"
        if key == "tool" and not is_call:
            raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
        for name in {"tool": ("tool_name", "name"), "id": ("tool_call_id",), "model": ("model",)}.get(key, ()):
            if name in cells:
                return Place(("cells", name))
            if name in payload:
                return Place(("json", "payload", name))
        return None


def _response(row: JsonObject) -> Shown:
    cells, about = as_object(row.get("cells")), as_object(row.get("about"))
    column, kind = next(((column, kind) for column, kind in _OF_RESPONSES if column in cells), ("", Kind.RECORD))
    if about.get("again") is True:
        return BOOKKEEPING
    blocks, resources = _beside(row)
    if isinstance(text := cells.get(column), str):
        blocks = (*blocks, Block("text", text, path=("cells", column)))
    header: Header = {}
    if model := as_text(cells.get("model")):
        header["model"] = model
    return Shown(kind, blocks, header=header, resources=resources) if blocks else BOOKKEEPING


def _part(row: JsonObject, before: Before) -> Shown:
    cells, about = as_object(row.get("cells")), as_object(row.get("about"))
    payload, place = as_object(as_object(row.get("json")).get("payload")), ("json", "payload")
    what = cells.get("type")
    if isinstance(damaged := cells.get("payload"), str):
        return Shown(Kind.NOTE, (Block("text", damaged, path=("cells", "payload")),))
    if what == "tool_call":
        return _call(row, {**payload, "name": cells.get("tool_name") or payload.get("name")}, place)
    if what == "tool_result":
        return _result(row, {**payload, "name": cells.get("tool_name") or payload.get("name")}, place, before)
    header: Header = {}
    kind = Kind.REASONING if what == "reasoning" else _KINDS.get(as_text(about.get("role")), Kind.NOTE)
    if kind in (Kind.ASSISTANT, Kind.REASONING) and (model := as_text(about.get("model"))):
        header["model"] = model
    if isinstance(text := cells.get("text"), str):
        blocks: tuple[Block, ...] = (Block("text", text, path=("cells", "text")),) if text else ()
        return Shown(kind, blocks, header=header) if blocks else BOOKKEEPING
    blocks, resources = _beside(row)
    for at, piece in enumerate(as_list(payload.get("text_ref"))):
        if isinstance(text := as_object(piece).get("literal"), str) and text:
            blocks = (*blocks, Block("text", text, path=(*place, "text_ref", at, "literal")))
    if not blocks and what not in ("text", "reasoning", "attachment"):
        blocks = argument_blocks(payload, place, "payload")
    return Shown(kind, blocks, header=header, resources=resources) if blocks else BOOKKEEPING


def _call(row: JsonObject, call: JsonObject, place: Path) -> Shown:
    identifier, tool = as_text(call.get("tool_call_id")), as_text(call.get("name"))
    arguments, path = call.get("arguments"), (*place, "arguments")
    if "arguments" in (json := as_object(row.get("json"))):
        arguments, path = json["arguments"], ("json", "arguments")
    header: Header = {"id": identifier} if identifier else {}
    blocks = argument_blocks(arguments, path, "arguments")
    return Shown(Kind.TOOL_CALL, blocks, tool, header, ((identifier, tool),) if identifier else ())


def _result(row: JsonObject, result: JsonObject, place: Path, before: Before) -> Shown:
    identifier, error = as_text(result.get("tool_call_id")), as_text(result.get("exception"))
    header: Header = {"id": identifier} if identifier else {}
    header["is_error"] = bool(error)
    blocks, resources = _beside(row)
    output = result.get("output")
    if isinstance(output, str):
        blocks = (Block("text", output, path=(*place, "output")), *blocks)
    else:
        blocks = (*argument_blocks(output, (*place, "output"), "output"), *blocks)
    if error:
        blocks = (*blocks, Block("text", error, name="exception", path=(*place, "exception")))
    tool = (before.tool(identifier) if identifier else "") or as_text(result.get("name"))
    return Shown(Kind.TOOL_RESULT, blocks, tool, header, (), resources)


def _beside(row: JsonObject) -> tuple[tuple[Block, ...], tuple[Resource, ...]]:
    """Return the fragments and attachments that a line brings along."""
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, item in enumerate(as_list(row.get("rows"))):
        linked = as_object(item)
        if linked.get("table") == "fragments":
            _add_fragment(linked, ("rows", at), blocks, resources)
        elif linked.get("table") == "attachments":
            _add_attachment(linked, ("rows", at), blocks, resources)
    return tuple(blocks), tuple(resources)


def _add_fragment(row: JsonObject, path: Path, blocks: list[Block], resources: list[Resource]) -> None:
    cells = as_object(row.get("cells"))
    if not isinstance(content := cells.get("content"), str):
        return
    source = scalar(cells.get("source")) or f"fragment:{scalar(as_object(row.get('key')).get('id'))}"
    uri, mime, place = str(source), mime_of(str(source)), (*path, "cells", "content")
    blocks.append(Block("resource", content, uri=uri, mime=mime, path=place))
    resources.append(Resource(uri, mime, content, place))


def _add_attachment(row: JsonObject, path: Path, blocks: list[Block], resources: list[Resource]) -> None:
    cells = as_object(row.get("cells"))
    mime = as_text(cells.get("type")) or "application/octet-stream"
    encoded = as_object(row.get("blobs")).get("content")
    data = from_base64(encoded) if isinstance(encoded, str) else None
    if data is None:
        for key in ("path", "url"):
            if text := as_text(cells.get(key)):
                blocks.append(Block("text", text, name="attachment", path=(*path, "cells", key)))
                return
        return
    name = as_text(cells.get("path")).rpartition("/")[2] or f"{len(resources) + 1}.{suffix_of(mime)}"
    uri, place = (
        f"attachment:{scalar(as_object(row.get('key')).get('id')) or 'file'}/{name}",
        (*path, "blobs", "content"),
    )
    shape: BlockType = "image" if mime.startswith("image/") else "resource"
    blocks.append(Block(shape, data=data, uri=uri, mime=mime, path=place, encoding="base64"))
    resources.append(Resource(uri, mime, data, place, "base64"))
