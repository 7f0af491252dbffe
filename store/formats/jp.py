"""JP: a directory a conversation, its events in one JSON array, contents as blobs beside it.

``.jp/conversations/<id>-<title>/`` holds ``events.json``, ``metadata.json`` and ``base_config.json``. The same layout
is kept for a user's private conversations under ``<data home>/jp/workspace/<project>-<id>/``.

Content stands in an event as inline text, as inline base64, or as a reference to a blob beside the conversation:
``{"$blob": "<sha256>", "size": n}``, ``{"text": "…"}`` and ``{"blob": "<base64>"}`` stand under ``content``; older
files have ``text`` and ``blob`` in the holder itself, or a bare string under ``content``.

``events.json`` is one JSON array. It grows at its end: reading goes on where an earlier event ended.
"""

import binascii
import gzip
import json
import os
import re
import zlib
from binascii import b2a_base64
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, NamedTuple

from store.errors import UsageError
from store.events.event import Block, Compaction, Kind, Resource, ValuePath
from store.formats.core import budget, lens
from store.formats.core.blocks import Decode, argument_blocks, numbered
from store.formats.core.composing import Particulars
from store.formats.core.editing import JsonLens
from store.formats.core.format import About, ExternalBlob, Format, Source, Span, Titled, first_line
from store.formats.core.json_cuts import Choice, cuts, end_of, without_separators
from store.formats.core.json_spans import locate
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, scalar
from store.formats.core.lens import BOOKKEEPING, Before, FieldPlace, Gathered, Header, Places, Shown, Value, is_utf8
from store.formats.core.look import Look, read_by_hash, read_head
from store.formats.core.media import from_base64, mime_of, plain_text
from store.formats.core.splices import encoded, spell, spell_bytes, with_members
from store.formats.core.times import in_iso, milliseconds

_FORMS = ("$blob", "text", "blob")
_NOT_TEXT = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/octet-stream")


class HeldContent(NamedTuple):
    """The content of a holder. ``path`` says where it stands, () outside the payload; ``missing``: it is not there."""

    value: str | bytes
    path: ValuePath
    encoding: Literal["json", "base64"] = "json"
    missing: bool = False


def read_content(holder: JsonObject, path: ValuePath, mime: str, before: Before) -> HeldContent | None:
    """Return the content of ``holder``, None where it has none or contradicts itself (two forms at once)."""
    inner = holder.get("content")
    if isinstance(inner, str):
        return HeldContent(inner, (*path, "content"))
    if isinstance(inner, dict):
        holder, path = inner, (*path, "content")
    present = [form for form in _FORMS if form in holder]
    if len(present) != 1 or not isinstance(value := holder[present[0]], str):
        return None
    match present[0]:
        case "text":
            return HeldContent(value, (*path, "text"))
        case "blob":
            data, path = from_base64(value), (*path, "blob")
            return HeldContent(value, path) if data is None else _typed(data, mime, path, "base64")
        case _:
            return _referenced(value, holder, path, mime, before)


def _result(content: object, path: ValuePath, before: Before) -> Gathered:
    into = Gathered()
    if isinstance(content, list):
        for at, part in enumerate(content):
            _add_part(part, (*path, at), before, into)
    elif isinstance(content, str):
        plain = plain_text(content)
        read = HeldContent(content, path) if plain is None else HeldContent(plain, path, "base64")
        into.blocks.append(_text_block(read))
    elif held := read_content({"content": content}, path[:-1], "text/plain", before):
        into.blocks.append(_text_block(held))
    else:
        into.blocks += argument_blocks(content, path, "content")
    return into


