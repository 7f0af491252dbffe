"""Bursts: saves of one program that follow each other so soon that they are one version."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from fusefs.editing.delays import Clock
from fusefs.editing.programs import Program, Programs


class _Save(Struct, frozen=True):
    """The last save of a conversation: who made it, the tip that it led to, and when."""

    program: Program
    tip: int
    at: float


class Bursts:
    """The last saves of one mount's conversations, and who is saving now."""

    def __init__(self, programs: Programs, seconds: float, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._programs = programs
        self._last: dict[int, _Save] = {}

    def program(self) -> Program | None:
        """Return the program that a block is :meth:`by`, else that which makes the request; None if unknown."""
        return self._programs.acting or self._programs.asking()

    @contextmanager
    def by(self, program: Program | None) -> Iterator[None]:
        """Do in the block what a program has asked for before, such as its saves."""
        before, self._programs.acting = self._programs.acting, program
        try:
            yield
        finally:
            self._programs.acting = before

    def tip(self, context: int) -> int:
        """Return the tip that the save before led to if the next one is in one version with it, else 0."""
        last = self._last.get(context)
        if last is None or not self._seconds or last.program != self._programs.acting:
            return 0
        if self._clock() - last.at > self._seconds:
            return 0
        return last.tip

    def saved(self, context: int, tip: int) -> None:
        """Record the tip that a save has led to."""
        if self._programs.acting:
            self._last[context] = _Save(self._programs.acting, tip, self._clock())
