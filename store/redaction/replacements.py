"""Replacements of blobs that hold secrets, made on demand and written to the packs.

A payload that is text has a mark in place of a secret. Everything else keeps its length: the metadata has the length of
an artifact, and binary data contains lengths and offsets that are unknown here.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from store.content.compression import MAX_BODY_BYTES
from store.content.cuts import is_text
from store.disk.turn_format import NO_PAYLOAD
from store.errors import DamageError, NotFound
from store.ids import Hash
from store.paths import SCRATCH
from store.redaction import containers
from store.redaction.secrets import Secrets
from store.redaction.survey import kept_files, renamed
from store.store import Store

_AT_ONCE = 4 << 20


class Replacements:
    """New blobs by the old ones that they replace. For one thread.

    ``held`` are the old ones, ``payloads`` those of them that are payloads of turns; ``secrets`` returns the secrets to
    remove from a blob. ``aliases`` are (algorithm, blob) by other digests, ``originals`` the archives and databases, as
    of :func:`store.redaction.containers.originals`. Data that a program must read as a file goes through the scratch
    directory.
    """

    def __init__(
        self,
        store: Store,
        held: Collection[Hash],
        payloads: Collection[Hash],
        secrets: Callable[[Hash], Secrets],
        aliases: Mapping[bytes, tuple[str, Hash]],
        originals: Sequence[Mapping[str, Hash]],
    ) -> None:
        self.damaged: list[str] = []
        """The blobs that could not be read, one line each: they are removed."""
        self._held = held
        self._resolver = store.blobs
        self._load = store.intake.load()
        self._secrets = secrets
        self._payloads = payloads
        self._aliases = aliases
        self._beside = {kept[""]: kept for kept in originals}
        self._merged = {digest for kept in originals for end, digest in kept.items() if end} - self._beside.keys()
        self._scratch = store.root / SCRATCH
        self.made: dict[Hash, Hash] = {}
        """All new blobs, by the old ones."""

    def new(self, digest: Hash) -> Hash | None:
        """Return the replacement of a blob, None if it stays. It can be read after :meth:`sync`."""
        if digest not in self._held:
            return None
        made = self.made.get(digest)
        if made is None:
            try:
                made = self.made[digest] = self._make(digest)
            except (NotFound, DamageError) as error:
                made = self.made[digest] = NO_PAYLOAD
                self.damaged.append(str(error))
        return made

    def sync(self) -> None:
        self._load.sync()

    def name(self, digest: bytes) -> bytes | None:
        """Return the replacement like :meth:`new`, also for digests of other algorithms."""
        if digest in self._held:
            return self.new(Hash(digest))
        alias = self._aliases.get(digest)
        if alias is None:
            return None
        new = self.new(alias[1])
        return None if new is None else self.digest(alias[0], new)

    def digest(self, algorithm: str, digest: Hash) -> bytes | None:
        """Return the digest of a blob by another algorithm, None if it is unknown."""
        if algorithm not in hashlib.algorithms_available:
            return None
        whole = hashlib.new(algorithm, usedforsecurity=False)
        self.sync()
        for piece in self._resolver.pieces(digest):
            whole.update(piece)
        return whole.digest()

    def size(self, digest: Hash) -> int:
        """Return the size of a blob, which may be a new one."""
        self.sync()
        return self._resolver.size(digest)

    def _make(self, digest: Hash) -> Hash:
        secrets = self._secrets(digest)
        if self._resolver.size(digest) > MAX_BODY_BYTES // 2 and digest not in self._beside:
            return self._load.stream(blanked(self._resolver.pieces(digest), secrets))[0]
        if digest in self._merged:
            # the database itself has what it held
            return self._load.blob(b"")
        data, beside = kept_files(self._resolver, self._beside.get(digest, {"": digest}))
        if digest not in self._payloads and (digest in self._beside or containers.is_one(data)):
            cleaned = containers.clean(data, secrets, self._scratch, beside)
            if data and not cleaned:
                self.damaged.append(f"blob {digest.hex()}: it cannot be rewritten without the secret, so it is removed")
            return self._load.blob(cleaned)
        if digest not in self._payloads:
            return self._load.blob(renamed(secrets.blanked(data), self.name))
        data = self._with_other_contents(digest, data, secrets)
        data = secrets.removed(data) if is_text(data) else secrets.blanked(data)
        return self._load.payloads([renamed(data, self.name)])[0]

    def _with_other_contents(self, digest: Hash, payload: bytes, secrets: Secrets) -> bytes:
        """Return a payload with clean contents in base64, where a search does not find everything in them."""
        for content in self._resolver.references([digest]).get(digest, ()):
            if content in self._held:
                held = self._resolver.blob(content)
                inside = containers.is_one(held) and containers.clean(held, secrets, self._scratch)
                payload = payload.replace(b64encode(held), b64encode(inside or secrets.blanked(held)))
        return payload


def blanked(pieces: Iterable[bytes], secrets: Secrets) -> Iterator[bytes]:
    """Yield pieces without secrets, at the same total length; some MB are held."""
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