def _add_part(part: object, path: ValuePath, before: Before, into: Gathered) -> None:
    if not isinstance(part, dict):
        into.blocks += argument_blocks(part, path, numbered("content", path))
        return
    match part.get("type"):
        case "text" if read := read_content(part, path, "text/plain", before):
            into.blocks.append(_text_block(read))
        case "resource" if isinstance(resource := part.get("resource"), dict):
            _add_resource(resource, (*path, "resource"), before, into)
        case "image" if data := from_base64(as_text(part.get("data"))):
            mime = as_text(part.get("mimeType")) or "image/png"
            into.blocks.append(Block("image", data=data, mime=mime, path=(*path, "data"), encoding="base64"))
        case what:
            own = {key: value for key, value in part.items() if key != "type"}
            into.blocks += argument_blocks(own, path, numbered(as_text(what) or "content", path))


def _add_resource(resource: JsonObject, path: ValuePath, before: Before, into: Gathered) -> None:
    uri = as_text(resource.get("uri"))
    mime = as_text(resource.get("mimeType"))
    read = read_content(resource, path, mime, before)
    if read is None:
        into.blocks += argument_blocks(resource, path, numbered("resource", path))
        return
    is_text = isinstance(read.value, str)
    mime = mime or (mime_of(uri.partition("#")[0]) if is_text else "application/octet-stream")
    text, data = (read.value, None) if isinstance(read.value, str) else (None, read.value)
    into.blocks.append(Block("resource", text, data, uri=uri, mime=mime, path=read.path, encoding=read.encoding))
    if uri and not read.missing:
        into.resources.append(Resource(uri, mime, read.value, read.path, read.encoding))


def _text_block(read: HeldContent) -> Block:
    if isinstance(read.value, bytes):
        mime = "application/octet-stream"
        return Block("resource", data=read.value, mime=mime, path=read.path, encoding=read.encoding)
    return Block("text", read.value, path=read.path, encoding=read.encoding)


def _referenced(digest: str, holder: JsonObject, path: ValuePath, mime: str, before: Before) -> HeldContent | None:
    try:
        data = before.blob("sha256", binascii.unhexlify(digest)) if len(digest) == 64 else None
    except ValueError:
        data = None
    if data is None:
        size = scalar(holder.get("size"))
        told = f", {size} bytes" if isinstance(size, int) else ""
        return HeldContent(f"[blob sha256:{digest[:64]}{told}: not in the store]", (), missing=True)
    return _typed(data, mime, path, "json")


def _typed(data: bytes, mime: str, path: ValuePath, encoding: Literal["json", "base64"]) -> HeldContent:
    """Return bytes as text where they are, unless their type says otherwise."""
    if (mime == "text/plain" or (not mime.startswith(_NOT_TEXT) and b"\0" not in data)) and is_utf8(data):
        return HeldContent(data.decode(), path, encoding)
    return HeldContent(data, path, encoding)


_ENVELOPE = frozenset(("event_id", "metadata", "timestamp", "type"))
_OF_OTHER = "is that of the {} which this belongs to: change 'tool' in that file"


def _turn_start(stored: JsonObject, before: Before) -> Shown:
    return BOOKKEEPING if stored.keys() <= _ENVELOPE else _unknown(stored, before)


def _chat_request(stored: JsonObject, before: Before) -> Shown:
    into = Gathered()
    read = read_content(stored, (), "text/plain", before)
    if read and isinstance(read.value, str):
        into.blocks.append(_text_block(read))
    elif "content" in stored:
        into.blocks += _result(stored["content"], ("content",), before).blocks
    into.blocks += argument_blocks(stored.get("schema"), ("schema",), "schema")
    for at, item in enumerate(as_list(stored.get("resources"))):
        if isinstance(item, dict):
            _add_resource(item, ("resources", at), before, into)
    return into.shown(Kind.USER)


def _chat_response(stored: JsonObject, before: Before) -> Shown:
    for key, kind in (("message", Kind.ASSISTANT), ("reasoning", Kind.REASONING)):
        if isinstance(text := stored.get(key), str):
            return Shown(kind, (Block("text", text, path=(key,)),))
    if "data" in stored:
        return Shown(Kind.ASSISTANT, argument_blocks(stored["data"], ("data",), "data"))
    return _unknown(stored, before)


