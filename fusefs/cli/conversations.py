"""The argument CONV of commands: ``PROJECT/NAME``, an id, or a path in a mount."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fusefs.cli.backend import Backend, reach, store_root
from fusefs.cli.mounts import convfs_above, root_of
from fusefs.mount_table import Mount
from store.conversations.lines import ConversationLine
from store.disk.identity import directory_key
from store.errors import NotFound, UsageError
from store.service.operations import find_conversation

_VERSION = re.compile(r"(?:^|/)\.versions/0*([1-9][0-9]{0,17})-")
_PATHS = ("/", "./", "../", "~")
"""The beginnings of what can only be a path."""
_AT = re.compile(r"(.+)@0*([1-9][0-9]{0,17})", re.DOTALL)


@contextmanager
def located(store: Path | None, text: str) -> Iterator[tuple[Backend, ConversationLine]]:
    """Find the conversation that ``text`` names, and reach its store.

    If ``text`` is a path in a mount, this is the mounted store unless another was chosen. Raises NotFound, or
    UsageError if a bare name is ambiguous.
    """
    name, root = _meant(store, text)
    with reach(root) as backend:
        yield backend, backend.call(find_conversation(name))


@contextmanager
def states_located(store: Path | None, texts: Sequence[str]) -> Iterator[tuple[Backend, list[tuple[int, int]]]]:
    """Find states of conversations in one store: the id of each and its version, 0 for the current state.

    ``CONV@3`` is version 3 of CONV, unless a conversation has that name; so is a path at or below ``.versions/0003-…``.
    Raises NotFound, or UsageError if a bare name is ambiguous or the conversations are in different stores.
    """
    with reach(_one_root(store, [at[1] if (at := _AT.fullmatch(text)) else text for text in texts])) as backend:
        yield backend, [_state(backend, store, text) for text in texts]


@contextmanager
def all_located(store: Path | None, texts: Sequence[str]) -> Iterator[tuple[Backend, list[ConversationLine]]]:
    """Like :func:`located`, for any number of conversations in one store. Raises UsageError for several stores."""
    with reach(_one_root(store, texts)) as backend:
        yield backend, [backend.call(find_conversation(_meant(store, text)[0])) for text in texts]


def _one_root(store: Path | None, texts: Sequence[str]) -> Path:
    """Return the directory of the store that all texts mean; without texts, the chosen one."""
    roots = [_meant(store, text)[1] for text in texts] or [store_root(store)]
    if len(set(map(_key, roots))) > 1:
        raise UsageError("these conversations are in different stores: name conversations of one store")
    return roots[0]


def _key(root: Path) -> str:
    try:
        return directory_key(root)
    except OSError:
        return os.path.realpath(root)


def _state(backend: Backend, store: Path | None, text: str) -> tuple[int, int]:
    def find(text: str) -> int:
        return backend.call(find_conversation(_meant(store, text)[0])).id

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
    name, mount = _in_a_mount(text) or (text, None)
    if store is None and mount is not None:
        store = root_of(mount)
    return name, store_root(store)


@contextmanager
def conversation_here(store: Path | None) -> Iterator[tuple[Backend, ConversationLine | None]]:
    """Find the conversation of the working directory, if that is in a mount, and reach its store."""
    try:
        here = _in_a_mount(".")
    except FileNotFoundError:
        here = None  # it runs in a directory that was removed
    if here is not None and (store is None or _key(store) == _key(Path(here[1].source))):
        with located(store, ".") as found:
            yield found
        return
    with reach(store_root(store)) as backend:
        yield backend, None


def _in_a_mount(text: str) -> tuple[str, Mount] | None:
    path = Path(os.path.abspath(os.path.expanduser(text)))
    mount = convfs_above(path)
    if mount is None or (not text.startswith(_PATHS) and not os.path.lexists(path)):
        # inside a mount, names and ids still name other conversations
        return None
    name = _name_of(mount.path, path.relative_to(mount.path))
    if name is None:
        # Elsewhere in a mount, links lead to conversations.
        real = Path(os.path.realpath(path))
        name = _name_of(mount.path, real.relative_to(mount.path)) if real.is_relative_to(mount.path) else None
    return (name, mount) if name else None


def _name_of(root: Path, inside: Path) -> str | None:
    match inside.parts:
        case ("conversations", _project, ".aside", _name, *_) | ("conversations", _project, _, "subagents", _name, *_):
            return _id_of(root, inside)
        case ("conversations", project, name, *_):
            return f"{project}/{name}"
        case ("transcripts", project, ".aside", name):
            return _id_of(root, Path("conversations", project, ".aside", name.removesuffix(".md")))
        case ("transcripts", project, *names, name) if names:
            below = [part for one in (*names[1:], name.removesuffix(".md")) for part in ("subagents", one)]
            return _id_of(root, Path("conversations", project, names[0], *below))
        case ("transcripts", project, name):
            return f"{project}/{name.removesuffix('.md')}"
        case ("html", project, name):
            return f"{project}/{name.removesuffix('.html')}"
        case _:
            return None


def _id_of(root: Path, inside: Path) -> str | None:
    """Return the id of the innermost conversation that a path is in."""
    for folder in (inside, *inside.parents):
        with suppress(OSError):
            return os.getxattr(root / folder, "user.convfs.context").decode()
    return None
