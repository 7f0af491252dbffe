"""Blobs into records: alone, or in groups with their neighbours.

Small bodies say little on their own but much about each other, so bodies go into groups of some 128 KB, each
compressed as one; what is large, or small and not worth compressing, gets a record of its own. Text is always
compressed, even where that gains nothing; what would be readable in the record all the same is veiled.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from store.content import zstd
from store.content.cuts import cut, is_text
from store.content.delta import Delta
from store.content.zstd import LEVEL, Dictionary, shows, veil
from store.disk import blob_format
from store.disk.blob_format import Compression, Form
from store.ids import Hash, hash_bytes

GROUP_BYTES = 128 << 10
"""The size of a group, roughly: no body is added to a group that has reached this."""

SMALL_GROUP_BYTES = 48 << 10
"""Groups that stay smaller than this gain by a dictionary."""

LEAST_BYTES = 16 << 10
"""Shorter bodies are packed with their neighbours: longer ones may be deltas against what they resemble."""

MAX_BODY_BYTES = 128 << 20
"""No body is larger than this, nor are those of a group together; larger blobs are chunked."""

_ALONE = 256 << 10
_BINARY_ALONE = 8 << 10
_DICTIONARY_MAGIC = b"\x37\xa4\x30\xec"


class Member(Struct, frozen=True, gc=False):
    """A blob to be packed: ``body`` is how ``form`` spells its ``raw_len`` bytes."""

    hash: Hash
    form: Form
    raw_len: int
    body: bytes


Packed = tuple[bytes, list[Hash]]
"""A record, and the hashes of its blobs by their position in it."""


def taken_apart(digest: Hash, payload: bytes, limit: int) -> list[Member]:
    """Return the blobs that a payload is cut into, each once, itself last; ``limit`` is where strings leave it."""
    taken = cut(payload, limit)
    if taken is None:
        return [Member(digest, Form.PLAIN, len(payload), payload)]
    members = [Member(name, Form.PLAIN, len(content), content) for name, content in taken.contents]
    members.append(Member(digest, Form.SKELETON, len(payload), taken.body))
    return members


def is_dictionary(body: bytes) -> bool:
    """Return whether a blob is a zstd dictionary, or may be one."""
    return body.startswith(_DICTIONARY_MAGIC)


def pack_single(
    member: Member, dictionary: Dictionary | None = None, frame: bytes | None = None, level: int = LEVEL
) -> bytes:
    """Return a record that holds one blob; content that is not text is stored raw if compressing gains nothing.

    ``frame`` is the body compressed, where that has been done already.
    """
    body = member.body
    head = b""
    if frame is None:
        frame = zstd.compress(body, level, dictionary)
    veiled = shows(frame)
    if len(frame) >= len(body) and not is_text(body):
        compression, frame = Compression.RAW, body
        veiled = member.form == Form.SKELETON or len(body) < _BINARY_ALONE
    elif dictionary:
        compression, head = Compression.ZSTD_DICT, dictionary.hash
    else:
        compression = Compression.ZSTD
    return _record(compression, member.form, member.raw_len, member.hash, head, frame, veiled=veiled)


def pack_delta(member: Member, base: Hash, delta: Delta) -> bytes:
    """Return a record that holds one blob, whose body is ``delta`` against the bytes of the blob ``base``."""
    table, frame = blob_format.encode_delta_table(base, delta.stretches), delta.frame
    return _record(Compression.DELTA, member.form, member.raw_len, member.hash, table, frame, veiled=shows(frame))


def pack_group(members: Sequence[Member], dictionary: Dictionary | None = None, level: int = LEVEL) -> bytes:
    """Return a record that holds several blobs, in order."""
    bodies = b"".join([member.body for member in members])
    table = blob_format.encode_group_table(
        [(member.hash, member.form, member.raw_len, len(member.body)) for member in members],
        dictionary.hash if dictionary else None,
    )
    compression = Compression.GROUP_DICT if dictionary else Compression.GROUP
    digest, frame = hash_bytes(bodies), zstd.compress(bodies, level, dictionary)
    return _record(compression, Form.PLAIN, len(bodies), digest, table, frame, veiled=shows(frame))


def _record(
    compression: Compression, form: Form, raw_len: int, digest: Hash, table: bytes, frame: bytes, *, veiled: bool
) -> bytes:
    codec = blob_format.codec(compression, form, veiled=veiled)
    stored = table + (veil(frame, digest) if veiled else frame)
    return blob_format.encode_record(codec, raw_len, digest, stored)


def pack_records(
    members: Iterable[Member], dictionary: tuple[Hash, bytes] | None = None, level: int = LEVEL
) -> list[Packed]:
    """Pack blobs in order.

    A dictionary (the hash of its blob, its bytes) is used where it helps: for little that stands alone. Dictionaries
    themselves lie in records of their own, which need none.
    """
    opened = Dictionary(dictionary[1], dictionary[0]) if dictionary else None
    records: list[Packed] = []
    group: list[Member] = []
    size = 0

    def finish() -> None:
        nonlocal size
        helping = opened if size < SMALL_GROUP_BYTES else None
        if len(group) == 1:
            records.append((pack_single(group[0], helping, level=level), [group[0].hash]))
        elif group:
            records.append((pack_group(group, helping, level), [member.hash for member in group]))
        group.clear()
        size = 0

    for member in members:
        if _stands_alone(member):
            records.append((pack_single(member, level=level), [member.hash]))
            continue
        group.append(member)
        size += len(member.body)
        if size >= GROUP_BYTES:
            finish()
    finish()
    return records


def _stands_alone(member: Member) -> bool:
    body = member.body
    length = len(body)
    if length >= _ALONE:
        return True
    if member.form != Form.PLAIN:
        return False
    return (length >= _BINARY_ALONE and not is_text(body)) or is_dictionary(body)
