"""Open turns as they are shown: the last events of a conversation, growing.

Each has a file in ``events/`` with the next number; the one that the conversation goes on with is the end of the
transcript, too. What is shown of it there only grows, and goes on as it is when it is sealed, wherever that can be: so
it has no newline at its end yet, and is not there while its content is not a single text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text import names, transcript
from fusefs.text.grammar import is_plain
from fusefs.text.render import render_event
from fusefs.tree.changes import Stale
from fusefs.tree.node import DERIVED_FILE, Attributes, Content, Entry, File
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import NumberedNode
from store.commit.open_texts import OpenText
from store.conversations.chain import Chain
from store.errors import NotFound
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.ids import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusefs.tree.tree import Tree
    from fusefs.tree.view import View


_MOST_SHOWN = 64
"""Open turns of a conversation that are shown at once: all but those of a program that never ends any."""


_LOOKED_BACK = 64
"""In so many earlier records is looked for what an open turn refers to: its name may not be whole yet."""


class Growing(Struct, frozen=True):
    """What is shown of an open turn as event ``number``: its file and what it has in the transcript, b"" if nothing.

    ``leads``: the conversation goes on with it. ``name`` is that of the file, "" while there is none.
    """

    number: int
    leads: bool
    text: OpenText
    chain: Chain
    event: Event
    name: str
    file: bytes
    section: bytes


class Streams:
    """The open turns of the conversations of a tree, as they are shown. Used by one thread."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._shown: dict[int, list[Growing]] = {}
        """By view: what was drawn last; also when there is none left, until the kernel has been told."""

    def of(self, view_id: int) -> list[Growing]:
        """Return the open turns of a conversation: the one that it goes on with first, if there is one."""
        context = self._tree.context_at_head(view_id)
        shown = self._shown.get(view_id)
        if not context or (shown is None and not self._tree.store.is_streaming(context)):
            return []
        try:
            head, texts, leading = self._tree.store.live(context, _MOST_SHOWN)
        except NotFound:
            return []
        view = self._tree.view(view_id)
        if view.head != head.tip:
            # what was open may be a record by now
            self._tree.renew(view_id)
            view = self._tree.view(view_id)
        if leading is not None:
            texts = [leading, *(text for text in texts if text is not leading)]
        before = {growing.text.number: growing for growing in shown or ()}
        drawn = [
            self._draw(view, number, text, before.get(text.number), leads=text is leading)
            for number, text in enumerate(texts, view.records + 1)
        ]
        self._shown[view_id] = drawn
        return drawn

    def _draw(self, view: View, number: int, text: OpenText, before: Growing | None, *, leads: bool) -> Growing:
        store = self._tree.store
        same = before is not None and (before.number, before.leads) == (number, leads)
        if before is not None and same:
            if before.text is text:
                return before
            chain, section = before.chain, before.section
        else:
            chain = store.chain(view.head, number, reach=_LOOKED_BACK)
            section = b""
        event = store.beginning(text, chain)
        if event.kind is Kind.RECORD:
            return Growing(number, leads, text, chain, event, "", b"", section)
        file = render_event(number, event)
        if is_plain(event.blocks):
            file = file[:-1]
            longer = transcript.section(number, event)[:-1] if leads else b""
            section = longer if longer.startswith(section) else section
        return Growing(number, leads, text, chain, event, _name(number, event), file, section)

    def event(self, view_id: int, number: int) -> Growing | None:
        """Return the open turn that is shown as an event of a conversation, None if none is."""
        return next((growing for growing in self.of(view_id) if growing.number == number and growing.name), None)

    def section(self, view_id: int) -> bytes:
        """Return what is at the end of a transcript."""
        drawn = self.of(view_id)
        return drawn[0].section if drawn else b""

    def touched_ms(self, view_id: int) -> int:
        """Return when an open turn of a conversation was last added to, in Unix milliseconds, 0 if there is none."""
        return max((growing.text.touched_ms for growing in self.of(view_id)), default=0)

    def stale(self, view_id: int) -> list[Stale]:
        """Return what the kernel may know otherwise of the open turns of a conversation by now."""
        before = self._shown.get(view_id)
        if before is None and not self._tree.store.is_streaming(self._tree.context_at_head(view_id)):
            return []
        events = inodes.base(Space.PLACE, view_id) + Place.EVENTS
        found = [Stale(inodes.base(Space.PLACE, view_id) + Place.TRANSCRIPT, content=True), Stale(events)]
        if before is None:
            # nobody has looked at them
            return found
        now = self.of(view_id)
        if not now:
            del self._shown[view_id]
        names_now = {growing.name for growing in now}
        first = inodes.base(Space.EVENT, view_id)
        for growing in before:
            if growing.name:
                found.append(Stale(first + growing.number, content=True))
                if growing.name not in names_now:
                    found.append(Stale(events, growing.name.encode()))
        return found


def _name(number: int, event: Event) -> str:
    return names.event_name(EventRow(0, number, event.kind, event.tool, 0, 0, 0, 0, 0, 0), number)


class GrowingFile(NumberedNode, File):
    """``events/NNNNN-….md`` of an open turn: what there is of it. It cannot be written to."""

    __slots__ = ()

    @property
    def growing(self) -> Growing:
        """The open turn as it is now. Raises NotFound once it is none any more."""
        growing = self.tree.streams.event(self.view_id, self._number)
        if growing is None:
            raise NotFound(f"event {self._number} is not being written")
        return growing

    @property
    def name(self) -> str:
        """The name that is listed."""
        return self.growing.name

    def label(self) -> str:
        return f"events/{self.name}"

    def attributes(self) -> Attributes:
        growing = self.growing
        return Attributes(self.ino, DERIVED_FILE, len(growing.file), growing.text.touched_ms or now_ms())

    def xattrs(self) -> Mapping[str, str]:
        growing = self.growing
        shown = {
            "type": self.tree.store.type_name(growing.text.tag),
            "event": str(growing.number),
            "kind": names.kind_word(growing.event.kind),
            "open": str(growing.text.number),
        }
        return shown | ({"tool": growing.event.tool} if growing.event.tool else {})

    def open(self) -> Content:
        return GrowingContent(self)

    def entry(self) -> Entry:
        """Return its entry in ``events/``."""
        return Entry(self._number + FIRST_POSITION - 1, self.name.encode(), self.attributes())


class GrowingContent:
    """An open file of an open turn: what there is of it at each read; once it is sealed, the event."""

    __slots__ = ("_file", "_sealed")

    def __init__(self, file: GrowingFile) -> None:
        self._file = file
        self._sealed: Content | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        file = self._file
        if self._sealed is None:
            growing = file.tree.streams.event(file.view_id, file.number)
            if growing is not None:
                return growing.file[offset : offset + size]
            node = file.tree.event(file.view_id, file.number)
            # raises NotFound if it was dropped
            node.attributes()
            self._sealed = node.open()
        return self._sealed.read(offset, size)
