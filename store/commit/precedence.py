"""Precedence: a change that was overtaken is made before those that would overtake it again.

Changes are computed from the head of a context, and committed if that head still stands: one of them always gets
through. A slow one, as a merge into a long conversation, might never: the next fast one has always been quicker. So
anybody may try once, and others wait for whoever tries again.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LONGEST_S = 1.0
"""How long another change waits: longer, and it is not slowness that keeps the first one, but its space, or a disk."""


class Precedence:
    """Orders the attempts of this process at changes of the same context. Safe to call from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._first: dict[int, int] = {}
        """The threads that others wait for, by context."""

    @contextmanager
    def attempts(self, context: int) -> Iterator[Callable[[], None]]:
        """Give what is to be called before each attempt at a change of ``context``, and before it looks at the head."""
        me = threading.get_ident()
        overtaken = False

        def attempt() -> None:
            nonlocal overtaken
            with self._changed:
                self._changed.wait_for(lambda: self._first.get(context, me) == me, _LONGEST_S)
                if overtaken:
                    self._first.setdefault(context, me)
                overtaken = True

        try:
            yield attempt
        finally:
            with self._changed:
                if self._first.get(context) == me:
                    del self._first[context]
                    self._changed.notify_all()
