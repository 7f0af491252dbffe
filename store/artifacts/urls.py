"""URLs within a store: ``artifact://0``, ``agent://0-Explore``, ``blob:sha256:…``, ``blob:blake3:…``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct

from store.artifacts.artifacts import Artifacts
from store.artifacts.extraction import Step, extract, parse_query
from store.artifacts.kept import Output, has_outputs
from store.artifacts.names import identity
from store.content.reader import Reader
from store.errors import NotFound, TooLarge, UsageError
from store.events.outputs import AGENTS, ARTIFACTS, SORTS, Outputs
from store.ids import HASH_SIZE, Hash
from store.store import Store

_URL = re.compile(r"(artifact|agent)://([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_BLOB = re.compile(r"blob:(sha256|blake3):([0-9a-fA-F]*)", re.IGNORECASE)
_LARGEST_DOCUMENT = 64 << 20
_READ_AT_ONCE = 1 << 20


class Address(Struct, frozen=True):
    """What a URL asks for: an output by its id, or a blob by its digest in an algorithm.

    ``steps`` lead into the JSON of an output, None if no part of it is asked for.
    """

    url: str
    outputs: Outputs | None = None
    id: str = ""
    steps: list[Step] | None = None
    algorithm: str = ""
    digest: bytes = b""

    @property
    def local(self) -> bool:
        """Whether it means something within a conversation only."""
        return self.outputs is not None


def parse_url(url: str) -> Address:
    """Take a URL apart. Raises UsageError, saying what is wrong with it."""
    if found := _BLOB.fullmatch(url):
        if len(found[2]) != 2 * HASH_SIZE:
            raise UsageError(f"{url}: the hash has {len(found[2])} hexadecimal digits: {2 * HASH_SIZE} are needed")
        return Address(url, algorithm=found[1].lower(), digest=bytes.fromhex(found[2]))
    found = _URL.fullmatch(url)
    if found is None:
        raise UsageError(f"{url} leads to nothing: artifact://ID, agent://ID, blob:sha256:HEX or blob:blake3:HEX does")
    outputs = next(outputs for outputs in SORTS if outputs.scheme == found[1].lower())
    name = unquote(found[2])
    path = [unquote(part) for part in (found[3] or "").split("/") if part]
    query = _query(found[4] or "")
    if not name:
        raise UsageError(f"{url} names nothing: {outputs.scheme}://ID")
    if outputs is ARTIFACTS:
        if not (name.isdecimal() and name.isascii()):
            raise UsageError(f"{url}: ids of artifacts are numbers, as in artifact://0")
        if path or query:
            raise UsageError(f"{url}: parts can be taken of agent:// alone: read an artifact by --offset and --limit")
    if path and query:
        raise UsageError(f"{url} has both a path and ?q=: use one of them")
    steps = list[Step](path) if path else parse_query(query) if query else None
    return Address(url, outputs, name, steps)


def _query(text: str) -> str:
    """Return what ``q`` is in the query of a URL; a plus sign is one."""
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if key == "q":
            return unquote(value)
    return ""


class Urls:
    """Looks up what URLs lead to in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._artifacts = Artifacts(store)

    def holders(self, address: Address) -> list[int]:
        """Return the conversations that have the output which a URL names."""
        outputs = address.outputs
        if outputs is None:
            return []
        growing = {context for context, sort, _name in self._artifacts.left() if sort == outputs}
        return [
            entry.id
            for entry in self._store.entries()
            if entry.name
            and (entry.id in growing or has_outputs(entry, outputs))
            and _find(address, outputs, self._artifacts.listed(entry.id, outputs)) is not None
        ]

    def read(self, address: Address, context: int = 0, *, offset: int = 0, limit: int = 0) -> Iterator[bytes]:
        """Yield what a URL leads to, in pieces; within conversation ``context``, if it is the URL of an output.

        From line ``offset`` on (1 is the first), and ``limit`` lines of it; 0: all. Raises UsageError for what cannot
        be asked for and NotFound for what is not there, saying what is.
        """
        if offset < 0 or limit < 0:
            raise UsageError("lines are counted from 1, and a limit is a number of them")
        if address.steps is not None:
            if offset or limit:
                raise UsageError(f"{address.url} takes a part of the JSON: --offset and --limit go without")
            return iter((self._extract(address, context, address.steps),))
        reader = self._blob(address) if address.outputs is None else self._reader(address, address.outputs, context)
        pieces = _pieces(reader)
        return _lines(pieces, max(offset, 1), limit, address.url) if offset or limit else pieces

    def _extract(self, address: Address, context: int, steps: list[Step]) -> bytes:
        assert address.outputs is not None
        output = self._output(address, address.outputs, context)
        if output.size > _LARGEST_DOCUMENT:
            raise TooLarge(f"{address.url} has {output.size} bytes: nothing is extracted from more than 64 MiB")
        reader = self._artifacts.reader(context, address.outputs, output)
        return extract(b"".join(_pieces(reader)), steps, f"{address.outputs.scheme}://{address.id}")

    def _reader(self, address: Address, outputs: Outputs, context: int) -> Reader:
        output = self._output(address, outputs, context)
        try:
            return self._artifacts.reader(context, outputs, output)
        except NotFound as error:
            raise NotFound(
                f"{address.url} is {outputs.directory}/{output.name}, whose content is missing: {error}"
            ) from None

    def _output(self, address: Address, outputs: Outputs, context: int) -> Output:
        listed = self._artifacts.listed(context, outputs)
        found = _find(address, outputs, listed)
        if found is not None:
            return found
        entry = self._store.entry(context)
        where = f"{entry.project}/{entry.name}"
        if not listed and not self._artifacts.listed(context, AGENTS if outputs is ARTIFACTS else ARTIFACTS):
            raise NotFound(f"{address.url}: no artifacts directory: nothing was kept beside {where}")
        ids = ", ".join(sorted((identity(outputs, name) for name in listed), key=_by_number))
        raise NotFound(f"{address.url} not found in {where}: there {f'is {ids}' if ids else 'are none'}")

    def _blob(self, address: Address) -> Reader:
        digest: Hash | None = Hash(address.digest)
        if address.algorithm != "blake3":
            digest = self._store.alias(address.algorithm, address.digest)
        if digest is not None:
            try:
                return self._store.blob_reader(digest)
            except NotFound:
                pass
        raise NotFound(f"{address.url} is missing: this store has no such content, and what refers to it goes on to")


