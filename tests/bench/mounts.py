"""The contestants that are mounted: how each is started, when it is ready, and that it always ends.

A daemon is run in the foreground as a child of this process and ended by its pid. A mount that does not go away
properly is detached (``fusermount3 -uz``).
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.bench.harness import mountpoints, needs, processor_seconds

READY_SECONDS = 120.0
END_SECONDS = 30.0
_LOOK_SECONDS, _MOST_LOOKS = 0.3, 30

Command = Callable[[Path], Sequence[str | Path]]
"""Given the mountpoint, the command that serves it in the foreground."""


class Mount:
    """A directory that a daemon serves. ``daemon`` is None for a plain directory."""

    def __init__(self, root: Path, daemon: subprocess.Popen[bytes] | None = None, seconds: float = 0.0) -> None:
        self.root = root
        self.daemon = daemon
        self.mount_seconds = seconds
        """From the start of the daemon's process to the first answer to a listing of the root."""

    def settle(self) -> None:
        """Wait until the daemon has done what it does after its start: what is measured next has the machine alone."""
        if self.daemon is None:
            return
        spent = -1.0
        for _ in range(_MOST_LOOKS):
            before, spent = spent, processor_seconds(self.daemon.pid)
            if spent == before:
                break
            time.sleep(_LOOK_SECONDS)

    def check_alive(self) -> None:
        """Raise unless the daemon lives and its mount answers; a dead one would leave an empty directory to measure."""
        if self.daemon is not None and (self.daemon.poll() is not None or not is_mounted(self.root)):
            raise RuntimeError(f"the daemon of {self.root} is gone (exit {self.daemon.poll()})")


def is_mounted(path: Path) -> bool:
    """Say whether something is mounted at ``path``; asks the kernel's table, never the mount."""
    return path in mountpoints()


@contextlib.contextmanager
def mounted(command: Command, mountpoint: Path, log: Path) -> Iterator[Mount]:
    """Serve ``mountpoint`` with a fresh daemon for the time of the block; its output goes to ``log``."""
    unmount(mountpoint)
    mountpoint.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        start = time.perf_counter()
        daemon = subprocess.Popen(
            [str(part) for part in command(mountpoint)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield Mount(mountpoint, daemon, _wait_ready(daemon, mountpoint, log) - start)
        finally:
            unmount(mountpoint)
            _end(daemon)


def _wait_ready(daemon: subprocess.Popen[bytes], mountpoint: Path, log: Path) -> float:
    """Return the time at which the mount answered."""
    deadline = time.perf_counter() + READY_SECONDS
    while not is_mounted(mountpoint):
        if daemon.poll() is not None or time.perf_counter() > deadline:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{mountpoint} was not mounted (exit {daemon.poll()}): {tail}")
        time.sleep(0.002)
    subprocess.run(["ls", "-f", str(mountpoint)], check=True, stdout=subprocess.DEVNULL, timeout=READY_SECONDS)
    return time.perf_counter()


def unmount(mountpoint: Path) -> None:
    """Unmount if mounted; if that does not help, detach."""
    if not is_mounted(mountpoint):
        return
    for options in ("-u", "-u", "-uz"):
        subprocess.run(["fusermount3", options, str(mountpoint)], capture_output=True, timeout=END_SECONDS)
        if not is_mounted(mountpoint):
            return
        time.sleep(0.3)
    raise RuntimeError(f"cannot unmount {mountpoint}")


def _end(daemon: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon ended by itself after the unmount; else end it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        daemon.wait(END_SECONDS)
        return
    daemon.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        daemon.wait(END_SECONDS)
        return
    daemon.kill()
    daemon.wait(END_SECONDS)


def passthrough(source: Path) -> Command:
    """Serve ``source`` with the passthrough of this directory."""
    return lambda mountpoint: (sys.executable, Path(__file__).with_name("passthrough.py"), source, mountpoint)


def bindfs(source: Path) -> Command:
    """Serve ``source`` with bindfs."""
    program = needs("bindfs")
    return lambda mountpoint: (program, "-f", "-r", source, mountpoint)


def squashfuse(image: Path) -> Command:
    """Serve a squashfs image with squashfuse."""
    program = needs("squashfuse")
    return lambda mountpoint: (program, "-f", image, mountpoint)


def ratarmount(archive: Path, index: Path) -> Command:
    """Serve a tar archive with ratarmount; the index file, once made, is reused."""
    program = needs("ratarmount")
    return lambda mountpoint: (program, "-f", "--index-file", index, archive, mountpoint)


def convfs(store: Path) -> Command:
    """Serve a store with convfs."""
    return lambda mountpoint: (*convfs_command(store), "mount", mountpoint, "--foreground")


def convfs_command(store: Path) -> tuple[str, ...]:
    """Return the beginning of a convfs command on this store, run by this Python from this work tree."""
    root = Path(__file__).resolve().parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); sys.argv[0] = 'convfs';"
        "from fusefs.cli.main import command; command()"
    )
    return (sys.executable, "-c", code, "--store", str(store))
