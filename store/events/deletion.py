"""What stands in the place of a payload where a record is deleted."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal


class Deletion(Enum):
    """The type of :data:`DELETED`."""

    DELETED = "deleted"


DELETED: Final = Deletion.DELETED
"""In the place of a payload: the record keeps its number and is no longer shown."""

Content = bytes | Literal[Deletion.DELETED]


def named(changes: Mapping[int, Content]) -> str:
    """Return what the version of an edit is called that gives records, by number, other contents."""
    numbers = sorted(changes)
    if not numbers:
        return "edit"
    what = "delete" if all(content is DELETED for content in changes.values()) else "edit"
    return f"{what} {numbers[0]:05}" if len(numbers) == 1 else f"{what} {numbers[0]:05}-{numbers[-1]:05}"
