"""``convfs serve`` in a process of its own, for tests of what others may do to it, and of what it takes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from store import paths
from store.service import address
from tests.daemons import said

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 30


@dataclass
class Daemon:
    """A daemon that serves the store at ``root``; what it has to say goes to ``log``."""

    process: subprocess.Popen[bytes]
    root: Path
    log: Path

    @property
    def path(self) -> Path:
        path = address.noted_socket(self.root)
        assert path is not None
        return path

    @property
    def tcp(self) -> tuple[str, int]:
        return address.parsed(address.noted(self.root, "tcp"))

    @property
    def token(self) -> str:
        return (self.root / paths.TOKEN).read_text().strip()

    def memory(self, what: str = "VmRSS") -> int:
        """Return how many bytes it takes now; with ``VmHWM``: has taken at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(rf"^{what}:\s+([0-9]+) kB$", status, re.MULTILINE)[0]) << 10

    def connect(self, *, tcp: bool = False) -> socket.socket:
        peer = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        peer.settimeout(SECONDS)
        peer.connect(self.tcp if tcp else os.fspath(self.path))
        return peer


@contextmanager
def daemon(directory: Path, *options: str) -> Iterator[Daemon]:
    """Run a daemon on the store in ``directory`` while the block runs; it must end well, unless it is killed there."""
    root, log = directory / "store", directory / "log"
    with log.open("ab") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "fusefs.cli", "--store", str(root), "serve", *options],
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": str(directory)},
            stderr=written,
        )
    place = partial(address.noted_socket, root)
    with process:
        try:
            began = time.monotonic()
            while b"Serving " not in log.read_bytes() or address.noted_process(root) != process.pid or not place():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < began + SECONDS, log.read_text()
                time.sleep(0.02)
            yield Daemon(process, root, log)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(SECONDS) == 0, log.read_text()
            said(log.read_text())
        finally:
            if process.poll() is None:
                process.kill()
