"""The kernel's page cache of the mount: filling it ahead of who reads, and what may be opened without asking."""

import logging
from collections.abc import Callable
from functools import partial

import pyfuse3

from fusefs import inodes
from fusefs.inodes import InodeSet, Lookups, Place, Space
from fusefs.text import transcript
from fusefs.tree.tree import Tree
from store.errors import ConvfsError
from store.events.conversation import EventRow
from store.index.catalogue import Among, ContextEntry
from store.index.views import Measure, Run

log = logging.getLogger(__name__)

_FIRST_WINDOW = 16
_LARGEST_WINDOW = 256
_WINDOW_BYTES = 2 << 20
_FILE_BYTES = 256 << 10
_GAP = 8
"""The most records without a file, or large ones, between two events for the second to follow the first."""
_FIRST_TRANSCRIPTS = 8
_WINDOW_OF_TRANSCRIPTS_BYTES = 4 << 20
"""Their texts are read in blocks, which those of a project share: the larger the window, the fewer are read again."""
_MOST_TRANSCRIPTS = 64
_MOST_RECORDS = 4096
_MOST_RUNS = 64


class Prefetch:
    """Pushes files of events and transcripts into the page cache before they are read.

    When a file is opened that the kernel does not have, those that follow it in the directory are read with it, events
    in one pass over the packs, transcripts from kept texts, and pushed, so that a ``grep -r`` is a few such passes. How
    many is doubled as long as opens go on where the last window ended. A push for a page that a read waits for would
    never return, so only inodes without an open handle are pushed; and only ones that the kernel knows, which it does
    once a reply that named them has gone out. Everything here happens within one handler: nothing can come in between.

    What the page cache holds may be opened without asking Python (:mod:`fusefs.opens`), until it is read or changes.
    """

    def __init__(self, tree: Tree, lookups: Lookups) -> None:
        self._tree = tree
        self._lookups = lookups
        self._open: dict[int, int] = {}
        self._there = InodeSet()
        """Inodes that the page cache should hold: pushed or read, and neither read again nor forgotten since."""
        self._windows: dict[int, tuple[int, int]] = {}
        """By view: where the next window should begin, and how long the last one was."""
        self._windows_of_transcripts: dict[str, tuple[int, int]] = {}
        """The same by project, for transcripts; a window begins with a conversation."""
        self._ended = 0
        """How long the last window of transcripts was, if it ended its project."""

    def opening(self, ino: int) -> None:
        """Push ``ino``, which is about to be opened, and what follows it, if that is worth it."""
        if ino not in self._there and ino not in self._open:
            space, _view_id, number = inodes.split(ino)
            if space == Space.EVENT:
                self._try(self._push, ino)
            elif space == Space.PLACE and number == Place.TRANSCRIPT:
                self._try(self._push_transcripts, ino)
        self.holding(ino)

    def _try(self, push: Callable[[int], None], ino: int) -> None:
        try:
            push(ino)
        except Exception:
            # whatever is wrong will be told to the one who reads it
            log.exception("nothing was pushed for %d", ino)

    def opened(self, ino: int) -> None:
        """Record that ``ino`` was opened to be read and nothing came of it: so may others open it."""
        space = inodes.split(ino)[0]
        # events are pushed when they are opened; of places some are followed, or say something else each time
        if ino in self._there if space == Space.EVENT else space > Space.EVENT:
            self._tree.opens.note(ino)

    def watch(self, ino: int, records: int) -> None:
        """Record the same of a file that shows so many records: who opens it is told."""
        self._tree.opens.watch(ino, records)

    def adopt(self, handle: int) -> int:
        """Return the inode of an open file that Python was not asked about: from now on it is."""
        ino = self._tree.opens.adopt(handle)
        self.holding(ino)
        return ino

    def holding(self, ino: int) -> None:
        """Record that ``ino`` is about to be opened for writing: nothing may be pushed for it."""
        self._open[ino] = self._open.get(ino, 0) + 1

    def released(self, ino: int) -> None:
        left = self._open[ino] - 1
        if left:
            self._open[ino] = left
        else:
            del self._open[ino]

    def missed(self, ino: int, offset: int) -> None:
        """Record that the kernel asks for content of ``ino``."""
        if offset == 0:
            if ino in self._there:
                # it was there and was dropped; so, most likely, were its neighbours
                if ino & inodes.MAX_NUMBER == Place.TRANSCRIPT and inodes.split(ino)[0] == Space.PLACE:
                    self._try(partial(self._push_transcripts, again=True), ino)
                for after in range(ino + 1, ino + _LARGEST_WINDOW):
                    if after in self._there:
                        self._there.discard(after)
                        self._tree.opens.drop(after)
            self._there.add(ino)

    def forget(self, ino: int) -> None:
        self._there.discard(ino)
        opens = self._tree.opens
        opens.drop(ino)
        # what is listed without its attributes would be asked for one by one
        space, view_id, _number = inodes.split(ino)
        if space == Space.EVENT:
            opens.drop(inodes.base(Space.PLACE, view_id) + Place.EVENTS)
        elif space == Space.PLACE and (called := self._tree.called.get(ino)) is not None:
            opens.drop(called[0])

    def forget_all(self) -> None:
        """Record that nothing in the page cache is valid."""
        self._there.clear()
        self._tree.opens.clear()

    def _push(self, ino: int) -> None:
        _space, view_id, number = inodes.split(ino)
        view = self._tree.view(view_id)
        begin, length = self._windows.get(view_id, (number, _FIRST_WINDOW // 2))
        length = min(length * 2, _LARGEST_WINDOW) if begin <= number <= begin + _GAP else _FIRST_WINDOW
        rows: list[EventRow] = []
        size = 0
        first = ino - number
        served = self._tree.served
        known = self._tree.known
        opens = self._tree.opens
        for row in view.rows[number - 1 : number - 1 + length * _GAP]:
            candidate = first + row.number
            if candidate in served or candidate in known:
                # the text written there differs from the drawn one
                continue
            if candidate in self._lookups and not self._is_open(candidate) and candidate not in self._there:
                if 0 < row.file_size <= _FILE_BYTES:
                    rows.append(row)
                    size += row.file_size
                if len(rows) == length or size >= _WINDOW_BYTES:
                    break
        if len(rows) < 2 or rows[0].number != number:
            return
        self._windows[view_id] = (rows[-1].number + 1, length)
        for row, data in view.drawn_events(rows):
            if isinstance(data, ConvfsError) or len(data) != row.file_size:
                continue
            candidate = first + row.number
            if self._is_taken(candidate, data) and self._is_settled(candidate):
                opens.note(candidate)

    def _push_transcripts(self, ino: int, *, again: bool = False) -> None:
        """Push a transcript, and those after it in its directory; ``again``: whatever was pushed before."""
        tree = self._tree
        context = tree.context_at_head(inodes.split(ino)[1])
        if not context:
            return
        first = tree.store.catalogue.entry(context)
        # who has read a project to its end goes on with the next
        begin, length = self._windows_of_transcripts.get(first.project, (context, self._ended))
        length = min(max(length * 2, _FIRST_TRANSCRIPTS), _MOST_TRANSCRIPTS) if begin == context else _FIRST_TRANSCRIPTS
        after = tree.store.catalogue.page(first.project, after=first.name, limit=length, among=Among.LISTED)
        entries = [first, *after]
        measures = tree.store.views.measures([entry.id for entry in entries])
        window, size = entries[:length], 0
        for at, entry in enumerate(window):
            if size >= _WINDOW_OF_TRANSCRIPTS_BYTES:
                del window[at:]
                break
            measure = measures.get(entry.id)
            size += measure.transcript_size if measure is not None and measure.transcript_size <= _FILE_BYTES else 0
        self._ended = 0
        if len(window) < len(entries):
            self._windows_of_transcripts[first.project] = (entries[len(window)].id, len(window))
        else:
            self._ended = length
        shown = [(entry, runs) for entry in window if (runs := self._runs(entry, measures.get(entry.id), again=again))]
        sections = tree.store.texts.sections([runs for _, runs in shown])
        for (entry, _runs), pieces in zip(shown, sections, strict=True):
            ino, is_whole = self._transcript(entry), sum(map(len, pieces)) == measures[entry.id].transcript_size
            if is_whole and self._is_taken(ino, b"".join((transcript.head(entry), *pieces))):
                self.watch(ino, entry.records)

    def _transcript(self, entry: ContextEntry) -> int:
        return inodes.base(Space.PLACE, self._tree.view_id(entry.id)) + Place.TRANSCRIPT

    def _runs(self, entry: ContextEntry, measure: Measure | None, *, again: bool) -> tuple[Run, ...]:
        """Return the branch of a transcript to be pushed; nothing if that is being changed, large, or in pieces."""
        tree, store = self._tree, self._tree.store
        view_id, ino = tree.view_id(entry.id), self._transcript(entry)
        if ino not in self._lookups or (ino in self._there and not again) or self._is_open(ino):
            return ()
        if measure is None or measure.head != entry.head or measure.transcript_size > _FILE_BYTES:
            return ()
        if ino in tree.served or ino in tree.known or ino in tree.own or not self._is_settled(ino):
            return ()
        head, view = store.writer.head(entry.id), tree.view_at_hand(view_id)
        if head.turn != entry.head or (view is not None and view.head != entry.head) or tree.streams.any_of(view_id):
            return ()
        if head.depth >= _MOST_RECORDS or len(runs := store.records.runs(entry.head)) > _MOST_RUNS:
            return ()
        return runs

    def _is_open(self, ino: int) -> bool:
        return ino in self._open or self._tree.opens.is_open(ino)

    def _is_settled(self, ino: int) -> bool:
        return self._tree.bound(ino) is None and ino not in self._tree.unsettled

    def _is_taken(self, ino: int, data: bytes) -> bool:
        """Push the content of a file, and return whether the page cache has it now."""
        try:
            pyfuse3.notify_store(ino, 0, data)
        except FileNotFoundError:
            # the reply that named it never arrived, because the caller was killed
            self._lookups.drop(ino)
            return False
        except OSError as error:
            log.warning("the page cache takes nothing: %s", error)
            return False
        self._there.add(ino)
        return True
