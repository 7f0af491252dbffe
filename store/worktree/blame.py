"""Blame: the request of a conversation that each line of a file is due to, as far as conversations tell.

All conversations that name a file in a call are replayed side by side, in order of time. From one state of the file
that is known to the next, equal lines keep the request that they are due to. New ones are due to the request that an
edit was made for; or to nobody, if a conversation came upon them. An edit of a file that is not known as a whole counts
if the text that it wrote is there, once, in the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from msgspec import Struct

from store.compare import matches
from store.errors import NotFound, UsageError
from store.exporting.steps import Requests, spoken_by
from store.search.terms import Literal
from store.store import Store
from store.worktree.changes import replayed
from store.worktree.patches import Change, change_text
from store.worktree.worktree import Changed, Seen

_SURE = 12
"""The characters of a text that no other writer is likely to have written: a shorter one may be there by chance."""
_searched = re.compile(r"[\w. -]+").findall


class Origin(Struct, frozen=True):
    """The event of a conversation that wrote a line, and the request that it was made for: 0 if there is none.

    ``time_ms`` is Unix milliseconds, 0 if the conversation does not say when.
    """

    context: int
    request: int
    event: int
    time_ms: int


class Line(NamedTuple):
    """A line of a file, without its end; ``origin`` is None if no conversation is known to have written it."""

    text: str
    origin: Origin | None


class _Moment(NamedTuple):
    """One event that read or changed files, of the turn ``turn``."""

    time_ms: int
    turn: int
    origin: Origin
    told: list[Seen | Changed]


def blame(store: Store, paths: Sequence[str], text: str | None) -> list[Line]:
    """Return the lines of a file, which has been called any of ``paths``; of its last known state if ``text`` is None.

    Raises NotFound if no conversation is known to have read or changed it, UsageError without a path.
    """
    if not paths:
        raise UsageError("name the file whose lines are asked for")
    names = dict.fromkeys(paths, paths[0])
    while (file := _followed(store, names, paths[0])) is None:
        pass
    if not file.is_known and not file.loose:
        raise NotFound(f"no conversation is known to have read or changed {paths[0]}")
    if text is not None:
        file.become(text, None)
    file.settle()
    lines = [Line(line.removesuffix("\r"), origin) for line, origin in zip(file.lines, file.origins, strict=True)]
    return lines if lines and lines[-1].text else lines[:-1]


def _followed(store: Store, names: dict[str, str], wanted: str) -> _File | None:
    """Return the file ``wanted`` as it is in the end; ``names`` says which file a path stands for.

    None: one of them once had another name, which has been added.
    """
    files = {key: _File() for key in names.values()}
    done: set[int] = set()
    for moment in merge(*(_moments(store, context) for context in _naming(store, names)), key=lambda one: one.time_ms):
        if moment.turn in done:
            # forks share the beginning
            continue
        done.add(moment.turn)
        for before, told, behind in zip((None, *moment.told), moment.told, (*moment.told[1:], None), strict=False):
            if (key := names.get(told.path)) is None:
                continue
            if before is not None and _moved(before, told):
                if before.path not in names:
                    names[before.path] = before.path
                    return None
                files[key] = files[names[before.path]]
                files[names[before.path]] = _File()
            elif isinstance(told, Seen):
                files[key].see(told)
            elif behind is None or not _moved(told, behind) or behind.path not in names:
                files[key].change(told, moment.origin)
    return files[wanted]


def _moved(one: Seen | Changed, other: Seen | Changed) -> bool:
    """Return whether two changes that follow each other are the end of a file under one name, and its new beginning."""
    if isinstance(one, Seen) or isinstance(other, Seen):
        return False
    return one.ends and other.begins and one.before == other.after


def _naming(store: Store, names: Iterable[str]) -> list[int]:
    """Return the conversations that have a call in which the last part of a path occurs, the earliest first."""
    found: set[int] = set()
    for name in {re.split(r"[/\\]", name)[-1] for name in names}:
        # other characters may be spelled differently in a call
        part = max(_searched(name), key=len, default=name)
        for page in store.search.grep(Literal(part, ignore_case=False), "role:call", lines=1):
            found.update(hit.conversation.id for hit in page)
    return sorted(found)


def _moments(store: Store, context: int) -> Iterator[_Moment]:
    """Yield the events of a conversation that read or changed files, in order; their times never decrease."""
    conversation = store.library.conversation(context)
    requests = Requests()
    time_ms = conversation.created_ms
    for row, event, told in replayed(store.library, conversation):
        time_ms = max(time_ms, event.time_ms)
        if spoken := spoken_by(row.number, event):
            requests.add(spoken)
        if told:
            asked = requests.before(row.number)
            yield _Moment(
                time_ms, row.turn, Origin(context, asked[-1] if asked else 0, row.number, event.time_ms), told
            )


class _File:
    """A file as it was last known, with the origins of its lines; and edits made while it was not known."""

    def __init__(self) -> None:
        self.is_known = False
        self.lines: list[str] = []
        self.origins: list[Origin | None] = []
        self.loose: list[tuple[Change, Origin]] = []

    def become(self, text: str, origin: Origin | None) -> None:
        """Take another state, whose new lines are due to ``origin``."""
        lines = text.split("\n")
        origins = [origin] * len(lines)
        for same in matches(self._compared(self.lines), self._compared(lines)):
            origins[same.b : same.b + same.length] = self.origins[same.a : same.a + same.length]
        self.is_known, self.lines, self.origins = True, lines, origins

    @staticmethod
    def _compared(lines: Sequence[str]) -> list[str]:
        """Return lines without the first half of Windows' ends, which readers leave out."""
        return [line.removesuffix("\r") for line in lines]

    def see(self, seen: Seen) -> None:
        if seen.whole is not None:
            self.become(seen.whole, None)

    def change(self, change: Changed, origin: Origin) -> None:
        if change.ends:
            self.is_known, self.lines, self.origins = False, [], []
            return
        edits = [one for _line, one in change.changes]
        # another conversation may have changed the file since this one saw it
        text = change_text("\n".join(self.lines), edits) if edits and self.is_known else None
        if text is None:
            text = change.after
            if edits and text is not None and change.before is not None:
                self.become(change.before, None)
        if text is None:
            self.is_known = False
            self.loose += ((one, origin) for one in edits)
        else:
            self.become(text, origin)

    def settle(self) -> None:
        """Give lines of unknown origin that of the edit that wrote them, if their text is there once; latest first."""
        text = "\n".join(self.lines)
        for change, origin in reversed(self.loose):
            if len(change.new.strip()) < _SURE or text.count(change.new) != 1:
                continue
            first = text.count("\n", 0, text.index(change.new))
            new = change.new.split("\n")
            written = set(range(len(new)))
            for same in matches(change.old.split("\n"), new):
                written.difference_update(range(same.b, same.b + same.length))
            for at in written:
                self.origins[first + at] = self.origins[first + at] or origin
