"""What the blobs in a record are called."""

from store.content.sealed import SealedGroup
from store.disk.blob_format import Compression, Record, decode_group_table
from store.ids import Hash

_GROUPS = (Compression.GROUP, Compression.GROUP_DICT)


def names_of(record: Record) -> list[Hash]:
    """Return the names of a record's blobs, by their member numbers. DamageError.

    Of a sealed group, everything is decompressed and hashed for it; of others, nothing.
    """
    if record.compression == Compression.SEALED:
        return SealedGroup(record).names()
    if record.compression in _GROUPS:
        return [member.hash for member in decode_group_table(record.compression, record.stored).members]
    return [record.hash]
