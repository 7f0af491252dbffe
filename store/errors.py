"""The few errors of the store, by whose fault they are.

Every message is one line: what happened, why, and what to do about it.
"""

_CODE = __file__.removesuffix("store/errors.py")
_LONGEST = 200
"""The number of characters that are told of an error that nobody foresaw."""


class ConvfsError(Exception):
    """Base of all errors that the store raises on purpose."""


class UsageError(ConvfsError):
    """The caller asked for something that cannot be done (bad argument, wrong state)."""


class NotFound(UsageError):
    """The caller named a context, turn, blob or conversation that does not exist."""


class Missing(NotFound):
    """There is no such blob. Where something of the store names it, it was lost."""


class Gone(Missing):
    """A blob that was found in the store was deleted for good by another machine of the space: bring it once more."""


class Conflict(UsageError):
    """The caller's expectation does not hold (a name is taken, a head moved on)."""


class TooLarge(UsageError):
    """The caller brought more than fits, or asked for it."""


class StoreBusy(UsageError):
    """Another process holds the store's lock."""


class DamageError(ConvfsError):
    """Bytes on disk are not what was written: a checksum or a hash does not hold."""


class Away(DamageError):
    """Bytes that only the space of this replica has, and which cannot be fetched now."""


class FormatTooNew(ConvfsError):
    """A file of the store was written by a newer version of convfs."""


class Fault(ConvfsError):
    """Something is wrong with convfs itself: it raised what nobody foresaw."""


class StoreFailed(ConvfsError):
    """A write or a sync failed; the store takes no more writes until it is opened again."""


class StoreFull(StoreFailed):
    """There is no room on the disk. Nothing was written, and once there is room the store takes writes again."""


class Unreachable(StoreFailed):
    """The space that orders this store's changes cannot be asked now. Once it can, the store takes writes again."""


class Unredacted(Unreachable):
    """The space was redacted, and this replica was not yet: nothing newer is read or written before that."""


def told(error: Exception) -> ConvfsError | OSError:
    """Return what is told of an error: itself, or a Fault that names it and where in the code of convfs it came up."""
    if isinstance(error, ConvfsError | OSError):
        return error
    if isinstance(error, MemoryError):
        return Fault("it needs more memory than there is: free some, then try again")
    where, frame = "", error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if file.startswith(_CODE):
            where = f" in {file.removeprefix(_CODE)}:{frame.tb_lineno}"
        frame = frame.tb_next
    said = " ".join(str(error).split())[:_LONGEST]
    return Fault(f"a fault of convfs: {type(error).__name__}{said and f' {said}'}{where}; report it with this line")
