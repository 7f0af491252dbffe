"""Making secrets disappear from a store: from everything that it holds, is derived from it, and tells of it.

Every blob that holds a secret gets another one in its place, under another name; what is made of it, or names it, gets
another one, too. The logs are written once more with these names, each record as long as before
(``store.redaction.log_rewriting``), and the packs without the old blobs (``store.redaction.pack_rewriting``). Then the
old files are overwritten, and what is derived forgets what it has of them.

Nothing is committed between the moment when all blobs have been looked at and the end; most of the looking is done
before. Who is killed on the way leaves a store that is whole:

* before the head log has its new name: all is as it was, and some new blobs that nobody names;
* between the two logs, or before the packs are in their places: every name that a log has leads to a blob, an old or a
  new one. The index is noted as not to be trusted before anything changes, and made anew from the logs;
* after that: files that are being erased have names that tell so, and the next opening goes on with it.

Nothing on the disk says what the secrets are, so nobody else can finish: a file, ``redacting``, tells whoever opens the
store that it is to be done once more. Then what had been done stays done, and the rest follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct, structs

from store.commit.request import Request
from store.conversations import branch
from store.disk import durable
from store.disk.head_format import Alias, Frame, HeadMoved, Metadata, Patched
from store.disk.turn_format import Turn
from store.errors import Conflict, ConvfsError, NotFound
from store.formats.registry import format_named
from store.ids import Hash, now_ms, turn_of
from store.importing.likeness import beginning
from store.index.beside import erase_database
from store.insight import insight
from store.insight.insight import Insight
from store.redaction.log_rewriting import FrameRewriting, TurnRewriting
from store.redaction.loose import Loose
from store.redaction.pack_rewriting import PackRewriting
from store.redaction.replacements import Replacements
from store.redaction.secrets import Secrets
from store.redaction.survey import Survey
from store.search import following as search
from store.search.search import Search
from store.store import Store
from store.upkeep.recovery import REDACTING

ACTION = "redact"
"""What the versions of conversations that it has changed say."""

_SCRATCH = ("gc.db", "fsck.db")

_BEGINNING = 16
"""How many records there may be at the beginning of a conversation before those that it is known by."""

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many have been."""


class Redacted(Struct, frozen=True):
    """What a redaction has changed: ``turns`` by id, those that are seen through patches, too, and contexts.

    ``gone`` are the names of blobs that are no more, ``packs`` how many had to be rewritten, ``files`` the paths of
    other files that were. ``damaged`` says, a line each, what could not be looked into, and is gone as well.
    """

    turns: tuple[int, ...]
    contexts: tuple[int, ...]
    gone: frozenset[Hash]
    packs: int
    files: tuple[str, ...]
    damaged: tuple[str, ...]


class Extent(Struct, frozen=True):
    """How much there is to redact: blobs, turns, and the contexts that have these; see :class:`Redacted`."""

    contents: int
    turns: int
    contexts: tuple[int, ...]
    damaged: tuple[str, ...]


