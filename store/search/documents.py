"""Documents: the texts of payloads, each filed once, and the contents that they hold.

The number of a document is ``rank << 44 | block << 8 | place in the block``. The blocks of each rank are numbered as
they come: so documents that a reader is likely to look for have the higher numbers, and the index, asked for its last
hits first, gives the best first without having looked at them.
"""

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from store.disk.turn_format import Turn
from store.events.conversation import EventRow
from store.events.event import Event, Kind, Resource
from store.ids import Hash, hash_bytes, hash_key, sha256
from store.index.database import Database
from store.index.views import Run
from store.search.collecting import Collected
from store.search.segments import Made, Segments, made

Key = tuple[int, int]
"""The identity of a document: the key of its payload's hash, and a checksum of how it is seen."""

_RANK_SHIFT = 44
_PLACES = 256
_BLOCK_BYTES = 512
"""The bytes of text in a block. Larger blocks make the index smaller, but waste more looking."""
_SAID = frozenset((Kind.USER, Kind.ASSISTANT, Kind.QUESTION, Kind.ANSWER, Kind.SUMMARY, Kind.NOTE))
_RETURNED = frozenset((Kind.TOOL_RESULT, Kind.SYSTEM, Kind.CONFIG))

_encode = msgspec.msgpack.Encoder().encode
HIGHEST_RANK = 3
_MORE_BLOCKS = (
    "INSERT INTO state VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = value + ?2 RETURNING value"
)


class Document(Struct, frozen=True, array_like=True, gc=False):
    """The searchable form of a turn: its key, the contents it holds, and (URI, key) of resources.

    It is in block ``block`` of its :func:`rank_of`, at ``place``; those that are filed together count blocks from 0.
    """

    payload: int
    sight: int
    rank: int
    block: int
    place: int
    contents: list[int]
    resources: list[tuple[str, int]]


class Gathered(Struct, frozen=True, array_like=True, gc=False):
    """Documents to be filed together, and by rank the segment of their words."""

    documents: list[Document]
    segments: dict[int, Made]


class _Blocks:
    """The blocks of one rank, as they fill."""

    def __init__(self) -> None:
        self.words = Collected()
        self.number = 0
        """The block at hand."""
        self._place = self._size = 0

    def add(self, text: bytes) -> tuple[int, int]:
        """Add the text of a document; return its block and its place."""
        if self._size >= _BLOCK_BYTES or self._place == _PLACES:
            self.words.next()
            self.number += 1
            self._place = self._size = 0
        self.words.add(text)
        self._size += len(text)
        self._place += 1
        return self.number, self._place - 1


class Gathering:
    """Gathers documents that are to be filed together. For one thread."""

    def __init__(self) -> None:
        self._documents: dict[Key, Document] = {}
        self._blocks: dict[int, _Blocks] = {}
        self.size = 0
        """The bytes of their texts."""

    def __contains__(self, key: Key) -> bool:
        return key in self._documents

    def __len__(self) -> int:
        return len(self._documents)

    def add(
        self,
        key: Key,
        kind: Kind,
        text: bytes,
        named: Iterable[Resource],
        references: Iterable[Hash],
        shown: Iterable[bytes],
    ) -> None:
        """Add the document of an event, whose ``text`` is in UTF-8, unless there is one of its key.

        ``named`` are its resources, ``references`` the contents that are cut out of its payload, ``shown`` those that
        ``events.json`` names.
        """
        if key in self._documents:
            return
        rank = rank_of(kind)
        if (blocks := self._blocks.get(rank)) is None:
            blocks = self._blocks[rank] = _Blocks()
        resources = {(resource.uri, hash_key(hash_bytes(resource.data))) for resource in named}
        contents = {hash_key(digest) for digest in (*references, *digests(shown))}
        contents.update(content for _uri, content in resources)
        self._documents[key] = Document(*key, rank, *blocks.add(text), list(contents), list(resources))
        self.size += len(text)

    def end(self) -> Gathered:
        """Return what was gathered; nothing may be added any more."""
        segments = {rank: made(blocks.words, blocks.number + 1) for rank, blocks in self._blocks.items()}
        return Gathered(list(self._documents.values()), segments)


def first_of(rank: int) -> int:
    """Return the number above which the documents of a rank are numbered."""
    return rank << _RANK_SHIFT


def block_of(document: int) -> int:
    """Return the block of a document, by which the index knows its text."""
    return document // _PLACES


