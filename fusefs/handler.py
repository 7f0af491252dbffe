"""What every handler has around it: whatever is raised becomes an errno, since anything else would end the mount."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyfuse3 import FUSEError

from store.errors import Conflict, ConvfsError, DamageError, NotFound, StoreBusy, StoreFailed, StoreFull, UsageError

log = logging.getLogger(__name__)

ERRNO: dict[type[ConvfsError], int] = {
    NotFound: errno.ENOENT,
    Conflict: errno.EEXIST,
    StoreBusy: errno.EBUSY,
    UsageError: errno.EINVAL,
    DamageError: errno.EIO,
    StoreFailed: errno.EROFS,
    StoreFull: errno.ENOSPC,
}
"""What an error of the store is to programs; any other is EIO."""

P = ParamSpec("P")
T = TypeVar("T")


def errno_of(error: ConvfsError) -> int:
    """Return the errno that an error of the store becomes."""
    return next((ERRNO[kind] for kind in type(error).__mro__ if kind in ERRNO), errno.EIO)


def handler(answer: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a handler of a method that answers at once: whatever it raises becomes an errno."""

    # pyfuse3 passes positions only, and a mapping of keywords would cost something
    @wraps(answer)
    async def handle(*args: P.args, **_kwargs: P.kwargs) -> T:
        try:
            return answer(*args)  # type: ignore[call-arg]  # see above
        except FUSEError:
            raise
        except ConvfsError as error:
            code = errno_of(error)
            if code == errno.EIO:
                log.error("%s%r: %s", answer.__name__, args[1:], error)
            raise FUSEError(code) from None
        except OSError as error:
            # of a file in scratch/, whose errors are the caller's own
            if error.errno in (None, errno.EIO):
                log.exception("%s%r failed", answer.__name__, args[1:])
            raise FUSEError(error.errno or errno.EIO) from None
        except Exception:
            log.exception("%s%r failed", answer.__name__, args[1:])
            raise FUSEError(errno.EIO) from None

    return handle
