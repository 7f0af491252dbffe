"""URLs within a store: ``artifact://0``, ``agent://0-Explore``, ``blob:sha256:…``, ``blob:blake3:…``, ``blob:…``."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from store.artifacts.artifacts import Artifacts, pieces
from store.artifacts.names import Output, has_outputs, identity
from store.content.resolver import Reader
from store.conversations.library import Library
from store.errors import NotFound, TooLarge, UsageError
from store.events.conversation import AGENTS, ARTIFACTS, SORTS, Outputs
from store.ids import HASH_SIZE

PathStep: TypeAlias = str | int

_STEP = re.compile(r'\.?([^.\[\]"]+)|\[([0-9]+)\]|\.?\["((?:[^"\\]|\\.)*)"\]')
_MOST_NAMED = 20


def parse_query(query: str) -> list[PathStep]:
    """Return the steps of a dotted path with ``[n]`` and ``["a.b"]``. UsageError tells the place of a mistake."""
    steps: list[PathStep] = []
    at = 0
    while at < len(query):
        found = _STEP.match(query, at)
        if found is None:
            raise UsageError(
                f"?q={query} makes no sense at {query[at:]!r}: write a dotted path with [n], as in findings[0].title"
            )
        key, index, quoted = found.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(key if key is not None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return steps


def extract(document: bytes, steps: Sequence[PathStep], what: str) -> bytes:
    """Return the value at the end of a path, as pretty JSON with a newline.

    A step that is a number, or looks like one, is a place in an array. Raises UsageError for a body that is not JSON,
    and NotFound for a path that leads nowhere, with the last valid place; ``what`` names the body.
    """
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON ({error}), so nothing can be extracted from it: read it whole") from None
    come = ""
    for step in steps:
        match value:
            case dict() if str(step) in value:
                value = value[str(step)]
            case list() if str(step).isdecimal() and int(step) < len(value):
                value = value[int(step)]
            case _:
                raise NotFound(f"{what} has no {_spelled(come, step)}: {_there(come, value)}")
        come = _spelled(come, step)
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _spelled(come: str, step: PathStep) -> str:
    if isinstance(step, int):
        return f"{come}[{step}]"
    return f"{come}.{step}" if come else step


def _there(come: str, value: object) -> str:
    where = come or "it"
    match value:
        case dict():
            keys = list(value)
            more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
            return f"{where} has {', '.join(map(str, keys[:_MOST_NAMED])) or 'nothing'}{more}"
        case list():
            return f"{where} is an array of {len(value)}"
    return f"{where} is {'null' if value is None else 'no object and no array'}"


_URL = re.compile(r"(artifact|agent)://([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)
_BLOB = re.compile(r"blob:(?:(sha256|blake3):)?([0-9a-fA-F]*)", re.IGNORECASE)
_LARGEST_DOCUMENT = 64 << 20


class Address(Struct, frozen=True):
    """A parsed URL: an output by its id, with ``steps`` into its JSON (None: all of it), or content by its digest.

    ``algorithm`` is ``blake3`` or ``sha256``, or "" for either.
    """

    url: str
    outputs: Outputs | None = None
    id: str = ""
    steps: list[PathStep] | None = None
    algorithm: str = ""
    digest: bytes = b""

    @property
    def local(self) -> bool:
        return self.outputs is not None


def parse_url(url: str) -> Address:
    """Parse a URL. Raises UsageError with its mistake."""
    if found := _BLOB.fullmatch(url):
        if len(found[2]) != 2 * HASH_SIZE:
            raise UsageError(f"{url}: the hash has {len(found[2])} hexadecimal digits: {2 * HASH_SIZE} are needed")
        return Address(url, algorithm=(found[1] or "").lower(), digest=bytes.fromhex(found[2]))
    found = _URL.fullmatch(url)
    if found is None:
        known = "artifact://ID, agent://ID, blob:sha256:HEX, blob:blake3:HEX or blob:HEX"
        raise UsageError(f"{url} leads to nothing: {known} does")
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
    steps = list[PathStep](path) if path else parse_query(query) if query else None
    return Address(url, outputs, name, steps)


def _query(text: str) -> str:
    """Return the value of ``q`` in the query of a URL; a plus sign stays one."""
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if key == "q":
            return unquote(value)
    return ""


class Urls:
    """The URLs of one store. ``find`` returns the content of a digest, None where the store does not have it."""

    def __init__(self, library: Library, artifacts: Artifacts, find: Callable[[str, bytes], Reader | None]) -> None:
        self._catalogue = library.catalogue
        self._artifacts = artifacts
        self._find = find

    def holders(self, address: Address) -> list[int]:
        """Return the conversations that have the output which a URL names."""
        outputs = address.outputs
        if outputs is None:
            return []
        growing = {context for context, sort, _name in self._artifacts.left() if sort == outputs}
        return [
            entry.id
            for entry in self._catalogue.every()
            if entry.name
            and (entry.id in growing or has_outputs(entry, outputs))
            and _find(address, outputs, self._artifacts.listed(entry.id, outputs)) is not None
        ]

    def read(self, address: Address, context: int = 0, *, offset: int = 0, limit: int = 0) -> Iterator[bytes]:
        """Yield the content of a URL, in pieces; within conversation ``context``, if it is the URL of an output.

        Starts at line ``offset`` (1 is the first) and yields ``limit`` lines; 0: all. Raises UsageError for an invalid
        URL, and NotFound for a missing content, with the contents that exist.
        """
        if offset < 0 or limit < 0:
            raise UsageError("lines are counted from 1, and a limit is a number of them")
        if address.steps is not None:
            if offset or limit:
                raise UsageError(f"{address.url} takes a part of the JSON: --offset and --limit go without")
            return iter((self._extract(address, context, address.steps),))
        if (outputs := address.outputs) is None:
            found = self._find(address.algorithm, address.digest)
            if found is None:
                told = "this store has no such content, and what refers to it goes on to"
                raise NotFound(f"{address.url} is missing: {told}")
            reader = found
        else:
            output = self._output(address, outputs, context)
            try:
                reader = self._artifacts.reader(context, outputs, output)
            except NotFound as error:
                what = f"{outputs.directory}/{output.name}, whose content is missing"
                raise NotFound(f"{address.url} is {what}: {error}") from None
        content = pieces(reader.read)
        return _lines(content, max(offset, 1), limit, address.url) if offset or limit else content

    def _extract(self, address: Address, context: int, steps: list[PathStep]) -> bytes:
        assert address.outputs is not None
        output = self._output(address, address.outputs, context)
        if output.size > _LARGEST_DOCUMENT:
            raise TooLarge(f"{address.url} has {output.size} bytes: nothing is extracted from more than 64 MiB")
        reader = self._artifacts.reader(context, address.outputs, output)
        return extract(b"".join(pieces(reader.read)), steps, f"{address.outputs.scheme}://{address.id}")

    def _output(self, address: Address, outputs: Outputs, context: int) -> Output:
        listed = self._artifacts.listed(context, outputs)
        found = _find(address, outputs, listed)
        if found is not None:
            return found
        entry = self._catalogue.entry(context)
        where = f"{entry.project}/{entry.name}"
        if not listed and not self._artifacts.listed(context, AGENTS if outputs is ARTIFACTS else ARTIFACTS):
            raise NotFound(f"{address.url}: no artifacts directory: nothing was kept beside {where}")
        ids = ", ".join(sorted((identity(outputs, name) for name in listed), key=_by_number))
        raise NotFound(f"{address.url} not found in {where}: there {f'is {ids}' if ids else 'are none'}")


def _find(address: Address, outputs: Outputs, listed: dict[str, Output]) -> Output | None:
    if outputs is ARTIFACTS:
        number = int(address.id)
        matching = [name for name in listed if (known := identity(outputs, name)).isdecimal() and int(known) == number]
        return listed[min(matching)] if matching else None
    return listed.get(address.id + outputs.ending)


def _by_number(one: str) -> tuple[int, str]:
    number = re.match(r"[0-9]+", one)
    return (int(number[0]) if number else 1 << 62, one)


def _lines(content: Iterator[bytes], offset: int, limit: int, url: str) -> Iterator[bytes]:
    """Yield ``limit`` lines (0: all) from line ``offset`` on; raises NotFound first if there are fewer."""
    skip = offset - 1
    left = limit
    ended, found = True, False
    for piece in content:
        start = 0
        while skip and (end := piece.find(b"\n", start)) >= 0:
            start, skip = end + 1, skip - 1
        ended = piece.endswith(b"\n")
        if skip or start == len(piece):
            continue
        found, end = True, start
        while left and (after := piece.find(b"\n", end) + 1):
            end, left = after, left - 1
        if limit and not left:
            yield piece[start:end]
            return
        yield piece[start:]
    lines = offset - 1 - skip + (not ended)
    if not found and offset > max(lines, 1):
        raise NotFound(f"{url} has {lines} lines: there is no line {offset}")
