"""Ciphertext: the form in which entries and objects of a space leave a machine.

Whoever runs the servers of a space sees sizes, times and numbers, and nothing else. All that is sealed here is sealed
with AES-256-GCM, each time with a key of its own: HKDF-SHA256 of the *space key* (32 bytes, of one generation), a fresh
salt of 32 bytes, and the id of the space with the place that the text is for. No key is used for two texts, so nonces
may simply count, and nobody has to keep count of them over machines that know nothing of each other.

The tag is over the place as well: the space, the generation, and an object's key, or all that stands with an entry. So
one that was moved, copied under another name, taken from another space, cut off or changed is not opened. An entry has
its chain (``store.shared.entry``) in the sealed text: who has taken one takes none that follows another in its place.

Sealed object, little-endian: ``magic 'CVSO' | generation u32 | length u64 (of the text) | salt[32]``, then frames: each
has 1 MiB of the text, the last what is left (an empty text is one empty frame), and its tag of 16 bytes behind it.
Nonce: the frame's number, u96. Associated data: the header, and the frame's number as u64. HKDF info: ``convfs
object``, a zero, the space's id[16], the object's key in UTF-8.

The body of a sealed entry: ``salt[32] | ciphertext | tag[16]``. The text is ``chain[32] | body``. Nonce: zero.
Associated data: ``prev u64 | seq u64 | token[16] | machine u32 | generation u32 | packs u64``. HKDF info: ``convfs
entry``, a zero, the space's id[16]. Where others have the chain it has the BLAKE3 of it, keyed with HKDF of the space
key (salt: the space's id, info: ``convfs chain``, a zero). So two servers can be compared without the key, and nobody
can try which text a chain is of.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import structs

from store.errors import DamageError
from store.shared.entry import Entry

KEY_SIZE = 32
FRAME = 1 << 20
"""The bytes of text in each frame but the last."""
TAG = 16
Keys = Mapping[int, bytes]
"""Space keys by their generation."""

_SALT = 32
_OBJECT = Layout("<4sIQ32s")
_MAGIC = b"CVSO"
_ABOUT = Layout("<QQ16sIIQ")
_FRAME_NUMBER = Layout("<Q")
OBJECT_HEAD = _OBJECT.size
_CHAIN = 32


class Locked(DamageError):
    """Something is sealed with a key that this machine does not have: a newer one, or one that was given up."""


class ObjectHead(NamedTuple):
    """The header of a sealed object: the generation of its key, the bytes of its text, and the header itself."""

    generation: int
    length: int
    salt: bytes
    data: bytes

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return max(1, -(-self.length // FRAME))


def derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    """Return a key of 32 bytes that follows from ``key``, by HKDF with SHA-256."""
    return HKDF(SHA256(), KEY_SIZE, salt, info).derive(key)


# -- objects -----------------------------------------------------------------------------------------------------------


def seal_object(key: bytes, generation: int, space: bytes, name: str, text: bytes | memoryview) -> bytes:
    """Return ``text`` as the object ``name`` of a space, sealed with the space key of a generation."""
    salt = os.urandom(_SALT)
    head = _OBJECT.pack(_MAGIC, generation, len(text), salt)
    cipher = AESGCM(derived(key, salt, _object_info(space, name)))
    view = memoryview(text)
    frames = [
        cipher.encrypt(_nonce(number), bytes(view[at : at + FRAME]), head + _FRAME_NUMBER.pack(number))
        for number, at in enumerate(range(0, max(1, len(text)), FRAME))
    ]
    return b"".join((head, *frames))


def object_head(data: bytes | memoryview, name: str) -> ObjectHead:
    """Return the header that a sealed object begins with. DamageError."""
    try:
        magic, generation, length, salt = _OBJECT.unpack_from(data)
    except layout_error:
        magic = b""
    if magic != _MAGIC:
        raise DamageError(f"{name}: this is no sealed object of a space")
    return ObjectHead(generation, length, salt, bytes(data[:OBJECT_HEAD]))


def text_length(length: int) -> int:
    """Return how long the text of a sealed object of ``length`` bytes is."""
    rest = length - OBJECT_HEAD
    return rest - TAG * -(-rest // (FRAME + TAG))


def frame_place(head: ObjectHead, start: int, end: int) -> tuple[int, int, int]:
    """Return where a sealed object has bytes ``start`` to ``end`` of its text: first frame, its offset, and length.

    0 <= start < end <= the text's length.
    """
    first = start // FRAME
    last = (end - 1) // FRAME
    at = OBJECT_HEAD + first * (FRAME + TAG)
    until = min(OBJECT_HEAD + (last + 1) * (FRAME + TAG), OBJECT_HEAD + head.length + head.frames * TAG)
    return first, at, until - at


def open_frames(keys: Keys, space: bytes, name: str, head: ObjectHead, first: int, data: bytes | memoryview) -> bytes:
    """Return the text of whole frames, from number ``first`` on. DamageError; Locked if there is no key for them."""
    cipher = AESGCM(derived(_key(keys, head.generation, name), head.salt, _object_info(space, name)))
    view = memoryview(data)
    found = []
    for number, at in enumerate(range(0, len(view), FRAME + TAG), first):
        try:
            frame = bytes(view[at : at + FRAME + TAG])
            found.append(cipher.decrypt(_nonce(number), frame, head.data + _FRAME_NUMBER.pack(number)))
        except InvalidTag:
            raise DamageError(f"{name}: frame {number} of this object was changed, or belongs elsewhere") from None
    return b"".join(found)


def open_object(keys: Keys, space: bytes, name: str, data: bytes | memoryview) -> bytes:
    """Return the text of the sealed object ``name``. DamageError; Locked if there is no key for it."""
    head = object_head(data, name)
    if len(data) != OBJECT_HEAD + head.length + head.frames * TAG:
        raise DamageError(f"{name}: this object should have {head.length} bytes, and was cut or lengthened")
    return open_frames(keys, space, name, head, 0, memoryview(data)[OBJECT_HEAD:])


def _object_info(space: bytes, name: str) -> bytes:
    return b"convfs object\0" + space + name.encode()


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


# -- entries -----------------------------------------------------------------------------------------------------------


def seal_entry(key: bytes, generation: int, space: bytes, entry: Entry) -> Entry:
    """Return an entry with its chain and its body sealed with the space key of a generation."""
    salt = os.urandom(_SALT)
    mark = blake3(entry.chain, key=_chain_key(key, space)).digest()
    cipher = AESGCM(derived(key, salt, _entry_info(space)))
    about = _ABOUT.pack(entry.prev, entry.seq, entry.token, entry.machine, generation, entry.packs)
    text = cipher.encrypt(_nonce(0), entry.chain + entry.body, about)
    return structs.replace(entry, generation=generation, chain=mark, body=salt + text)


@lru_cache(maxsize=1)
def _chain_key(key: bytes, space: bytes) -> bytes:
    return derived(key, space, b"convfs chain\0")


def open_entry(keys: Keys, space: bytes, entry: Entry) -> Entry:
    """Return a sealed entry with its chain and its body as they were. DamageError; Locked if there is no key for it."""
    name = f"commit {entry.seq} of the space"
    salt, text = entry.body[:_SALT], entry.body[_SALT:]
    cipher = AESGCM(derived(_key(keys, entry.generation, name), salt, _entry_info(space)))
    try:
        opened = cipher.decrypt(_nonce(0), text, _about(entry))
    except InvalidTag:
        raise DamageError(f"{name} was changed, or belongs elsewhere: put it back from a backup of the space") from None
    return structs.replace(entry, chain=opened[:_CHAIN], body=opened[_CHAIN:])


def _about(entry: Entry) -> bytes:
    return _ABOUT.pack(entry.prev, entry.seq, entry.token, entry.machine, entry.generation, entry.packs)


def _entry_info(space: bytes) -> bytes:
    return b"convfs entry\0" + space


def _key(keys: Keys, generation: int, name: str) -> bytes:
    try:
        return keys[generation]
    except KeyError:
        raise Locked(f"{name} is sealed with key {generation} of the space, which this replica does not have") from None