def _find(address: Address, outputs: Outputs, listed: dict[str, Output]) -> Output | None:
    if outputs is ARTIFACTS:
        number = int(address.id)
        matching = [name for name in listed if (known := identity(outputs, name)).isdecimal() and int(known) == number]
        return listed[min(matching)] if matching else None
    return listed.get(address.id + outputs.ending)


def _by_number(one: str) -> tuple[int, str]:
    number = re.match(r"[0-9]+", one)
    return (int(number[0]) if number else 1 << 62, one)


def _pieces(reader: Reader) -> Iterator[bytes]:
    offset = 0
    while piece := reader.read(offset, _READ_AT_ONCE):
        offset += len(piece)
        yield piece


def _lines(pieces: Iterator[bytes], offset: int, limit: int, url: str) -> Iterator[bytes]:
    """Yield ``limit`` lines (0: all) from line ``offset`` on; NotFound, before anything, if there are not so many."""
    skip = offset - 1
    ended = True
    for piece in pieces:
        start = 0
        while skip and (end := piece.find(b"\n", start)) >= 0:
            start, skip = end + 1, skip - 1
        ended = piece.endswith(b"\n")
        if not skip and start < len(piece):
            yield from _first(limit, piece[start:], pieces)
            return
    lines = offset - 1 - skip + (not ended)
    if offset > max(lines, 1):
        raise NotFound(f"{url} has {lines} lines: there is no line {offset}")


def _first(limit: int, piece: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the first ``limit`` lines of a piece and those that follow it."""
    left = limit
    while True:
        if limit:
            end = 0
            while left and (found := piece.find(b"\n", end) + 1):
                end, left = found, left - 1
            if not left:
                yield piece[:end]
                return
        yield piece
        following = next(pieces, None)
        if following is None:
            return
        piece = following
