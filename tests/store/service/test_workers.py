"""Who commits what clients append: the loop as long as that is quick, a thread while it is not."""

import select
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from store.commit.request import Request
from store.errors import StoreFailed
from store.service import hub
from store.service.hub import Committer, Returns

SLOW_SECONDS = 0.05


class Loop:
    """A committer and its writer: what was committed by which threads, and the calls that were left for the loop."""

    def __init__(self) -> None:
        self.at_once = True
        self.pause = 0.0
        self.trouble: Exception | None = None
        self.committed: list[tuple[str, list[Request]]] = []
        self.returns = Returns()
        self.committer = Committer(self, self.returns)

    def submit_all(self, requests: Sequence[Request]) -> None:
        self.committed.append((threading.current_thread().name, list(requests)))
        time.sleep(self.pause)
        if self.trouble:
            raise self.trouble

    def submit(self, count: int, done: Callable[[], None]) -> list[Request]:
        requests = [Request(1) for _ in range(count)]
        self.committer.submit(requests, done)
        return requests

    def turn(self) -> None:
        """Make the calls that were left, once there are any."""
        assert select.select([self.returns.fd], [], [], 10)[0]
        self.returns.make()

    def close(self) -> None:
        self.committer.close()
        self.returns.close()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    # not even a machine that is very busy takes that long, unless it is told to
    monkeypatch.setattr(hub, "_QUICK_SECONDS", SLOW_SECONDS / 2)
    return Loop()


def test_what_is_quick_is_done_when_submit_returns(loop: Loop) -> None:
    done: list[int] = []
    for number in range(3):
        loop.submit(2, lambda number=number: done.append(number))  # type: ignore[misc]
        assert done == list(range(number + 1))
    assert [name for name, _requests in loop.committed] == [threading.current_thread().name] * 3
    loop.close()


def test_the_loop_hands_over_what_is_slow_and_takes_it_back(loop: Loop) -> None:
    here, done = threading.current_thread().name, list[str]()
    loop.pause = SLOW_SECONDS
    loop.submit(1, lambda: done.append("slow"))
    began = time.monotonic()
    first = loop.submit(1, lambda: done.append("first"))
    assert done == ["slow"]
    # what comes meanwhile waits, to be committed together
    second, third = loop.submit(1, lambda: done.append("second")), loop.submit(2, lambda: done.append("third"))
    assert time.monotonic() - began < SLOW_SECONDS
    loop.turn()
    assert done == ["slow", "first"]
    loop.pause = 0.0
    loop.turn()
    assert done == ["slow", "first", "second", "third"]
    loop.submit(1, lambda: done.append("quick"))
    assert done[-1] == "quick"
    names, requests = zip(*loop.committed, strict=True)
    assert names == (here, "convfs-appends", "convfs-appends", here)
    assert requests[1:3] == (first, second + third)
    loop.close()


def test_what_would_have_to_wait_is_handed_over(loop: Loop) -> None:
    done: list[str] = []
    loop.at_once = False
    loop.submit(1, lambda: done.append("handed over"))
    assert not done
    loop.turn()
    assert done == ["handed over"]
    assert loop.committed[0][0] == "convfs-appends"
    loop.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_trouble_is_an_error_of_each(loop: Loop, at_once: bool) -> None:
    loop.at_once, loop.trouble = at_once, StoreFailed("the disk is gone")
    done: list[str] = []
    requests = loop.submit(3, lambda: done.append("told"))
    if not at_once:
        loop.turn()
    assert done == ["told"]
    assert [request.error for request in requests] == [loop.trouble] * 3
    loop.close()
