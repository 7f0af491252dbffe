"""Steps: how long the loop of a daemon works without answering, in processor time, which a busy machine does not blur.

Runs a convfs command that mounts, in this process, and writes a line to a file for everything that takes more than a
millisecond of processor time: ``loop``, a step of a task in the loop, of the time of its thread; and ``held``, what all
threads of the process took while one that wanted to go on could not, because another kept Python from running.

    python -m tests.bench.steps FILE --store STORE mount DIRECTORY --foreground
"""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import trio

_LEAST_SECONDS = 0.001
_PAUSE_SECONDS = 0.001
_FRAMES = 6


class Step(NamedTuple):
    """When something ended, by the monotonic clock; what it was; the seconds of processor time; and where it was."""

    ended: float
    what: str
    seconds: float
    where: str


def read(file: Path, began: float, ended: float) -> list[Step]:
    """Return the steps of a daemon between two times, the longest first."""
    found = []
    for line in file.read_text().splitlines():
        at, what, seconds, where = line.split(" ", 3)
        if began <= float(at) <= ended:
            found.append(Step(float(at), what, float(seconds), where))
    return sorted(found, key=lambda step: -step.seconds)


class _Loop(trio.abc.Instrument):
    """Times the steps of tasks."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.thread_time() - self._began
        if took >= _LEAST_SECONDS:
            self._file.write(f"{time.monotonic()} loop {took:.6f} {task.name}\n")


def _watch(file: Path) -> None:
    """See how long a thread that wants to go on is kept from it."""
    own = threading.get_ident()
    with file.open("a", buffering=1) as log:
        while True:
            began, waited, spent = time.monotonic(), _waited(), time.process_time()
            time.sleep(_PAUSE_SECONDS)
            # not what others had the processor for, neither instead of this thread nor instead of the one that holds it
            late = time.monotonic() - began - _PAUSE_SECONDS - (_waited() - waited)
            took = min(late, time.process_time() - spent)
            if took >= 5 * _LEAST_SECONDS:
                where = "; ".join(_spot(frame) for thread, frame in sys._current_frames().items() if thread != own)
                log.write(f"{time.monotonic()} held {took:.6f} {where}\n")


def _waited() -> float:
    """Return for how long this thread could have run and had no processor, in seconds."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def _spot(frame: FrameType) -> str:
    """Return where a thread is: its innermost functions."""
    names: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(names) < _FRAMES:
        names.append(f"{Path(at.f_code.co_filename).stem}.{at.f_code.co_name}:{at.f_lineno}")
        at = at.f_back
    return "<".join(names)


def main(arguments: Sequence[str]) -> None:
    """Run a command of convfs."""
    from fusefs.cli.main import command

    file = Path(arguments[0])
    file.touch()
    run = trio.run
    trio.run = lambda *args, **how: run(*args, **how, instruments=[_Loop(file)])  # type: ignore[assignment]
    threading.Thread(target=_watch, args=(file,), daemon=True).start()
    sys.argv = ["convfs", *arguments[1:]]
    command()


if __name__ == "__main__":
    main(sys.argv[1:])
