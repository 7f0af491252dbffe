"""Locks by key: whoever works on one thing waits for those who work on the same, and for nobody else."""

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)


class Locks(Generic[K]):
    """A lock for each key, there while anybody has it. A thread may take one repeatedly. Safe to share."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, threading.RLock] = WeakValueDictionary()
        self._lock = threading.Lock()

    def of(self, key: K) -> threading.RLock:
        """Return the lock of a key."""
        with self._lock:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.RLock()
            return lock
