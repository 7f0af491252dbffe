"""The wrapper of every handler: it turns each exception into an errno, since anything else would end the mount.

It waits for an answer that comes later, and then asks again.
"""

import errno
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from threading import get_ident
from typing import Any, ParamSpec, TypeVar

import trio
from pyfuse3 import FUSEError

from fusefs.editing.stand_in import StandIn
from fusefs.tree.waiting import Later, Work, Workers
from store.errors import (
    Conflict,
    ConvfsError,
    DamageError,
    NotFound,
    StoreBusy,
    StoreFailed,
    StoreFull,
    Unreachable,
    UsageError,
)

log = logging.getLogger(__name__)

ERRNO: dict[type[ConvfsError], int] = {
    NotFound: errno.ENOENT,
    Conflict: errno.EEXIST,
    StoreBusy: errno.EBUSY,
    UsageError: errno.EINVAL,
    DamageError: errno.EIO,
    StoreFailed: errno.EROFS,
    StoreFull: errno.ENOSPC,
    Unreachable: errno.EHOSTUNREACH,
}
"""The errno for each error of the store; any other is EIO."""

WAITING_AT_MOST = 48
"""The most requests that may wait for slow work; further ones are told to try again."""

_waiting = 0

P = ParamSpec("P")
T = TypeVar("T")


def errno_of(error: ConvfsError) -> int:
    """Return the errno that an error of the store becomes."""
    return next((ERRNO[kind] for kind in type(error).__mro__ if kind in ERRNO), errno.EIO)


async def _wait(work: Work[Any]) -> None:
    global _waiting  # noqa: PLW0603  (one mount a process)
    if _waiting >= WAITING_AT_MOST:
        raise FUSEError(errno.EAGAIN)
    _waiting += 1
    try:
        await work.wait()
    except trio.Cancelled:
        # the loop that read this request is about to start anew, and the caller needs an answer
        raise FUSEError(errno.EINTR) from None
    finally:
        _waiting -= 1


def question(answer: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a handler of a method that changes nothing but what its last step notes, so that it may be asked again.

    What it needs and takes long is left to a thread (:attr:`fusefs.tree.waiting.Workers.can_wait`).
    """

    @wraps(answer)
    def patiently(*args: P.args, **kwargs: P.kwargs) -> T:
        workers: Workers = args[0].tree.workers  # type: ignore[attr-defined]  # the methods are those of Operations
        workers.can_wait = True
        workers.loop = workers.loop or get_ident()
        try:
            return answer(*args, **kwargs)
        finally:
            workers.can_wait = False

    return handler(patiently)


def handler(answer: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a handler of a method that answers at once or raises Later: whatever else it raises becomes an errno."""

    # pyfuse3 passes positions only, and a mapping of keywords would cost something
    @wraps(answer)
    async def handle(*args: P.args, **_kwargs: P.kwargs) -> T:
        while True:
            try:
                return answer(*args)  # type: ignore[call-arg]  # see above
            except Later as later:
                work = later.work
            except FUSEError:
                raise
            except Exception as error:
                raise _told(error, answer.__name__, args) from None
            await _wait(work)

    return handle


def change(*inodes: int, commits: bool = True) -> Callable[[Callable[P, T]], Callable[P, Coroutine[Any, Any, T]]]:
    """Make a handler of a method that changes something: a stand-in makes the change where one is needed.

    ``inodes`` are the positions of the inode numbers among its arguments; ``commits``: it may.
    """

    def make(answer: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        at_once = handler(answer)

        @wraps(answer)
        def handle(*args: P.args, **_kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            operations: Any = args[0]
            if not operations.desk.stand_in.needed:
                return at_once(*args)  # type: ignore[call-arg]  # as in handler
            places = [operations.place(args[at]) for at in inodes]
            return _in_turn(operations.desk.stand_in, answer, args, places, commits=commits)

        return handle

    return make


async def _in_turn(
    stand_in: StandIn, answer: Callable[..., T], args: tuple[Any, ...], places: Sequence[int], *, commits: bool
) -> T:
    while True:
        try:
            if commits:
                return await stand_in.make(answer, *args, places=places)
            return await stand_in.make_here(answer, *args)
        except Later as later:
            work = later.work
        except FUSEError:
            raise
        except Exception as error:
            raise _told(error, answer.__name__, args) from None
        await _wait(work)


def _told(error: Exception, name: str, args: tuple[Any, ...]) -> FUSEError:
    """Return what the caller of a handler is told of an error, and log it where that says too little."""
    match error:
        case ConvfsError():
            code = errno_of(error)
            if code == errno.EIO:
                log.error("%s%r: %s", name, args[1:], error)
            return FUSEError(code)
        case OSError() if error.errno not in (None, errno.EIO):
            # of a file in scratch/, whose errors are the caller's own
            return FUSEError(error.errno)
        case _:
            log.error("%s%r failed", name, args[1:], exc_info=error)
            return FUSEError(errno.EIO)
