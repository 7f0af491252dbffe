"""The few errors of the store, by whose fault they are.

Every message is one line: what happened, why, and what to do about it.
"""


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


class StoreFailed(ConvfsError):
    """A write or a sync failed; the store takes no more writes until it is opened again."""


class StoreFull(StoreFailed):
    """There is no room on the disk. Nothing was written, and once there is room the store takes writes again."""


class Unreachable(StoreFailed):
    """The space that orders this store's changes cannot be asked now. Once it can, the store takes writes again."""


class Unredacted(Unreachable):
    """The space was redacted, and this replica was not yet: nothing newer is read or written before that."""
