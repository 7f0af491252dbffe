"""opencode: sessions of messages of parts, in a database, or (older versions) each in a file of its own.

The files of older versions are a record each: ``storage/session/<project>/<session>.json``,
``storage/message/<session>/<message>.json`` and ``storage/part/<message>/<part>.json``. A fork has copies of messages
under new ids; when each was made stays.
"""

import copy
import os
import re
import sqlite3
import string
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import structs

from store.errors import UsageError
from store.events.event import Block, Compaction, Kind, ValuePath
from store.events.usage import Tokens, Usage
from store.formats.core import documents, homes, sqlite
from store.formats.core.composing import Particulars
from store.formats.core.documents import Number
from store.formats.core.editing import Lens, Twins
from store.formats.core.format import About, Part, Resuming, Source, Span, Titled, told, without_endings
from store.formats.core.json_view import Decoded, JsonObject, as_object, as_text, decode, object_in, value_at
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Places, Shown
from store.formats.core.look import Look, read_head
from store.formats.core.sqlite import HEADER, Begins, Found, Row, cells_of
from store.formats.core.times import milliseconds
from store.formats.core.token_counts import count, dollars
from store.formats.core.twins import copies
from store.formats.declared.database import DeclaredDatabase, Sessions
from store.formats.declared.description import read_file, read_views
from store.formats.declared.lens import DeclaredLens

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_DIGITS = 14
_MOST_COUNTED = (1 << 48) - 1
_NO_TOKENS: JsonObject = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
_SAID = {
    **dict.fromkeys((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL), "assistant"),
    **dict.fromkeys((Kind.USER, Kind.SYSTEM), "user"),
    Kind.SUMMARY: "summary",
}
_OF_FILES = "each record is a file there, and opencode of today reads them no more: go on with the session in opencode"
_encode = msgspec.json.Encoder().encode


_counted = re.compile(r"[a-z]+_([0-9a-f]{12})").match


def _identifier(prefix: str, now_ms: int, after: object = "") -> str:
    """Return an id as the program makes them: such that it comes after those of earlier times, and ``after``."""
    earlier = _counted(as_text(after))
    counted = max((now_ms * 0x1000 + 1) & _MOST_COUNTED, int(earlier[1], 16) + 1 if earlier else 0) & _MOST_COUNTED
    return f"{prefix}_{counted:012x}" + "".join(_DIGITS[byte % len(_DIGITS)] for byte in os.urandom(_RANDOM_DIGITS))


def _ms(time: object) -> int:
    """Return a time in Unix milliseconds, 0 for none: forks of the program write it in ISO 8601, too."""
    return time if isinstance(time, int) else milliseconds(time)


def _raw(value: JsonObject) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


_SPEAKERS = ("assistant", "summary", "user")
"""Whose message a part is of: a summary is the model's, in the place of all before it."""


def _speaker_of(message: JsonObject) -> str:
    if message.get("role") == "user":
        return "user"
    return "summary" if message.get("summary") is True else "assistant"


def _model_of(message: JsonObject) -> str:
    chosen = as_object(message.get("model")) or message
    named = as_text(chosen.get("providerID")), as_text(chosen.get("modelID"))
    return "/".join(filter(None, named))


def _about(message: Row) -> dict[str, str | bool]:
    held = message.json.get("data")
    data = object_in(bytes(held) if held is not None else as_text(message.cells.get("data")).encode())
    about: dict[str, str | bool] = {"role": _speaker_of(data)}
    if model := _model_of(data):
        about["model"] = model
    return about


_OF_ROWS = frozenset(("begins", "id", "table"))
_MESSAGE, _ROW = "opencode.message.v1", "opencode.row.v1"
_of_part = "opencode.{}-part.v1".format


