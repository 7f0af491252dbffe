"""``convfs install-service``: a systemd unit of this user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from fusefs.cli.output import echo

UNIT = "convfs.service"
_SECONDS = 90
_PASSED_ON = (
    "AIDER_CHAT_HISTORY_FILE",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "FILE_STORE_PATH",
    "GEMINI_CLI_HOME",
    "LLM_USER_PATH",
    "OPENCODE_DB",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "PI_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
"""Variables by which tools and convfs find their files: the service does not inherit them from a shell."""


@click.command("install-service", short_help="Have systemd run a mount that imports your sessions.")
@click.argument("directory", metavar="[DIR]", required=False, type=Path)
@click.option("--remove", is_flag=True, help="Stop and remove the service.")
@click.pass_obj
def install_service(store: Path | None, directory: Path | None, remove: bool) -> None:
    """Have systemd mount your conversations at DIR when you log in, and import your sessions as they grow.

    Writes the unit convfs.service below $XDG_CONFIG_HOME/systemd/user, and starts it if your systemd runs. The default
    for DIR is ~/conversations.
    """
    if remove and directory is not None:
        raise click.UsageError("--remove goes without a DIR")
    from fusefs.cli.backend import store_root

    path = _units() / UNIT
    if remove:
        _remove(path)
        return
    mountpoint = Path(os.path.abspath(directory or Path.home() / "conversations"))
    text = unit(_program(), Path(os.path.realpath(store_root(store))), mountpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    echo(f"{'Wrote' if known is None else 'Wrote anew' if known != text else 'Left as it was:'} {path}")
    if not _has_manager():
        echo("No user systemd is running here. Where one is, start the service with")
        echo(f"  systemctl --user daemon-reload && systemctl --user enable --now {UNIT}")
        return
    _systemctl("daemon-reload")
    _systemctl("enable", UNIT)
    _systemctl("restart", UNIT)
    echo(f"Started {UNIT}: {mountpoint} is mounted, now and when you log in.")
    echo(f"`systemctl --user status {UNIT}` shows its state; `loginctl enable-linger` runs it without a login.")


def unit(program: Sequence[str], root: Path, mountpoint: Path) -> str:
    """Return the text of the unit that has ``program`` mount the store at ``root``."""
    command = [*program, "--store", str(root), "mount", "--foreground", "--watch", str(mountpoint)]
    environment = [f"{name}={value}" for name in _PASSED_ON if (value := os.environ.get(name))]
    if (modules := os.environ.get("PYTHONPATH")) is not None:
        environment.append(f"PYTHONPATH={modules}")
    lines = [
        "[Unit]",
        "Description=Conversations with AI tools, mounted and kept up to date",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(map(_quoted, command))}",
        *(f"Environment={_quoted(one, variables=False)}" for one in environment),
        "WorkingDirectory=~",
        "Restart=on-failure",
        "RestartSec=5",
        "# time to bring written data to disk",
        "TimeoutStopSec=120",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _quoted(word: str, *, variables: bool = True) -> str:
    """Return a word in systemd's quoting; in a command, where systemd expands ``variables``, a dollar is doubled."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{word.replace("$", "$$") if variables else word}"'


def _program() -> list[str]:
    """Return the command that runs this program: its script, or the interpreter and its module."""
    script = shutil.which(sys.argv[0])
    if script and os.path.basename(script) == "convfs":
        return [os.path.abspath(script)]
    return [sys.executable, "-m", "fusefs.cli"]


def _units() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if os.path.isabs(config) else Path.home() / ".config") / "systemd" / "user"


def _has_manager() -> bool:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return bool(runtime) and Path(runtime, "systemd", "private").is_socket() and shutil.which("systemctl") is not None


def _systemctl(*arguments: str) -> None:
    from store.errors import ConvfsError

    command = ["systemctl", "--user", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ConvfsError(f"`{' '.join(command)}` does not end: see `systemctl --user status`") from error
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split()) or f"it ends with {done.returncode}"
        raise ConvfsError(f"`{' '.join(command)}` fails: {reason}")


def _remove(path: Path) -> None:
    if not path.exists():
        echo(f"There is no {path}.")
        return
    if _has_manager():
        _systemctl("disable", "--now", UNIT)
    path.unlink()
    if _has_manager():
        _systemctl("daemon-reload")
        echo(f"Stopped {UNIT} and removed {path}")
    else:
        echo(f"Removed {path}")