class Redaction:
    """Removes ``secrets`` from a store. Used once.

    ``also`` are further ones by the payloads that these alone are to be removed from.
    """

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
        self._originals: set[Hash] = set()
        self._turns = 0
        self._contexts: set[int] = set()

    def _surveyed(self) -> tuple[Survey, list[int]]:
        """Look through all that is in packs, and return what was found, and in which packs."""
        store = self._store
        survey = Survey(store.resolver, self._secrets, store.root / "scratch")
        store.flush()
        numbers = store.rewriting.cold(roll=True)
        self._look_through(survey, numbers)
        return survey, numbers

    def extent(self) -> Extent:
        """Say how much there is to redact, and change nothing."""
        with self._store.rewriting.alone:
            survey, _numbers = self._surveyed()
        self._close(survey)
        described = {
            frame.context
            for frame in self._store.files.heads.frames()
            if isinstance(frame, Frame)
            and isinstance(body := frame.body, Metadata)
            and self._secrets.hold(body.changes)
        }
        contexts = tuple(sorted(self._contexts | self._there(described)))
        return Extent(len(survey.held) + len(described), self._turns, contexts, tuple(survey.damaged))

    def run(self) -> Redacted:
        """Remove them. Raises StoreFailed, and what reading damaged logs does."""
        store = self._store
        with store.importing, store.rewriting.alone:
            survey, looked_at = self._surveyed()
            self._note()
            with store.standstill.begin():
                more = [number for number in store.rewriting.cold(roll=True) if number not in looked_at]
                self._look_through(survey, more)
                done = self._replace(survey)
            store.standstill.erase()
            store.standstill.learn()
            _renew_derived(store)
        self._tell(done.contexts)
        durable.remove(store.root / REDACTING)
        durable.sync_directory(store.root)
        # what is learnt from what is left may be the same as before
        learnt = {digest for _tag, digest in store.files.index.dictionaries()}
        return structs.replace(done, gone=done.gone - learnt)

    def _look_through(self, survey: Survey, numbers: Sequence[int]) -> None:
        packs = self._store.files.packs
        size, done = sum(map(packs.length, numbers)), 0

        def passed(count: int) -> None:
            nonlocal done
            done += count
            self._progress("looking", done, size)

        survey.look_through(packs, numbers, passed)

    # -- while nothing is committed ----------------------------------------------------------------------------------

    def _replace(self, survey: Survey) -> Redacted:
        store, still = self._store, self._store.standstill
        self._close(survey)
        dictionaries = self._dictionaries_with(survey.held)
        if dictionaries:
            still.use_no_dictionary()
        new = Replacements(
            store.resolver,
            store.load(),
            survey.held,
            self._payloads,
            self._secrets_of,
            self._aliases,
            self._originals,
            store.root / "scratch",
        )
        turns = TurnRewriting(new.made)
        forget = self._contexts | self._files_of()
        frames = FrameRewriting(self._secrets, new, dictionaries, forget, self._begins(new))
        frames.read_texts(store.files.heads)
        # once without writing anything: all new blobs are on the disk before a log names one
        for digest in (*self._payloads, *survey.held):
            # those too that nobody names yet: somebody may be about to
            new.new(digest)
        for frame in store.files.heads.frames():
            if isinstance(frame, Frame):
                frames.body(frame)
        new.sync()
        still.rewrite(turns.records, frames.body, frames.blank)
        for number, places in frames.texts.items():
            for place in places:
                still.blank(number, place.start, place.filling)
        changed = (*turns.changed, *sorted(frames.patched))
        contexts = self._contexts | self._there(frames.described)
        still.read_anew(changed, contexts)
        # what the new ones are made of stays, whatever it is: the proof tells
        stays = {part for parts in store.resolver.references([*new.made.values()]).values() for part in parts}
        stays |= {old for old, made in new.made.items() if old == made}
        still.replaced({old: made for old, made in new.made.items() if old != made})
        dropped = {*survey.held, *survey.torn, *dictionaries} - stays
        packs = self._rewrite_packs(dropped, dictionaries)
        loose = Loose(store.root, self._secrets, new.made)
        loose.run()
        return Redacted(
            changed,
            tuple(sorted(contexts)),
            frozenset(dropped),
            packs,
            tuple(loose.changed),
            tuple([*survey.damaged, *new.damaged]),
        )

    def _rewrite_packs(self, dropped: set[Hash], dictionaries: set[Hash]) -> int:
        """Take blobs out of the packs; return how many packs had to be rewritten."""
        store = self._store
        numbers = store.rewriting.cold(roll=True)
        rewriting = PackRewriting(store.resolver, store.rewriting.pack, dropped, dictionaries)
        located = store.files.index.locate(sorted(dropped))
        holding = {pack for places in located.values() for pack, _offset, _member in places}
        rewriting.rewrite(store.files.packs, numbers, holding)
        done = rewriting.done
        store.rewriting.switch(done.places, done.packs, done.replaced, dropped=dropped, overwrite=True)
        return len(done.replaced)

    def _dictionaries_with(self, held: set[Hash]) -> set[Hash]:
        """Return the dictionaries that have any part of a secret: they are trained on what held it, and may name it."""
        store = self._store
        fragments = self._secrets.fragments()
        found: set[Hash] = set()
        for _tag, digest in store.files.index.dictionaries():
            try:
                data = store.blob(digest)
                if digest in held or fragments(data) or any(data.find(name) >= 0 for name in held):
                    found.add(digest)
            except ConvfsError:
                found.add(digest)
        return found

    def _close(self, survey: Survey) -> None:
        """Find out what else must change when all has been looked through: turns, and contexts."""
        known_as: dict[Hash, list[bytes]] = {}
        patches: list[Patched] = []
        for frame in self._store.files.heads.frames():
            if isinstance(frame, Frame) and isinstance(body := frame.body, Alias):
                self._aliases[body.digest] = (body.algorithm, body.hash)
                known_as.setdefault(body.hash, []).append(body.digest)
            elif isinstance(frame, Frame) and isinstance(frame.body, Patched):
                patches.append(frame.body)
        held = survey.held
        held.update(self._also)
        self._originals = _originals(self._store)
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

    def _secrets_of(self, digest: Hash) -> Secrets:
        return self._also.get(digest, self._secrets)

    def _contexts_of(self, turns: Sequence[int]) -> set[int]:
        """Return the contexts that have any of some turns, which rise, or had them once."""
        store = self._store
        found: set[int] = set()
        for context, tip in store.states():
            if context in found:
                continue
            try:
                runs = store.runs(tip)
            except ConvfsError:
                continue
            if branch.meets([(turn_of(first), count) for first, count in runs], turns):
                found.add(context)
        return found

    def _there(self, contexts: Iterable[int]) -> set[int]:
        """Return those contexts that were not deleted."""
        return {context for context in contexts if self._store.has_context(context)}

    def _files_of(self) -> set[int]:
        """Return the contexts that stand for files which conversations that are to change have come in."""
        files = (self._store.entry(context).metadata.get("file") for context in self._contexts)
        return {file for file in files if isinstance(file, int)}

    def _begins(self, new: Replacements) -> dict[str, str]:
        """Return what records at the beginnings of conversations are known by from now on."""
        store = self._store
        begins: dict[str, str] = {}
        for context in self._contexts:
            entry = store.entry(context)
            if not entry.head or not isinstance(entry.metadata.get("begins"), list):
                continue
            format_ = format_named(entry.format)
            for first, count in branch.part(store.runs(entry.head), 0, _BEGINNING):
                for turn in store.turns.range(first, count):
                    if (made := new.new(turn.payload_hash)) is not None:
                        new.sync()
                        begins[beginning(store.blob(turn.payload_hash), format_)] = beginning(store.blob(made), format_)
        return begins

    # -- telling -----------------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Note that a redaction is under way."""
        path = self._store.root / REDACTING
        fd = durable.open_file(path, create=True)
        try:
            durable.fdatasync(fd)
        finally:
            os.close(fd)
        durable.sync_directory(path.parent)

    def _tell(self, contexts: Sequence[int]) -> None:
        """Have the versions of conversations say that something was redacted."""
        store = self._store
        for context in contexts:
            try:
                head = store.head(context)
            except NotFound:
                continue
            if head.turn:
                moved = HeadMoved(head.tip, head.depth, now_ms(), ACTION)
                with suppress(Conflict):
                    # who has gone on meanwhile has a later version, which is without it, too
                    store.submit(Request(context, notes=(moved,), expected_head=head.tip))


class _WithOriginal(Struct):
    """Metadata that may name files which are kept as they were imported, by their blobs in hex."""

    original: dict[str, str] | None = None


def _originals(store: Store) -> set[Hash]:
    """Return the blobs of files that are kept as they were imported: archives, databases."""
    found: set[Hash] = set()
    for frame in store.files.heads.frames():
        if isinstance(frame, Frame) and isinstance(body := frame.body, Metadata) and b'"original"' in body.changes:
            with suppress(msgspec.DecodeError):
                original = msgspec.json.decode(body.changes, type=_WithOriginal).original
                found.update(Hash(bytes.fromhex(digest)) for digest in (original or {}).values())
    return found


def _renew_derived(store: Store) -> None:
    """Have nothing left of what was searched and counted, nor of what a check or a collection has left when killed."""
    for name in _SCRATCH:
        erase_database(store.root / name)
    if store.viewer.renderer is None:
        for name in (search.FILE_NAME, insight.FILE_NAME):
            erase_database(store.root / name)
    else:
        Search.of(store).renew()
        Insight.of(store).renew()