class OpencodeLens(DeclaredLens):
    """Sees messages or parts."""

    places: ClassVar[Places] = dict.fromkeys(
        ("record", "status", "is_error", "error"), "says what became of it: it cannot be changed"
    )

    def __init__(self, type_name: str) -> None:
        super().__init__(read_views("opencode"), type_name)
        self.one_line, self.writes = False, ()  # type: ignore[misc]  # files of their own, which opencode reads no more
        self.times = (*((*self.at, *time) for time in self.times), ("cells", "time_created"))

    def shown(self, record: JsonObject, before: Before) -> Shown:
        shown = super().shown(record, before)
        is_summary = shown.kind is Kind.SUMMARY
        return structs.replace(shown, compaction=Compaction(shown.blocks)) if is_summary else shown

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        """Yield nothing: the program keeps a call with its result in one part."""
        return iter(())

    def used(self, record: JsonObject) -> Usage | None:
        """Return the usage of a message; None for one that is not a model's. Its parts repeat it."""
        message = self.held(record)
        told = as_object(message.get("tokens"))
        cache, reasoning = as_object(told.get("cache")), count(told, "reasoning")
        read, write = count(cache, "read"), count(cache, "write")
        tokens = Tokens(count(told, "input"), count(told, "output") + reasoning, read, write, reasoning=reasoning)
        cost = message.get("cost")
        paid = dollars(as_object(cost).get("usd") if isinstance(cost, dict) else cost)
        if message.get("role") != "assistant" or not (tokens.total or paid):
            return None
        model = as_text(message.get("modelID")) or _model_of(message).rpartition("/")[2]
        created = as_object(message.get("time")).get("created")
        name = f"{created}@{model}" if isinstance(created, int) else as_text(message.get("id"))
        return Usage(name, model, tokens, paid or None)

    def room(self, record: JsonObject) -> ValuePath | None:
        return (*self.at, "state", "input") if self.held(record).get("type") == "tool" else None

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Return the other copies that a part has of a tool's output: in the program's metadata of it."""
        noted = as_object(self.held(record).get("state")).get("metadata")
        is_output = path == (*self.at, "state", "output")
        return copies(noted, (*self.at, "state", "metadata"), old, new) if is_output else ()


class OpencodeRowLens(OpencodeLens):
    """Sees rows of the database as lines (:mod:`store.formats.core.sqlite`), and the file of a session."""

    at = ("json", "data")
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(
        (Kind.QUESTION, Kind.ANSWER), "opencode asks by a call of the tool question, and its result is the answer"
    )
    places: ClassVar[Places] = {
        **OpencodeLens.places,
        "model": "is that of the message, which is a record of its own: it cannot be changed here",
    }

    def __init__(self) -> None:
        super().__init__(_ROW)
        self.one_line, self.writes = True, (*_SAID, Kind.TOOL_RESULT)  # type: ignore[misc]  # as above
        self.telling = (b'"tokens"',)

    def held(self, record: JsonObject) -> JsonObject:
        data, role = as_object(as_object(record.get("json")).get("data")), as_object(record.get("about")).get("role")
        return {**data, "speaker": role if role in _SPEAKERS else "assistant"}

    @staticmethod
    def parsed(payload: bytes) -> Decoded | None:
        decoded = decode(payload)
        return decoded if decoded and as_object(decoded.value).keys() & _OF_ROWS else None

    def shown(self, record: JsonObject, before: Before) -> Shown:
        about, is_said = as_object(record.get("about")), record.get("table") in ("message", "part")
        shown = super().shown(record, before) if is_said else BOOKKEEPING
        if isinstance(damaged := as_object(record.get("cells")).get("data"), str):
            shown = Shown(Kind.NOTE, (Block("text", damaged, path=("cells", "data")),))
        if (model := as_text(about.get("model"))) and shown.kind in _FROM_MODELS:
            shown.header["model"] = model
        return shown

    def used(self, record: JsonObject) -> Usage | None:
        return super().used(record) if record.get("table") == "message" else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        if kind is Kind.TOOL_RESULT:
            raise UsageError("a result stands in the part of its call, and that is no row of opencode's database")
        before, last = sqlite.row_of(previous), sqlite.row_of(more.last or previous)
        session = before.cells.get("session_id") or (before.key.get("id") if before.table == "session" else None)
        if not isinstance(session, str):
            raise UsageError("the record before does not say of which session it is: add the message in the tool")
        provider, _, model = str(before.about.get("model", "")).partition("/")
        speaker = _SAID[kind]
        role = "user" if speaker == "user" else "assistant"
        message: JsonObject = {"role": role, "time": {"created": now_ms}, "agent": "build"}
        if role == "user":
            message["model"] = {"providerID": provider, "modelID": model}
        else:
            parent = before.cells.get("message_id") or before.key.get("id")
            message |= {
                "time": {"created": now_ms, "completed": now_ms},
                "parentID": parent,
                "modelID": model,
                "providerID": provider,
                "mode": "build",
                "path": {"cwd": "", "root": ""},
                "cost": 0,
                "tokens": _NO_TOKENS,
                "finish": "tool-calls" if kind is Kind.TOOL_CALL else "stop",
            }
            if kind is Kind.SUMMARY:
                message["summary"] = True
        times: dict[str, str | int | float | None] = {"time_created": now_ms, "time_updated": now_ms}
        owner = _identifier("msg", now_ms, last.cells.get("message_id") or last.key.get("id"))
        said = Row(None, "message", {"id": owner}, {"session_id": session, **times}, {"data": _raw(message)})
        part = self.made(kind, text, now_ms, more)
        cells = {"message_id": owner, "session_id": session, **times}
        about = {"role": speaker, **{key: value for key, value in before.about.items() if key == "model"}}
        own: dict[str, sqlite.Cell] = {"id": _identifier("prt", now_ms, last.key.get("id"))}
        return sqlite.encode_row(Row(None, "part", own, cells, {"data": _raw(part)}, {}, about, (said,)))

    def answered(self, payload: bytes, text: str, now_ms: int, more: Particulars) -> bytes | None:
        """Return the part of the call, with its result in it."""
        was = documents.parse(payload.decode("utf-8", "replace"))
        now = copy.deepcopy(was)
        part = as_object(value_at(as_object(now), self.at))
        state = as_object(part.get("state"))
        if part.get("type") != "tool" or part.get("callID") != more.id:
            return None
        if state.get("status") in ("completed", "error"):
            raise UsageError(f"the call {more.id} has its result: edit that")
        ended = Number(str(now_ms))
        times = {"start": as_object(state.get("time")).get("start", ended), "end": ended}
        told: JsonObject = {"status": "completed", "input": state.get("input", {}), "output": text, "title": ""}
        if more.failed:
            told = {"status": "error", "input": state.get("input", {}), "error": text}
        part["state"] = told | ({} if more.failed else {"metadata": {}}) | {"time": times}
        return documents.carried(payload, (), was, now)


class OpencodeMessageLens(OpencodeLens):
    """Sees the file of a message, or with its ``speaker`` that of a part of one."""

    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, _OF_FILES)

    def __init__(self, speaker: str = "") -> None:
        super().__init__(_of_part(speaker) if speaker else _MESSAGE)
        self._speaker = speaker
        self.telling = () if speaker else (b'"tokens"',)

    def held(self, record: JsonObject) -> JsonObject:
        return {**record, "speaker": self._speaker} if self._speaker else record


_ROWS = OpencodeRowLens()
LENSES: tuple[Lens, ...] = (_ROWS, *map(OpencodeMessageLens, ("", *_SPEAKERS)))
_FROM_MODELS = frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.SUMMARY, Kind.TOOL_CALL))

_is_identifier = re.compile(r"[\w-]++").fullmatch
_storage_identifier = re.compile(rb'"id"\s*+:\s*+"([\w-]++)"').search
_role = re.compile(rb'"role"\s*+:\s*+"user"').search
_summary = re.compile(rb'"summary"\s*+:\s*+true').search
_is_no_title = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z").fullmatch
_is_session_name = re.compile(r"ses_\w+\.json").fullmatch


def _is_session(path: Path, head: bytes) -> bool:
    if path.suffix != ".json" or path.parent.parent.name != "session":
        return False
    said = object_in(head)
    if not said:
        return _is_session_name(path.name) is not None and (path.parents[2] / "message" / path.stem).is_dir()
    return isinstance(said.get("id"), str) and isinstance(said.get("time"), dict) and "directory" in said


def _records_of(path: Path, head: bytes) -> Iterator[tuple[Path, str]]:
    """Yield the files of a session's messages and parts, in the order of the conversation, with their types."""
    storage = path.parents[2]
    said_id = as_text(object_in(head).get("id"))
    session = said_id if _is_identifier(said_id) else path.stem
    for message in _listed(storage / "message" / session):
        yield message, _MESSAGE
        said = read_head(message) or b""
        named = _storage_identifier(said)
        folder = storage / "part" / message.stem
        if not folder.is_dir() and named:
            folder = storage / "part" / named[1].decode()
        kind = _of_part(_speaker(said))
        for part in _listed(folder):
            yield part, kind


