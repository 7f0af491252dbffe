"""CONV on the command line: ``PROJECT/NAME``, an id, or a path in a mount."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusefs.cli.backend import Backend, reach, store_root
from fusefs.cli.mounts import convfs_above, root_of
from fusefs.mount_table import Mount
from store.service.operations import FIND, ConversationLine, FindParams


@contextmanager
def located(store: Path | None, text: str) -> Iterator[tuple[Backend, ConversationLine]]:
    """Find the conversation that ``text`` stands for, and reach the store that holds it.

    Where ``text`` is a path in a mount, that mount's store is meant unless another one was chosen. Raises NotFound, or
    UsageError where a bare name is not unique.
    """
    name, mount = _in_a_mount(text) or (text, None)
    if store is None and mount is not None:
        store = root_of(mount)
    with reach(store_root(store)) as backend:
        yield backend, backend.call(FIND, FindParams(name))


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
    if mount is None:
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
