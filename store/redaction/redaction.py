"""The removal of secrets from a store: from its contents, from everything derived from them, and from all metadata.

Every blob that holds a secret is replaced by another one, under another name, and so is every blob that is made of it
or names it. The logs are rewritten with these names, each record at its old length, and the packs without the old blobs
(``store.redaction.rewriter``). Then the old files are overwritten, and derived files forget them.

Nothing is committed between the end of the search through all blobs and the end of the redaction; most of the search
comes before. A process that is killed on the way leaves a complete store:

* before the head log has its new name: nothing has changed, except for some new blobs that nothing names;
* between the two logs, or before the packs are in their places: every name in a log leads to a blob, an old or a new
  one. The index is marked as untrusted before anything changes, and rebuilt from the logs;
* after that: files that are being erased have names that say so, and the next opening erases the rest.

Nothing on the disk says what the secrets are, so no other process can finish: the file ``redacting`` tells the next one
to ask for the redaction to be repeated. Then the finished part stays, and the rest follows.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from store import paths
from store.commit.checkpointer import Learning
from store.commit.request import Request
from store.conversations import branch
from store.disk import durable
from store.disk.head_format import Alias, HeadFrame, HeadMoved, Metadata, Patched, encode
from store.disk.turn_format import Turn
from store.errors import Conflict, ConvfsError, NotFound
from store.events.conversation import REDACTED
from store.formats.registry import format_named
from store.ids import Hash, now_ms, turn_of
from store.importing.reading import beginning
from store.redaction.containers import originals
from store.redaction.replacements import Replacements
from store.redaction.rewriter import FrameRewriter, Loose
from store.redaction.secrets import Secrets
from store.redaction.survey import Survey
from store.store import Store
from store.upkeep.patching import Patch, Patching
from store.upkeep.purging import redacting

_BEGINNING = 16
"""The most records at the beginning of a conversation before those that identify it."""

Progress = Callable[[str, int, int], None]
"""Takes the progress: the current activity, and the done and total bytes."""


class Redacted(Struct, frozen=True):
    """The changes of a redaction: ``turns`` by id, those that are seen through patches included, and contexts.

    ``gone`` are the names of removed blobs, ``packs`` the number of rewritten packs, ``files`` the paths of other
    rewritten files. ``damaged`` lists, one line each, the places that could not be searched and are removed as well.
    """

    turns: tuple[int, ...]
    contexts: tuple[int, ...]
    gone: frozenset[Hash]
    packs: int
    files: tuple[str, ...]
    damaged: tuple[str, ...]


class Extent(Struct, frozen=True):
    """The extent of a redaction: blobs, turns, and the contexts that have these; see :class:`Redacted`.

    ``events`` are the numbers of those that a context now has, by its id.
    """

    contents: int
    turns: int
    contexts: tuple[int, ...]
    events: dict[int, list[int]]
    damaged: tuple[str, ...]


class Redaction:
    """The removal of ``secrets``, and of the secrets ``also`` of some payloads, from a store. Used once."""

    def __init__(
        self,
        store: Store,
        secrets: Secrets,
        also: Mapping[Hash, Secrets] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._also = also or {}
        self._progress = progress or (lambda _what, _done, _of: None)
        self._aliases: dict[bytes, tuple[str, Hash]] = {}
        self._payloads: set[Hash] = set()
        self._originals: list[dict[str, Hash]] = []
        self._turns = 0
        self._contexts: set[int] = set()
        self._blanked: Callable[[bytes], bytes] = lambda damaged: damaged
        self._damaged: Sequence[str] = ()

    def _surveyed(self) -> tuple[Survey, list[int]]:
        store = self._store
        if store.replica is not None:
            store.replica.holdings.bring_all()
        survey = Survey(store.blobs, self._secrets, store.files.aside.scratch)
        store.checkpointer.flush()
        numbers = store.intake.cold(roll=True)
        self._look_through(survey, numbers)
        return survey, numbers

    def extent(self) -> Extent:
        """Return the extent of the redaction, and change nothing."""
        with self._store.rewriting.alone:
            survey, _numbers = self._surveyed()
        self._close(survey)
        described = {
            frame.context
            for frame in _frames(self._store)
            if isinstance(frame.body, Metadata) and self._secrets.hold(frame.body.changes)
        }
        contexts = tuple(sorted(self._contexts | self._there(described)))
        events = {context: numbers for context in contexts if (numbers := [*self._events(context)])}
        return Extent(len(survey.held) + len(described), self._turns, contexts, events, tuple(survey.damaged))

    def run(self) -> Redacted:
        """Remove the secrets. Raises StoreFailed, and the errors of reading damaged logs; in a space Conflict.

        In a space all machines are to do the same: ``store.upkeep.purging``. Conflict where another one redacts, or
        went on meanwhile.
        """
        store = self._store
        with store.importing, store.rewriting.alone:
            if store.replica is None:
                survey, looked_at = self._surveyed()
                self._note()
                patching = Patching(store)
                with patching.standstill():
                    patch = self._patch(survey, looked_at)
                    packs = patching.rewrite(patch, self._blanked)
                    loose = self._clean_loose(patch)
                patching.finish()
            else:
                packs = 0
                with redacting(store, store.replica) as shared:
                    survey, looked_at = self._surveyed()
                    self._note()
                    with shared.held() as before:
                        patch = structs.replace(self._patch(survey, looked_at), packs=before)
                        if patch:
                            shared.commit(patch)
                    if patch:
                        packs = shared.apply(self._blanked)
                    loose = self._clean_loose(patch)
                    if patch:
                        shared.purge()
                    else:
                        # what a repair has set aside may hold it all the same
                        store.renew_derived()
                    # what others have brought meanwhile may hold it: the proof looks at that, too
                    store.replica.take_all()
                    store.replica.holdings.bring_all()
            if not store.intake.has_dictionary:
                Learning(store.intake).learn()
        contexts = tuple(patch.contexts)
        self._tell(contexts)
        durable.remove(store.root / paths.REDACTING)
        durable.sync_directory(store.root)
        # what is learnt from what is left may be the same as before
        learnt = {digest for _tag, digest in store.files.index.dictionaries()}
        gone = frozenset(map(Hash, patch.gone)) - learnt
        return Redacted(tuple(patch.tips), contexts, gone, packs, loose, (*survey.damaged, *self._damaged))

    def _look_through(self, survey: Survey, numbers: Sequence[int]) -> None:
        packs = self._store.files.packs
        size, done = sum(map(packs.length, numbers)), 0

        def passed(count: int) -> None:
            nonlocal done
            done += count
            self._progress("looking", done, size)

        survey.look_through(packs, numbers, passed)

    def _patch(self, survey: Survey, looked_at: Sequence[int]) -> Patch:
        """Return the patch, once nothing is committed any more. All blobs that it names are in the packs then."""
        store = self._store
        self._look_through(survey, [number for number in store.intake.cold(roll=True) if number not in looked_at])
        self._close(survey)
        dictionaries = self._dictionaries_with(survey.held)
        if dictionaries:
            store.intake.use_no_dictionary()
        # what takes the place of content resembles it, and must not be made from it
        store.files.index.forget_sketches()
        also, own = self._also, self._secrets
        new = Replacements(
            store, survey.held, self._payloads, lambda digest: also.get(digest, own), self._aliases, self._originals
        )
        forget = self._contexts | self._files_of()
        frames = FrameRewriter(self._secrets, new, dictionaries, forget, self._begins(new))
        frames.read_texts(store.files.heads)
        for digest in (*self._payloads, *survey.held):
            # those too that nobody names yet: somebody may be about to
            new.new(digest)
        changed: dict[int, bytes] = {}
        for frame in _frames(store):
            body = frames.body(frame)
            if body is not frame.body:
                changed[frame.seq] = encode(frame.seq, frame.context, body)
        self._blanked = frames.blank
        new.sync()
        self._damaged = new.damaged
        made = new.made
        # what the new ones are made of stays, whatever it is: the proof tells
        stays = {part for parts in store.blobs.references([*made.values()]).values() for part in parts}
        stays |= {old for old, now in made.items() if old == now}
        dropped = {*survey.held, *survey.torn, *dictionaries} - stays
        turns = [
            turn.turn_id
            for _id, turn in store.files.turns.scan()
            if isinstance(turn, Turn) and turn.payload_hash in made
        ]
        return Patch(
            store.writer.seq,
            {bytes(old): bytes(now) for old, now in made.items()},
            changed,
            sorted(dropped),
            sorted(dictionaries),
            [(number, place.start, place.filling) for number, places in frames.texts.items() for place in places],
            [*turns, *sorted(frames.patched)],
            sorted(self._contexts | self._there(frames.described)),
        )

    def _clean_loose(self, patch: Patch) -> tuple[str, ...]:
        loose = Loose(self._store.root, self._secrets, patch.new)
        loose.run()
        return tuple(loose.changed)

    def _dictionaries_with(self, held: set[Hash]) -> set[Hash]:
        """Return the dictionaries with any part of a secret, because they were trained on data with it."""
        store = self._store
        fragments = self._secrets.fragments()
        found: set[Hash] = set()
        for _tag, digest in store.files.index.dictionaries():
            try:
                data = store.blobs.blob(digest)
                if digest in held or fragments(data) or any(data.find(name) >= 0 for name in held):
                    found.add(digest)
            except ConvfsError:
                found.add(digest)
        return found

    def _close(self, survey: Survey) -> None:
        """Find the turns and contexts that must change, too, after the search."""
        known_as: dict[Hash, list[bytes]] = {}
        patches: list[Patched] = []
        for frame in _frames(self._store):
            if isinstance(body := frame.body, Alias):
                self._aliases[body.digest] = (body.algorithm, body.hash)
                known_as.setdefault(body.hash, []).append(body.digest)
            elif isinstance(body, Patched):
                patches.append(body)
        held = survey.held
        held.update(self._also)
        self._originals = originals(self._store.files.heads)
        survey.look_within(self._originals)
        survey.close(known_as)
        turns = [
            (turn.turn_id, turn.payload_hash)
            for _id, turn in self._store.files.turns.scan()
            if isinstance(turn, Turn) and turn.payload_hash in held
        ]
        turns += [(turn, Hash(digest)) for patch in patches for turn, digest, *_what in patch.turns if digest in held]
        self._payloads = {digest for _turn, digest in turns}
        self._turns = len(turns)
        self._contexts = self._contexts_of(sorted({turn for turn, _digest in turns}))

    def _contexts_of(self, turns: Sequence[int]) -> set[int]:
        """Return the contexts that have, or had, any of the given turns, which ascend."""
        store = self._store
        found: set[int] = set()
        for context, tip in store.catalogue.states():
            if context in found:
                continue
            try:
                runs = store.records.runs(tip)
            except ConvfsError:
                continue
            if branch.meets([(turn_of(first), count) for first, count in runs], turns):
                found.add(context)
        return found

    def _events(self, context: int) -> Iterator[int]:
        store = self._store
        head = store.catalogue.entry(context).head
        for row in store.records.rows(head) if head else ():
            if store.turns.get(row.turn).payload_hash in self._payloads:
                yield row.number

    def _there(self, contexts: Iterable[int]) -> set[int]:
        return {context for context in contexts if self._store.contexts.exists(context)}

    def _files_of(self) -> set[int]:
        """Return the contexts that stand for files which conversations that are to change have come in."""
        files = (self._store.catalogue.entry(context).metadata.get("file") for context in self._contexts)
        return {file for file in files if isinstance(file, int)}

    def _begins(self, new: Replacements) -> dict[str, str]:
        store = self._store
        begins: dict[str, str] = {}
        for context in self._contexts:
            entry = store.catalogue.entry(context)
            if not entry.head or not isinstance(entry.metadata.get("begins"), list):
                continue
            format_ = format_named(entry.format)
            for first, count in branch.part(store.records.runs(entry.head), 0, _BEGINNING):
                for turn in store.turns.range(first, count):
                    if (made := new.new(turn.payload_hash)) is not None:
                        new.sync()
                        begins[beginning(store.blobs.blob(turn.payload_hash), format_)] = beginning(
                            store.blobs.blob(made), format_
                        )
        return begins

    def _note(self) -> None:
        path = self._store.root / paths.REDACTING
        fd = durable.open_file(path, create=True)
        try:
            durable.fdatasync(fd)
        finally:
            os.close(fd)
        durable.sync_directory(path.parent)

    def _tell(self, contexts: Sequence[int]) -> None:
        store = self._store
        for context in contexts:
            try:
                head = store.writer.head(context)
            except NotFound:
                continue
            if head.turn:
                moved = HeadMoved(head.tip, head.depth, now_ms(), REDACTED)
                with suppress(Conflict):
                    # a conversation that has gone on meanwhile has a later version, which lacks the secret, too
                    store.writer.submit(Request(context, notes=(moved,), expected_head=head.tip))


def _frames(store: Store) -> Iterator[HeadFrame]:
    return (frame for frame in store.files.heads.frames() if isinstance(frame, HeadFrame))