def _titled(title: str) -> Titled:
    """Return the quality of a title: a session has one with the time in it until the program makes a better one."""
    return Titled.PROVISIONALLY if _is_no_title(title) else Titled.BY_TOOL


def _speaker(head: bytes) -> str:
    if said := object_in(head):
        return _speaker_of(said)
    return "user" if _role(head) else "summary" if _summary(head) else "assistant"


def _listed(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


_BLANK = b" \t\r\n\0"


_OWN = ("$XDG_DATA_HOME/opencode",)
_is_newer = re.compile(rb'"table":"session_(?:v2|message)"').search
_NEWER = read_file(Path(__file__).parent / "descriptions" / "opencode-v2.toml")
"""The page of the tables that the program's second generation has, maybe beside the older ones."""


class _Earlier(Sessions):
    """Sessions in the tables of the first generation, in which messages have parts."""

    newer: Sessions

    def schemas(self) -> Iterator[Mapping[str, Set[str]]]:
        own = {"directory", "time_created"}
        yield {"message": {"data", "session_id"}, "part": {"data", "message_id"}, "session": own}

    def session_rows(
        self, database: sqlite3.Connection, condition: str, *parameters: object
    ) -> Iterator[dict[str, object]]:
        """Yield the rows of sessions: since the second generation, these tables are empty, or say what was."""
        told_anew = "SELECT id FROM session_v2 WHERE id IN (SELECT session_id FROM session_message)"
        older = f"id NOT IN ({told_anew})" if self.newer.stands_in(database) else ""
        where = " AND ".join(filter(None, (older, condition)))
        rest = f"{f'WHERE {where} ' if where else ''}ORDER BY time_created, id"
        return sqlite.rows_of(database, "session", rest, *parameters)

    def marked(self, database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
        return super().marked(database) | {"part": ("part", "rowid")}

    def owners(self, table: str) -> str:
        parts = "SELECT session_id FROM message WHERE id IN (SELECT message_id FROM part WHERE rowid >= ?1)"
        return parts if table == "part" else super().owners(table)

    def begins(self, row: Found, documents: dict[str, object], otherwise: str = "") -> Begins:
        begins = super().begins(row, documents, otherwise)
        more = told(tool_version=row.get("version"), parent_session=row.get("parent_id"))
        return structs.replace(begins, extra={**begins.extra, **more})

    def rows(self, database: sqlite3.Connection, session: Found, columns: Set[str]) -> Iterator[Row]:
        for message in super().rows(database, session, columns):
            yield message
            about = _about(message)
            for part in sqlite.rows_of(database, "part", "WHERE message_id = ? ORDER BY id", message.key["id"]):
                yield cells_of("part", part, ("id",), documents=frozenset(self.said.documents), about=about)


class Opencode(DeclaredDatabase):
    """opencode, by the makers of SST."""

    def __init__(self) -> None:
        super().__init__(read_views("opencode"), _ROWS)
        [earlier], newer = self.kinds, DeclaredDatabase(_NEWER)
        self.kinds = [_Earlier(earlier.said, newer.kinds[0]), *newer.kinds]
        self.schemas = list(self.kinds[0].schemas())
        self.lenses, self._newer_type = LENSES, newer.main_type
        taking = ("opencode", "import", "{path}")
        self.resuming = (Resuming("opencode", ("opencode", "--session", "{session}"), _OWN, taking=taking),)

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the databases, or the folder of sessions where there is none: a database takes over the older files."""
        databases = list(super().homes(home, cwd))
        yield from databases or homes.existing(["$XDG_DATA_HOME/opencode/storage/session"], home, cwd)

    def claim(self, look: Look) -> Source | None:
        path = look.path
        if look.is_folder or not _is_session(path, look.head):
            return super().claim(look)
        files = list(_records_of(path, look.head))
        types = tuple(kind for _file, kind in files)
        return Source(self.name, path, path, first=tuple(str(file) for file, _type in files), first_types=types)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        if bytes(data[: len(HEADER)]) == HEADER:
            yield from super().spans(data, start)
            return
        if (end := without_endings(data, start, len(data), _BLANK)) > start:
            yield Span(start, end)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        path = source.main
        said = object_in(read_head(path) or b"")
        started = as_object(said.get("time")).get("created")
        row = {**said, "time_created": started, "parent_id": said.get("parentID")}
        begins = self.kinds[0].begins(row, {}, path.stem)
        title, project = begins.title, begins.project
        return About(
            title,
            project or path.parent.name,
            begins.started_ms,
            begins.key,
            begins.extra,
            titled=_titled(title),
            placed=bool(project),
        )

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        return None if source.main.suffix == ".json" else super().parts(source, data, spans)

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        return None if source.main.suffix == ".json" else super().rendition(source, scratch)

    def type_of(self, source: Source, record: bytes) -> str:
        return self._newer_type if _is_newer(record) else self.main_type

    def delete(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete a part, or a message with its parts; sessions stay."""
        if row.table == "message":
            database.execute("DELETE FROM part WHERE message_id IS ?", (row.key.get("id"),))
        if row.table in ("message", "part", "session_message"):
            sqlite.remove_row(database, row)

    def titled(self, conversation: Row) -> Titled:
        return _titled(conversation.begins.title if conversation.begins else "")


class Kilo(Opencode):
    """Kilo Code's command line and its newer extensions: opencode's program, with its database elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.name, self.kept = "kilo", ["$XDG_DATA_HOME/kilo/kilo*.db"]
        taking = ("kilo", "import", "{path}")
        places = ("$XDG_DATA_HOME/kilo",)
        self.resuming = (Resuming("kilo", ("kilo", "--session", "{session}"), places, taking=taking),)

    def claim(self, look: Look) -> Source | None:
        return super().claim(look) if look.path.name.startswith("kilo") and look.path.suffix == ".db" else None
