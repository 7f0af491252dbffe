"""A cache bounded by the bytes that its values take."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class ByteCache(Generic[_Key, _Value]):
    """Keeps the most recently used values whose sizes sum up to ``capacity`` at most. Safe to share between threads.

    A value that would take more than an eighth of the capacity is not kept: it would push out everything else.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._largest = capacity // 8
        self._size = 0
        self._items: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value, None if it is not kept."""
        with self._lock:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Keep ``value``, which takes ``size`` bytes, in place of an earlier one."""
        if size > self._largest:
            return
        with self._lock:
            earlier = self._items.pop(key, None)
            if earlier is not None:
                self._size -= earlier[1]
            self._items[key] = value, size
            self._size += size
            while self._size > self._capacity:
                _, (_, dropped) = self._items.popitem(last=False)
                self._size -= dropped

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return self._size
