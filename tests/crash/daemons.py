"""A process that has everything imported, and makes daemons of itself: ``python -m tests.crash.daemons``.

Each line of standard input is an order, a JSON object: ``{"store": …, "socket": …}``. The last daemon is waited for
(whoever gives the order has ended it), and ``convfs serve`` runs in a new child; its process id is the answer. An order
without a store just waits, and is answered by how the daemon ended. With ``early``, a daemon acknowledges before it
writes.
"""

import gc
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from typing import Any

from fusefs.cli import backend as backend
from fusefs.cli import operations as operations
from fusefs.cli.serve import serve
from store.commit import checkpointer
from store.disk import durable
from store.service import server as server
from store.upkeep import recovery

_EARLY_SECONDS = 0.004


def daemon(order: dict[str, Any]) -> None:
    """Serve a store until this process ends."""
    # so that in a short life everything is packed once
    recovery.JOURNAL_BYTES = 64 << 10
    recovery.JOURNALS = 3
    checkpointer._IDLE_SECONDS = 0.02
    if order.get("early"):
        acknowledge_early()
    serve.main(["--socket", order["socket"]], standalone_mode=False, obj=order["store"])


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


def begin(order: dict[str, Any]) -> tuple[int, int]:
    """Start a daemon; return its process id and what it says from, once it serves."""
    ears, mouth = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(0)
            os.close(1)
            os.dup2(mouth, 2)
            daemon(order)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)
    os.close(mouth)
    said = b""
    while b"Serving " not in said:
        more = os.read(ears, 65536)
        if not more:
            raise RuntimeError(said.decode())
        said += more
    return pid, ears


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # children share the memory for as long as nobody looks for garbage in it
    gc.collect()
    gc.freeze()
    pid, ears = 0, -1
    for line in sys.stdin:
        order, ended = json.loads(line), 0
        if pid:
            ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(ears)
            pid = 0
        if "store" in order:
            pid, ears = begin(order)
        print(json.dumps(pid or ended), flush=True)
    if pid:
        # whoever gave the orders is gone
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
