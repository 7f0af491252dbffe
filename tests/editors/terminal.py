"""A terminal that a program believes in: tmux runs it, types for us, and tells what is on the screen."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

COLUMNS, LINES = 110, 40
PATIENCE = 20.0
_SETTINGS = """
set -g remain-on-exit on
set -g status off
set -s escape-time 0
set -g default-terminal screen
"""
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()].|[ -/]*[0-~])")


class Terminal:
    """One program in one terminal. Every wait ends: in an assertion that shows the screen, where nothing else does."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._output = socket.with_suffix(".output")
        self._ended = socket.with_suffix(".ended")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", str(self._socket.with_suffix(".conf")), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"tmux {shlex.join(arguments)}: {done.stderr}"
        return done.stdout

    def start(self, command: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
        """Run ``command``; what it writes is noted from the first byte on."""
        self._socket.with_suffix(".conf").write_text(_SETTINGS)
        size = ("-x", str(COLUMNS), "-y", str(LINES))
        self._tmux("new-session", "-d", *size, "sleep", str(10 * int(PATIENCE)))
        self._tmux("pipe-pane", "-O", f"cat >{shlex.quote(str(self._output))}")
        # tmux has an environment of its own, and what stands in ours must not leak into the program
        variables = [f"{name}={value}" for name, value in environment.items()]
        line = shlex.join(["env", "-i", "TERM=screen", *variables, *command])
        ended = shlex.quote(str(self._ended))
        self._tmux("respawn-pane", "-k", "-c", str(directory), f"{line}; echo $? >{ended}.new; mv {ended}.new {ended}")

    def screen(self) -> str:
        """Return what is on the screen, without the blanks at the ends of lines."""
        lines = self._tmux("capture-pane", "-p").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def said(self) -> str:
        """Return all that the program ever wrote, without the escapes that move the cursor and give colours."""
        return _ESCAPES.sub(b" ", self._output.read_bytes()).decode(errors="replace")

    def wait_for(self, pattern: str) -> None:
        """Wait until the screen matches the regular expression ``pattern``."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, screen := self.screen(), re.MULTILINE):
            assert time.monotonic() < end, f"{pattern!r} does not appear:\n{screen}"
            assert self._status() is None, f"ended before {pattern!r} appeared:\n{screen}"
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type a text, letter by letter as it stands."""
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by name: ``C-x``, ``Enter``, ``Escape``, ``F2``."""
        self._tmux("send-keys", *keys)

    def wait_end(self) -> None:
        """Wait until the program ends by itself, and well."""
        end = time.monotonic() + PATIENCE
        while (status := self._status()) is None:
            assert time.monotonic() < end, f"it does not end:\n{self.screen()}"
            time.sleep(0.02)
        assert status == 0, f"it ended with {status}:\n{self.screen()}"

    def _status(self) -> int | None:
        # tmux itself does not always know how a program ended
        return int(self._ended.read_text()) if self._ended.exists() else None

    def close(self) -> None:
        """End the program, however it is, and the terminal."""
        command = ["tmux", "-S", str(self._socket), "kill-server"]
        subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)


@contextmanager
def terminal(command: Sequence[str], directory: Path, environment: dict[str, str], sockets: Path) -> Iterator[Terminal]:
    """Run ``command`` in a terminal for the time of the block; it must have ended well by then.

    ``sockets`` is a directory with a short path, for the names of sockets are.
    """
    opened = Terminal(sockets / f"tmux-{os.getpid()}-{time.monotonic_ns()}")
    try:
        opened.start(command, directory, environment)
        yield opened
        opened.wait_end()
    finally:
        opened.close()
