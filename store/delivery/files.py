"""Files in the results of tools: those that a record does not mark, but a model sees nevertheless."""

from collections.abc import Sequence

from msgspec import structs

from store.events.event import Kind, Resource
from store.exporting.steps import Step
from store.formats.core.media import file_uri, mime_of
from store.worktree.actions import Read
from store.worktree.calls import actions_of


class FilesRead:
    """Marks the files in the steps of one conversation, whose tools work in ``cwd``; it is given all of its steps.

    ``roots`` are as of :func:`store.worktree.calls.actions_of`.
    """

    def __init__(self, cwd: str, roots: Sequence[str]) -> None:
        self._cwd, self._roots = cwd, roots
        self._calls: dict[str, Step] = {}

    def take(self, step: Step) -> Step:
        """Return a step, with the files that it reads as resources if its record has none."""
        if step.kind is Kind.TOOL_CALL:
            self._calls[step.id] = step
        elif step.kind is Kind.TOOL_RESULT and (call := self._calls.pop(step.id, None)) and not step.resources:
            read = (action for action in actions_of(call, step, self._cwd, self._roots) if isinstance(action, Read))
            if found := tuple(_resource(one) for one in read):
                return structs.replace(step, resources=found)
        return step


def _resource(read: Read) -> Resource:
    return Resource(file_uri(read.path) + read.lines, mime_of(read.path), read.text)
