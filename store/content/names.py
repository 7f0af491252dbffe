"""What the blobs in a record are called."""

from store.content.sealed import SealedGroup
from store.disk.blob_format import Compression, Record, decode_group_table
from store.disk.sealed_format import decode_head
from store.ids import Hash

_GROUPS = (Compression.GROUP, Compression.GROUP_DICT)


def members_of(record: Record) -> int:
    """Return how many blobs a record holds. DamageError."""
    if record.compression == Compression.SEALED:
        head = decode_head(record.stored)
        return head.records + head.contents
    if record.compression in _GROUPS:
        return len(decode_group_table(record.compression, record.stored).members)
    return 1


def names_of(record: Record) -> list[Hash]:
    """Return the names of a record's blobs, by their member numbers. DamageError.

    Of a sealed group, everything is decompressed and hashed for it; of others, nothing.
    """
    if record.compression == Compression.SEALED:
        return SealedGroup(record).names()
    if record.compression in _GROUPS:
        return [member.hash for member in decode_group_table(record.compression, record.stored).members]
    return [record.hash]
