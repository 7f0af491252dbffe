"""The worktree of one conversation: how its files were seen and changed, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from store.events.conversation import cwd_of, roots_of
from store.events.event import Event, Kind
from store.exporting.steps import CallIds, Step, steps_of
from store.formats.core.json_view import as_object
from store.worktree import tagged
from store.worktree.actions import Action, Delete, Edit, Move, Read, Write
from store.worktree.calls import actions_of
from store.worktree.known import KnownText
from store.worktree.patches import Change
from store.worktree.shown import reads_of


class Seen(Struct, frozen=True):
    """Lines of a file from ``first`` on that event ``number`` read; ``whole`` is its whole text, None if unknown.

    That rests on events from ``since`` on, the lines on event ``call`` and this one.
    """

    path: str
    number: int
    text: str
    first: int
    whole: str | None
    call: int = 0
    since: int = 0


class Changed(Struct, frozen=True):
    """A change of a file by event ``number``, from the whole text ``before`` to that ``after`` it.

    Both are None where they are unknown, or where there is no such file: it ``begins``, or ``ends``, here. ``changes``
    are those of an edit, each with the number of its first line, 0 if that is unknown. ``call`` is the event that asked
    for it, and ``after`` rests on events from ``since`` on.
    """

    path: str
    number: int
    before: str | None
    after: str | None
    changes: tuple[tuple[int, Change], ...] = ()
    begins: bool = False
    ends: bool = False
    call: int = 0
    since: int = 0


class Worktree:
    """Follows the calls of a conversation with such metadata; :meth:`take` is given its events in order."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self._cwd, self._roots = cwd_of(metadata), roots_of(metadata)
        self._ids = CallIds()
        self._calls: dict[str, Step] = {}
        self._files: dict[str, KnownText] = {}
        self._tagged: list[Step] = []
        """The calls in the last answer that had some."""

    def take(self, number: int, event: Event) -> Iterator[Seen | Changed]:
        """Yield the files that event ``number`` read and changed, and those that somebody attached to it."""
        yield from self._attached(number, event)
        for _step, _call, told in self._steps(number, event):
            yield from told

    def follow(self, number: int, event: Event) -> Iterator[tuple[Step, Step | None, list[Seen | Changed]]]:
        """Yield the steps of event ``number``: with a result its call, and the files that were read and changed."""
        for _seen in self._attached(number, event):
            pass
        yield from self._steps(number, event)

    def _attached(self, number: int, event: Event) -> Iterator[Seen | Changed]:
        if event.resources and event.kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
            for attached in reads_of(event.resources):
                yield from self._act(number, number, attached)

    def _steps(self, number: int, event: Event) -> Iterator[tuple[Step, Step | None, list[Seen | Changed]]]:
        for step in steps_of(number, event):
            call, told = None, list[Seen | Changed]()
            if step.kind is Kind.TOOL_CALL:
                self._calls[self._ids.call(number, step.id, step.tool)] = step
            elif step.kind is Kind.TOOL_RESULT and (own := self._ids.result(step.id, step.tool)):
                call = self._calls.pop(own)
                told += self._done(number, call, step, event.native)
            elif step.kind is Kind.ASSISTANT:
                self._tagged = [*tagged.calls_in(step)] or self._tagged
            elif step.kind is Kind.USER and self._tagged:
                told += self._brought(number, step, event.native)
            yield step, call, told

    def _brought(self, number: int, step: Step, record: object) -> Iterator[Seen | Changed]:
        """Take what a request says that the calls in the answer before have brought."""
        for result in tagged.results_in(step):
            call = next((call for call in self._tagged if call.tool == result.tool), None)
            if call is not None:
                self._tagged.remove(call)
                yield from self._done(number, call, result, record)
        self._tagged = []

    def _done(self, number: int, call: Step, result: Step, record: object) -> Iterator[Seen | Changed]:
        if (told := _written(record)) is not None:
            before, written = told
            if before is not None:
                yield from self._before(number, call.number, written.path, before)
            yield from self._act(number, call.number, written)
            return
        original = _original(record)
        for action in actions_of(call, result, self._cwd, self._roots):
            if isinstance(action, Edit) and original is not None:
                yield from self._before(number, call.number, action.path, original)
            if isinstance(action, Edit) and _is_corrected(record):
                self._files.setdefault(action.path, KnownText()).forget()
            else:
                yield from self._act(number, call.number, action)

    def _before(self, number: int, call: int, path: str, text: str) -> Iterator[Seen]:
        """Take the whole text of a file before event ``number``, as the record says; it is told if it is news."""
        file = self._files.setdefault(path, KnownText())
        if file.whole != text:
            file.write(text, call)
            yield Seen(path, number, text, 1, text, call, call)

    def _act(self, number: int, call: int, action: Action) -> Iterator[Seen | Changed]:
        path = action.path
        begins = path not in self._files
        file = self._files.setdefault(path, KnownText())
        before = file.whole
        match action:
            case Read(text=text, first=first, total=total):
                file.see(text, first, total, call)
                yield Seen(path, number, text, first, file.whole, call, file.since)
            case Write(text=text):
                file.write(text, call)
                yield Changed(path, number, before, text, begins=begins, call=call, since=call)
            case Edit(changes=changes):
                places = tuple((file.line_of(change), change) for change in changes)
                file.change(changes)
                yield Changed(path, number, before, file.whole, places, call=call, since=file.since)
            case Move(to=to):
                self._files[to] = self._files.pop(path)
                yield Changed(path, number, before, None, ends=True, call=call)
                yield Changed(to, number, None, before, begins=True, call=call, since=file.since)
            case Delete():
                del self._files[path]
                yield Changed(path, number, before, None, ends=True, call=call)


def _written(record: object) -> tuple[str | None, Write] | None:
    """Return what OpenHands' record of an edit has of the file, before it and after."""
    told = as_object(as_object(record).get("extras"))
    path, before, after = (told.get(key) for key in ("path", "old_content", "new_content"))
    if not isinstance(path, str) or not isinstance(after, str):
        return None
    return before if isinstance(before, str) else None, Write(path, after)


def _is_corrected(record: object) -> bool:
    """Return whether Claude Code's record of an edit says that somebody changed it before it was made."""
    return as_object(as_object(record).get("toolUseResult")).get("userModified") is True


def _original(record: object) -> str | None:
    """Return the whole text that Claude Code's record of an edit has of the file before it."""
    told = as_object(as_object(record).get("toolUseResult"))
    texts = (told.get(key) for key in ("originalFile", "originalFileContents"))
    return next((text for text in texts if isinstance(text, str)), None)