def _tool_call_request(stored: JsonObject, before: Before) -> Shown:
    into = Gathered(strict=True)
    label = into.call(stored, (), "name", "id")
    into.blocks += argument_blocks(stored.get("arguments"), ("arguments",), label, plain_text)
    return into.shown(Kind.TOOL_CALL)


def _tool_call_response(stored: JsonObject, before: Before) -> Shown:
    into = _result(stored.get("content"), ("content",), before)
    call = as_text(stored.get("id"))
    failed = stored.get("is_error") is True or stored.get("isError") is True
    key = "isError" if "isError" in stored and "is_error" not in stored else "is_error"
    into.tool, into.header = before.tool(call), {**_id(call), "is_error": failed}
    into.places = {"is_error": (key,), "tool": _OF_OTHER.format("call")}
    return into.shown(Kind.TOOL_RESULT)


def _inquiry_request(stored: JsonObject, before: Before) -> Shown:
    source, question = as_object(stored.get("source")), as_object(stored.get("question"))
    inquiry, answer = as_text(stored.get("id")), as_object(question.get("answer_type"))
    tool = as_text(source.get("name")) if source.get("source") == "tool" else ""
    into = Gathered(tool=tool, header=_id(inquiry), places={"tool": ("source", "name")})
    into.defines = [(inquiry, tool)] if inquiry else []
    into.field("from", None if tool else source.get("source"), "source", "source")
    into.field("answer_type", answer.get("type"), "question", "answer_type", "type")
    into.field("default", question.get("default"), "question", "default")
    into.text(as_text(question.get("text")), ("question", "text"))
    into.blocks += argument_blocks(answer.get("options"), ("question", "answer_type", "options"), "options")
    return into.shown(Kind.QUESTION)


def _inquiry_response(stored: JsonObject, before: Before) -> Shown:
    inquiry, answer = as_text(stored.get("id")), stored.get("answer")
    blocks = argument_blocks(answer, ("answer",), "" if isinstance(answer, str) else "answer")
    places: Places = {"tool": _OF_OTHER.format("question")}
    return Shown(Kind.ANSWER, blocks, before.tool(inquiry), _id(inquiry), places=places)


def _config_delta(stored: JsonObject, before: Before) -> Shown:
    own = {key: value for key, value in stored.items() if key not in _ENVELOPE}
    only, path = (own["delta"], ("delta",)) if own.keys() == {"delta"} else (own, ())
    return Shown(Kind.CONFIG, argument_blocks(only, path, "config"))


def _compaction(stored: JsonObject, before: Before) -> Shown:
    turns = ((key, scalar(stored.get(key))) for key in ("from_turn", "to_turn"))
    header: Header = {key: turn for key, turn in turns if turn is not None}
    policies = {key: value for key, value in stored.items() if key not in _ENVELOPE and key not in header}
    blocks: tuple[Block, ...] = ()
    match policies.get("summary"):
        case {"summary": str(text)}:
            blocks = (Block("text", text, path=("summary", "summary")),)
            kept = {key: value for key, value in as_object(policies.pop("summary")).items() if key != "summary"}
            policies |= {"summary": kept} if kept else {}
        case str(text):
            blocks = (Block("text", text, path=("summary",)),)
            del policies["summary"]
    policy = argument_blocks(policies, (), "policy")
    return Shown(Kind.SUMMARY, blocks + policy, header=header, compaction=_policy(stored, blocks))


def _policy(stored: JsonObject, summary: tuple[Block, ...]) -> Compaction | None:
    """Return the effect of a compaction; None where it names no exchanges."""
    first, last = stored.get("from_turn"), stored.get("to_turn")
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    if summary:
        return Compaction(summary, exchanges=(first, last))
    calls = stored.get("tool_calls")
    table = as_object(calls)
    named = as_text(calls) or as_text(table.get("policy"))
    return Compaction(
        exchanges=(first, last),
        reasoning=stored.get("reasoning") is not None,
        requests=named == "strip-requests" or (named == "strip" and table.get("request") is not False),
        responses=named == "strip-responses" or (named == "strip" and table.get("response") is not False),
        calls=named == "omit",
    )


