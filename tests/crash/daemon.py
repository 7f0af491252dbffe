"""A daemon that is killed before long: ``python -m tests.crash.daemon STORE SOCKET [early]`` is ``convfs serve``.

It packs as much in its short life as others do in a long one. One that is ``early`` acknowledges before it writes.
"""

import os
import queue
import sys
import threading
import time

from fusefs.cli.serve import serve
from store.commit import checkpointer
from store.disk import durable
from store.upkeep import recovery

_EARLY_SECONDS = 0.004


def acknowledge_early() -> None:
    """Have what goes into a journal be written a little later than everyone believes."""
    write = durable.pwrite_all
    waiting: queue.SimpleQueue[tuple[int, bytes, int]] = queue.SimpleQueue()

    def later() -> None:
        while True:
            time.sleep(_EARLY_SECONDS)
            write(*waiting.get())

    def pwrite_all(fd: int, data: bytes, offset: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(("journal/1", "journal/2", "journal/3")):
            waiting.put((fd, bytes(data), offset))
        else:
            write(fd, data, offset)

    durable.pwrite_all = pwrite_all  # type: ignore[assignment]  # stands in for it
    threading.Thread(target=later, daemon=True).start()


def main(store: str, socket: str, *how: str) -> None:
    recovery.JOURNAL_BYTES = 64 << 10
    recovery.JOURNALS = 3
    checkpointer._IDLE_SECONDS = 0.02
    if how:
        acknowledge_early()
    serve.main(["--socket", socket], standalone_mode=False, obj=store)


if __name__ == "__main__":
    main(*sys.argv[1:])
