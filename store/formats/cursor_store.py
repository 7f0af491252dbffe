"""Cursor's command line: a database of blobs, each named by the SHA-256 of its bytes.

``chats/<hash>/<id>/store.db`` has the tables ``blobs(id, data)`` and ``meta(key, value)``. The value of the key ``0``
is JSON, mostly in hex: ``agentId``, ``name``, ``createdAt`` and ``latestRootBlobId``. That blob is protobuf; its field
1 lists the digests of the messages, which are JSON. ``meta.json`` beside has the directory. An edited message is
another blob: whatever names the old one is written anew, up to the root.
"""

import sqlite3
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from tempfile import NamedTemporaryFile

from msgspec import Raw, json

from store.errors import UsageError
from store.formats.core import sqlite
from store.formats.core.budget import LARGEST_WHOLE
from store.formats.core.format import Mark, Source, first_line, last_part
from store.formats.core.json_view import JsonObject, as_text, object_in
from store.formats.core.look import Look, read_head
from store.formats.core.sqlite import Begins, Row, decode_row, dictionaries, encode_row, write_lines
from store.formats.core.times import time_of
from store.formats.declared.database import DeclaredDatabase
from store.formats.declared.description import read_views
from store.formats.declared.inside import on_one_line
from store.ids import sha256

_DIGEST = 32
_MESSAGE = b"\x0a\x20"
"""The tag of field 1 and the length of a digest in it."""
_AT = "at"
"""The part of ``about`` that a message's line has: its position."""
_BESIDE = ("meta.json", "prompt_history.json")


class CursorStore(DeclaredDatabase):
    """The database that ``cursor-agent --resume`` reads; its transcripts are copies."""

    describing = frozenset(_BESIDE)

    def __init__(self) -> None:
        super().__init__(read_views("cursor-store"))

    def claim(self, look: Look) -> Source | None:
        source = super().claim(look)
        if source is None:
            return None
        beside = [(name, look.path.with_name(name)) for name in _BESIDE]
        found = tuple(one for one in beside if one[1].is_file() and not one[1].is_symlink())
        return Source(self.name, source.path, source.main, sidecars=found, beside=source.beside)

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        directory = as_text(object_in(read_head(source.main.with_name(_BESIDE[0])) or b"").get("cwd"))
        with sqlite.reading(source.main, scratch) as database:
            return write_lines(_lines(database, directory), scratch)

    def lines(self, database: sqlite3.Connection) -> Iterator[Row]:
        return _lines(database, "")

    def marks(self, database: sqlite3.Connection) -> dict[str, Mark]:
        """Return none: a new message is another root, which lists all of them."""
        return {}

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        with rendition.open("rb") as file, NamedTemporaryFile(dir=target.parent, suffix=".jsonl") as lines:
            said = [row for row in map(decode_row, file) if row.begins is None]
            with sqlite.opened(original, target.parent) as database:
                before, after = _changed(database, said)
            lines.writelines(line + b"\n" for line in after)
            lines.flush()
            sqlite.restore(original, before, Path(lines.name), target, self.delete)


def _meta(database: sqlite3.Connection) -> tuple[JsonObject, bool]:
    """Return what a chat says of itself, and whether that is in hex."""
    for row in dictionaries(database, "SELECT value FROM meta WHERE key = '0'"):
        value = row["value"]
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)
        if text.lstrip().startswith("{"):
            return object_in(text.encode()), False
        try:
            return object_in(bytes.fromhex(text)), True
        except ValueError:
            break
    return {}, False


def _blob(database: sqlite3.Connection, name: str) -> bytes:
    for row in dictionaries(database, "SELECT data FROM blobs WHERE id = ?", name):
        return _bytes(row["data"])
    return b""


def _bytes(data: object) -> bytes:
    return data if isinstance(data, bytes) else as_text(data).encode()


