"""Places for what takes much memory, so that only so many connections have it at a time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Slots(Generic[Holder]):
    """``count`` places. Who finds none waits its turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._holders: dict[Holder, None] = {}
        self._waiting: dict[Holder, None] = {}

    def take(self, holder: Holder) -> bool:
        """Take a place, or wait for one and return False; who has one keeps it."""
        if holder in self._holders:
            return True
        if len(self._holders) >= self._count:
            self._waiting[holder] = None
            return False
        self._waiting.pop(holder, None)
        self._holders[holder] = None
        return True

    def free(self, holder: Holder) -> list[Holder]:
        """Give a place back, or wait no more; return who may now try again."""
        if not self._holders:
            # then nobody waits
            return []
        self._waiting.pop(holder, None)
        if holder not in self._holders:
            return []
        del self._holders[holder]
        return list(self._waiting)[: self._count - len(self._holders)]

    @property
    def holders(self) -> list[Holder]:
        """Who has a place, if anybody waits for one."""
        return list(self._holders) if self._waiting else []
