"""Files that are pushed into the page cache, and those that must not be. The kernel is recorded, not asked."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyfuse3
import pytest

from fusefs import inodes
from fusefs.inodes import Lookups, Place, Space
from fusefs.prefetch import Prefetch
from fusefs.tree.node import Directory, File
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.conversations.contexts import Append
from store.store import Store
from tests.fusefs.tree.mounting import TYPE, add, assistant, bookkeeping, new_store, user

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


# -- transcripts -------------------------------------------------------------------------------------------------------

TALKS = 30


class Talks(Setting):
    """A store of many conversations, whose texts are kept."""

    def __init__(self, store: Store) -> None:
        for number in range(2, TALKS + 1):
            add(store, [user(f"talk {number}", at) for at in range(number % 5 + 1)], name=f"talk-{number:03}")
        while store.texts.step():
            pass
        super().__init__(store)

    def ino(self, number: int) -> int:
        return inodes.base(Space.PLACE, number) + Place.TRANSCRIPT

    def list(self, project: str = "project") -> None:
        directory = self.router.node(self.tree.ino(("transcripts", project)))
        assert isinstance(directory, Directory)
        for entry in self.router.entries(directory, 0):
            self.lookups.add(entry.attributes.ino)

    def open_all(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.open(number)
            self.prefetch.released(self.ino(number))


class Pushed(Kernel):
    """Records what is pushed by the conversation, and in order."""

    def notify_store(self, ino: int, offset: int, data: bytes) -> None:
        assert offset == 0
        if ino in self.unknown:
            raise FileNotFoundError
        _space, view_id, place = inodes.split(ino)
        assert place == Place.TRANSCRIPT
        self.pushed[view_id] = data


@pytest.fixture
def talks(store: Store) -> Talks:
    return Talks(store)


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> Pushed:
    pushed = Pushed()
    monkeypatch.setattr(pyfuse3, "notify_store", pushed.notify_store)
    return pushed


def test_transcripts_are_pushed_in_the_order_of_their_directory(talks: Talks, pushed: Pushed) -> None:
    talks.list()
    talks.open(2)
    assert list(pushed.pushed) == [*range(2, 10)]
    assert all(data == talks.content(number) for number, data in pushed.pushed.items())
    talks.prefetch.released(talks.ino(2))
    talks.open_all(range(2, 11))
    assert list(pushed.pushed) == [*range(2, 26)], "twice as many, as who reads went on"
    talks.open_all(range(11, TALKS + 1))
    # the first is too large: its events alone are more than one file may be
    assert list(pushed.pushed) == [*range(2, TALKS + 1)]


def test_who_has_read_a_project_goes_on_with_the_next(talks: Talks, pushed: Pushed, store: Store) -> None:
    first = {}
    for project in ("second", "third"):
        first[project] = add(store, [user("more", 0)], project=project, name="talk-000")
        for number in range(1, 20):
            add(store, [user("more", number)], project=project, name=f"talk-{number:03}")
    while store.texts.step():
        pass
    talks.list()
    talks.list("second")
    talks.list("third")
    talks.open_all([2, first["second"]])
    assert len(pushed.pushed) == 16, "who has begun with one begins with the other"
    talks.open_all(range(3, TALKS + 1))
    pushed.pushed.clear()
    talks.open(first["third"])
    assert len(pushed.pushed) == 20


def test_a_transcript_is_pushed_only_while_nothing_about_it_differs(talks: Talks, pushed: Pushed, store: Store) -> None:
    talks.list()
    talks.open(4)
    pushed.pushed.clear()
    talks.prefetch._there.clear()
    talks.tree.unsettle(talks.ino(5))
    talks.tree.known[talks.ino(6)] = talks.tree.new_number()
    talks.lookups.drop(talks.ino(7))
    pushed.unknown = {talks.ino(8)}
    store.contexts.append_many(9, [Append(user("more", 9).encode(), TYPE)])
    talks.tree.view(10)
    store.contexts.append_many(10, [Append(user("more", 9).encode(), TYPE)])
    store.texts.forget()
    talks.open(3)
    assert set(pushed.pushed) == {3}, "of 9 and 10 the new texts are not kept"
    assert talks.ino(8) not in talks.lookups
    while store.texts.step():
        pass
    talks.list()
    talks.prefetch._there.clear()
    talks.open(9)
    assert 9 in pushed.pushed
    assert 10 not in pushed.pushed, "it is shown as it was before"
    assert pushed.pushed[9].count(b"more") == 1


def test_a_transcript_that_was_dropped_has_its_neighbours_pushed_again(talks: Talks, pushed: Pushed) -> None:
    talks.list()
    talks.open_all([2])
    pushed.pushed.clear()
    talks.open_all([3])
    assert pushed.pushed == {}
    talks.open(3)
    talks.prefetch.missed(talks.ino(3), 0)
    assert list(pushed.pushed) == [*range(4, 11)]


def test_damaged_texts_are_left_to_who_reads(talks: Talks, pushed: Pushed, store: Store) -> None:
    with store.texts.db.writing() as sql:
        sql.execute("UPDATE blocks SET data = zeroblob(length(data))")
    store.texts.forget()
    talks.list()
    talks.open(2)
    assert pushed.pushed == {}
    assert b"talk 2" in talks.content(2)