def _unknown(stored: JsonObject, before: Before) -> Shown:
    return lens.unknown_record(stored, _ENVELOPE)


def _id(identifier: str) -> Header:
    return {"id": identifier} if identifier else {}


_VIEWS: dict[str, lens.View] = {
    "chat_request": _chat_request,
    "chat_response": _chat_response,
    "compaction": _compaction,
    "config_delta": _config_delta,
    "inquiry_request": _inquiry_request,
    "inquiry_response": _inquiry_response,
    "tool_call_request": _tool_call_request,
    "tool_call_response": _tool_call_response,
    "turn_start": _turn_start,
}

_REFERENCE = frozenset(("$blob", "size"))
_ROOMS: dict[str, ValuePath] = {"tool_call_request": ("arguments",), "tool_call_response": ("content",)}
_SAID = {
    Kind.ASSISTANT: ("chat_response", "message"),
    Kind.REASONING: ("chat_response", "reasoning"),
    Kind.USER: ("chat_request", "content"),
}
_WRITES = (Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.QUESTION, Kind.ANSWER, Kind.CONFIG, Kind.SUMMARY)


def _new_event(kind: Kind, text: str, more: Particulars) -> JsonObject:
    """Return an event without its time."""
    match kind:
        case Kind.TOOL_CALL:
            called: JsonObject = {"type": "tool_call_request", "id": more.new_id("call_"), "name": more.tool}
            return called | {"arguments": _in_base64(more.arguments(text))}
        case Kind.TOOL_RESULT:
            returned: JsonObject = {"type": "tool_call_response", "id": more.id, "content": _in_base64(text)}
            return returned | ({"is_error": True} if more.failed else {})
        case Kind.QUESTION:
            options = as_list((more.document or {}).get("options"))
            usual: JsonObject = {"type": more.head.get("answer_type", "text")}
            answer: JsonObject = {"type": "select", "options": options} if options else usual
            question: JsonObject = {"text": text, "answer_type": answer}
            source: JsonObject = {"source": "tool", "name": more.tool} if more.tool else {"source": "assistant"}
            asked: JsonObject = {"type": "inquiry_request", "id": more.new_id("inquiry_"), "source": source}
            return asked | {"question": question}
        case Kind.ANSWER:
            wanted = as_object(as_object(object_in(more.asked).get("question")).get("answer_type")).get("type")
            answers: JsonObject = {"true": True, "false": False} if wanted == "boolean" else {}
            return {"type": "inquiry_response", "id": more.id, "answer": answers.get(text.strip(), text)}
        case Kind.CONFIG:
            return {"type": "config_delta", "delta": more.configuration(text)}
        case Kind.SUMMARY:
            turns = [more.head.get(key) for key in ("from_turn", "to_turn")]
            if not all(type(turn) is int for turn in turns):
                raise UsageError("a summary stands for exchanges: give the first and last, from_turn and to_turn")
            compacted: JsonObject = {"type": "compaction", "from_turn": turns[0], "to_turn": turns[1]}
            return compacted | {"summary": {"summary": text}}
    what, key = _SAID[kind]
    return {"type": what, key: text}


def _in_base64(value: object) -> object:
    """Return a value with its texts spelled as JP spells those of tools."""
    if isinstance(value, str):
        return b2a_base64(encoded(value), newline=False).decode()
    if isinstance(value, dict):
        return {key: _in_base64(item) for key, item in value.items()}
    return [_in_base64(item) for item in value] if isinstance(value, list) else value


_indented = re.compile(rb"\n([ \t]*)\}\s*$").search
_milliseconds = lru_cache(maxsize=1)(milliseconds)  # a view asks twice
_iso = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z").fullmatch


