"""Documents: the texts of payloads, each filed once, and the contents that they hold.

The number of a document is ``rank << 44 | block << 8 | place in the block``. The blocks of each rank are numbered as
they come: so documents that a reader is likely to look for have the higher numbers, and the index, asked for its last
hits first, gives the best first without having looked at them.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import groupby

import msgspec
from msgspec import Struct

from store.disk.turn_format import Turn
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.ids import Hash, hash_bytes, hash_key
from store.index.database import Database
from store.index.views import Run
from store.search.segments import Segments
from store.search.words import words_of

Key = tuple[int, int]
"""The identity of a document: the key of its payload's hash, and a checksum of how it is seen."""

_RANK_SHIFT = 44
_PLACES = 256
_BLOCK_CHARACTERS = 512
"""The characters of text in a block. Larger blocks make the index smaller, but waste more looking."""
_SAID = frozenset((Kind.USER, Kind.ASSISTANT, Kind.QUESTION, Kind.ANSWER, Kind.SUMMARY, Kind.NOTE))
_RETURNED = frozenset((Kind.TOOL_RESULT, Kind.SYSTEM, Kind.CONFIG))

_encode = msgspec.msgpack.Encoder().encode
HIGHEST_RANK = 3
_MORE_BLOCKS = (
    "INSERT INTO state VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = value + ?2 RETURNING value"
)


class Document(Struct, frozen=True):
    """The searchable form of a turn: its :func:`rank_of`, the size of its text, its words (``store.search.words``),
    the contents it holds, (URI, key) of resources.
    """

    rank: int
    size: int
    words: set[bytes]
    contents: frozenset[int]
    resources: frozenset[tuple[str, int]]


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
    sight = (turn.type_tag, turn.encoding, row.kind, row.tool, row.parent != 0, row.deleted)
    return hash_key(turn.payload_hash), zlib.crc32(_encode(sight))


def digests(contents: Iterable[bytes]) -> Iterator[Hash]:
    """Yield the BLAKE3 and the SHA-256 of each content: either is its address."""
    for content in contents:
        yield hash_bytes(content)
        yield Hash(sha256(content).digest())


def document_of(row: EventRow, event: Event, text: str, references: Iterable[Hash], shown: Iterable[bytes]) -> Document:
    """Return the document of a turn.

    ``references`` are the contents that are cut out of its payload, ``shown`` those that ``events.json`` names.
    """
    resources = frozenset((resource.uri, hash_key(hash_bytes(resource.data))) for resource in event.resources)
    contents = {hash_key(digest) for digest in (*references, *digests(shown))}
    contents.update(content for _uri, content in resources)
    return Document(rank_of(row.kind), len(text), words_of(text), frozenset(contents), resources)


def known(db: Database, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the documents of keys, without those that have none."""
    wanted = set(keys)
    listed = msgspec.json.encode({payload for payload, _sight in wanted}).decode()
    query = "SELECT payload, sight, id FROM documents WHERE payload IN (SELECT value FROM json_each(?))"
    rows = db.query(query, (listed,))
    return {(payload, sight): document for payload, sight, document in rows if (payload, sight) in wanted}


def add(sql: sqlite3.Connection, segments: Segments, documents: Mapping[Key, Document]) -> dict[Key, int]:
    """File new documents; return their numbers."""
    numbers: dict[Key, int] = {}
    for rank, keys in groupby(sorted(documents, key=lambda key: documents[key].rank), lambda key: documents[key].rank):
        blocks = list(_blocks(keys, documents))
        [[beyond]] = sql.execute(_MORE_BLOCKS, (f"blocks {rank}", len(blocks))).fetchall()
        first = block_of(first_of(rank)) + beyond - len(blocks)
        for block, some in enumerate(blocks, first):
            start, _end = documents_of(block)
            numbers.update(zip(some, range(start, start + len(some)), strict=True))
        words = (set[bytes]().union(*(documents[key].words for key in some)) for some in blocks)
        segments.add(sql, first, len(blocks), words)
    sql.executemany("INSERT INTO documents VALUES (?, ?, ?)", sorted((*key, own) for key, own in numbers.items()))
    contents = [(content, numbers[key]) for key, document in documents.items() for content in document.contents]
    sql.executemany("INSERT INTO contents VALUES (?, ?)", sorted(contents))
    resources = [
        (uri, numbers[key], content) for key, document in documents.items() for uri, content in document.resources
    ]
    sql.executemany("INSERT INTO resources VALUES (?, ?, ?)", resources)
    return numbers


def _blocks(keys: Iterable[Key], documents: Mapping[Key, Document]) -> Iterator[list[Key]]:
    block: list[Key] = []
    size = 0
    for key in keys:
        block.append(key)
        size += documents[key].size
        if size >= _BLOCK_CHARACTERS or len(block) == _PLACES:
            yield block
            block, size = [], 0
    if block:
        yield block


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
