"""Processes of ``tests/zygote.py``: they begin in some 10 ms, where to import what they need takes 250."""

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class _Zygote:
    """The process that others are forked off; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.zygote", str(other.fileno())],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def order(self, order: dict[str, object], streams: Sequence[int] = ()) -> dict[str, int]:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], streams)
            answer: dict[str, int] = json.loads(self._socket.recv(1024))
            return answer


@functools.cache
def _zygote() -> _Zygote:
    return _Zygote()


class Forked:
    """A process that does what ``python -m MODULE ARGUMENT…`` does, in a session of its own.

    It is used as :class:`subprocess.Popen` is. ``streams`` are the descriptors of its standard input, output and error.
    """

    def __init__(
        self,
        module: str,
        *arguments: object,
        streams: tuple[int, int, int],
        directory: Path = ROOT,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        order = {"module": module, "arguments": [str(argument) for argument in arguments]}
        place = {"directory": str(directory), "environment": dict(environment)}
        self.returncode: int | None = None
        self.peak = 0
        """The most bytes of memory that it had, or a process that it has waited for; once it has ended."""
        self._zygote = _zygote()
        self.pid = self._zygote.order({**order, **place}, streams)["pid"]
        # nobody else gets its number before it is waited for
        self._descriptor = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
        """Return how it ended, within ``timeout`` seconds, or raise TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            ended = self._zygote.order({"wait": self.pid})
            self.returncode, self.peak = ended["status"], ended["peak"]
            os.close(self._descriptor)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Done(subprocess.CompletedProcess[str]):
    """A process that has ended; ``peak`` is that of :class:`Forked`."""

    peak = 0


def run(module: str, *arguments: object, directory: Path, environment: Mapping[str, str], timeout: float) -> Done:
    """Run a module to its end, and until nobody can write to its standard output any more."""
    ears, mouth = os.pipe()
    with open(ears) as output, tempfile.TemporaryFile("w+") as errors:
        with open(mouth, "wb"), open(os.devnull) as nothing:
            streams = (nothing.fileno(), mouth, errors.fileno())
            process = Forked(module, *arguments, streams=streams, directory=directory, environment=environment)
        said = output.read()
        status = process.wait(timeout)
        errors.seek(0)
        done = Done([module, *arguments], status, said, errors.read())
        done.peak = process.peak
        return done
