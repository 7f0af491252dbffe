"""``convfs serve``."""

import logging
import os
import signal
import socket as unix
import threading
from contextlib import nullcontext
from pathlib import Path

import click

from fusefs.cli.daemon import held_alone, loading, log_to, prepare, serving_http, tcp_options, tcp_place
from fusefs.cli.output import echo

_BYTES = 256 << 10


@click.command(short_help="Serve programs, without a mount.")
@click.option(
    "--socket",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The path of the socket.  [default: where commands look for it]",
)
@click.option("--stdio", is_flag=True, help="Serve one client on the standard streams, until it ends: for ssh.")
@click.option("--no-create", is_flag=True, help="With --stdio: fail if there is no store yet.")
@click.option("--dry-run", is_flag=True, help="With --stdio: if there is no store yet, serve an empty one, not kept.")
@tcp_options
@click.pass_obj
def serve(
    store: Path | None,
    socket: Path | None,
    stdio: bool,
    no_create: bool,
    dry_run: bool,
    tcp: str | None,
    http: str | None,
    no_token: bool,
) -> None:
    """Serve programs and other commands over a socket, until SIGTERM or Ctrl-C.

    A mounted store serves them, too: this command is for machines without a mount.
    """
    with loading():
        import trio

        from fusefs.cli.backend import on_trial, store_root
        from fusefs.daemon.calls import ALL_OPERATIONS
        from store.service import address, server

    root = Path(os.path.realpath(store_root(store)))
    if stdio:
        if socket or tcp or http:
            raise click.UsageError("--stdio goes alone")
        log_to(logging.StreamHandler())
        with on_trial(root) if dry_run else nullcontext(root) as served:
            _on_streams(served, create=not no_create)
        return
    if no_create or dry_run:
        raise click.UsageError("--no-create and --dry-run go with --stdio")
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


def _on_streams(root: Path, *, create: bool) -> None:
    """Serve who holds the other ends of the standard streams; through the daemon that holds the store, if one does."""
    from fusefs.cli.backend import daemon_or_store
    from fusefs.daemon.calls import ALL_OPERATIONS
    from store.service import server
    from store.service.caller import Caller

    prepare()
    with daemon_or_store(root, create=create) as found:
        if isinstance(found, Caller):
            assert found.path is not None
            _pass_on(found.path)
        else:
            with server.serving(server.Service(found, ALL_OPERATIONS)) as place:
                _pass_on(place.socket)


def _pass_on(path: Path) -> None:
    """Pass bytes on between the standard streams and a socket, until the input ends."""
    with unix.socket(unix.AF_UNIX, unix.SOCK_STREAM) as connection:
        connection.connect(os.fspath(path))

        def answers() -> None:
            while data := connection.recv(_BYTES):
                _write_all(data)

        thread = threading.Thread(target=answers, daemon=True)
        thread.start()
        while data := os.read(0, _BYTES):
            connection.sendall(data)
        connection.shutdown(unix.SHUT_RDWR)
        thread.join()


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
