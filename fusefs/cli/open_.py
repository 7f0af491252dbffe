"""``convfs open``."""

import os
from pathlib import Path

import click

from fusefs.cli.completion import complete_conversation
from fusefs.cli.output import echo


@click.command(short_help="Open a conversation, or the list of all, in a browser.")
@click.argument("conversation", metavar="[CONV]", required=False, shell_complete=complete_conversation)
@click.option("--print", "only_print", is_flag=True, help="Print the path of the page, and open nothing.")
@click.pass_obj
def open_(store: Path | None, conversation: str | None, only_print: bool) -> None:
    """Open the page of a conversation in $BROWSER, or in your desktop's browser; without CONV, the list of all.

    The page is that of the mount (html/PROJECT/NAME.html, html/index.html). If the store is not mounted, a page of CONV
    is written to a temporary directory, and stays there. CONV is PROJECT/NAME, an id, or a path in the mount.
    """
    path = _page(store, conversation) if conversation else _index(store)
    if only_print:
        echo(str(path))
        return
    import webbrowser

    from store.errors import UsageError

    if not webbrowser.open(path.as_uri()):
        raise UsageError(f"no browser was found: set $BROWSER, or open {path}")


def _index(store: Path | None) -> Path:
    from fusefs.cli.backend import reach, store_root
    from fusefs.tree.paths import HTML, INDEX
    from store.errors import UsageError
    from store.service import operations

    root = store_root(store)
    with reach(root) as backend:
        mountpoint = backend.call(operations.status()).mountpoint
    if not mountpoint:
        raise UsageError(f"the store at {root} is not mounted: `convfs mount DIR` first, or name a conversation")
    return Path(mountpoint, HTML, INDEX)


def _page(store: Path | None, conversation: str) -> Path:
    import tempfile

    from fusefs.cli.conversations import located
    from fusefs.tree.paths import HTML, PAGE
    from store.service import exporting, operations

    with located(store, conversation) as (backend, found):
        if mountpoint := backend.call(operations.status()).mountpoint:
            path = Path(mountpoint, HTML, found.project, found.name + PAGE)
            # some names of programs are shown otherwise
            if path.is_file():
                return path
        folder = os.fsencode(tempfile.mkdtemp(prefix="convfs-"))
        return Path(os.fsdecode(backend.call(exporting.export_as(found.id, folder, "html")).files[0]))
