"""Fixtures of several areas."""

import faulthandler
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

from store.upkeep import recovery

if TYPE_CHECKING:
    from tests.servers import S3, Postgres

# how long an example takes depends on who else is using the machine and its disk
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; have directories of tests in memory."""
    config.addinivalue_line("markers", "logs(pattern, ..., sometimes=False): what the test expects to be logged")
    config.addinivalue_line("markers", "of_one_machine(reason): says nothing of a replica, see pytest_generate_tests")
    # what a test writes to it is caught
    config.stash[_STDERR] = os.dup(sys.stderr.fileno())
    # stores sync what they write, and half of the time of a test was waiting for the disk
    is_large = any(name.startswith("CONVFS_LARGE") for name in os.environ)
    if not is_large and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _LEAST_MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


_MEMORY = Path("/dev/shm")
_LEAST_MEMORY_BYTES = 4 << 30
"""So much room is enough for ``tmp_path`` of all tests that run side by side."""


# -- tests that hang ---------------------------------------------------------------------------------------------------

_GRACE_SECONDS = 60.0
"""The time after which a test is ended, once it was told that its time is over."""
_SECONDS = pytest.StashKey[float]()
_STDERR = pytest.StashKey[int]()


def _watch(item: pytest.Item) -> None:
    """End the process if the test goes on long after its time is over: it may wait for a thread that hangs.

    A worker that ends so is replaced: its test has failed, and the others are run.
    """
    # seldom: each time takes a thread, for which a busy machine may need longer than for a test
    seconds = item.stash[_SECONDS] + _GRACE_SECONDS
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_STDERR])


def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> None:
    item.stash[_SECONDS] = settings.timeout
    _watch(item)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    # pytest stops watching a test that has failed, for a debugger; its teardown may hang all the same
    if isinstance(node, pytest.Item) and _SECONDS in node.stash:
        _watch(node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


# -- warnings ----------------------------------------------------------------------------------------------------------


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
    return Path(tempfile.mkdtemp(prefix="convfs-test-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Give an empty directory of :func:`scratch`."""
    directory = scratch()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def scratch_file(name: str) -> Iterator[Path]:
    """Give a path in an empty directory of :func:`scratch`, for property tests, which make many."""
    with scratch_directory() as directory:
        yield directory / name


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Return an empty directory of :func:`scratch`, removed afterwards."""
    with scratch_directory() as directory:
        yield directory


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
    "tests/fusefs/editing/test_outputs.py",
    "tests/store/test_store.py",
    "tests/store/conversations/test_appending.py",
    "tests/store/editing/test_editor.py",
    "tests/store/importing/test_importer.py",
    "tests/store/service/test_plane.py",
    "tests/store/transfer/test_carrying.py",
    "tests/store/upkeep/test_gc.py",
)
"""Tests that are run on stores of one machine, and on replicas of spaces in a directory."""
ON_SERVERS = ("tests/store/test_store.py", "tests/store/editing/test_editor.py")
"""Those of them that are run on replicas of spaces in PostgreSQL, too."""
CHOSEN = os.environ.get("CONVFS_ON_SPACES", "").split()
"""Files to run on stores of one machine and on both kinds of spaces, no others. ``all``: all tests of the store, on
replicas of spaces in PostgreSQL and S3 alone."""
_MAKE_THEIR_OWN = "tests/store/shared/"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some files once more for each kind of space, with stores that are replicas of one.

    Except for those with the marker ``of_one_machine``: of the failures of one disk, or of how its logs and packs look.
    """
    path = metafunc.definition.path.relative_to(metafunc.config.rootpath).as_posix()
    if metafunc.definition.get_closest_marker("of_one_machine") is not None:
        return
    if CHOSEN == ["all"]:
        orders = ["servers"] if path.startswith("tests/store/") and not path.startswith(_MAKE_THEIR_OWN) else []
    elif path in (CHOSEN or ON_SPACES):
        orders = ["alone", "directory", "postgres"] if path in (CHOSEN or ON_SERVERS) else ["alone", "directory"]
    else:
        orders = []
    if orders:
        metafunc.parametrize("ordered", orders, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not run on spaces, if CONVFS_ON_SPACES says so."""
    if CHOSEN:
        left_out = [item for item in items if "ordered" not in getattr(getattr(item, "callspec", None), "params", ())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def ordered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return who orders the commits of the stores that a test makes."""
    kind: str = getattr(request, "param", "alone")
    if kind == "alone":
        yield kind
        return
    from tests.spaces import replicas, spaces

    # tests go on with a copy of a store as if its process had been killed
    request.applymarker(pytest.mark.logs("a copy of this replica has been opened since", sometimes=True))
    with scratch_directory() as directory, replicas(monkeypatch, directory, spaces(request, kind, directory)):
        yield kind


@pytest.fixture(scope="session")
def postgres() -> Iterator["Postgres"]:
    """Return a PostgreSQL server that is started once a worker."""
    from tests.servers import Postgres

    directory = scratch()
    server = Postgres(directory / "postgres")
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def s3() -> Iterator["S3"]:
    """Return an S3 server that is started once a worker."""
    from tests.servers import S3

    directory = scratch()
    server = S3(directory / "s3")
    try:
        server.start()
        yield server
    finally:
        # in order it takes half a minute
        server.stop(kill=True)
        shutil.rmtree(directory)
