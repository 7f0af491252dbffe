"""Filing: what follows from new conversations, drawn by helpers on all cores and put into the databases.

An import ends when its conversations are durable. Their measures (``index.db``), texts (``texts.db``) and words
(``search.db``) come afterwards: all of them from one pass over the payloads, which ``store.drawing`` makes in other
processes. Until then, what is asked for is measured and drawn when it is asked for, and searches read what has no words
yet. So this may end at any time: who files next goes on.

Whole new branches are drawn so, of turns as they were appended. The rest are few: what has grown, was edited or begins
as another does is done by the jobs of the databases themselves.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from time import monotonic

import msgspec
from msgspec import Struct

from store import paths
from store.conversations import branch
from store.conversations.viewer import LARGEST_VIEWED, Measured
from store.drawing import DONE, DRAWN, WORDS, Drawn, Payload, Piece, Words
from store.errors import ConvfsError
from store.events.conversation import EventRow, ResourceRow
from store.helper import Helper, processes
from store.ids import hash_key, patch_of
from store.index.views import Measure, Run
from store.store import Store
from store.texts import Block

_LOG = logging.getLogger(__name__)

WORTH_RECORDS = 5000
"""New records of so many are worth other processes: these take a moment to start."""
_PIECE_RECORDS = 16
"""The records that are read first; how large they are tells how many are read next."""
_MOST_RECORDS = 512
_PIECE_BYTES = 1 << 20
_GIVEN_BYTES = 4 << 20
"""The bytes of payloads that a helper has at once: it always has the next piece, and memory is bounded."""
_FILED_RECORDS = 4096
_STEP_SECONDS = 0.25

_decode_drawn = msgspec.msgpack.Decoder(Drawn).decode
_decode_words = msgspec.msgpack.Decoder(Words).decode

Told = Callable[[int, int], None]
"""Takes how many records are done, of how many."""


class _Branch(Struct):
    """A conversation that is drawn; its ``sums`` are those of the records so far."""

    context: int
    head: int
    runs: tuple[Run, ...]
    left: int
    sums: Measure = Measure(0)


class _Job(Struct, frozen=True):
    """A piece that a helper has, of so many bytes."""

    branch: _Branch
    piece: Piece
    size: int


_Answer = tuple["_Member", int, bytes | None]
"""A helper, what its answer is, and its bytes; None: it has ended by itself."""


class _Member:
    """A helper, the pieces of the branch that it draws, and what it has of them."""

    def __init__(self, setting: tuple[object, ...], answers: "queue.SimpleQueue[_Answer]") -> None:
        self.pieces: Iterator[_Job] | None = iter(())
        """The pieces that come next, None once there are none."""
        self.jobs: deque[_Job] = deque()
        self.bytes = 0
        self.done = False
        """True once nothing comes from it any more."""
        self._answers = answers
        self._helper = Helper("store.drawing", setting)
        self._reader = threading.Thread(target=self._read, name="convfs-filing", daemon=True)
        self._reader.start()

    def give(self, job: _Job) -> None:
        self.jobs.append(job)
        self.bytes += job.size
        self._helper.give(0, job.piece)

    def finish(self) -> None:
        """Have the words given out that are left."""
        self._helper.give(0, None)

    def taken(self) -> _Job:
        """Return the piece that an answer is of."""
        job = self.jobs.popleft()
        self.bytes -= job.size
        return job

    def close(self) -> None:
        self._helper.end(self._reader)

    def _read(self) -> None:
        for _number, what, data in self._helper.answers():
            self._answers.put((self, what, data))
        self._answers.put((self, DONE, None))


class Filing:
    """Files what follows from conversations, of one store; ``told`` gets the progress. Used once, by one thread."""

    def __init__(self, store: Store, told: Told = lambda _done, _all: None) -> None:
        self._store = store
        self._told = told
        self._done = self._all = 0
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._openings = (0, 0)
        """The state of the search index and of the texts when the first payload was read."""
        self._is_over = False
        """True once what has been read may be gone."""
        self._rows: list[EventRow] = []
        self._resources: list[ResourceRow] = []
        self._texts: list[Block] = []
        self._whole: list[tuple[int, Measure]] = []
        """The conversations all of whose rows are there, with their sums."""

    def run(self) -> None:
        """File all that is behind. Whatever ends it, what was filed so far stays, and the rest can be filed later."""
        with self._alone() as behind:
            self._draw_new(behind)
            self._file_rest(behind)

    def draw(self) -> None:
        """File what helpers can draw, and leave the rest to the jobs of the databases; ends as :meth:`run`."""
        with self._alone() as behind:
            self._draw_new(behind)

    @contextmanager
    def _alone(self) -> Iterator[dict[int, int]]:
        """Yield the conversations that are behind, with their heads, while nobody else files."""
        store = self._store
        if store.viewer.renderer is None or store.files.read_only:
            yield {}
            return
        while not store.filing.acquire(timeout=_STEP_SECONDS):
            self._told(0, 0)
        try:
            self._all = store.search.unfiled
            # what is kept for readers serves here, too: conversations that follow each other lie in the same groups
            yield dict(store.texts.behind()) | dict(store.catalogue.without_sums())
        finally:
            store.filing.release()

    def _draw_new(self, behind: Mapping[int, int]) -> None:
        store, new = self._store, [*self._new(behind)]
        records = sum(one.left for one in new)
        if records < WORTH_RECORDS or not (count := processes()):
            return
        self._all = max(self._all, records)
        try:
            self._draw(new, count, (store.root / paths.FORMATS, store.viewer.renderer))
        except OSError as error:
            _LOG.info("filing goes on in one process: %s", error)

    def _new(self, behind: Mapping[int, int]) -> Iterator[_Branch]:
        """Yield the conversations that are drawn as a whole: none of their turns are drawn, or in two of them."""
        store, roots = self._store, set[int]()
        for context, head in sorted(behind.items()):
            with suppress(ConvfsError):
                runs = store.records.runs(head)
                root = runs[0][0]
                if not patch_of(head) and root not in roots and self._is_here(root) and not self._is_drawn(root):
                    roots.add(root)
                    yield _Branch(context, head, runs, branch.length(runs))

    def _is_here(self, root: int) -> bool:
        store = self._store
        return store.replica is None or store.files.index.has_here([hash_key(store.turns.get(root).payload_hash)])

    def _is_drawn(self, root: int) -> bool:
        if self._store.texts.is_kept:
            return self._store.texts.has(root)
        return bool(self._store.views.rows(((root, 1),), 1))

    def _draw(self, new: Sequence[_Branch], count: int, setting: tuple[object, ...]) -> None:
        store = self._store
        self._openings = store.search.opening, store.texts.opening
        branches = iter(new)
        with ExitStack() as stack:
            members: list[_Member] = []
            for _number in range(count):
                members.append(member := _Member(setting, self._answers))
                stack.callback(member.close)
            while not self._is_over:
                ready = [one for one in members if one.pieces is not None and one.bytes < _GIVEN_BYTES]
                if not ready:
                    if not any(one.jobs for one in members):
                        break
                    self._take()
                    continue
                member = min(ready, key=attrgetter("bytes"))
                assert member.pieces is not None
                if (job := next(member.pieces, None)) is not None:
                    member.give(job)
                    continue
                following = next(branches, None)
                member.pieces = self._pieces(following) if following is not None else None
            for member in members:
                member.finish()
            while not self._is_over and not all(member.done for member in members):
                self._take()
            self._file()

    def _pieces(self, of: _Branch) -> Iterator[_Job]:
        """Yield the pieces of a branch, as far as it can be read and is as it was appended."""
        contents, number, count = self._store.contents, 1, _PIECE_RECORDS
        for first, length in of.runs:
            start, beyond = first, first + length
            while start < beyond:
                turns = self._store.turns.range(start, min(count, beyond - start))
                references = contents.blobs.references([turn.payload_hash for turn in turns])
                records: list[Payload] = []
                for turn, data in contents.of_turns(turns):
                    digest, type_name = turn.payload_hash, contents.type_name(turn.type_tag)
                    held = references.get(digest)
                    if turn.flags or held is None or not isinstance(data, bytes) or len(data) > LARGEST_VIEWED:
                        return
                    records.append(Payload(digest, type_name, turn.type_tag, turn.encoding, data, held))
                size = sum(len(record.data) for record in records)
                yield _Job(of, Piece(number, start, records), size)
                number, start = number + len(records), start + len(records)
                # about as many bytes the next time, whatever the records are
                count = max(min(len(records) * _PIECE_BYTES // (size + 1), 2 * len(records), _MOST_RECORDS), 1)

    def _take(self) -> None:
        """Take the next answer of a helper."""
        member, what, data = self._answers.get()
        if data is None:
            if not member.done:
                _LOG.warning("a process that helped with filing has ended before that: it goes on without it")
            # what it had is left to be drawn by others
            member.jobs.clear()
            member.pieces, member.bytes, member.done = None, 0, True
        elif what == DRAWN:
            self._drawn(member.taken(), _decode_drawn(data))
        elif what == WORDS:
            words = _decode_words(data)
            self._store.search.add(words.gathered, dict(words.shown), self._openings[0])
        else:
            member.done = True

    def _drawn(self, job: _Job, drawn: Drawn) -> None:
        of, piece = job.branch, job.piece
        measured = Measured()
        for number, one in enumerate(drawn.measured, piece.number):
            measured.put(number, one)
        rows = measured.rows(piece.turn)
        of.sums = of.sums.at(of.head, rows)
        of.left -= len(rows)
        self._rows += rows
        self._resources += measured.resources(piece.turn)
        self._texts += drawn.texts
        if not of.left:
            self._whole.append((of.context, of.sums))
        self._done += len(rows)
        self._told(min(self._done, self._all), self._all)
        if len(self._rows) >= _FILED_RECORDS:
            self._file()

    def _file(self) -> None:
        """File what was drawn, unless some of it may be gone by now."""
        store = self._store
        # a redaction holds this from its first look to its end
        with store.importing:
            self._is_over = self._is_over or store.search.opening != self._openings[0]
            if not self._is_over:
                store.views.add(self._rows, self._resources, self._whole)
                heads = [(context, sums.head) for context, sums in self._whole]
                store.texts.add(self._texts, heads, self._openings[1])
        self._rows, self._resources, self._texts, self._whole = [], [], [], []

    def _file_rest(self, behind: Mapping[int, int]) -> None:
        """Have the databases file what is left, a slice at a time; of a replica, only some.

        What other machines have brought would have to be fetched: that is left to the jobs of a daemon, which read it
        abreast.
        """
        store = self._store
        if store.viewer.renderer is None or store.files.read_only:
            return
        if store.replica is not None:
            store.search.file_until(monotonic() + _STEP_SECONDS)
            return
        while store.texts.fill():
            self._told(self._done, self._all)
        for context, _head in store.catalogue.without_sums():
            if context in behind:
                self._told(self._done, self._all)
                with suppress(ConvfsError):
                    store.library.measure(store.catalogue.entry(context))
        left = store.search.unfiled
        while left:
            store.search.file_until(monotonic() + _STEP_SECONDS)
            before, left = left, store.search.unfiled
            if left >= before:
                # what is left cannot be read just now
                break
            self._told(self._all - min(left, self._all), self._all)
