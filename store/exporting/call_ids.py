"""Ids of calls, as all models take them."""

from __future__ import annotations

import re

from msgspec import structs

from store.exporting.steps import Step

_LONGEST_ID = 56
"""Characters of a call's id: all take 64, and what tells two of the same apart must fit."""
_unfit = re.compile(r"[^A-Za-z0-9_-]").sub


class CallIds:
    """Gives every call an id that all models take and no other call has, and its result the same."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        """The tool of each call, by the id that it was given."""
        self._waiting: dict[str, str] = {}

    def call(self, number: int, call_id: str, tool: str) -> str:
        """Return the id of a call, of event ``number``, that the program called ``call_id`` ("" if it has no id)."""
        own = _unfit("_", call_id)[:_LONGEST_ID] or f"call_{number}"
        while own in self.tools:
            own += "_"
        self.tools[own] = tool
        self._waiting[call_id or tool] = own
        return own

    def paired(self, step: Step) -> Step | None:
        """Return a result as that of its call, None where none waits for it."""
        own = self.result(step.id, step.tool)
        return structs.replace(step, id=own, tool=self.tools[own]) if own else None

    def result(self, call_id: str, tool: str) -> str:
        """Return the id of the call that a result is of, "" where none waits for it."""
        return self._waiting.pop(call_id or tool, "")