def _messages(database: sqlite3.Connection) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the name of the root, and the messages with their names: without a root, as they were written."""
    root = as_text(_meta(database)[0].get("latestRootBlobId"))
    named = [digest.hex() for digest in _digests(_blob(database, root))]
    found = [(name, _blob(database, name)) for name in named]
    if not named:
        root = ""
        every = dictionaries(database, "SELECT id, data FROM blobs ORDER BY rowid")
        found = [(str(row["id"]), _bytes(row["data"])) for row in every]
    return root, [(name, data) for name, data in found if object_in(data).get("role")]


def _lines(database: sqlite3.Connection, directory: str) -> Iterator[Row]:
    meta = _meta(database)[0]
    _root, messages = _messages(database)
    if not messages:
        return
    begins = Begins(
        as_text(meta.get("agentId")) or messages[0][0],
        title=first_line(as_text(meta.get("name"))),
        project=last_part(directory),
        started_ms=time_of(meta.get("createdAt")),
        extra={"cwd": directory} if directory else {},
    )
    yield Row(begins, "meta", {"key": "0"}, json={"value": Raw(json.encode(meta))})
    for at, (name, data) in enumerate(messages):
        line = on_one_line(data.decode("utf-8", "replace")) or b"null"
        yield Row(None, "blobs", {"id": name}, json={"data": Raw(line)}, about={_AT: str(at)})


def _fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each field of a protobuf message begins and ends, as far as it is one."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            _value, at = _varint(data, at)
        elif wire == 2:
            size, at = _varint(data, at)
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            return
        if at > len(data):
            return
        yield start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at


def _digests(root: bytes) -> list[bytes]:
    found = (root[start:end] for start, end in _fields(root))
    return [one[len(_MESSAGE) :] for one in found if one.startswith(_MESSAGE) and len(one) == len(_MESSAGE) + _DIGEST]


def _relisted(root: bytes, wanted: Iterable[bytes]) -> bytes:
    """Return a root that lists other messages, where the first one stands now."""
    pieces: list[bytes] = []
    listed = b"".join(_MESSAGE + digest for digest in wanted)
    for start, end in _fields(root):
        if root.startswith(_MESSAGE, start) and end - start == len(_MESSAGE) + _DIGEST:
            pieces.append(listed)
            listed = b""
        else:
            pieces.append(root[start:end])
    return b"".join((*pieces, listed))


def _changed(database: sqlite3.Connection, said: Sequence[Row]) -> tuple[list[bytes], list[bytes]]:
    """Return lines of the rows that change so that the messages are those ``said``: as they were, and as they are."""
    root, messages = _messages(database)
    now: list[bytes] = []
    new: dict[bytes, bytes] = {}
    moved: dict[bytes, bytes] = {}
    kept: set[str] = set()
    for row in said:
        if "data" not in row.json:
            raise UsageError("an edited record is no message of the database any more")
        at = str(row.about.get(_AT, ""))
        name, data = messages[int(at)] if at.isdecimal() and int(at) < len(messages) else ("", b"")
        written = bytes(row.json["data"])
        if name and written == on_one_line(data.decode("utf-8", "replace")):
            now.append(_digest_of(name))
            kept.add(name)
            continue
        now.append(sha256(written))
        new[now[-1]] = written
        if name:
            moved[_digest_of(name)] = now[-1]
    gone = {name for name, _data in messages} - kept
    if not gone and not new:
        return [], []
    if new and not root:
        raise UsageError("this chat has lost the list of its messages: it cannot be edited in its database")
    before = [_line(name, data) for name, data in messages if name in gone]
    after = [_line(digest.hex(), data) for digest, data in new.items()]
    others = _others(database)
    for name, (renamed, data) in _renamed(others, moved, root, now).items():
        before.append(_line(name, others[name]))
        after.append(_line(renamed, data))
        if name == root:
            meta, in_hex = _meta(database)
            text = json.encode({**meta, "latestRootBlobId": renamed})
            value = text.hex() if in_hex else text.decode()
            after.append(encode_row(Row(None, "meta", {"key": "0"}, {"value": value})))
    return before, after


def _line(name: str, data: bytes) -> bytes:
    return encode_row(Row(None, "blobs", {"id": name}, blobs={"data": b2a_base64(data, newline=False).decode()}))


def _others(database: sqlite3.Connection) -> dict[str, bytes]:
    """Return the blobs that are no JSON, by name. Raises UsageError for more than are held in memory."""
    found: dict[str, bytes] = {}
    left = LARGEST_WHOLE
    for row in dictionaries(database, "SELECT id, data FROM blobs"):
        data = _bytes(row["data"])
        if not data.startswith(b"{"):
            found[str(row["id"])] = data
            left -= len(data)
        if left < 0:
            raise UsageError(f"the chat has more than {LARGEST_WHOLE} bytes beside its messages: it is not edited")
    return found


def _renamed(
    blobs: Mapping[str, bytes], moved: Mapping[bytes, bytes], root: str, messages: Sequence[bytes]
) -> dict[str, tuple[str, bytes]]:
    """Return the blobs that change because they name others that do, by old name: their new names and bytes.

    ``moved`` are the digests of edited messages with the new ones. The root lists ``messages``.
    """
    known = moved.keys() | {digest for name in blobs if (digest := _digest_of(name))}
    named = {name: list(_named(data, known)) for name, data in blobs.items()}
    digests = dict(moved)
    found: dict[str, tuple[str, bytes]] = {}
    waiting = set(blobs)
    while waiting:
        # none can name itself, however far about
        settled = {name for name in waiting if not any(one.hex() in waiting for _at, one in named[name])}
        if not settled:
            break
        waiting -= settled
        for name in settled:
            data = bytearray(blobs[name])
            for at, one in named[name]:
                data[at : at + _DIGEST] = digests.get(one, one)
            written = _relisted(bytes(data), messages) if name == root else bytes(data)
            if written != blobs[name]:
                digest = sha256(written)
                found[name] = digest.hex(), written
                digests[_digest_of(name)] = digest
    return found


def _digest_of(name: str) -> bytes:
    try:
        return bytes.fromhex(name)
    except ValueError:
        return b""


def _named(data: bytes, known: Set[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the digests in a blob, of those that are ``known``, with their places: their length stands before them."""
    at = data.find(_DIGEST)
    while at >= 0:
        digest = data[at + 1 : at + 1 + _DIGEST]
        if digest in known:
            yield at + 1, digest
        at = data.find(_DIGEST, at + 1)