def documents_of(block: int) -> tuple[int, int]:
    """Return the first number that a document of a block may have, and the first beyond them."""
    return block * _PLACES, (block + 1) * _PLACES


def rank_of(kind: Kind) -> int:
    """Return how likely a reader is to look for an event: 3 what people and models said to each other, 2 what models
    thought and asked of tools, 1 what tools returned and what was set up, 0 what is not shown.
    """
    if kind is Kind.RECORD:
        return 0
    return 3 if kind in _SAID else 1 if kind in _RETURNED else 2


def key_of(turn: Turn, row: EventRow) -> Key:
    """Return the key of a turn's document."""
    return key(turn.payload_hash, turn.type_tag, turn.encoding, row, deleted=row.deleted)


def key(payload: Hash, type_tag: int, encoding: int, seen: EventRow | Event, *, deleted: bool = False) -> Key:
    """Return the key of the document of a payload, as it is seen."""
    sight = (type_tag, encoding, seen.kind, seen.tool, seen.parent != 0, deleted)
    return hash_key(payload), zlib.crc32(_encode(sight))


def digests(contents: Iterable[bytes]) -> Iterator[Hash]:
    """Yield the BLAKE3 and the SHA-256 of each content: either is its address."""
    for content in contents:
        yield hash_bytes(content)
        yield Hash(sha256(content))


def known(db: Database, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the documents of keys, without those that have none."""
    wanted = set(keys)
    listed = msgspec.json.encode({payload for payload, _sight in wanted}).decode()
    query = "SELECT payload, sight, id FROM documents WHERE payload IN (SELECT value FROM json_each(?))"
    rows = db.query(query, (listed,))
    return {(payload, sight): document for payload, sight, document in rows if (payload, sight) in wanted}


def add(
    sql: sqlite3.Connection, segments: Segments, gathered: Gathered, there: Mapping[Key, int], shown: Collection[Key]
) -> dict[Key, int]:
    """File those documents that turns show, but for those that are ``there`` by now; return the numbers of all."""
    first: dict[int, int] = {}
    for rank, segment in gathered.segments.items():
        [[beyond]] = sql.execute(_MORE_BLOCKS, (f"blocks {rank}", segment.span)).fetchall()
        first[rank] = block_of(first_of(rank)) + beyond - segment.span
        segments.add(sql, first[rank], segment)
    numbers = dict(there)
    new: list[tuple[int, int, int]] = []
    contents: list[tuple[int, int]] = []
    resources: list[tuple[str, int, int]] = []
    for payload, sight, rank, block, place, held, named in map(astuple, gathered.documents):
        if (payload, sight) in shown and (payload, sight) not in there:
            number = numbers[payload, sight] = (first[rank] + block) * _PLACES + place
            new.append((payload, sight, number))
            contents += [(content, number) for content in held]
            resources += [(uri, number, content) for uri, content in named]
    sql.executemany("INSERT INTO documents VALUES (?, ?, ?)", sorted(new))
    sql.executemany("INSERT INTO contents VALUES (?, ?)", sorted(contents))
    sql.executemany("INSERT INTO resources VALUES (?, ?, ?)", resources)
    return numbers


def drop(sql: sqlite3.Connection, runs: Iterable[Run]) -> None:
    """Remove reclaimed turns, and the contents and resources of documents that no turn shows any more.

    Their texts stay in the index, where they lead to nothing; ``state`` counts them as ``dropped``.
    """
    gone: list[int] = []
    for first, count in runs:
        between = (first, first + count - 1)
        query = "SELECT DISTINCT document FROM turns WHERE turn BETWEEN ? AND ?"
        shown = [document for (document,) in sql.execute(query, between)]
        sql.execute("DELETE FROM turns WHERE turn BETWEEN ? AND ?", between)
        still = "SELECT 1 FROM turns WHERE document = ? LIMIT 1"
        gone += [document for document in shown if not sql.execute(still, (document,)).fetchone()]
    if gone:
        listed = msgspec.json.encode(gone).decode()
        for table, column in (("documents", "id"), ("contents", "document"), ("resources", "document")):
            sql.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (listed,))
        row = sql.execute("SELECT value FROM state WHERE key = 'dropped'").fetchone()
        sql.execute("INSERT OR REPLACE INTO state VALUES ('dropped', ?)", ((row[0] if row else 0) + len(gone),))
