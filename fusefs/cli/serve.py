"""``convfs serve``."""

import logging
import os
import signal
from pathlib import Path

import click

from fusefs.cli.daemon import held_alone, log_to, prepare, serving_http, tcp_options, tcp_place
from fusefs.cli.output import echo


@click.command(short_help="Serve programs, without a mount.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The path of the socket.  [default: where commands look for it]",
)
@tcp_options
@click.pass_obj
def serve(store: Path | None, socket: Path | None, tcp: str | None, http: str | None, no_token: bool) -> None:
    """Serve programs and other commands over a socket, until SIGTERM or Ctrl-C.

    A mounted store serves them, too: this command is for machines without a mount.
    """
    import trio

    from fusefs.cli.backend import store_root
    from fusefs.daemon.calls import ALL_OPERATIONS
    from store.service import address, server

    root = Path(os.path.realpath(store_root(store)))
    port, web = tcp_place(tcp), tcp_place(http)
    log_to(logging.StreamHandler())

    async def until_told(service: server.Service) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                place = await nursery.start(server.serve, service)
                places = ", ".join(filter(None, (str(place.socket), place.tcp, web_place and f"http://{web_place}")))
                echo(f"Serving {root} at {places}; Ctrl-C ends.", err=True)
                nursery.start_soon(trio.to_thread.run_sync, service.store.artifacts.settle)
                await anext(aiter(signals))
                nursery.cancel_scope.cancel()

    prepare()
    with held_alone(root) as opened, serving_http(opened, web, no_token=no_token) as web_place:
        token = address.token(root) if port and not no_token else ""
        path = Path(os.path.abspath(socket)) if socket else None
        service = server.Service(opened, ALL_OPERATIONS, socket=path, tcp=port, token=token)
        trio.run(until_told, service)
