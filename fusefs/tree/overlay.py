"""What is otherwise than the store says, as long as something is being changed or was just saved."""

from typing import Protocol


class Served(Protocol):
    """A file that is shown as it was written."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def time_ns(self) -> int:
        """When it was written, in Unix nanoseconds."""

    @property
    def timeout(self) -> float:
        """For how long the kernel may believe that, in seconds."""

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it."""


class EventOverlay:
    """What is otherwise in ``events/`` of one conversation.

    ``hidden`` are the events that are being removed, ``aliases`` the names under which events were created.
    """

    __slots__ = ("aliases", "hidden")

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        self.aliases: dict[str, int] = {}
