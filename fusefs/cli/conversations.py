"""CONV on the command line: ``PROJECT/NAME``, an id, or a path in a mount."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fusefs.cli.backend import Backend, reach, store_root
from fusefs.cli.mounts import convfs_above, root_of
from fusefs.mount_table import Mount
from store.errors import NotFound, UsageError
from store.service.operations import FIND, ConversationLine, FindParams

_VERSION = re.compile(r"(?:^|/)\.versions/0*([1-9][0-9]{0,17})-")
_AT = re.compile(r"(.+)@0*([1-9][0-9]{0,17})", re.DOTALL)


@contextmanager
def located(store: Path | None, text: str) -> Iterator[tuple[Backend, ConversationLine]]:
    """Find the conversation that ``text`` stands for, and reach the store that holds it.

    Where ``text`` is a path in a mount, that mount's store is meant unless another one was chosen. Raises NotFound, or
    UsageError where a bare name is not unique.
    """
    name, root = _meant(store, text)
    with reach(root) as backend:
        yield backend, backend.call(FIND, FindParams(name))


@contextmanager
def states_located(store: Path | None, texts: Sequence[str]) -> Iterator[tuple[Backend, list[tuple[int, int]]]]:
    """Find the states of conversations that are meant, in one store: the id of each and its version, 0 as it is.

    ``CONV@3`` is version 3 of CONV, unless a conversation is called so; so is a path of or below ``.versions/0003-…``.
    Raises NotFound, and UsageError where a bare name is not unique, or where these are of different stores.
    """
    roots = {_meant(store, at[1] if (at := _AT.fullmatch(text)) else text)[1] for text in texts}
    if len(set(map(os.path.realpath, roots))) > 1:
        raise UsageError("these are conversations of different stores: name two of one")
    with reach(roots.pop()) as backend:
        yield backend, [_state(backend, store, text) for text in texts]


def _state(backend: Backend, store: Path | None, text: str) -> tuple[int, int]:
    def find(text: str) -> int:
        return backend.call(FIND, FindParams(_meant(store, text)[0])).id

    if version := _VERSION.search(text):
        return find(text), int(version[1])
    try:
        return find(text), 0
    except NotFound:
        at = _AT.fullmatch(text)
        if at is None:
            raise
        return find(at[1]), int(at[2])


def _meant(store: Path | None, text: str) -> tuple[str, Path]:
    """Return the name of the conversation that is meant, and the directory of its store."""
    name, mount = _in_a_mount(text) or (text, None)
    if store is None and mount is not None:
        store = root_of(mount)
    return name, store_root(store)


@contextmanager
def conversation_here(store: Path | None) -> Iterator[tuple[Backend, ConversationLine | None]]:
    """Find the conversation in whose directory in a mount this process runs, if it does, and reach its store."""
    try:
        here = _in_a_mount(".")
    except FileNotFoundError:
        here = None  # it runs in a directory that was removed
    if here is not None and store in (None, root_of(here[1])):
        with located(store, ".") as found:
            yield found
        return
    with reach(store_root(store)) as backend:
        yield backend, None


def _in_a_mount(text: str) -> tuple[str, Mount] | None:
    path = Path(os.path.abspath(os.path.expanduser(text)))
    mount = convfs_above(path)
    if mount is None or ("/" not in text and not os.path.lexists(path)):
        # whoever is in a mount may speak of others by their names and ids
        return None
    name = _name_of(path.relative_to(mount.path))
    if name is None:
        # Elsewhere in a mount, links lead to conversations.
        real = Path(os.path.realpath(path))
        name = _name_of(real.relative_to(mount.path)) if real.is_relative_to(mount.path) else None
    return (name, mount) if name else None


def _name_of(inside: Path) -> str | None:
    match inside.parts:
        case ("conversations", project, name, *_):
            return f"{project}/{name}"
        case ("transcripts", project, name):
            return f"{project}/{name.removesuffix('.md')}"
        case _:
            return None
