"""Steps: how long the loop of a daemon works without answering, in processor time, which a busy machine does not blur.

Runs a convfs command that mounts, in this process, and writes a line to a file for everything that takes more than a
millisecond of processor time: ``loop``, a step of a task in the loop, of the time of its thread; and ``held``, what all
threads of the process took while one that wanted to go on could not, because another kept Python from running. And for
each step in which the loop slept, for a lock or a disk: ``slept``, the seconds of that, where it was. And ``garbage``,
a look for that among all objects, which keeps everything else from running.

    python -m tests.bench.steps FILE --store STORE mount DIRECTORY --foreground
"""

import gc
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import trio

_LEAST_SECONDS = 0.001
_LONG_SECONDS = 0.005
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
    """Times the steps of tasks, of the thread that makes this."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._spent = 0.0
        self._waited = 0.0
        self.thread = threading.get_ident()
        self.delays = _Delays()
        self.began = 0.0
        """When the step began that is going on, by the monotonic clock; 0 between steps."""
        self.seen = ""
        """Where it was when it had been going on for long."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen = ""
        self._waited = self.delays.seconds()
        self._spent = time.thread_time()
        self.began = time.monotonic()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        now = time.monotonic()
        took, all_of_it = time.thread_time() - self._spent, now - self.began
        self.began = 0.0
        if took >= _LEAST_SECONDS:
            self._file.write(f"{now} loop {took:.6f} {task.name}\n")
        if (slept := all_of_it - took) >= _LONG_SECONDS:
            slept -= self.delays.seconds() - self._waited
            if slept >= _LONG_SECONDS:
                self._file.write(f"{now} slept {slept:.6f} {self.seen or task.name}\n")


def _watch(file: Path, loop: _Loop) -> None:
    """See how long a thread that wants to go on is kept from it, and where a long step of the loop is."""
    own, delays = threading.get_ident(), _Delays()
    with file.open("a", buffering=1) as log:
        while True:
            began, waited, spent = time.monotonic(), delays.seconds(), time.process_time()
            time.sleep(_PAUSE_SECONDS)
            # not what others had the processor for, neither instead of this thread nor instead of the one that holds it
            late = time.monotonic() - began - _PAUSE_SECONDS - (delays.seconds() - waited)
            took = min(late, time.process_time() - spent)
            if took >= _LONG_SECONDS:
                where = "; ".join(_spot(frame) for thread, frame in sys._current_frames().items() if thread != own)
                log.write(f"{time.monotonic()} held {took:.6f} {where}\n")
            if loop.began and time.monotonic() - loop.began >= _LONG_SECONDS / 2:
                loop.seen = _spot(sys._current_frames()[loop.thread])


def _watch_garbage(file: Path) -> None:
    log = file.open("a", buffering=1)
    began = 0.0

    def told(phase: str, of: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif (took := time.thread_time() - began) >= _LEAST_SECONDS:
            log.write(f"{time.monotonic()} garbage {took:.6f} of generation {of['generation']}\n")

    gc.callbacks.append(told)


class _Delays:
    """How long the thread that makes this could have run and had no processor."""

    def __init__(self) -> None:
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        """Return it, in all."""
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e9


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
    loop = _Loop(file)
    _watch_garbage(file)
    threading.Thread(target=_watch, args=(file, loop), daemon=True).start()

    def observed(*arguments: Any, **how: Any) -> Any:  # noqa: ANN401 - those of trio.run
        # the service has a loop in another thread, which is as any other to who asks the mount
        mounts = threading.get_ident() == loop.thread
        return run(*arguments, **how, instruments=[loop] if mounts else ())

    trio.run = observed
    sys.argv = ["convfs", *arguments[1:]]
    command()


if __name__ == "__main__":
    main(sys.argv[1:])
