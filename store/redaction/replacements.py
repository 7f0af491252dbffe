"""What takes the places of blobs that hold secrets: made when it is asked for, and written to the packs.

A payload that is text has a mark where a secret was. Whatever else there is keeps its length: of an artifact, the
metadata says how long it is, and in what is no text, lengths and offsets stand that nobody here knows of.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from store.commit.load import Load
from store.content.compression import MAX_BODY_BYTES
from store.content.resolver import Resolver
from store.content.text import is_text
from store.disk.turn_format import NO_PAYLOAD
from store.errors import DamageError, NotFound
from store.ids import Hash
from store.redaction import containers
from store.redaction.names import renamed
from store.redaction.secrets import Secrets

_AT_ONCE = 4 << 20


class Replacements:
    """New blobs by the old ones that they take the places of. For one thread.

    ``held`` are the old ones, ``payloads`` those of them that turns have; ``secrets`` says what is to be removed from a
    blob. ``aliases`` are (algorithm, blob) by other digests, ``originals`` what may hold it compressed, or in pieces.
    What is too large for memory, or for a program that reads files, goes through ``scratch``.
    """

    def __init__(
        self,
        resolver: Resolver,
        load: Load,
        held: Collection[Hash],
        payloads: Collection[Hash],
        secrets: Callable[[Hash], Secrets],
        aliases: Mapping[bytes, tuple[str, Hash]],
        originals: Collection[Hash],
        scratch: Path,
    ) -> None:
        self.damaged: list[str] = []
        """What could not be read, a line each: nobody can any more."""
        self._held = held
        self._resolver = resolver
        self._load = load
        self._secrets = secrets
        self._payloads = payloads
        self._aliases = aliases
        self._originals = originals
        self._scratch = scratch
        self._made: dict[Hash, Hash] = {}

    @property
    def made(self) -> Mapping[Hash, Hash]:
        """All that were made, by the old ones."""
        return self._made

    def new(self, digest: Hash) -> Hash | None:
        """Return what takes the place of a blob, None if it stays. It can be read after :meth:`sync`."""
        if digest not in self._held:
            return None
        made = self._made.get(digest)
        if made is None:
            try:
                made = self._made[digest] = self._make(digest)
            except (NotFound, DamageError) as error:
                made = self._made[digest] = NO_PAYLOAD
                self.damaged.append(str(error))
        return made

    def sync(self) -> None:
        """Bring the new ones to disk; they can be read then."""
        self._load.sync()

    def name(self, digest: bytes) -> bytes | None:
        """As :meth:`new`, also for digests of other algorithms that a blob is known by."""
        if digest in self._held:
            return self.new(Hash(digest))
        alias = self._aliases.get(digest)
        if alias is None:
            return None
        new = self.new(alias[1])
        return None if new is None else self.digest(alias[0], new)

    def digest(self, algorithm: str, digest: Hash) -> bytes | None:
        """Return the digest of a blob by another algorithm, None where that is not known here."""
        if algorithm not in hashlib.algorithms_available:
            return None
        whole = hashlib.new(algorithm, usedforsecurity=False)
        for piece in self._pieces(digest):
            whole.update(piece)
        return whole.digest()

    def size(self, digest: Hash) -> int:
        """Return the size of a blob, which may be a new one."""
        self.sync()
        return self._resolver.size(digest)

    def _pieces(self, digest: Hash) -> Iterable[bytes]:
        # it may be a new one
        self.sync()
        return self._resolver.pieces(digest)

    def _make(self, digest: Hash) -> Hash:
        secrets = self._secrets(digest)
        if self._resolver.size(digest) > MAX_BODY_BYTES // 2 and digest not in self._originals:
            return self._load.stream(blanked(self._resolver.pieces(digest), secrets))[0]
        data = self._resolver.blob(digest)
        if digest not in self._payloads and (digest in self._originals or containers.is_one(data)):
            return self._load.blob(containers.clean(data, secrets, self._scratch))
        if digest not in self._payloads:
            return self._load.blob(renamed(secrets.blanked(data), self.name))
        data = self._with_other_contents(digest, data, secrets)
        data = secrets.removed(data) if is_text(data) else secrets.blanked(data)
        return self._load.payloads([renamed(data, self.name)])[0]

    def _with_other_contents(self, digest: Hash, payload: bytes, secrets: Secrets) -> bytes:
        """Return a payload with clean contents where it has any in base64: there, not all that they hold is found."""
        for content in self._resolver.references([digest])[digest]:
            if content in self._held:
                held = self._resolver.blob(content)
                inside = containers.is_one(held) and containers.clean(held, secrets, self._scratch)
                payload = payload.replace(b64encode(held), b64encode(inside or secrets.blanked(held)))
        return payload


def blanked(pieces: Iterable[bytes], secrets: Secrets) -> Iterator[bytes]:
    """Yield what comes in pieces without secrets, as long as it was; some MB of it are held."""
    held = b""
    for piece in pieces:
        held += piece
        if len(held) < _AT_ONCE:
            continue
        done = len(held) - secrets.reach
        # what begins before the end of this part is all in it, or waits for the next one
        clean = secrets.blanked(held)
        yield clean[:done]
        held = clean[done:]
    yield secrets.blanked(held)
