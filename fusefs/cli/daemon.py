"""Going into the background: the command returns when the daemon is ready, or with the reason why it is not."""

import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from store.errors import ConvfsError

_READY = b"\0"
_MAX_MESSAGE = 64 << 10


def in_background(work: Callable[[Callable[[], None]], None], explain: Callable[[Exception], str]) -> int:
    """Run ``work`` in a daemon of its own, and return its process id when it has called the function it is given.

    The daemon has no terminal and no standard streams, and ``/`` as its directory. Raises ConvfsError with what
    ``explain`` makes of the exception that ended ``work`` before it was ready.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        # Not a session leader, so that no terminal ever becomes this daemon's own.
        os.setsid()
        if os.fork():
            os._exit(0)
        _run(work, explain, writing)
    os.close(writing)
    os.waitpid(child, 0)
    message = b""
    with open(reading, "rb") as pipe:
        message = pipe.read(_MAX_MESSAGE)
    if message.startswith(_READY):
        return int(message[1:])
    raise ConvfsError(message.decode("utf-8", "replace") or "the daemon died before it was ready")


def _run(work: Callable[[Callable[[], None]], None], explain: Callable[[Exception], str], writing: int) -> NoReturn:
    told = False

    def tell(message: bytes) -> None:
        nonlocal told
        if not told:
            told = True
            os.write(writing, message)
            os.close(writing)

    status = 1
    try:
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        work(lambda: tell(_READY + str(os.getpid()).encode()))
        status = 0
    except Exception as error:
        logging.getLogger(__name__).exception("the daemon ends in an error")
        tell(explain(error).encode("utf-8", "replace"))
    finally:
        # Exits here, whatever happens: the caller's own clean-up is its parent's to do.
        os._exit(status)
