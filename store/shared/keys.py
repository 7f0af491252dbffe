"""Keys of a space: who may read it is who has them.

Each *generation* of a space has a random key of 32 bytes, with which all is sealed from then on
(``store.shared.ciphertext``). A replica keeps those that it knows in its file ``keys``, for its owner alone, beside an
X25519 key of its own, whose public half the others know. The servers have a space key only *wrapped* for one machine.

A wrapped key is ``ephemeral public key[32] | ciphertext[32] | tag[16]``: AES-256-GCM with nonce 0 and a key that is
HKDF-SHA256 of two X25519 secrets, of the ephemeral key and of the wrapping machine's own, each with the recipient's
public key, and a shared secret behind them if there is one. The salt is the space's id; the info is ``convfs wrap``, a
zero, the generation u32, and the public keys: ephemeral, of who wraps, of the recipient. So it opens for that machine
alone, and only if it was wrapped by the machine that it is said to be of, or by somebody who knew the secret: a server
cannot put a key of its own in the place of the space's.

A key that a machine gives up would still open with its X25519 key, for who kept the wrapped one. So the machine takes
another with that, and erases the former once the others know the public half of the new one.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from struct import Struct as Layout

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct, structs

from store import paths, typed
from store.disk import durable
from store.errors import DamageError
from store.shared.ciphertext import KEY_SIZE, derived

_GENERATION = Layout("<I")
_NONCE = bytes(12)


class _File(Struct, frozen=True, omit_defaults=True):
    """The contents of ``keys``: all in hex."""

    private: str
    generations: dict[int, str]
    first: int = 0
    former: str = ""


class Keyring(Struct, frozen=True):
    """The keys of one replica: its own, and those of the space by their generation.

    Those before the generation ``first`` were given up. ``former`` is the machine's own key that others may still know
    of, if there is another by now.
    """

    private: bytes
    generations: Mapping[int, bytes]
    first: int = 0
    former: bytes = b""

    def __repr__(self) -> str:
        # keys are in no log and no traceback
        return f"Keyring(generations={sorted(self.generations)})"

    @classmethod
    def new(cls, generations: Mapping[int, bytes] | None = None) -> "Keyring":
        """Return a keyring with a new key of the machine's own."""
        return cls(X25519PrivateKey.generate().private_bytes_raw(), generations or {})

    @property
    def public(self) -> bytes:
        """The public half of the machine's own key."""
        return X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    @property
    def newest(self) -> int:
        """The last generation; 0 if there is none."""
        return max(self.generations, default=0)

    def having(self, more: Mapping[int, bytes]) -> "Keyring":
        """Return the keyring with more generations, but for those that were given up."""
        generations = {**self.generations, **{one: key for one, key in more.items() if one >= self.first}}
        return structs.replace(self, generations=generations)

    def since(self, generation: int) -> "Keyring":
        """Return the keyring without the generations before ``generation``, and without the machine's former key.

        What they seal is lost with them.
        """
        kept = {one: key for one, key in self.generations.items() if one >= generation}
        return structs.replace(self, generations=kept, first=generation, former=b"")

    def renewed(self) -> "Keyring":
        """Return the keyring with another key of the machine's own, beside the one that it has."""
        return structs.replace(Keyring.new(self.generations), first=self.first, former=self.private)

    def known_as(self, public: bytes) -> "Keyring":
        """Return the keyring with that key of the machine which has this public half, if it is the former."""
        former = structs.replace(self, private=self.former) if self.former else self
        return former if self.former and former.public == public else self

    def write(self, root: Path) -> None:
        """Write the file of the replica at ``root``, readable by its owner alone; keys that it has more stay there.

        So do the machine's own, if it was given others since.
        """
        path = root / paths.KEYS
        # a command and a mount may both write
        own = path.with_name(f"{path.name}-{os.getpid()}-{threading.get_ident()}")
        there = read(root)
        made = self
        if there is not None:
            newer = there if there.first > self.first or self.private == there.former else self
            known = {**there.generations, **self.generations}
            made = structs.replace(newer, generations={one: key for one, key in known.items() if one >= newer.first})
        durable.write_whole(own, made.encoded)
        durable.replace(own, path)
        durable.sync_directory(root)

    def replace(self, root: Path) -> None:
        """Write the file of the replica at ``root`` anew, and erase from the disk the keys that it has more."""
        path = root / paths.KEYS
        fd = durable.open_file(path)
        try:
            durable.swap_contents(path, fd, [self.encoded])
        finally:
            os.close(fd)
        durable.erase_replaced(path)

    @property
    def encoded(self) -> bytes:
        """The contents of the file."""
        generations = {generation: key.hex() for generation, key in sorted(self.generations.items())}
        return msgspec.json.encode(_File(self.private.hex(), generations, self.first, self.former.hex())) + b"\n"


def new_space_key() -> bytes:
    """Return a new space key."""
    return os.urandom(KEY_SIZE)


def read(root: Path) -> Keyring | None:
    """Return the keyring of the replica at ``root``; None if it has none. DamageError if it cannot be read."""
    path = root / paths.KEYS
    try:
        found = typed.decode(path.read_bytes(), _File)
        keys = {generation: bytes.fromhex(key) for generation, key in found.generations.items()}
        keyring = Keyring(bytes.fromhex(found.private), keys, found.first, bytes.fromhex(found.former))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DamageError(f"{path}: the keys of this replica cannot be read: {error}") from None
    if any(len(key) != KEY_SIZE for key in (keyring.private, *keys.values())):
        raise DamageError(f"{path}: a key there has not {KEY_SIZE} bytes: put the file back from a backup")
    return keyring


def wrap(key: bytes, generation: int, space: bytes, own: Keyring, recipient: bytes, secret: bytes = b"") -> bytes:
    """Return a space key as only who has the public key ``recipient``, and knows the secret, can unwrap it.

    DamageError if ``recipient`` is no public key.
    """
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes_raw()
    try:
        to = X25519PublicKey.from_public_bytes(recipient)
        shared = ephemeral.exchange(to) + X25519PrivateKey.from_private_bytes(own.private).exchange(to)
    except ValueError:
        raise DamageError("the public key of a machine makes no sense") from None
    cipher = _wrapping(shared + secret, generation, space, public + own.public + recipient)
    return public + cipher.encrypt(_NONCE, key, None)


def unwrap(wrapped: bytes, generation: int, space: bytes, own: Keyring, sender: bytes, secret: bytes = b"") -> bytes:
    """Return the space key that the machine of the public key ``sender`` has wrapped for this one. DamageError."""
    public, text = wrapped[:KEY_SIZE], wrapped[KEY_SIZE:]
    private = X25519PrivateKey.from_private_bytes(own.private)
    try:
        shared = b"".join(private.exchange(X25519PublicKey.from_public_bytes(one)) for one in (public, sender))
        cipher = _wrapping(shared + secret, generation, space, public + sender + own.public)
        return cipher.decrypt(_NONCE, text, None)
    except (ValueError, InvalidTag):
        raise DamageError(f"key {generation} of the space was not wrapped for this machine, or changed since") from None


def _wrapping(secret: bytes, generation: int, space: bytes, publics: bytes) -> AESGCM:
    return AESGCM(derived(secret, space, b"convfs wrap\0" + _GENERATION.pack(generation) + publics))
