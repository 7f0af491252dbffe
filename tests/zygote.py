"""A process that has everything imported, and runs modules in children: ``python -m tests.zygote SOCKET``.

Each message that comes over the socket, a file descriptor, is an order, a JSON object, answered by another:

``{"module": …, "arguments": […], "directory": …, "environment": {…}}`` with three file descriptors begins what
``python -m MODULE ARGUMENT…`` would, with these as standard input, output and error: ``{"pid": …}``.
``{"wait": PID}`` waits for its end: ``{"status": …, "peak": …}``, as :attr:`subprocess.Popen.returncode`, and the
most bytes of memory that it had, or a process that it has waited for.

It ends when nobody is left at the other side; the children stay.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import time
from typing import Any

import fusefs
import store

LONGEST_ORDER = 128 << 10


def import_everything() -> None:
    for package in (store, fusefs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)


def become(order: dict[str, Any], streams: list[int]) -> None:
    """Go on as the module that is ordered, to its end."""
    os.setsid()
    for standard, (name, stream) in enumerate(zip(("stdin", "stdout", "stderr"), streams, strict=True)):
        os.dup2(stream, standard)
        os.close(stream)
        # anew: those that are there believe to know what sort of file it is
        old = getattr(sys, name)
        new = os.fdopen(standard, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)
        new.reconfigure(line_buffering=old.line_buffering)
        setattr(sys, name, new)
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = [order["module"], *order["arguments"]]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    import_everything()
    # children share the memory for as long as nobody looks for garbage in it
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        while True:
            message, streams, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 3)
            if not message:
                return
            order = json.loads(message)
            if "wait" in order:
                _, ended, used = os.wait4(order["wait"], 0)
                told = {"status": os.waitstatus_to_exitcode(ended), "peak": used.ru_maxrss << 10}
                orders.send(json.dumps(told).encode())
                continue
            child = os.fork()
            if not child:
                break
            orders.send(json.dumps({"pid": child}).encode())
            for stream in streams:
                os.close(stream)
    become(order, streams)


if __name__ == "__main__":
    main()
