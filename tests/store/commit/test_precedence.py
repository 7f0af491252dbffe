"""Precedence: others wait for a change that was overtaken, and not for ever."""

import threading

from store.commit.precedence import Precedence


def test_others_wait_for_a_change_that_was_overtaken() -> None:
    precedence = Precedence()
    made: list[str] = []
    begun = threading.Event()

    def other() -> None:
        with precedence.attempts(7) as attempt:
            begun.set()
            attempt()
            made.append("other")

    with precedence.attempts(7) as attempt:
        attempt()
        # overtaken: from now on it goes first
        attempt()
        thread = threading.Thread(target=other)
        thread.start()
        begun.wait()
        with precedence.attempts(8) as elsewhere:
            elsewhere()
        attempt()
        made.append("overtaken")
    thread.join()
    assert made == ["overtaken", "other"]


def test_nobody_waits_for_a_change_that_is_not_made() -> None:
    precedence = Precedence()
    ended = threading.Event()

    def stuck() -> None:
        with precedence.attempts(7) as attempt:
            attempt()
            attempt()
            going.set()
            ended.wait()

    going = threading.Event()
    thread = threading.Thread(target=stuck)
    thread.start()
    going.wait()
    with precedence.attempts(7) as attempt:
        # overtaken twice itself: it waits each time, and goes on
        attempt()
        attempt()
        attempt()
    ended.set()
    thread.join()
    with precedence.attempts(7) as attempt:
        attempt()
