"""Deleting for good: contexts, and versions that they were in.

What only these led to is no longer to be named from then on; gc takes it out of the files.
"""

from store.commit.request import Request
from store.disk.head_format import Deleted, VersionsPruned
from store.errors import UsageError
from store.ids import now_ms
from store.store import Store


def delete(store: Store, context: int, tip: int) -> None:
    """Delete a context for good, with its versions and all that was said of it; what forks share with it stays.

    NotFound if there is none, Conflict if its state is not ``tip``.
    """
    store.submit(Request(_known(context), move_head=False, expected_head=tip, notes=[Deleted(now_ms())]))


def prune_versions(store: Store, context: int, last: int) -> None:
    """Delete for good the versions of a context that began up to seq ``last``, but for the one that it is in.

    NotFound if there is no such context.
    """
    store.submit(Request(_known(context), move_head=False, notes=[VersionsPruned(last, now_ms())]))


def _known(context: int) -> int:
    if context <= 0:
        raise UsageError(f"{context} is no context")
    return context
