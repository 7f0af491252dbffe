"""The store: the one facade that everything above uses.

Synchronous, and safe to call from any thread. One process has a store open at a time; within it, reads never wait
for writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from store.commit.blob_source import StoredBlobs
from store.commit.checkpointer import Checkpointer
from store.commit.intake import Intake
from store.commit.learning import Learning
from store.commit.request import Request
from store.commit.writer import Writer
from store.content.canonical import canonical_json
from store.content.resolver import Resolver
from store.conversations.appends import Append as Append
from store.conversations.streaming import OpenTurn as OpenTurn
from store.conversations.streaming import Streaming
from store.conversations.turns import Turns
from store.conversations.viewer import Viewer
from store.disk.note_format import TEXT_NOTES
from store.disk.turn_format import Encoding
from store.errors import StoreFailed
from store.events.change import Change as Change
from store.events.deletion import DELETED as DELETED
from store.events.renderer import Renderer
from store.index.catalogue import Catalogue
from store.index.notes import Notes
from store.index.patches import Patches
from store.index.views import Views
from store.settings import Settings, load
from store.upkeep.gc import Collector
from store.upkeep.recovery import cannot_open, open_files
from store.upkeep.rewriting import Rewriting
from store.upkeep.sealing import Sealer
from store.upkeep.standstill import Standstill
from store.upkeep.stats import Stats, collect
from store.upkeep.waiting import earlier


class Store(Streaming):
    """An open store. Made by :meth:`open`; a context manager that closes it."""

    def __init__(self, root: Path, renderer: Renderer | None, *, create: bool, reindex: bool) -> None:
        self.root = root
        self.settings: Settings
        self.settings, self.warnings = load(root)
        self.files = files = open_files(root, create=create, reindex=reindex)
        try:
            self.store_id = files.store_id
            self.recovered = files.notes
            index = files.index
            self._index = index
            self._notes = Notes(index.db)
            self.canonical = {Encoding.JSON: canonical_json} if self.settings.canonical_json else {}
            self._listeners: list[tuple[Callable[[Change], None], bool]] = []
            self._writer = Writer(files.turns, files.heads, files.packs, files.journal, index, files.pending, files.seq)
            self._writer.committed = self._announce
            source = StoredBlobs(self._writer.pending, index, files.packs)
            self.resolver = Resolver(source, self.settings.content_cache_bytes)
            self._intake = Intake(self._writer, self.resolver, self.settings.inline_limit_bytes)
            self._checkpointer = Checkpointer(self._writer, self._intake, Learning(self._intake))
            self._checkpointer.packed = files.jumps.extend
            self.rewriting = Rewriting(self._intake)
            """Puts rewritten packs in the place of others."""
            self.sealer = Sealer(self._writer, self.rewriting, self._checkpointer.flush)
            """Has packs rewritten so that what is read together lies together."""
            self.collector = Collector(root, self._intake, self.rewriting, self.sealer, self._checkpointer.flush)
            """Takes what nothing leads to out of the files."""
            self.views = Views(index.db)
            self.turns = Turns(files.turns, files.jumps, Patches(index.db, self._writer.settle))
            """The turns of the log, and as they are seen through patches."""
            self.viewer = Viewer(
                self.turns,
                self.views,
                self._turn_payloads,
                self.resolver.size,
                self.type_name,
                self.aliased,
                renderer,
            )
            super().__init__(
                Catalogue(index.db),
                self.views,
                self.viewer,
                self.turns,
                self._writer.settle,
                self.settings.row_cache_branches,
            )
            self._head_log = files.heads
            self.standstill = Standstill(files, self._checkpointer, self._intake, self.views, self._forget_all)
            """Lets commits wait while what was said is changed for good."""
            if renderer is not None and self.views.renderer() != renderer.version:
                self.views.reset(renderer.version)
            self._intake.note_earlier(earlier(files))
            self._checkpointer.take_over(files.found, at_once=files.must_pack)
            files.settle()
        except BaseException as error:
            files.close(clean=False)
            if isinstance(error, OSError):
                raise cannot_open(root, error) from error
            raise
        self.labelling = threading.Lock()
        self.importing = threading.Lock()
        """Held while a session is imported."""
        self.numbering = threading.Lock()
        """Held while a number is given to an output of a tool."""
        self.forgetting: list[Callable[[], None]] = []
        """Called when contents have become others for good: whoever remembers any is to forget them."""
        self.closing: list[Callable[[], None]] = []
        """Called when the store is about to be closed."""
        self._closed = False
        self._checkpointer.start()

    @classmethod
    def open(cls, root: Path, *, renderer: Renderer | None = None, create: bool = True, reindex: bool = False) -> Store:
        """Open the store in directory ``root``; make one if there is none and ``create``.

        ``reindex`` throws the index away and makes it anew from the logs.

        Without a ``renderer`` the store keeps no sizes of rendered events, and the calls that return rows are not
        to be used. Raises StoreBusy while another process has it open, NotFound, FormatTooNew, UsageError, and
        StoreFailed where the disk does not take what must be written.
        """
        return cls(root, renderer, create=create, reindex=reindex)

    def close(self) -> None:
        """Bring everything to disk and close; a write that failed is raised here again."""
        if self._closed:
            return
        self._closed = True
        clean = False
        try:
            for close in self.closing:
                close()
            self._checkpointer.close()
            clean = True
        finally:
            self._intake.close()
            self.files.close(clean=clean)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreFailed:
            # what is already on its way says why
            if error is None:
                raise

    def _forget_all(self) -> None:
        self.resolver.forget()
        self.turns.forget()
        self._rows.clear()
        for forget in self.forgetting:
            forget()

    # -- following -------------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[Change], None], *, texts: bool = False) -> None:
        """Call ``callback`` after each commit for every context that it changed, from the committing thread.

        With ``texts`` also of every piece of an open turn. What changes is there to be read by then.
        """
        self._listeners = [*self._listeners, (callback, texts)]

    def unsubscribe(self, callback: Callable[[Change], None]) -> None:
        """Call ``callback`` no more; a call that is on its way may still come."""
        self._listeners = [listener for listener in self._listeners if listener[0] != callback]

    def _announce(self, group: list[Request]) -> None:
        listeners = self._listeners
        if not listeners:
            return
        for request in group:
            head = request.head
            if request.error is not None or request.repeated or not head.context:
                continue
            streamed = bool(request.closes) or any(isinstance(note, TEXT_NOTES) for note in request.notes)
            quiet = not (request.move_head or request.changes or request.deletes)
            if quiet and not streamed:
                continue
            created, described = request.context is None, request.changes is not None
            moved = request.move_head and bool(created or request.turns or request.patches or request.parent != 0)
            change = Change(
                head.context,
                created,
                moved,
                described,
                streamed,
                head.tip,
                head.depth,
                request.seq,
                request.deletes,
            )
            for callback, texts in listeners:
                if texts or not quiet:
                    callback(change)

    @property
    def activity(self) -> object:
        """What is another value whenever something was committed or read since it was asked for."""
        return self._writer.seq, self.resolver.asked

    @property
    def changes(self) -> object:
        """What is another value whenever something was committed, or put into the packs."""
        return self._writer.seq, self.files.packs.end

    def stats(self) -> Stats:
        """Return what the store holds and what it takes on disk."""
        self._writer.settle()
        return collect(self.root, self._index.db, self.files.turns.count)