def stamp(time: str) -> str:
    """Spell a time in ISO 8601, in UTC, as JP does: ``2026-03-05 23:12:34.3``."""
    if iso := _iso(time):
        seconds, _, fraction = iso[2].partition(".")
        return f"{iso[1]} {seconds}.{fraction.rstrip('0') or '0'}"
    return time


def _stamp(value: Value, like: str) -> Value:
    """Spell a time as JP does where ``like`` is spelled so."""
    return stamp(value) if isinstance(value, str) and " " in like else value


class JpEventLens(JsonLens):
    """Sees events of a JP conversation. Types that are not known are notes that hold their JSON."""

    type_name = "jp.event.v1"
    writes = (*_SAID, *_WRITES)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.SYSTEM: "its prompts are part of the configuration: edit that"}
    places: ClassVar[Places] = {
        "answer_type": ("question", "answer_type", "type"),
        "default": ("question", "default"),
        "from": ("source", "source"),
        "from_turn": ("from_turn",),
        "id": ("id",),
        "to_turn": ("to_turn",),
    }

    def shown(self, record: JsonObject, before: Before) -> Shown:
        time = record.get("timestamp")
        shown = _VIEWS.get(as_text(record.get("type")), _unknown)(record, before)
        if shown.kind is not Kind.RECORD and isinstance(time, str) and self.time_ms(record):
            # JP counts microseconds; the event's own time would lose them
            shown.header["timestamp"] = time.replace(" ", "T") + "Z" if " " in time else time
        return shown

    def time_ms(self, record: JsonObject) -> int:
        time = record.get("timestamp")
        return _milliseconds(time) if isinstance(time, str) else 0

    def place(self, record: JsonObject, key: str) -> FieldPlace | None:
        if key != "timestamp":
            return super().place(record, key)
        return FieldPlace(("timestamp",), write=lambda value: _stamp(value, as_text(record.get("timestamp"))))

    def decoder(self, record: JsonObject, path: ValuePath) -> Decode | None:
        what = record.get("type")
        is_encoded = (what == "tool_call_request" and path[:1] == ("arguments",)) or (
            what == "tool_call_response" and path == ("content",)
        )
        return plain_text if is_encoded else None

    def written(self, payload: bytes, path: ValuePath, content: str | bytes) -> bytes:
        start, end = locate(payload, path)
        if "$blob" not in object_in(payload[start:end]):
            return super().written(payload, path, content)
        held = {"text": spell(content, payload)} if isinstance(content, str) else {"blob": spell_bytes(content)}
        return with_members(payload, path, _REFERENCE, held)

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        listed = path == ("content",) and isinstance(record.get("content"), list)
        return {"type": "text", "text": text} if listed else None

    def room(self, record: JsonObject) -> ValuePath | None:
        return _ROOMS.get(as_text(record.get("type")))

    def calls(self, record: JsonObject) -> Iterator[lens.CallLink]:
        if named := pair(record):
            yield lens.CallLink((), 0, named[1], as_text(record.get("type")).endswith("_request"))

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        time = _stamp(in_iso(now_ms), as_text(object_in(previous).get("timestamp")) or " ")
        said = {"timestamp": time, **_new_event(kind, text, more)}
        layout = _indented(previous or b"\n  }")
        if layout is None:
            return json.dumps(said, ensure_ascii=False).encode()
        event = json.dumps(said, ensure_ascii=False, indent=2).encode()
        return event.replace(b"\n", b"\n" + layout[1])


class JpConfigLens(JsonLens):
    """Sees ``base_config.json``: as JSON, its prompts as text."""

    type_name = "jp.config.v1"
    time_key = ""

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return self.shown_other(record, before)

    def shown_other(self, value: object, before: Before) -> Shown:
        return Shown(Kind.CONFIG, argument_blocks(value, (), "config"))


