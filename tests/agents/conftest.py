"""Homes with an agent, and models for them."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from fusefs.mount_table import mounts
from tests.agents.model import model
from tests.agents.tools import PLACE, Home, Tool
from tests.fusefs.tree.mounting import work_directory

NewHome = Callable[[Tool], Home]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the tests that run an agent unless there is a place for agents, and give them their time."""
    for item in items:
        if "new_home" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.skipif(PLACE is None, reason="CONVFS_TOOLS names no directory for the agents"))


@contextmanager
def _homes() -> Iterator[NewHome]:
    """Make homes, each for a tool and with a model of its own; afterwards nothing is mounted there, and all is gone."""
    with ExitStack() as stack:

        def make(tool: Tool) -> Home:
            tool.install()
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-", dir=work_directory())))
            stack.callback(_unmount_below, path)
            return Home(path, tool, stack.enter_context(model(plain=tool.shell is None)))

        yield make


@pytest.fixture
def new_home() -> Iterator[NewHome]:
    """Make a home for a tool."""
    with _homes() as make:
        yield make


@pytest.fixture(scope="session")
def home_of_all() -> Iterator[NewHome]:
    """Return the home of a tool that all tests share; they only read there."""
    with _homes() as make:
        yield cache(make)


def _unmount_below(path: Path) -> None:
    for mount in list(mounts()):
        if mount.path.is_relative_to(path):
            subprocess.run(["fusermount3", "-uz", mount.path], check=False, timeout=20)
