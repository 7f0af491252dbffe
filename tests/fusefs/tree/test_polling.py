import os
from collections.abc import AsyncIterator

import pytest
import trio

from fusefs.polling import Lock, Polling

PATIENCE = 5


@pytest.fixture
async def pipe() -> AsyncIterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def test_what_is_there_is_seen_at_once(pipe: tuple[int, int]) -> None:
    polling = Polling(50)
    os.write(pipe[1], b"x")
    with trio.fail_after(PATIENCE):
        await polling.wait_readable(pipe[0])


async def test_what_comes_later_is_waited_for(pipe: tuple[int, int]) -> None:
    polling = Polling(50)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(polling.wait_readable, pipe[0])
            await trio.sleep(0.05)
            assert nursery.child_tasks
            os.write(pipe[1], b"x")


async def test_others_get_their_turn_while_requests_keep_coming(pipe: tuple[int, int]) -> None:
    polling = Polling(50)
    os.write(pipe[1], b"x")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(176):
            await polling.wait_readable(pipe[0])
        nursery.cancel_scope.cancel()
    assert turns >= 10


async def test_closing_ends_the_waiting_also_where_nobody_waits_yet(pipe: tuple[int, int]) -> None:
    polling = Polling(50)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def waits() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await polling.wait_readable(pipe[0])

            nursery.start_soon(waits)
            await trio.sleep(0.05)
            polling.notify_closing(pipe[0])
        with pytest.raises(trio.ClosedResourceError):
            await polling.wait_readable(pipe[0])


async def test_one_at_a_time_holds_the_lock() -> None:
    lock = Lock()
    inside = 0
    most = 0

    async def enter() -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            await trio.sleep(0.001)
            inside -= 1

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(enter)
    assert (most, inside) == (1, 0)