_opening = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[").match
_between = re.compile(rb"[\s,]*+").match
_TYPES = rb"(?:turn_start|config_delta|chat_re|tool_call_re|inquiry_re|compaction|event_overlay)"


def array_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield the elements of a JSON array from offset ``start`` on: 0, or the end of an earlier element.

    Bytes that are no array, and those that follow it, are one span.
    """
    position = start
    if start == 0:
        opened = _opening(data)
        if opened is None:
            yield from _rest(data, 0)
            return
        position = opened.end()
    for cut in cuts(data, lambda _path: Choice.TAKE, position):
        if cut.document:
            break
        yield Span(cut.start, cut.end)
        position = cut.end
    end = end_of(_between(data, position))
    yield from _rest(data, end + 1 if bytes(data[end : end + 1]) == b"]" else end)


def _rest(data: memoryview, start: int) -> Iterator[Span]:
    """Yield the bytes that should not be there, from the first one that is not blank."""
    begin = end_of(_between(data, start))
    if begin < len(data):
        yield Span(begin, without_separators(data, begin, len(data)))


ALGORITHM = "sha256"

_references = re.compile(rb'"\$blob"\s*+:\s*+"([0-9a-fA-F]{64})"').findall


def referenced_blobs(root: Path, payload: bytes) -> Iterator[ExternalBlob]:
    """Yield the blobs under ``root`` (a ``blobs`` directory) that a payload refers to, each once."""
    # one character is found many times faster than several, and often is not there
    if b"$" in payload and b'"$blob"' in payload:
        for digest in dict.fromkeys(map(binascii.unhexlify, _references(payload))):
            yield ExternalBlob(ALGORITHM, digest, partial(read_blob, root, digest), blob_place(digest.hex()), zipped)


def blob_place(name: str) -> str:
    """Return the path of a blob's file, below the directory that holds ``blobs/``."""
    return f"blobs/{name[:2]}/{name[2:4]}/{name[4:]}.blob.gz"


_LEVEL = 6
"""Of gzip: beyond it, time doubles for a hundredth of the size."""
_GZIP = 31
"""The window of zlib for what has the head and the checksum of gzip."""


def zipped(content: bytes) -> bytes:
    """Return the bytes of a blob's file; the same content always gives the same."""
    return gzip.compress(content, _LEVEL, mtime=0)


def read_blob(root: Path, digest: bytes) -> bytes:
    """Return a verified blob.

    Its file is ``a1/b2/<the other 60 digits>.blob.gz`` or has the whole digest as its name, there or in ``root``.
    Raises NotFound, or DamageError where the file is no gzip, too large, or does not match its name.
    """
    name = digest.hex()
    bucket = f"{name[:2]}/{name[2:4]}"
    # nearly always the first
    paths = (root / f"{place}.blob.gz" for place in (f"{bucket}/{name[4:]}", f"{bucket}/{name}", name))
    return read_by_hash(paths, digest, "JP's blob", _unzipped)


_SMALL_BYTES = 64 << 10
"""A file of less than this is unpacked at once, if that gives no more than a budget has at least."""


def _unzipped(raw: BinaryIO, path: Path) -> bytes:
    packed = raw.read(_SMALL_BYTES)
    if len(packed) < _SMALL_BYTES:
        member = zlib.decompressobj(_GZIP)
        with suppress(zlib.error):
            content = member.decompress(packed, budget.LEAST_BYTES)
            if member.eof and not member.unused_data:
                return content
    raw.seek(0)
    with gzip.open(raw) as file:
        return budget.Budget(path, os.fstat(raw.fileno()).st_size).whole(file)


_EVENTS, _CONFIG, _METADATA = "events.json", "base_config.json", "metadata.json"
_identifier = re.compile(r"(\d{8,})(?:-(.*))?").fullmatch
_workspace_id = re.compile(r"-[a-z0-9]{5}$").sub
_looks_like_events = re.compile(rb'(?:\xef\xbb\xbf)?\s*+\[\s*+\{.*?"type"\s*+:\s*+"' + _TYPES, re.DOTALL).match
_paired = re.compile(r"(tool_call|inquiry)_(?:request|response)").fullmatch
_BEING_WRITTEN = (".old-", ".staging-")
_DECISECOND_DIGITS = 11
_TIMES = ("last_activated_at", "expires_at")


class Jp(Format):
    """JP, the command-line toolkit of dcdpr/jp."""

    name = "jp"
    lenses = (JpEventLens(), JpConfigLens())
    main_type = JpEventLens.type_name
    first_type = JpConfigLens.type_name
    joints = (b"[\n  ", b",\n  ", b"\n]")
    describing = frozenset((_METADATA,))
    kept = (".../.jp/conversations", "$XDG_DATA_HOME/jp/workspace/*/conversations")

    def claim(self, look: Look) -> Source | None:
        """Claim a conversation's directory, or its ``events.json``, by how that begins or by where it lies."""
        path = look.path
        if path.name != _EVENTS and not look.is_folder:
            return None
        folder = path.parent if path.name == _EVENTS else path
        if folder.name.startswith(_BEING_WRITTEN) or (head := read_head(folder / _EVENTS)) is None:
            return None
        if not _looks_like_events(head) and not (_storage(folder) and _identifier(folder.name)):
            return None
        config = folder / _CONFIG
        first = (str(config),) if config.is_file() else ()
        return Source(self.name, folder, folder / _EVENTS, first, tuple(_sidecars(folder)))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return array_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        said = object_in(read_head(source.path / _METADATA))
        named = _identifier(source.path.name)
        identifier, slug = (named[1], named[2] or "") if named else ("", "")
        started = int(identifier) * 100 if len(identifier) == _DECISECOND_DIGITS else 0
        request = ""
        for record in records:
            if started and (request or said.get("title")):
                break
            event = object_in(record)
            started = started or milliseconds(event.get("timestamp"))
            if event.get("type") == "chat_request":
                request = request or as_text(event.get("content"))
        given = as_text(said.get("title"))
        return About(
            title=first_line(given or request or slug.replace("-", " ")),
            project=_project(source.path),
            started_ms=started,
            session_id=identifier or source.path.name,
            extra={key: value for key in _TIMES if (value := as_text(said.get(key)))},
            titled=Titled.BY_TOOL if given else Titled.BY_REQUEST,
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other events; a tool call and its result go together, and so do a question and its answer."""
        pairs = [pair(object_in(record)) for record in records]
        gone = {one for at, one in enumerate(pairs) if at in deleted and one}
        return [record for at, record in enumerate(records) if at not in deleted and pairs[at] not in gone]

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        return referenced_blobs(_blobs_of(source.path), payload)


def pair(event: JsonObject) -> tuple[str, str] | None:
    """Return the key that an event shares with the one it belongs to, None for all others."""
    what, identifier = as_text(event.get("type")), as_text(event.get("id"))
    named = _paired(what)
    return (named[1], identifier) if named and identifier else None


def _storage(folder: Path) -> Path | None:
    """Return the directory that holds ``conversations/``, in which a conversation lies or is archived."""
    return next((above.parent for above in folder.parents[:2] if above.name == "conversations"), None)


@lru_cache(4)
def _blobs_of(folder: Path) -> Path:
    return (_storage(folder) or folder.parent) / "blobs"


def _sidecars(folder: Path) -> Iterator[tuple[str, Path]]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name not in (_EVENTS, _CONFIG) and entry.is_file(follow_symlinks=False):
            yield entry.name, folder / entry.name


def _project(folder: Path) -> str:
    root = _storage(Path(os.path.abspath(folder)))
    if root is None:
        return ""
    if root.name == ".jp":
        return root.parent.name
    try:
        return Path(os.readlink(root / "storage")).parent.name
    except OSError:
        return _workspace_id("", root.name)
