"""What an operation of the service is, and what it may know of the process that it runs in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct

from store.store import Store

Params = TypeVar("Params")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Nothing(Struct, frozen=True):
    """The parameters, items or result of an operation that has none."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a store: a daemon, or a command that opened the store for itself.

    ``mountpoint`` is where this process mounts the store and ``socket`` where it answers, "" for nowhere; ``stop``
    has a daemon unmount and end, and returns at once; None where there is nothing to end.
    """

    store: Store
    mountpoint: str = ""
    socket: str = ""
    stop: Callable[[], None] | None = None


@dataclass(frozen=True)
class Operation(Generic[Params, Item, Result]):
    """One thing that the service does, under a message number of ours.

    It takes typed parameters, may hand out items on the way (rows, chunks, progress), and returns a result. All three
    are msgspec types: over the socket they travel as JSON, within a process as they are. ``run`` gets the holder,
    the parameters and a function that takes an item; it raises a ConvfsError where it cannot do it. Where
    ``progress`` is set, items only say how far it is, and any of them may be dropped. One that is ``brief`` waits for
    the disk at most, and not for those that take long.
    """

    number: int
    params: type[Params]
    item: type[Item]
    result: type[Result]
    run: Callable[[Holder, Params, Callable[[Item], None]], Result]
    progress: bool = False
    brief: bool = False
