"""Jobs that run while nothing is asked of the store."""

import threading
from collections.abc import Callable, Iterator

import pytest

from store.upkeep import idle
from store.upkeep.idle import Abreast, Idle


class Steps:
    """A job that has so many slices to do, and says which it did."""

    def __init__(self, slices: int, done: list[str], name: str = "", fails: bool = False) -> None:
        self.left = slices
        self.done = done
        self.name = name
        self.fails = fails
        self.ended = threading.Event()

    def step(self) -> bool:
        self.left -= 1
        self.done.append(self.name)
        if self.fails:
            self.fails = False
            raise OSError("no")
        if self.left <= 0:
            self.ended.set()
        return self.left > 0


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Idle]]:
    monkeypatch.setattr(idle, "_QUIET_SECONDS", 0.02)
    made: list[Idle] = []

    def begin(activity: Callable[[], object] = lambda: 0) -> Idle:
        made.append(Idle(activity))
        return made[-1]

    yield begin
    for one in made:
        one.close()


def test_a_job_is_done_slice_by_slice(begin: Callable[..., Idle]) -> None:
    done: list[str] = []
    job = Steps(5, done)
    jobs = begin()
    jobs.add(job, 3600, at_once=True)
    jobs.start()
    assert job.ended.wait(30)
    jobs.close()
    assert len(done) == 5


def test_jobs_take_turns(begin: Callable[..., Idle]) -> None:
    done: list[str] = []
    some = [Steps(4, done, name) for name in "ab"]
    jobs = begin()
    for job in some:
        jobs.add(job, 3600, at_once=True)
    jobs.start()
    assert all(job.ended.wait(30) for job in some)
    assert "".join(done) in ("abababab", "babababa")


class Reader:
    """A job that reads up to a turn, so many at a time, and says where it was; it may fail once."""

    def __init__(self, name: str, pace: int, end: int, done: list[tuple[str, int]], *, fails: bool = False) -> None:
        self.reached = 0
        self.name = name
        self.end = end
        self._pace = pace
        self._done = done
        self._fails = fails

    def step(self) -> bool:
        if self._fails:
            self._fails = False
            raise OSError("no")
        if self.reached == self.end:
            return False
        self._done.append((self.name, self.reached))
        self.reached = min(self.reached + self._pace, self.end)
        return True


def test_who_reads_the_same_keeps_abreast() -> None:
    done: list[tuple[str, int]] = []
    readers = [Reader(name, pace, 60, done) for name, pace in (("a", 1), ("b", 5), ("c", 20))]
    job = Abreast()
    for reader in readers:
        job.add(reader, 3600)
    while job.step():
        assert max(one.reached for one in readers) - min(one.reached for one in readers) <= 20
    assert [sum(name == one.name for name, _turn in done) for one in readers] == [60, 12, 3]
    # who rests is not asked, however far behind
    readers[1].end = 80
    assert not job.step()


def test_one_that_fails_holds_up_none_that_reads_the_same() -> None:
    done: list[tuple[str, int]] = []
    job = Abreast()
    job.add(Reader("a", 1, 5, done, fails=True), 3600)
    job.add(Reader("b", 1, 5, done), 3600)
    with pytest.raises(OSError, match="no"):
        job.step()
    while job.step():
        pass
    assert done == [("b", turn) for turn in range(5)]


def test_a_job_that_rests_is_woken(begin: Callable[..., Idle]) -> None:
    done: list[str] = []
    job = Steps(1, done)
    jobs = begin()
    jobs.add(job, 3600)
    jobs.start()
    assert not done
    jobs.wake(job)
    assert job.ended.wait(30)


def test_who_is_woken_while_working_works_again(begin: Callable[..., Idle]) -> None:
    class Woken:
        def __init__(self) -> None:
            self.times = 0
            self.ended = threading.Event()

        def step(self) -> bool:
            self.times += 1
            if self.times == 1:
                jobs.wake(self)
            else:
                self.ended.set()
            return False

    jobs, job = begin(), Woken()
    jobs.add(job, 3600, at_once=True)
    jobs.start()
    assert job.ended.wait(30)


@pytest.mark.logs("tried again")
def test_what_fails_is_tried_again(begin: Callable[..., Idle]) -> None:
    done: list[str] = []
    job = Steps(2, done, fails=True)
    jobs = begin()
    jobs.add(job, 0.01, at_once=True)
    jobs.start()
    assert job.ended.wait(30)


def test_nothing_is_done_while_others_ask(begin: Callable[..., Idle], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    busy = threading.Event()
    looked = threading.Semaphore(0)

    def activity() -> int:
        nonlocal asked
        asked += not busy.is_set()
        looked.release()
        return asked

    done: list[str] = []
    job = Steps(1, done)
    jobs = begin(activity)
    jobs.add(job, 3600, at_once=True)
    jobs.start()
    for _ in range(10):
        assert looked.acquire(timeout=30)
    assert not done
    busy.set()
    assert job.ended.wait(30)


def test_a_store_that_is_always_busy_is_worked_on_now_and_then(
    begin: Callable[..., Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "_HELD_BACK_SECONDS", 0.1)
    job = Steps(2, [])
    jobs = begin(object)
    jobs.add(job, 3600, at_once=True)
    jobs.start()
    assert job.ended.wait(30)
