"""Names of outputs: ``<n>.<tool>.log`` and ``<index>-<name>.md``, nested ``0-Parent.1-Child.md``.

Numbers continue from the highest, from 0 if there is none; tools, agents and each agent's own agents are counted
separately.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import PurePath

import msgspec
from msgspec import Struct

from store import typed
from store.content.resolver import Resolver
from store.errors import Conflict, ConvfsError, UsageError
from store.events.conversation import AGENTS, ARTIFACTS, SORTS, Conversation, Outputs
from store.ids import HASH_SIZE, Hash
from store.index.catalogue import ContextEntry
from store.visible import UNSEEN

_ARTIFACT = re.compile(r"(?P<parent>)(?P<number>[0-9]{1,9})\.[^/\0]+")
_AGENT = re.compile(r"(?:(?P<parent>[^/\0]+)\.)?(?P<number>[0-9]{1,9})-[^/\0]+")
_ASKED = re.compile(r"\w.*(?<!~)", re.DOTALL)
_UNFIT = re.compile(rf"[/\s{UNSEEN}\ud800-\udfff]")
_LONGEST = 160


def is_name(outputs: Outputs, name: str) -> bool:
    """Return whether an output can be listed under ``name``."""
    return _parsed(outputs, name) is not None


def may_name(name: str) -> bool:
    """Return whether a file of that name is meant to be an output, not a program's own (``.x.swp``, ``x~``)."""
    return _ASKED.fullmatch(name) is not None


def identity(outputs: Outputs, name: str) -> str:
    """Return the id of an output in URLs: ``0`` of ``0.make.log``, ``0-Explore`` of ``0-Explore.md``."""
    if outputs is ARTIFACTS:
        found = _ARTIFACT.fullmatch(name)
        return found["number"] if found and name.endswith(outputs.ending) else name
    return name.removesuffix(outputs.ending)


def above(outputs: Outputs, name: str) -> list[str]:
    """Return the names of the agents that an agent was started by: the one that a person started is the first."""
    found, names = _parsed(outputs, name), list[str]()
    while found is not None and found["parent"]:
        names.insert(0, found["parent"] + outputs.ending)
        found = _parsed(outputs, names[0])
    return names


def listed_name(outputs: Outputs, asked: str, taken: Iterable[str], *, parent: str = "") -> str:
    """Return the listed name of a new output ``asked``: with its number and an ending.

    A name with a free number keeps it. ``parent`` is the id of the agent that started it; ``0-Parent.Child`` means the
    same if there is such an agent. Raises Conflict for a number in use, UsageError for an invalid name.
    """
    taken = set(taken)
    if is_name(outputs, asked) and not parent:
        if any(_number(outputs, other) == _number(outputs, asked) for other in taken):
            raise Conflict(f"{outputs.directory}/{asked}: the number is taken: leave it out to have the next")
        return asked
    word = asked.removesuffix(outputs.ending)
    if outputs is AGENTS and not parent:
        above, dot, below = word.rpartition(".")
        if dot and below and above + outputs.ending in taken:
            parent, word = above, below
    word = _UNFIT.sub("_", word.strip())
    if not may_name(word) or len(word.encode()) > _LONGEST:
        raise UsageError(f"{asked!r} is no name for an output: a word, of {_LONGEST} bytes at most")
    number = _next(outputs, taken, parent)
    if outputs is ARTIFACTS:
        return f"{number}.{word}{outputs.ending}"
    return f"{parent}{'.' if parent else ''}{number}-{word}{outputs.ending}"


def free_name(outputs: Outputs, name: str, taken: Set[str]) -> str:
    """Return the name of an output if its number is free, else the name with the next number."""
    number = _number(outputs, name)
    if number is None or all(_number(outputs, other) != number for other in taken):
        return name
    found = _parsed(outputs, name)
    assert found is not None
    return f"{name[: found.start('number')]}{_next(outputs, taken, number[0])}{name[found.end('number') :]}"


def _next(outputs: Outputs, taken: Set[str], parent: str) -> int:
    return max((found[1] for name in taken if (found := _number(outputs, name)) and found[0] == parent), default=-1) + 1


def _number(outputs: Outputs, name: str) -> tuple[str, int] | None:
    """Return the number of an output, after the id of the agent that it is counted under ("" for none)."""
    found = _parsed(outputs, name)
    return (found["parent"] or "", int(found["number"])) if found else None


def _parsed(outputs: Outputs, name: str) -> re.Match[str] | None:
    if not name.endswith(outputs.ending):
        return None
    return (_ARTIFACT if outputs is ARTIFACTS else _AGENT).fullmatch(name.removesuffix(outputs.ending))


