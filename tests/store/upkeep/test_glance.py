"""A glance at a store: what it tells is what the open store tells, and anything out of order is left to an opening."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusefs.daemon.calls import ALL_OPERATIONS
from fusefs.text import RENDERER_VERSION
from fusefs.text.render import FileRenderer
from store import paths
from store.conversations.listing import NotMeasured, nested_lines
from store.service.server import Service, serving
from store.settings import Settings
from store.store import Store
from store.upkeep.glance import glance

LINE = b'{"type":"user","message":{"role":"user","content":"Have a look."},"timestamp":"2026-03-05T00:00:00Z"}'
TYPE = "claude-code.line.v1"
ROOT = Path(__file__).resolve().parents[3]


def make(root: Path) -> list[object]:
    """Make a store with a few conversations, closed in order; return its listing."""
    with Store.open(root, renderer=FileRenderer()) as store:
        for number in range(3):
            context = store.contexts.create(metadata={"project": f"p{number % 2}", "name": f"talk-{number}"}).context
            store.contexts.append(context, LINE, TYPE)
        store.library.conversations()
        return [line for page in nested_lines(store.library, "", every=False) for line in page]


def told(root: Path) -> list[object] | None:
    with glance(root, Settings(), RENDERER_VERSION) as listing:
        if listing is None:
            return None
        return [line for page in nested_lines(listing, "", every=False) for line in page]


def listed(root: Path) -> dict[str, tuple[int, int]]:
    """Return sizes and times of all files of a store."""
    found = {}
    for folder, _folders, files in os.walk(root):
        for name in files:
            status = os.stat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = status.st_size, status.st_mtime_ns
    return found


def test_what_the_open_store_tells(tmp_path: Path) -> None:
    lines = make(tmp_path / "store")
    before = listed(tmp_path / "store")
    assert len(lines) == 3
    assert told(tmp_path / "store") == lines
    assert listed(tmp_path / "store") == before


def test_nothing_is_told_of_a_store_that_is_open(tmp_path: Path) -> None:
    make(tmp_path / "store")
    with Store.open(tmp_path / "store", renderer=FileRenderer()):
        assert told(tmp_path / "store") is None
    assert told(tmp_path / "store") is not None


def test_nor_of_one_whose_process_was_killed(tmp_path: Path) -> None:
    lines = make(tmp_path / "store")
    program = (
        "import os, sys; from pathlib import Path; from store.store import Store\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "store.contexts.append(1, sys.argv[2].encode(), sys.argv[3])\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "store", LINE, TYPE], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert told(tmp_path / "store") is None
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        store.library.conversations()
    now = told(tmp_path / "store")
    assert now is not None
    assert len(now) == len(lines)
    assert now != lines


@pytest.mark.of_one_machine("it changes the log")
@pytest.mark.parametrize("name", [paths.INDEX, paths.TURN_LOG, paths.HEAD_LOG, paths.CHECKPOINT, paths.IDENTITY])
def test_nor_where_something_is_gone_or_longer(tmp_path: Path, name: str) -> None:
    make(tmp_path / "store")
    path = tmp_path / "store" / name
    kept = path.read_bytes()
    path.unlink()
    assert told(tmp_path / "store") is None
    path.write_bytes(kept)
    assert told(tmp_path / "store") is not None
    if name in (paths.TURN_LOG, paths.HEAD_LOG):
        path.write_bytes(kept + b"x")
        assert told(tmp_path / "store") is None


def test_nor_of_a_copy_or_by_another_renderer(tmp_path: Path) -> None:
    make(tmp_path / "store")
    with glance(tmp_path / "store", Settings(), RENDERER_VERSION + 1) as listing:
        assert listing is None
    (tmp_path / "store").rename(tmp_path / "moved")
    assert told(tmp_path / "moved") is None


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "talk"}).context
        store.contexts.append(context, LINE, TYPE)
    with pytest.raises(NotMeasured):
        told(tmp_path / "store")


OPENING = {"store.store", "store.upkeep.recovery", "store.formats.registry", "store.service.client", "trio"}
"""Modules that who opens a store, or serves one, loads."""


def loaded(root: Path, *command: str) -> tuple[list[str], set[str]]:
    """Run a command on a store; return the lines that it prints, and the modules that it has loaded."""
    program = (
        "import sys; from fusefs.cli.main import main\n"
        "try: main(sys.argv[1:])\nfinally: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--store", root, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    *lines, modules = done.stdout.splitlines()
    return lines, set(modules.split())


def test_a_command_that_lists_loads_nothing_that_opens_a_store(tmp_path: Path) -> None:
    make(tmp_path / "store")
    lines, modules = loaded(tmp_path / "store", "ls")
    assert len(lines) == 4
    assert not modules & OPENING
    assert not modules & {"fusefs.text.render", "zstandard", "pyfastcdc", "rich", "trio", "pyfuse3", "psycopg"}
    # what takes milliseconds, and is only needed where something is unusual
    assert not modules & {"inspect", "platform", "typing_extensions", "ctypes", "logging", "shutil", "socket"}
    assert not modules & {"json", "tempfile", "textwrap", "urllib.parse"}


@pytest.mark.parametrize(
    "command",
    [("ls",), ("log", "1"), ("show", "1"), ("search", "look"), ("grep", "look"), ("diff", "1", "1"), ("where", "p:q")],
    ids=lambda command: command[0],
)
def test_nor_does_one_that_a_daemon_answers(tmp_path: Path, command: tuple[str, ...]) -> None:
    root = tmp_path / "store"
    make(root)
    with Store.open(root, renderer=FileRenderer()) as store, serving(Service(store, ALL_OPERATIONS)):
        if command[0] == "where":
            command = ("where", store.contexts.last(1, 1)[0].payload_hash.hex())
        _lines, modules = loaded(root, *command)
    assert "store.service.caller" in modules
    assert not modules & OPENING
    assert not modules & {"store.index.database", "store.editing.editor", "store.service.calls", "zstandard", "sqlite3"}
