"""The HTTP service, on a loopback port, in a loop and a thread of its own."""

import contextlib
from collections.abc import Iterator
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from store.service.address import host_and_port
from store.service.server import in_thread, tcp_listener
from store.store import Store
from store.web.app import application


@contextlib.contextmanager
def serving(store: Store, host: str, port: int, token: str) -> Iterator[str]:
    """Answer while the block runs, peers with the token ("" for all); yields ``HOST:PORT``."""
    with tcp_listener(host, port) as listener:
        config = Config()
        # it closes the descriptor that it is given
        config.bind = [f"fd://{listener.dup().detach()}"]
        config.loglevel = "WARNING"
        config.graceful_timeout = 0.5
        app = application(store, token)
        task = partial(serve, app, config, shutdown_trigger=trio.sleep_forever, mode="asgi")  # type: ignore[arg-type]  # both spell out the types of ASGI
        with in_thread(task, "convfs-http"):
            yield host_and_port(listener)
