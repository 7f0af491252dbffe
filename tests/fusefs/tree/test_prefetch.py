"""Files that are pushed into the page cache, and those that must not be. The kernel is recorded, not asked."""

from collections.abc import Iterator
from pathlib import Path

import pyfuse3
import pytest

from fusefs import inodes
from fusefs.inodes import Lookups, Place, Space
from fusefs.prefetch import Prefetch
from fusefs.tree.node import Directory, File
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.store import Store
from tests.fusefs.tree.mounting import add, assistant, bookkeeping, new_store, user

EVENTS = 120


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "store") as store:
        lines = [user("text " * (number + 1), number) for number in range(EVENTS)]
        lines[60] = bookkeeping()
        lines[61] = assistant("large " * 100_000, 61)
        add(store, lines)
        yield store


class Kernel:
    """Stands where pyfuse3 would push."""

    def __init__(self) -> None:
        self.pushed: dict[int, bytes] = {}
        self.unknown: set[int] = set()

    def notify_store(self, ino: int, offset: int, data: bytes) -> None:
        assert offset == 0
        if ino in self.unknown:
            raise FileNotFoundError
        self.pushed[ino & inodes.MAX_NUMBER] = data


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(pyfuse3, "notify_store", kernel.notify_store)
    return kernel


class Setting:
    def __init__(self, store: Store) -> None:
        self.tree = Tree(store)
        self.router = Router(self.tree)
        self.lookups = Lookups()
        self.prefetch = Prefetch(self.tree, self.lookups)

    def ino(self, number: int) -> int:
        return inodes.base(Space.EVENT, 1) + number

    def list(self) -> None:
        directory = self.router.place(1, Place.EVENTS)
        assert isinstance(directory, Directory)
        for entry in self.router.entries(directory, 0):
            self.lookups.add(entry.attributes.ino)

    def open(self, number: int) -> None:
        self.prefetch.opening(self.ino(number))

    def content(self, number: int) -> bytes:
        node = self.router.node(self.ino(number))
        assert isinstance(node, File)
        return node.open().read(0, 1 << 30)


@pytest.fixture
def setting(store: Store) -> Setting:
    return Setting(store)


def test_what_follows_in_a_listed_directory_is_pushed(setting: Setting, kernel: Kernel) -> None:
    setting.list()
    setting.open(1)
    assert min(kernel.pushed) == 1
    assert len(kernel.pushed) >= 16
    assert all(data == setting.content(number) for number, data in kernel.pushed.items())


def test_reading_in_order_pushes_everything_once_in_growing_windows(setting: Setting, kernel: Kernel) -> None:
    setting.list()
    sizes = []
    for number in range(1, EVENTS + 1):
        if number == 61:
            continue
        before = len(kernel.pushed)
        setting.open(number)
        setting.prefetch.released(setting.ino(number))
        if len(kernel.pushed) > before:
            sizes.append(len(kernel.pushed) - before)
    assert set(kernel.pushed) == set(range(1, EVENTS + 1)) - {61, 62}, "all but the one without a file and the large"
    assert sizes == sorted(sizes) or sizes[:-1] == sorted(sizes[:-1])
    assert len(sizes) <= 4


def test_nothing_is_pushed_that_the_kernel_does_not_know(setting: Setting, kernel: Kernel) -> None:
    setting.open(1)
    assert kernel.pushed == {}
    for number in (3, 5):
        setting.lookups.add(setting.ino(number))
    setting.open(3)
    assert set(kernel.pushed) == {3, 5}


def test_nothing_is_pushed_that_is_open(setting: Setting, kernel: Kernel) -> None:
    setting.list()
    for number in (4, 5):
        setting.prefetch._there.add(setting.ino(number))
    setting.open(4)
    setting.open(4)
    setting.prefetch.released(setting.ino(4))
    setting.open(5)
    setting.prefetch._there.clear()
    setting.open(1)
    assert {1, 2, 3, 6} <= set(kernel.pushed)
    assert not {4, 5} & set(kernel.pushed)
    setting.open(4)
    assert 4 not in kernel.pushed
    for _ in range(2):
        setting.prefetch.released(setting.ino(4))
    setting.open(4)
    assert 4 in kernel.pushed or setting.ino(5) in setting.prefetch._open


def test_what_was_pushed_is_pushed_again_only_after_a_read_or_a_forget(setting: Setting, kernel: Kernel) -> None:
    setting.list()
    setting.open(1)
    setting.prefetch.released(setting.ino(1))
    kernel.pushed.clear()
    setting.open(1)
    setting.prefetch.released(setting.ino(1))
    assert kernel.pushed == {}
    setting.prefetch.forget(setting.ino(1))
    setting.prefetch.forget(setting.ino(2))
    setting.open(1)
    setting.prefetch.released(setting.ino(1))
    assert {1, 2} <= set(kernel.pushed)
    kernel.pushed.clear()
    setting.prefetch.missed(setting.ino(1), 0)
    setting.open(2)
    assert {2, 3, 4} <= set(kernel.pushed), "a read says that the page cache was emptied"


def test_what_was_read_as_a_whole_need_not_be_pushed(setting: Setting, kernel: Kernel) -> None:
    setting.prefetch.missed(setting.ino(1), 0)
    setting.list()
    setting.open(1)
    assert kernel.pushed == {}


def test_an_inode_that_the_kernel_lost_stops_nothing(setting: Setting, kernel: Kernel) -> None:
    setting.list()
    kernel.unknown = {setting.ino(2)}
    setting.open(1)
    assert 3 in kernel.pushed
    assert 2 not in kernel.pushed
    assert setting.ino(2) not in setting.lookups


@pytest.mark.logs("nothing was pushed")
def test_an_error_while_pushing_does_not_fail_the_open(
    setting: Setting, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.list()
    monkeypatch.setattr(setting.tree, "view", lambda view_id: 1 / 0)
    setting.open(1)
    setting.prefetch.released(setting.ino(1))
