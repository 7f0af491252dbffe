"""``convfs completion``, and the completion of CONV in every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from store.conversations.lines import ConversationLine
    from store.index.catalogue import ContextEntry

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_CONVFS_COMPLETE"
"""As click derives it from the command's name."""


@click.command(short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that has SHELL complete commands, options, and names of conversations.

    \b
    bash   eval "$(convfs completion bash)"          in ~/.bashrc
    zsh    eval "$(convfs completion zsh)"           in ~/.zshrc, after compinit
    fish   convfs completion fish | source           in ~/.config/fish/config.fish
    """  # noqa: D301  (click takes the character for a mark)
    from click.shell_completion import get_completion_class

    from fusefs.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "convfs", _VARIABLE).source())


def complete_conversation(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that ``incomplete`` may become, with and without project; none if the store does not answer."""
    from fusefs.cli.backend import exists, glanced, reach, store_root
    from store.errors import ConvfsError

    chosen = ctx.find_root().params.get("store")
    root = store_root(chosen if isinstance(chosen, Path) else None)
    if not exists(root):
        return []
    project, slash, _name = incomplete.partition("/")
    found: list[ConversationLine | ContextEntry] = []
    try:
        with glanced(root) as listing:
            if listing is not None:
                found.extend(listing.catalogue.page(project if slash else None))
        if listing is None:
            from store.service.operations import list_conversations

            with reach(root) as backend:
                backend.call(list_conversations(project if slash else ""), found.extend)
    except (ConvfsError, OSError):
        return []
    names = [f"{one.project}/{one.name}" for one in found]
    if not slash:
        names += [one.name for one in found]
    return [name for name in names if name.startswith(incomplete)]
