"""What commands that hold a store and answer programs have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from store.errors import Conflict
    from store.service.client import Client

Command = TypeVar("Command", bound=Callable[..., Any])


SWITCH_SECONDS = 0.0003
"""How long one thread of a daemon may keep the others from running Python: who waits for an answer feels it."""


def tcp_options(command: Command) -> Command:
    """Add the options that say whether and how programs may come in over TCP."""
    command = click.option(
        "--no-token", is_flag=True, help="Let in over TCP whoever can connect: for clients that can send no token."
    )(command)
    return click.option(
        "--tcp", metavar="HOST:PORT", help="Answer on this loopback address, too; the token is in STORE/token."
    )(command)


def tcp_place(tcp: str | None) -> tuple[str, int] | None:
    """Return the address that ``--tcp`` names, None if it was not given; UsageError if others could reach it."""
    from store.service import address

    if tcp is None:
        return None
    host, port = address.parsed(tcp)
    address.loopback(host, port)
    return host, port


def held(client: Client) -> Conflict:
    """Return what to raise where another process answers for the store already."""
    from store.errors import Conflict

    who, how = whose(client)
    return Conflict(f"{who} already: use it there, or {how} first")


def whose(client: Client) -> tuple[str, str]:
    """Return who holds the store, as the beginning of a sentence, and what ends that."""
    from fusefs.cli.output import command_line
    from store.service.operation import Nothing
    from store.service.operations import STATUS

    status = client.call(STATUS, Nothing())
    if status.mountpoint:
        return f"the store is mounted at {status.mountpoint}", f"`{command_line('umount', status.mountpoint)}`"
    return f"process {status.pid} serves the store", f"`kill {status.pid}`"
