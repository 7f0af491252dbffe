"""The store: the place where its parts are made, in order, and joined.

Synchronous, and safe to call from any thread. One process has a store open at a time; within it, reads never wait
for writes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from store import paths
from store.artifacts.artifacts import Artifacts
from store.commit.checkpointer import Checkpointer, Learning
from store.commit.intake import Intake
from store.commit.writer import Observers, Writer
from store.content import zstd
from store.content.resolver import Resolver
from store.content.shelf import StoredBlobs
from store.conversations.canonical import Hooks
from store.conversations.contexts import Contexts
from store.conversations.library import Library
from store.conversations.records import ROW_BYTES, Records
from store.conversations.turns import Contents, Turns
from store.conversations.viewer import Viewer
from store.disk import durable
from store.errors import StoreFailed, StoreFull
from store.events.conversation import Renderer
from store.index.beside import erase_database
from store.index.catalogue import Catalogue
from store.index.patches import Patches
from store.index.views import Views
from store.settings import Settings, load
from store.shared.space import LOGS_BACK, membership
from store.upkeep.recovery import cannot_open, earlier, open_files
from store.upkeep.stats import Stats, collect

if TYPE_CHECKING:
    from store.addresses import Addresses
    from store.conversations.open_turns import OpenTurns
    from store.delivery.deliveries import Deliveries
    from store.insight.insight import Insight
    from store.search.search import Search
    from store.shared.replica import Replica
    from store.texts import Texts
    from store.upkeep.archiving import Archiving
    from store.upkeep.gc import Collector
    from store.upkeep.rewrite import Rewriting
    from store.upkeep.sealer import Sealer
    from store.worktree.known_files import KnownFiles

_DERIVED = ("search", "insight", "known_files", "texts")
"""The services that keep a database of their own."""

T = TypeVar("T")


class _Service(Generic[T]):
    """A part of a store that is made, and its modules are loaded, when it is first asked for: few commands need one.

    StoreFailed once the store has been closed.
    """

    def __init__(self, make: Callable[[Store], T]) -> None:
        self.__doc__ = make.__doc__
        self._name = make.__name__
        self._make = make

    def __get__(self, store: Store, _owner: type[Store]) -> T:
        parts = vars(store)
        with store.making:
            if self._name not in parts:
                if store.closed:
                    raise StoreFailed("the store has been closed")
                # from now on the attribute itself is found
                parts[self._name] = self._make(store)
            made: T = parts[self._name]
            return made


class Store:
    """An open store: its parts, by name. Made by :meth:`open`; a context manager that closes it."""

    def __init__(
        self, root: Path, renderer: Renderer | None, *, create: bool, reindex: bool, repair: bool, only_read: bool
    ) -> None:
        self.root = root
        self.closed = False
        self.making = threading.RLock()
        """Held while a service is made."""
        self.settings: Settings
        self.settings, warnings = load(root)
        self.warnings = warnings
        if (own := root / paths.FORMATS).is_dir():
            # imported here, as most have none, and who only looks at what is kept needs no format
            from store.formats.registry import learn

            warnings += learn(own)
        member = membership(root)
        self.files = files = open_files(
            root,
            create=create,
            reindex=reindex,
            repair=repair,
            only_read=only_read,
            new_id=member.files_id if member else None,
            backed=member is not None,
        )
        """The files on the disk: logs, packs, journal and index."""
        try:
            self.store_id = files.store_id
            self.recovered = files.notes
            index = files.index

            # writing
            self.observers = Observers()
            """The observers of commits."""
            self.writer = writer = Writer(
                files.turns,
                files.heads,
                files.packs,
                files.journal,
                index,
                files.pending,
                files.seq,
                self.observers,
                files.read_only,
            )
            """Makes requests durable, and knows the heads of contexts."""
            source = StoredBlobs(writer.pending.get, index, files.packs)
            self.blobs = Resolver(source, self.settings.content_cache_bytes)
            """Reads blobs by their hashes."""
            self.intake = Intake(writer, self.blobs, self.settings.inline_limit_bytes)
            """Takes blobs into the packs."""
            self.checkpointer = Checkpointer(writer, self.intake, Learning(self.intake), files.jumps.extend)
            """Moves what was committed from the journal into packs and logs."""
            flush = self.checkpointer.flush

            # reading
            self.turns = Turns(files.turns, files.jumps, Patches(index.db, writer.settle))
            """The turns of the log, and as they are seen through patches."""
            self.contents = Contents(self.turns, self.blobs, writer.types, index, writer.settle)
            """The payloads of turns."""
            self.views = Views(index.db)
            self.viewer = Viewer(self.turns, self.views, self.contents, renderer)
            """Sees payloads as events, and measures them."""
            self.records = Records(self.views, self.viewer, self.turns, self.settings.row_cache_bytes // ROW_BYTES)
            """The records of branches, and the rows that they are drawn from."""
            machine = member.machine if member else ""
            self.catalogue = Catalogue(index.db, writer.settle, list_all=self.settings.list_all, machine=machine)
            """Contexts, found by name, day and source."""
            self.library = Library(self.catalogue, self.turns, self.contents, self.views, self.viewer, self.records)
            """Conversations with their sums."""

            # contexts, and the data kept beside them
            hooks = Hooks(self.settings.canonical_types, all_json=self.settings.canonical_json)
            self.contexts = Contexts(writer, self.intake, self.library, flush, hooks)
            """Creates contexts, appends to them, patches them, and reads their branches."""
            self.artifacts = Artifacts(
                root, self.library, self.contexts, self.intake, f"{machine} {member.number}" if member else ""
            )
            """The outputs kept beside conversations."""

            # upkeep
            self.forgetting: list[Callable[[], None]] = [
                self.blobs.forget,
                self.turns.patches.forget,
                self.records.forget_rows,
            ]
            """The functions to call when contents were changed for good: each clears a cache of contents."""
            self.importing = threading.Lock()
            """Held while a session is imported."""
            self.filing = threading.Lock()
            """Held while helpers draw what is new (``store.filing``)."""
            self.redacting = threading.Lock()
            """Held while a command redacts, from its first look to its last: other work in the background waits."""

            if renderer is not None and self.views.renderer() != renderer.version:
                self.views.reset(renderer.version)
            self.intake.note_earlier(earlier(files))
            if not files.read_only:
                try:
                    self.checkpointer.take_over(files.found, at_once=files.must_pack)
                except StoreFull as error:
                    # before that, nothing may be committed
                    files.read_only = writer.read_only = f"{error}: until it is opened again, it is only read"
                    files.notes.append(files.read_only)
            files.settle()
            self.replica: Replica | None = None
            """Follows the space that the store is of; None if it is of none."""
            self.archiving: Archiving | None = None
            """Moves old entries of the space into its archive."""
            if member is not None:
                # imported here, as most stores are of none
                from store.shared.cache import Cache
                from store.shared.replica import Replica
                from store.upkeep.archiving import Archiving

                files.packs.remote = cache = Cache(root, self.settings.remote.cache_bytes)
                if not files.read_only:
                    self.replica = Replica(root, member, writer, self.intake, cache)
                    self.archiving = Archiving(self.replica, self.settings.remote)
                if files.incomplete:
                    writer.read_only = f"{files.heads.name} is damaged: {LOGS_BACK}"
                    files.notes.append(writer.read_only)
        except BaseException as error:
            files.close(clean=False)
            if isinstance(error, OSError):
                raise cannot_open(root, error) from error
            raise
        self.checkpointer.start()
        if self.replica is not None:
            from store.upkeep.purging import complete, renew

            self.replica.redactions.patch = partial(renew, self, self.replica)
            self.replica.redactions.complete = partial(complete, self, self.replica)
            self.replica.start()

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        renderer: Renderer | None = None,
        create: bool = True,
        reindex: bool = False,
        repair: bool = False,
        only_read: bool = False,
    ) -> Store:
        """Open the store in directory ``root``; make one if there is none and ``create``.

        ``reindex`` rebuilds the index from the logs; rows that only the old index had are written to the logs again.
        Of a replica they are not: it takes no writes then.
        With ``repair`` that is done even if a log is gone.

        If this process may only read the store, or ``only_read`` is asked for, it is opened read-only: every change
        raises StoreFailed.

        Without a ``renderer`` the store keeps no sizes of rendered events, and the calls that return rows are not
        to be used. Raises StoreBusy while another process has it open, NotFound, FormatTooNew, UsageError, DamageError
        where a log is gone, and
        StoreFailed where the disk does not take what must be written.
        """
        return cls(
            root, renderer, create=create, reindex=reindex or repair, repair=repair, only_read=only_read
        )

    def close(self) -> None:
        """Sync everything and close; a write that failed is raised here again."""
        with self.making:
            if self.closed:
                return
            self.closed = True
        clean = False
        try:
            for name in _DERIVED:
                if name in vars(self):
                    vars(self)[name].close()
            if self.replica is not None:
                self.replica.close()
            self.checkpointer.close()
            clean = not self.files.read_only
        finally:
            if self.replica is not None:
                self.replica.disconnect()
            self.intake.close()
            self.files.close(clean=clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreFailed:
            # an error already on its way says why
            if error is None:
                raise

    # -- services --------------------------------------------------------------------------------------------------

    @_Service
    def open_turns(self) -> OpenTurns:
        """Turns that are written piece by piece."""
        from store.conversations.open_turns import OpenTurns

        return OpenTurns(self.writer, self.intake, self.turns, self.contents, self.contexts)

    @_Service
    def search(self) -> Search:
        """Searches all conversations."""
        from store.search.search import Search

        return Search(self.files, self.library, self.texts)

    @_Service
    def addresses(self) -> Addresses:
        """Content by its digest, wherever it is."""
        from store.addresses import Addresses

        return Addresses(self.contents, self.search.holders)

    @_Service
    def insight(self) -> Insight:
        """Counts what answers cost."""
        from store.insight.insight import Insight

        return Insight(self.files, self.library, self.settings)

    @_Service
    def known_files(self) -> KnownFiles:
        """The files that conversations knew."""
        from store.worktree.known_files import KnownFiles

        made = KnownFiles(self.files, self.library)
        self.forgetting.append(made.forget)
        return made

    @_Service
    def texts(self) -> Texts:
        """The drawn texts of events."""
        from store.texts import Texts

        made = Texts(self.files, self.library, self.settings)
        self.forgetting.append(made.forget)
        return made

    @_Service
    def deliveries(self) -> Deliveries:
        """Knows what models were sent already."""
        from store.delivery.deliveries import Deliveries

        made = Deliveries(self.library, self.settings)
        self.forgetting.append(made.forget)
        return made

    @_Service
    def rewriting(self) -> Rewriting:
        """Puts rewritten packs in the place of others."""
        from store.upkeep.rewrite import Rewriting

        return Rewriting(self.intake)

    @_Service
    def sealer(self) -> Sealer:
        """Has packs rewritten so that what is read together lies together."""
        from store.upkeep.sealer import Sealer

        return Sealer(self.intake, self.rewriting, self.checkpointer.flush)

    @_Service
    def collector(self) -> Collector:
        """Removes garbage from the files."""
        from store.upkeep.gc import Collector

        made = Collector(self.root, self.intake, self.rewriting, self.sealer, self.checkpointer.flush)
        made.replica, made.archiving = self.replica, self.archiving
        return made

    def renew_derived(self) -> None:
        """Empty the derived databases; erase old indexes, damaged bytes set aside, leftovers of killed processes."""
        before = self.root.glob(f"{paths.KEPT_INDEX}*")
        kept = [path.name for path in before if path.name.removeprefix(paths.KEPT_INDEX).isdecimal()]
        for name in (paths.GC_INDEX, paths.FSCK_INDEX, paths.OLD_INDEX, *kept):
            erase_database(self.root / name)
        # what a repair has set aside may hold anything
        for path in (self.root / paths.DAMAGED).glob("*"):
            durable.erase(path)
        if self.viewer.renderer is None:
            for name in (paths.SEARCH, paths.INSIGHT, paths.WORKTREE, paths.TEXTS):
                erase_database(self.root / name)
        else:
            self.search.renew()
            self.insight.renew()
            self.known_files.renew()
            self.texts.renew()

    def rest(self) -> None:
        """Give memory back that was taken for work which is done; it may take some hundredths of a second.

        What is remembered for those who ask goes, too: they have not asked for a while, and it is soon read again.
        """
        self.files.index.db.shrink()
        for name in _DERIVED:
            if name in vars(self):
                vars(self)[name].shrink()
        self.blobs.forget()
        self.intake.shrink()
        self.files.jumps.shrink()
        self.records.shrink()
        zstd.let_go()
        gc.collect()
        # imported here, as only daemons come here
        import ctypes

        # the C library of GNU has it
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            trim(0)

    # -- its state -------------------------------------------------------------------------------------------------

    @property
    def activity(self) -> object:
        """A token that changes after any commit, any read of contents or of kept texts, and during a redaction."""
        if self.redacting.locked():
            return object()
        return self.writer.seq, self.blobs.asked, self.texts.asked if "texts" in vars(self) else 0

    @property
    def changes(self) -> object:
        """A token that changes after any commit, and after any write to the packs."""
        return self.writer.seq, self.files.packs.end

    def stats(self) -> Stats:
        """Return the contents of the store in numbers, and its size on disk."""
        self.writer.settle()
        return collect(self.root, self.files.index.db, self.files.turns.count)
