"""``convfs where``."""

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusefs.cli.output import escape

if TYPE_CHECKING:
    from fusefs.cli.holding import HoldingLine, WhereParams

_HASH = re.compile(r"[0-9a-fA-F]{64}")
_BLOB = re.compile(r"blob:[a-z0-9]+:", re.IGNORECASE)
_HASH_ATTRIBUTE = "user.convfs.hash"


@click.command(short_help="Say which conversations and events hold a content, a file or a URI.")
@click.argument("what", metavar="HASH|URI|PATH")
@click.option("--json", "as_json", is_flag=True, help="An array of objects, for programs.")
@click.pass_obj
def where(store: Path | None, what: str, as_json: bool) -> None:
    """Print the paths in a mount of all events that hold a content, and of the outputs that are it.

    HASH is the BLAKE3 of the content, or blob:sha256:HEX; URI is that of a resource, as the conversation spells it. A
    PATH in a mount stands for the content of that file, any other one for the file itself: who had its content, or was
    told of a file at that path. Of a conversation that does not have it any more, the version that had it last is told.
    """
    import msgspec

    from fusefs.cli.backend import reach, store_root
    from fusefs.cli.holding import WHERE
    from fusefs.cli.search import FILING_SECONDS
    from fusefs.cli.searching import FILE, FileParams
    from store.errors import NotFound

    params, root = _asked(what, store)
    lines: list[HoldingLine] = []
    with reach(store_root(root)) as backend:
        known = backend.call(WHERE, params, lines.extend)
        backend.call(FILE, FileParams(FILING_SECONDS))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(lines), indent=2, ensure_ascii=False))
        return
    for line in lines:
        sys.stdout.write(escape(line.path or f"context {line.id}, event {line.event}") + "\n")
    if not lines:
        kept = ", though the store still has it" if known.stored else ""
        raise NotFound(f"no conversation holds {what}{kept}")


def _asked(what: str, store: Path | None) -> "tuple[WhereParams, Path | None]":
    """Return what is asked for, and of which store."""
    from fusefs.cli.holding import WhereParams
    from fusefs.cli.mounts import convfs_above, root_of

    if _HASH.fullmatch(what):
        return WhereParams(f"blob:blake3:{what.lower()}"), store
    if _BLOB.match(what):
        return WhereParams(what), store
    path = Path(os.path.abspath(os.path.expanduser(what)))
    mount = convfs_above(path)
    if mount is not None and path.is_file():
        return WhereParams(_content(path)), root_of(mount) if store is None else store
    if mount is None and path.is_file():
        from store.formats.media import file_uri

        return WhereParams(_content(path), (file_uri(str(path)), str(path))), store
    return WhereParams(uris=(what,)), store


def _content(path: Path) -> str:
    """Return the URL of what a file holds; one in a mount says it itself."""
    from store.ids import hash_bytes

    try:
        return f"blob:blake3:{os.getxattr(path, _HASH_ATTRIBUTE).decode()}"
    except OSError:
        pass  # it says nothing, or its disk cannot
    return f"blob:blake3:{hash_bytes(path.read_bytes()).hex()}"
