"""``convfs serve``."""

import logging
import os
import signal
import sys
from pathlib import Path

import click

from fusefs.cli.service import SWITCH_SECONDS, held, tcp_options, tcp_place


@click.command(short_help="Answer programs, without a mount.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to make the socket.  [default: where commands look for it]",
)
@tcp_options
@click.pass_obj
def serve(store: Path | None, socket: Path | None, tcp: str | None, no_token: bool) -> None:
    """Answer programs that append and read, and other commands, until SIGTERM or Ctrl-C.

    A mounted store answers, too: this is for where nothing can or need be mounted.
    """
    import trio

    from fusefs.cli.backend import daemon_or_store, store_root
    from fusefs.cli.operations import ALL_OPERATIONS
    from store.artifacts.artifacts import Artifacts
    from store.service import address, server
    from store.service.client import Client

    root = Path(os.path.realpath(store_root(store)))
    port = tcp_place(tcp)
    logging.getLogger().addHandler(logging.StreamHandler())

    async def until_told(service: server.Service) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                place = await nursery.start(server.serve, service)
                also = f" and {place.tcp}" if place.tcp else ""
                click.echo(f"Serving {root} at {place.socket}{also}; Ctrl-C ends.", err=True)
                nursery.start_soon(trio.to_thread.run_sync, Artifacts(service.store).settle)
                await anext(aiter(signals))
                nursery.cancel_scope.cancel()

    sys.setswitchinterval(SWITCH_SECONDS)
    with daemon_or_store(root, create=True) as opened:
        if isinstance(opened, Client):
            raise held(opened)
        token = address.token(root) if port and not no_token else ""
        path = Path(os.path.abspath(socket)) if socket else None
        service = server.Service(opened, ALL_OPERATIONS, socket=path, tcp=port, token=token)
        trio.run(until_told, service)
