"""Answers that come later: handlers wait for the work of a thread, others go on, and nobody waits for ever."""

import errno
import threading
from collections.abc import Iterator

import pytest
import trio
from pyfuse3 import FUSEError

from fusefs import handler as handlers
from fusefs.handler import handler
from fusefs.tree import waiting
from fusefs.tree.waiting import Asked, Lately, Work, Workers
from store.errors import UsageError


class Asking:
    """Has a handler that answers with what a thread returns."""

    def __init__(self, work: Work[str]) -> None:
        self.work = work

    @handler
    def ask(self) -> str:
        return self.work.result()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    # however slow the machine is
    monkeypatch.setattr(waiting, "_END_SECONDS", 60.0)
    workers = Workers()
    yield workers
    workers.end()


async def failure(asking: Asking) -> int:
    with pytest.raises(FUSEError) as caught:
        await asking.ask()
    return caught.value.errno


async def test_others_are_answered_meanwhile(workers: Workers) -> None:
    go = threading.Event()
    asking = Asking(workers.begin(lambda: str(go.wait())))
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await asking.ask())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        assert await Asking(workers.begin(lambda: "at once")).ask() == "at once"
        go.set()
    assert answers == ["True"] * 3
    assert await asking.ask() == "True"


async def test_what_goes_wrong_is_told(workers: Workers) -> None:
    def fail() -> str:
        raise UsageError("no")

    assert await failure(Asking(workers.begin(fail))) == errno.EINVAL


async def test_patience_ends(workers: Workers) -> None:
    go = threading.Event()
    asking = Asking(workers.begin(lambda: str(go.wait()), patience=0.01))
    assert await failure(asking) == errno.EBUSY
    go.set()
    await asking.work.wait()
    workers.end()
    assert await asking.ask() == "True"


async def test_only_so_many_wait(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "WAITING_AT_MOST", 2)
    go = threading.Event()
    asking = Asking(workers.begin(lambda: str(go.wait())))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asking.ask)
        nursery.start_soon(asking.ask)
        await trio.testing.wait_all_tasks_blocked()
        assert await failure(asking) == errno.EAGAIN
        go.set()
    assert await asking.ask() == "True"


async def test_whoever_waits_is_answered_when_the_loop_ends(workers: Workers) -> None:
    go = threading.Event()
    asking = Asking(workers.begin(lambda: str(go.wait())))
    codes: list[int] = []

    async def ask() -> None:
        codes.append(await failure(asking))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        workers.give_up()
    assert codes == [errno.EINTR, errno.EBUSY]
    assert await failure(Asking(workers.begin(lambda: "too late"))) == errno.EBUSY
    go.set()


def test_what_was_asked_is_remembered_until_something_changes(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lately: Lately[Asked] = Lately(2)
    begun: list[str] = []

    def ask(key: str, changes: int | None) -> Asked:
        def begin() -> Asked:
            begun.append(key)
            work = Work(lambda: None)
            work.run()
            return Asked(work, changes or 0)

        return lately.of(key, begin, changes=changes)

    first = ask("a", 1)
    assert ask("a", 1) is ask("a", 2) is ask("a", None) is first, "nothing is begun anew at once"
    monkeypatch.setattr(waiting, "_OLD_SECONDS", -1.0)
    monkeypatch.setattr(waiting, "_TIMES", -1)
    assert ask("a", 1) is ask("a", None) is first
    assert ask("a", 2) is not first
    for key in "bcd":
        ask(key, 2)
    ask("a", 2)
    assert begun == [*"aabcd"], "somebody may be about to ask"
    monkeypatch.setattr(waiting, "_KEPT_SECONDS", -1.0)
    for key in "eab":
        ask(key, 2)
    assert begun == [*"aabcdeb"]