log = logging.getLogger(__name__)

_TOOL_RESULTS = "tool-results"
"""The directory beside a session in which Claude Code keeps outputs that were too long for a line."""


class Output(Struct, frozen=True):
    """One output: its name, its size in bytes, when it was last written (Unix nanoseconds), and its blob.

    ``blob`` is None while it is being written. An ``imported`` one belongs to a session, and stays there.
    """

    name: str
    size: int
    modified_ns: int
    blob: Hash | None = None
    imported: bool = False


Described = ContextEntry | Conversation


class _Named(Struct, frozen=True):
    blob: str
    size: int
    modified_ns: int = 0


def kept_outputs(blobs: Resolver, conversation: Described, outputs: Outputs) -> dict[str, Output]:
    """Return the outputs of a conversation that are whole, by their names; one that makes no sense is left out."""
    metadata = conversation.metadata
    # of two of one name, the first
    beside = dict(reversed([*_beside(conversation, outputs)]))
    found = {name: _imported(blobs, conversation, name, blob) for name, blob in beside.items()}
    for key, value in metadata.items():
        if key.startswith(outputs.key) and (output := _named(key.removeprefix(outputs.key), value)) is not None:
            found[output.name] = output
    return found


def kept_output(blobs: Resolver, conversation: Described, outputs: Outputs, name: str) -> Output | None:
    """Return one of them."""
    value = conversation.metadata.get(outputs.key + name)
    if value is not None and (output := _named(name, value)) is not None:
        return output
    beside = (blob for named, blob in _beside(conversation, outputs, name) if named == name)
    blob = next(beside, None)
    return None if blob is None else _imported(blobs, conversation, name, blob)


def has_outputs(conversation: Described, outputs: Outputs) -> bool:
    """Return whether a conversation has any."""
    named = any(key.startswith(outputs.key) for key in conversation.metadata)
    return named or next(_beside(conversation, outputs), None) is not None


def files_beside(metadata: Mapping[str, object], sidecars: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the files to export beside a session: blobs, in hex, by path.

    These are its ``sidecars``, with rewritten outputs as they are now. ``folder`` is where the tool looks for outputs
    ("": nowhere): it gets all of them, including those that were not imported with the session.
    """
    written = {
        (outputs, output.name): output.blob.hex()
        for outputs in SORTS
        for key, value in metadata.items()
        if key.startswith(outputs.key) and (output := _named(key.removeprefix(outputs.key), value)) and output.blob
    }
    files: dict[str, str] = {}
    for path, digest in sidecars.items():
        name = PurePath(path).name
        sort = next((outputs for outputs in SORTS if _is_beside(PurePath(path), outputs)), None)
        if sort is None:
            files[path] = digest
        else:
            is_there = folder and len(PurePath(path).parts) == 2
            files[f"{folder}/{name}" if is_there else path] = written.pop((sort, name), digest)
    return files | {f"{folder}/{name}": digest for (_sort, name), digest in written.items() if folder}


def _named(name: str, value: object) -> Output | None:
    try:
        said = typed.convert(value, _Named)
        digest = Hash(bytes.fromhex(said.blob))
    except (msgspec.ValidationError, ValueError):
        return None
    return Output(name, said.size, said.modified_ns, digest) if len(digest) == HASH_SIZE and "/" not in name else None


def _imported(blobs: Resolver, conversation: Described, name: str, digest: Hash) -> Output:
    try:
        size = blobs.size(digest)
    except ConvfsError as error:
        # the other outputs can still be read; reading this one reports the error
        log.warning("%s, which came beside a session: %s", name, error)
        size = 0
    return Output(name, size, conversation.updated_ms * 1_000_000, digest, True)


def _beside(conversation: Described, outputs: Outputs, ending: str = "") -> Iterator[tuple[str, Hash]]:
    """Yield the outputs of an imported session, by name; only those whose paths have an ``ending``."""
    sidecars = conversation.metadata.get("sidecars")
    for path, digest in sidecars.items() if isinstance(sidecars, Mapping) else ():
        # there may be very many, and one is asked for at a time
        if path.endswith(ending) and _is_beside(PurePath(path), outputs):
            with suppress(TypeError, ValueError):
                yield PurePath(path).name, Hash(bytes.fromhex(digest))


def _is_beside(path: PurePath, outputs: Outputs) -> bool:
    """Return whether a file beside a session is an output, by its place."""
    in_results = path.parent.name == _TOOL_RESULTS
    if outputs is ARTIFACTS:
        return in_results or is_name(outputs, path.name)
    return path.suffix == outputs.ending and not in_results and len(path.parts) == 2
