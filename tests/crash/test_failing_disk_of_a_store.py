"""The disk fails, once or from then on, or is full, at any operation of a whole life: who waits is told.

Afterwards, with a disk that works, everything acknowledged is there, and what was refused is there whole or not at
all. A run tries some 150 operations, each in one way, and all of an opening; ``CONVFS_LARGE_TESTS=1`` each in every
way.
"""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from store.commit import checkpointer
from store.disk import durable
from store.errors import ConvfsError
from store.store import Store
from tests.crash.life import Life, Noted, Told, problems
from tests.crash.life import small_store as small_store
from tests.model import freeze, instead

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
RUNS = 150
_BY_FD = ("pwrite_all", "fdatasync", "truncate")
_BY_PATH = ("sync_directory", "make_directory", "replace", "remove")


class Way(NamedTuple):
    """How a disk fails: with which error, at one operation or at all from there on, and how much it still writes."""

    code: int
    lasting: bool
    torn: float


WAYS = (
    Way(errno.EIO, False, 0.0),
    Way(errno.ENOSPC, True, 0.5),
    Way(errno.EIO, True, 1.0),
    Way(errno.ENOSPC, False, 0.0),
)


class Failing:
    """Has operation ``at`` on files below ``root`` fail, from when it is installed; none if that is None.

    ``unheard``: nobody is told, as in a build that takes no notice of errors.
    """

    def __init__(self, root: Path, at: int | None, way: Way, *, unheard: bool = False) -> None:
        self.operations = 0
        self.failed: list[str] = []
        self._root = f"{root}/"
        self._at = at
        self._way = way
        self._unheard = unheard
        self._lock = threading.RLock()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _BY_FD:
            patch.setattr(durable, name, self._of_fd(name, getattr(durable, name)))
        for name in _BY_PATH:
            patch.setattr(durable, name, self._of_path(name, getattr(durable, name)))
        patch.setattr(durable, "open_file", self._open_file(durable.open_file))

    def _fails(self, call: str, path: str) -> bool:
        if not path.startswith(self._root) or self._at is None:
            self.operations += path.startswith(self._root)
            return False
        number, self.operations = self.operations, self.operations + 1
        fails = number == self._at or (self._way.lasting and number > self._at)
        if fails:
            self.failed.append(f"{call} {path.removeprefix(self._root)}")
        return fails

    def _error(self) -> OSError:
        return OSError(self._way.code, "the disk fails, for a test")

    def _of_fd(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(fd: int, *arguments: object) -> None:
            with self._lock:
                if self._fails(name, os.readlink(f"/proc/self/fd/{fd}")):
                    if name == "pwrite_all":
                        data, offset = arguments
                        assert isinstance(data, bytes | bytearray | memoryview)
                        real(fd, bytes(data)[: int(len(data) * self._way.torn)], offset)
                    if self._unheard:
                        return
                    raise self._error()
            real(fd, *arguments)

        return call

    def _of_path(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Path, *more: Path) -> None:
            with self._lock:
                # a directory that is there is not made
                if not (name == "make_directory" and path.exists()) and self._fails(name, str(path)):
                    raise self._error()
            real(path, *more)

        return call

    def _open_file(self, real: Callable[..., int]) -> Callable[..., int]:
        def open_file(path: Path, *, create: bool = False, read_only: bool = False) -> int:
            with self._lock:
                if create and not path.exists() and self._fails("create", str(path)):
                    raise self._error()
            return real(path, create=create, read_only=read_only)

        return open_file


@pytest.fixture(autouse=True)
def the_same_each_time(small_store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same states come about in each life."""
    monkeypatch.setattr("time.time_ns", lambda: 1_772_740_000_000_000_000)
    monkeypatch.setattr(checkpointer, "_FEWEST_TURNS", 1 << 30)


def lived(directory: Path, at: int | None, way: Way, *, unheard: bool = False) -> tuple[Life, Failing, str]:
    """Live on a disk that fails; return what was told when it did."""
    root = directory / "store"
    root.mkdir(parents=True)
    life = Life(root, directory, threads=1)
    disk = Failing(root, at, way, unheard=unheard)
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        try:
            life.run()
        except ConvfsError as error:
            return life, disk, str(error)
    return life, disk, ""


@pytest.mark.timeout(36_000 if LARGE else 600)
@pytest.mark.logs("in the journal", "left to the journal", sometimes=True)
def test_any_operation_fails(memory_path: Path) -> None:
    directory = memory_path / "life"
    life, disk, _said = lived(directory, None, WAYS[0])
    told = life.told
    shutil.rmtree(directory)
    every = 1 if LARGE else max(1, disk.operations // RUNS)
    calls = set()
    for number, at in enumerate(range(0, disk.operations, every)):
        for way in WAYS if LARGE else WAYS[number % len(WAYS) :][:1]:
            life, disk, said = lived(directory, at, way)
            for failed in disk.failed[:1]:
                calls.add(failed.partition(" ")[0])
                # what follows from the logs may be missing, and so may the end of a file's being cut; and what the
                # journal has waits for room
                waits = way.code == errno.ENOSPC and not failed.startswith(
                    ("pwrite_all journal/1", "pwrite_all journal/2")
                )
                derived = failed.endswith(("turns.jump", "index.db"))
                assert said or derived or waits or failed.startswith("truncate"), failed
            assert problems(life.root, told, life.told.note()) == [], (at, way, disk.failed[:1])
            shutil.rmtree(directory)
    assert calls >= {"pwrite_all", "fdatasync"}


@pytest.mark.logs("left to the journal", sometimes=True)
def test_an_opening_fails(memory_path: Path) -> None:
    """At any operation of recovering what was killed, and of closing it again."""
    told, noted = killed(memory_path)
    root = memory_path / "copy"
    at, ways = 0, 0
    while True:
        for way in WAYS if LARGE else (WAYS[at % 2], WAYS[2 + at % 2]):
            shutil.copytree(memory_path / "killed", root)
            instead(root)
            disk = Failing(root, at, way)
            with pytest.MonkeyPatch.context() as patch:
                disk.install(patch)
                try:
                    Store.open(root).close()
                except ConvfsError:
                    assert disk.failed
            if not disk.failed:
                break
            assert problems(root, told, noted) == [], (at, way, disk.failed[:1])
            shutil.rmtree(root)
            ways += 1
        else:
            at += 1
            continue
        break
    assert ways > 20


def test_a_build_that_takes_no_notice_is_found_out(memory_path: Path) -> None:
    """A write that did not happen, and nobody was told: the control."""
    directory = memory_path / "life"
    life, disk, _said = lived(directory, None, WAYS[0])
    told = life.told
    for at in range(20, disk.operations, 3):
        shutil.rmtree(directory)
        life, disk, _said = lived(directory, at, WAYS[0], unheard=True)
        if disk.failed[0].startswith("pwrite_all") and problems(life.root, told, life.told.note()):
            return
    pytest.fail("nothing was found")


def killed(directory: Path) -> tuple[Told, Noted]:
    """Leave a store behind as kill -9 does, in the middle of its life."""
    root = directory / "store"
    life = Life(root, directory, threads=1)
    real, left = life.bring_in, []

    def bring_in(store: Store, *texts: str) -> None:
        real(store, *texts)
        if not left:
            left.append(life.told.note())
            freeze(store, directory / "killed")

    life.bring_in = bring_in  # type: ignore[method-assign]  # it comes at the end of a day
    life.run()
    return life.told, left[0]
