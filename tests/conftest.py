"""Fixtures of several areas."""

import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from store.upkeep import recovery

# how long an example takes depends on who else is using the machine and its disk
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of :func:`logs`."""
    config.addinivalue_line("markers", "logs(pattern, ..., sometimes=False): what the test expects to be logged")


class _Warnings(logging.Handler):
    """Keeps what is logged as a warning, or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {self.format(record)}")


@pytest.fixture(autouse=True)
def logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that logs a warning, or worse, unless it expects it: ``@pytest.mark.logs("regular expression", …)``.

    Each of them must be found in something that is logged, unless it is so ``sometimes=True``. Daemons in processes of
    their own count: see ``tests/daemons.py``.
    """
    warnings = _Warnings()
    logging.getLogger().addHandler(warnings)
    yield
    logging.getLogger().removeHandler(warnings)
    expected = list(request.node.iter_markers("logs"))
    patterns = [pattern for marker in expected for pattern in marker.args]
    unexpected = [line for line in warnings.lines if not any(re.search(pattern, line) for pattern in patterns)]
    assert not unexpected, f"the test does not expect that this is logged: {unexpected}"
    always = [pattern for marker in expected if not marker.kwargs.get("sometimes") for pattern in marker.args]
    missing = [pattern for pattern in always if not any(re.search(pattern, line) for line in warnings.lines)]
    assert not missing, f"the test expects that this is logged: {missing}"


def scratch() -> Path:
    """Make a directory in memory, where there is one: for tests of many stores, whose syncs need not reach a disk."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="convfs-test-", dir=memory if os.access(memory, os.W_OK) else None))


@contextmanager
def scratch_file(name: str) -> Iterator[Path]:
    """Give a path in an empty directory of :func:`scratch`, for property tests, which make many."""
    directory = scratch()
    try:
        yield directory / name
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Return an empty directory of :func:`scratch`, removed afterwards."""
    directory = scratch()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def runtime_path(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what ``$XDG_RUNTIME_DIR`` is for the test; ``tmp_path`` may be too long a path for a socket."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(memory_path))
    return memory_path


@pytest.fixture
def small_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make journals so small that a test fills them."""
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 64 << 10)
    monkeypatch.setattr(recovery, "JOURNALS", 3)


SMALL_DISK = 12 << 20


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of ``SMALL_DISK`` bytes."""
    path = scratch()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(command, capture_output=True, timeout=20, check=False).returncode:
        path.rmdir()
        pytest.skip("only root may mount a small disk")
    yield path
    subprocess.run(["umount", str(path)], check=True, timeout=20)
    path.rmdir()


ON_SPACES = (
    "tests/store/test_store.py",
    "tests/store/conversations/test_appending.py",
    "tests/store/editing/test_editor.py",
    "tests/store/importing/test_importer.py",
    "tests/store/service/test_plane.py",
)
"""Tests that are run on stores of one machine, and on replicas of spaces; CONVFS_ON_SPACES names others instead."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some files once more, with stores that are replicas of a space in a directory."""
    path = str(metafunc.definition.path.relative_to(metafunc.config.rootpath))
    if path in (os.environ.get("CONVFS_ON_SPACES", "").split() or ON_SPACES):
        metafunc.fixturenames.append("ordered")
        metafunc.parametrize("ordered", ["alone", "directory"], indirect=True)


@pytest.fixture
def ordered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return who orders the commits of the stores that a test makes."""
    if request.param == "alone":
        yield "alone"
        return
    from tests.spaces import replicas

    with scratch_file("spaces") as directory, replicas(monkeypatch, directory):
        yield request.param
