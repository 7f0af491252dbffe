"""``convfs where``."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import echo_json
from store import visible

if TYPE_CHECKING:
    from fusefs.daemon.answers import HoldingLine, Known
    from store.service.call import Invocation

_HASH = re.compile(r"[0-9a-fA-F]{64}")
_BLOB = re.compile(r"blob:(?:[a-z0-9]+:|[0-9a-f]{64}$)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_HASH_ATTRIBUTE = "user.convfs.hash"


@click.command(short_help="List the events that hold a content, a file or a URI.")
@click.argument("what", metavar="HASH|URI|PATH")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def where(store: Path | None, what: str, as_json: bool) -> None:
    """Print the paths in a mount of all events and outputs that hold a content.

    HASH is the BLAKE3 or the SHA-256 of the content, as HEX, blob:blake3:HEX or blob:sha256:HEX; URI is that of a
    resource, as the conversation spells it. A PATH in a mount stands for the content of that file; any other PATH also
    stands for a file at that path. For a conversation that no longer has it, the last version that did is printed.
    """
    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.search import FILING_SECONDS
    from fusefs.daemon.operations import file_turns
    from store.errors import NotFound

    asked, root = _asked(what, store)
    lines: list[HoldingLine] = []
    with reach(store_root(root)) as backend:
        known = backend.call(asked, lines.extend)
        backend.call(file_turns(FILING_SECONDS))
    if as_json:
        echo_json(lines)
        return
    for line in lines:
        sys.stdout.write(visible.line(line.path or f"context {line.id}, event {line.event}") + "\n")
    if not lines:
        kept = ", though the store still has it" if known.stored else ""
        raise NotFound(f"no conversation holds {what}{kept}")


def _asked(what: str, store: Path | None) -> "tuple[Invocation[list[HoldingLine], Known], Path | None]":
    from fusefs.cli.mounts import convfs_above, root_of
    from fusefs.daemon.operations import where as holders

    if _HASH.fullmatch(what):
        return holders(f"blob:{what.lower()}"), store
    if _BLOB.match(what):
        return holders(what), store
    path = Path(os.path.abspath(os.path.expanduser(what)))
    mount = convfs_above(path)
    if mount is not None and path.is_file():
        return holders(_content(path)), root_of(mount) if store is None else store
    if mount is None and ("/" in what or path.exists()) and not _SCHEME.match(what):
        # a file may be gone from the disk, or have been on another one
        from store.formats.core.media import file_uri

        content = _content(path) if path.is_file() and path.stat().st_size else ""
        return holders(content, tuple(dict.fromkeys((file_uri(str(path)), str(path), what, file_uri(what))))), store
    return holders(uris=(what,)), store


def _content(path: Path) -> str:
    """Return the URL of a file's content; a file in a mount has it as an attribute."""
    from store.ids import hash_bytes

    try:
        return f"blob:blake3:{os.getxattr(path, _HASH_ATTRIBUTE).decode()}"
    except OSError:
        pass  # no such attribute, or none on this file system
    return f"blob:blake3:{hash_bytes(path.read_bytes()).hex()}"
