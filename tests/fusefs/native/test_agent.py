"""Programs that behave as coding agents do, working in ``.convfs/native/``: what they read is what they wrote."""

import os
import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store.importing.exporter import export_native
from store.importing.snapshot import text_path
from store.upkeep.fsck import fsck
from tests.fusefs.native.agent import Agent
from tests.fusefs.tree.mounting import PATIENCE, Mounted, errno_of, mounted, new_store

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
STEPS = 1200 if LARGE else 120


def tool(mount: Mounted) -> Path:
    return mount.root / ".convfs/native/claude-code"


def check_store(root: Path, agents: Sequence[Agent], below: Path) -> None:
    """Compare every conversation's export with what was written, and what is in the trash with what was removed."""
    written = {path.relative_to(below): data for agent in agents for path, data in agent.written.items()}
    sessions = {path: data for path, data in written.items() if path.suffix == ".jsonl"}
    with new_store(root) as store:
        homes = Path.home() / ".claude/projects"
        found = {}
        for conversation in store.library.conversations():
            path = text_path(conversation.source).relative_to(homes)
            with tempfile.TemporaryDirectory(dir=root.parent) as out:
                [exported, *_beside] = export_native(store, conversation, Path(out))
                found[path] = exported.read_bytes()
        assert found.keys() == sessions.keys()
        for path, data in sessions.items():
            assert found[path] == data, path
        removed = {path.relative_to(below) for agent in agents for path in agent.removed}
        trashed = {text_path(entry.source).relative_to(homes) for entry in store.library.trash()}
        assert {path for path in removed if path.suffix == ".jsonl"} == trashed
        assert fsck(store) == []


def test_an_agent_reads_what_it_wrote(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        agent = Agent(tool(mount), 1)
        for _ in agent.work(STEPS):
            pass
        agent.check()
        assert len([*(mount.root / "conversations").rglob("events")]) == len(agent.sessions())
    check_store(store_path, [agent], agent.root)


def test_several_at_once(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        root = tool(mount)
        agents = [Agent(root, seed) for seed in range(2, 6)]

        def work(agent: Agent) -> None:
            for _ in agent.work(STEPS // 3):
                pass

        with ThreadPoolExecutor(len(agents)) as pool:
            list(pool.map(work, agents))
        for agent in agents:
            for path in agent.written:
                agent.read(path)
    check_store(store_path, agents, root)


@pytest.mark.parametrize("seed", range(20, 30) if LARGE else [20])
def test_a_daemon_that_is_killed_loses_nothing(store_path: Path, seed: int) -> None:
    with new_store(store_path):
        pass
    agent: Agent | None = None
    for life in range(4):
        killed = life < 3
        try:
            with mounted(store_path) as mount:
                agent = Agent.after(agent, tool(mount), seed * 10 + life)
                agent.check()
                if not killed:
                    break
                for step, _ in enumerate(agent.work(40)):
                    if step == 30:
                        break
                mount.daemon.kill()
                mount.daemon.wait(PATIENCE)
                for fd in agent.streams.values():
                    errno_of(lambda fd=fd: os.close(fd))
        except AssertionError:
            assert killed
            assert mount.daemon.returncode == -signal.SIGKILL
    assert agent is not None
    check_store(store_path, [agent], agent.root)
