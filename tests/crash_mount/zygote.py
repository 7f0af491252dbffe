"""A process that has everything imported, and makes daemons and programs of itself: ``python -m … zygote``.

Each line of standard input is an order, a JSON object, answered by one line:

``{"mount": {…}}`` begins a daemon: "ready" once it is mounted, or how it ended. ``{"wait": PID}`` waits for its end
and tells what it said last. ``{"program": {…}}`` runs a program to its end and tells what it was told.
"""

import gc
import json
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fusefs import mount
from fusefs.editing import removal
from fusefs.text.render import FileRenderer
from store.commit import checkpointer
from store.errors import ConvfsError
from store.store import Store
from store.upkeep.fsck import fsck
from tests.crash_mount.faults import Faults, Watch
from tests.crash_mount.programs import PROGRAMS, Here

REMOVAL_SECONDS = 0.15

_mouths: dict[int, int] = {}
"""Where each child tells something, by its process id."""


def daemon(order: dict[str, Any], tell: Callable[[object], None]) -> int:
    """Mount a store until it is unmounted; then say what is wrong with it."""
    logging.basicConfig(filename=order["log"], format="%(process)d %(levelname)s %(name)s: %(message)s")
    root = Path(order["store"])
    removal.DELAY_SECONDS = REMOVAL_SECONDS
    # the steps of a run are to be the same each time: nothing is packed in between
    checkpointer._IDLE_SECONDS = checkpointer._LONGEST_SECONDS = 1000.0
    fault = order["fault"]
    if fault is not None:
        watch = Watch(Path(fault["watch"]))
        options = {key: fault[key] for key in ("at", "kind", "lasting", "only", "deaf")}
        Faults(root, watch, image=Path(order["image"]), **options).install()
    try:
        with Store.open(root, renderer=FileRenderer()) as store:
            mount.run(store, Path(order["root"]), ready=lambda: tell("ready"))
    except ConvfsError as error:
        tell({"error": str(error)})
        return 3
    if fault is None:
        with Store.open(root, renderer=FileRenderer()) as store:
            tell({"fsck": [str(finding) for finding in fsck(store)], "recovered": store.recovered})
    return 0


def program(order: dict[str, Any], tell: Callable[[object], None]) -> int:
    """Run a program, and say what it was told."""
    try:
        # a mount may be killed as it is read, too: what follows from records is derived then
        here = Here(Path(order["events"]), order["name"], order["text"].encode(), tell)
        PROGRAMS[order["program"]](here)
    except OSError as error:
        tell({"errno": error.errno, "text": str(error)})
        return 1
    return 0


def begin(work: Callable[[dict[str, Any], Callable[[object], None]], int], order: dict[str, Any]) -> int:
    """Do something in a child; return its process id."""
    ears, mouth = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(mouth)
        _mouths[pid] = ears
        return pid
    status = 70
    try:
        os.close(0)
        os.close(ears)
        status = work(order, lambda said: os.write(mouth, json.dumps(said).encode() + b"\n") and None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def heard(pid: int) -> list[object]:
    """Return all that a child says, until it has ended."""
    with open(_mouths.pop(pid), "rb") as ears:
        said = ears.read()
    return [json.loads(line) for line in said.splitlines()]


def ended(pid: int) -> dict[str, object]:
    """Wait for the end of a child."""
    said = heard(pid)
    return {"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "said": said}


def first_word(pid: int) -> bytes:
    """Return the first line that a child says, b"" if it ends before."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(_mouths[pid], 1)):
        line += byte
    return line


def obey(order: dict[str, Any]) -> object:
    match order:
        case {"mount": what}:
            pid = begin(daemon, what)
            word = first_word(pid)
            if word == b'"ready"\n':
                return {"pid": pid}
            return {"pid": 0, "first": word.decode(), **ended(pid)}
        case {"wait": pid}:
            return ended(pid)
        case {"program": what}:
            return ended(begin(program, what))
    raise ValueError(order)


def main() -> None:
    # whoever is left when the test ends goes with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # children share the memory for as long as nobody looks for garbage in it
    gc.collect()
    gc.freeze()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
