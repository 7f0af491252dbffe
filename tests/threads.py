"""Work that threads do side by side."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def side_by_side(count: int, work: Callable[[int], T]) -> Sequence[T]:
    """Call ``work`` with 0, 1, … in ``count`` threads; return what they return when all have ended.

    What one of them raised is raised here, the first of it.
    """
    results: dict[int, T] = {}
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=partial(run, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[number] for number in range(count)]
