"""A user of their own for each test: a home with sessions of tools in it, and the command run in a process."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemons import said
from tests.forked import run

ROOT = Path(__file__).resolve().parent.parent.parent.parent
SECONDS = 60


class User:
    """Somebody with a home directory, who runs ``convfs``. ``run`` is for what should work, ``fails`` for the rest."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.store = self.home / ".local/share/convfs"
        self.runtime = directory / "run"
        self.runtime.mkdir(mode=0o700)
        self.home.mkdir()
        self.environment = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "LC_ALL": "C.UTF-8",
        }

    def convfs(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(
            "fusefs.cli",
            *arguments,
            directory=self.home,
            environment=self.environment | environment,
            timeout=SECONDS,
        )

    def run(self, *arguments: object, **environment: str) -> str:
        done = self.convfs(*arguments, **environment)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def fails(self, *arguments: object, code: int = 1, **environment: str) -> str:
        """Run what should fail, and return the one line that it says."""
        done = self.convfs(*arguments, **environment)
        assert done.returncode == code, done
        assert done.stderr.startswith("convfs: "), done
        assert done.stderr.count("\n") == 1, done
        return done.stderr

    def session(self, project: str, name: str, *texts: str) -> Path:
        """Write a Claude Code session of questions and answers where that tool keeps them."""
        path = self.home / ".claude/projects" / f"-home-ada-{project}" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                role = "assistant" if number % 2 else "user"
                record = {
                    "parentUuid": None,
                    "sessionId": name,
                    "cwd": f"/home/ada/{project}",
                    "type": role,
                    "message": {"role": role, "content": text},
                    "uuid": f"{name}-{path.stat().st_size}-{number}",
                    "timestamp": f"2026-03-05T19:31:{number:02}.000Z",
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return path

    def list(self) -> list[dict[str, Any]]:
        return json.loads(self.run("ls", "--json"))


@contextmanager
def serving(user: User, *arguments: object, store: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run ``convfs serve`` until the block ends, by SIGTERM."""
    with subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", "--store", store or user.store, "serve", *map(str, arguments)],
        env=user.environment,
        cwd=user.home,
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        try:
            assert daemon.stderr is not None
            # what was recovered is said first
            assert any(line.startswith("Serving ") for line in daemon.stderr), "it does not serve"
            yield daemon
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                assert daemon.wait(20) == 0
            said(daemon.stderr.read())
        finally:
            if daemon.poll() is None:
                daemon.kill()


def on_a_terminal(user: User, *arguments: object, **environment: str) -> str:
    """Run the command on a terminal, and return all that it shows."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", *map(str, arguments)],
        env=user.environment | {"COLUMNS": "100", "TERM": "xterm"} | environment,
        cwd=user.home,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 65536):
            shown += chunk
    except OSError:
        # How a terminal says that its other side is gone.
        pass
    os.close(leader)
    assert process.wait(60) == 0, shown
    return shown.decode()
