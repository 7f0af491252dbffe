"""A store in use in every way that writes, what of it was acknowledged, and what is wrong with what is left of it."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import Struct

from store.commit import checkpointer, intake
from store.commit.request import ContextHead
from store.conversations.contexts import Append
from store.disk.pack import PackSet
from store.disk.turn_format import Encoding
from store.editing.editor import DELETED, Editor
from store.errors import ConvfsError, NotFound
from store.ids import Hash, hash_bytes, type_tag
from store.importing.importer import Importer
from store.retention.pruner import delete
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import Looked, fsck
from tests.store.importing.sessions import lines, session

THREADS = 3
IMPORTED = "imported"
JOURNAL_BYTES = 24 << 10
JOURNALS = 3

Seen = tuple[object, ...] | None
"""All that can be seen of a conversation; None if it is not there."""


class Told:
    """Acknowledged and possible changes: of each conversation, the states in which it was, one by one."""

    def __init__(self) -> None:
        self.contexts: dict[str, int] = {}
        self.states: dict[str, list[Seen]] = {}
        self.sure: dict[str, int] = {}
        """Which of its states a conversation has certainly reached."""
        self.keys: list[tuple[int, bytes, int]] = []
        """Under which keys, which are the payloads, too, turns were appended: context, key, turn."""
        self.roots: list[tuple[int, Hash]] = []
        self.blobs: list[bytes] = []
        self.types: list[tuple[str, int]] = []

    def note(self) -> Noted:
        """Return what is acknowledged by now."""
        return Noted(dict(self.sure), len(self.keys), len(self.roots), len(self.blobs), len(self.types))

    def begin(self, name: str) -> None:
        """Note that there may be a conversation from now on."""
        self.states[name] = [None]
        self.sure[name] = 0

    def reached(self, name: str, state: Seen) -> None:
        """Note a conversation's state, which was acknowledged."""
        self.states[name].append(state)
        self.sure[name] = len(self.states[name]) - 1


class Noted(Struct, frozen=True):
    """A store as acknowledged at some moment: states of conversations, and how many keys, roots, blobs and types."""

    sure: Mapping[str, int]
    keys: int
    roots: int
    blobs: int
    types: int


def seen(store: Store, context: int) -> Seen:
    """Return all that can be seen of a context; each payload has been read, and is what its hash says."""
    try:
        entry = store.catalogue.entry(context)
    except NotFound:
        return None
    turns = []
    for turn in store.contexts.last(context, 1000):
        assert hash_bytes(store.contents.payload(turn.turn_id)) == turn.payload_hash
        turns.append((turn, store.contents.type_name(turn.type_tag)))
    latest = [
        (turn.payload_hash, turn.flags, len(store.contents.payload(turn.turn_id)))
        for turn in store.contexts.last(context, 1000, latest=True)
    ]
    return (
        store.writer.head(context),
        tuple(turns),
        tuple(latest),
        sorted((key, repr(value)) for key, value in entry.metadata.items()),
        tuple((version.head, version.records, version.action) for version in store.catalogue.versions(context)),
        tuple((text.number, text.text, text.damaged) for text in store.writer.texts.of(context)),
    )


class Life:
    """A store in use: opened and closed, and by three threads in between, each with conversations of its own."""

    def __init__(self, root: Path, folder: Path, threads: int = THREADS, days: int = 2) -> None:
        self.root = root
        self.told = Told()
        self.failures: list[BaseException] = []
        self._threads = threads
        self._days = days
        self._session = folder / "sessions"

    def run(self) -> None:
        """Live. Raises what the store raised."""
        for day in range(self._days):
            with Store.open(self.root) as store:
                users = [User(self, store, day, number) for number in range(self._threads)]
                threads = [threading.Thread(target=self._guarded, args=(user.use,)) for user in users[1:]]
                for thread in threads:
                    thread.start()
                self._guarded(users[0].use)
                for thread in threads:
                    thread.join()
                if self.failures:
                    raise self.failures[0]

    def _guarded(self, use: Callable[[], None]) -> None:
        try:
            use()
        except BaseException as error:
            self.failures.append(error)

    def bring_in(self, store: Store, *texts: str) -> None:
        """Import a session, or what it has grown by."""
        path = session(self._session, lines(*texts))
        os.utime(path, (len(texts), len(texts)))
        if IMPORTED not in self.told.states:
            self.told.begin(IMPORTED)
        report = Importer(store).run([path])
        assert not report.errors
        entry = store.catalogue.by_source(str(path))
        assert entry is not None
        self.told.contexts[IMPORTED] = entry.id
        self.told.reached(IMPORTED, seen(store, entry.id))


class User:
    """One thread's use of an open store."""

    def __init__(self, life: Life, store: Store, day: int, number: int) -> None:
        self.told = life.told
        self.life = life
        self.store = store
        self.editor = Editor(store)
        self.day = day
        self.number = number
        self.mine = f"{day}-{number}"
        self.source = random.Random(f"{day} {number}")

    def text(self, size: int) -> bytes:
        """Return a payload that is like no other."""
        words = b" ".join(b"%x" % self.source.getrandbits(28) for _ in range(size // 8 + 1))
        return b'{"of":"%s","text":"%s"}' % (self.mine.encode(), words)

    @contextmanager
    def change(self, name: str) -> Iterator[int]:
        """Do one thing to a conversation of ours, and take note that it was acknowledged."""
        context = self.told.contexts[name]
        yield context
        self.told.reached(name, seen(self.store, context))

    def made(self, name: str, make: Callable[[], ContextHead]) -> int:
        """Make a conversation."""
        self.told.begin(name)
        context = self.told.contexts[name] = make().context
        self.told.reached(name, seen(self.store, context))
        return context

    def use(self) -> None:
        """Do everything once, in an order that differs between threads and days."""
        store, name = self.store, self.mine
        self.made(name, lambda: store.contexts.create(metadata={"project": "p", "name": name, "labels": ["new"]}))
        with self.change(name) as context:
            first = store.contexts.append(context, self.text(20), "x.v1")
        steps = [self.append, self.append_many, self.large, self.stream, self.branch, self.edit, self.patch]
        steps += [self.describe, self.trash, self.blob, self.keyed, self.attach, self.fork, self.yesterday]
        if self.number == 0:
            steps.append(self.collect)
        self.source.shuffle(steps)
        for step in steps:
            step(name)
        if self.number == 0:
            store.checkpointer.flush()
            self.life.bring_in(store, *("Please.", "I will. " * 200, "Thank you.", "More. " * 300)[: 2 * self.day + 2])
        with self.change(name) as context:
            assert store.contexts.append(context, self.text(30), "x.v1", expected_head=store.writer.head(context).turn)
            assert store.turns.get(first.turn_id) == first

    def append(self, name: str) -> None:
        for size in (0, 300, 1500):
            with self.change(name) as context:
                self.store.contexts.append(context, self.text(size), f"type.{size}.{self.mine}", encoding=Encoding.JSON)

    def append_many(self, name: str) -> None:
        with self.change(name) as context:
            items = [Append(self.text(size), f"many.{self.mine}") for size in (10, 800, 90)]
            self.store.contexts.append_many(context, items)

    def large(self, name: str) -> None:
        """Calls that do not go through the journal."""
        with self.change(name) as context:
            self.store.contexts.append(context, self.text(JOURNAL_BYTES // 3), "x.v1")

    def stream(self, name: str) -> None:
        for ending in ("seal", "abort", ""):
            with self.change(name) as context:
                turn = self.store.open_turns.open(context, "text.v1")
            for piece in range(2):
                with self.change(name):
                    turn.add(b"%d, " % piece * 50)
            if ending:
                with self.change(name):
                    turn.seal() if ending == "seal" else turn.abort()

    def branch(self, name: str) -> None:
        """Go on from an earlier turn, and back to where the branch was."""
        with self.change(name) as context:
            before = self.store.writer.head(context).turn
            self.store.contexts.append(context, self.text(5), "x.v1")
        with self.change(name):
            self.store.contexts.append(context, self.text(60), "x.v1", parent=before)
        with self.change(name):
            self.editor.restore(context, len(self.store.catalogue.versions(context)) - 1)

    def edit(self, name: str) -> None:
        with self.change(name) as context:
            self.editor.edit(context, {1: self.text(200)})
        with self.change(name) as context:
            self.editor.edit(context, {2: DELETED} if self.store.writer.head(context).depth else {1: DELETED})

    def patch(self, name: str) -> None:
        turn = self.store.contexts.last(self.told.contexts[name], 1)[0].turn_id
        for content in (self.text(70), DELETED, self.text(2000)):
            with self.change(name) as context:
                self.store.contexts.patch(context, {turn: content})

    def describe(self, name: str) -> None:
        with self.change(name) as context:
            self.store.contexts.set_metadata(context, {"title": f"Of {self.mine}", "labels": ["a", "b"]})
        with self.change(name) as context:
            self.editor.relabel(context, add=["c"], remove=["a"])
        with self.change(name) as context:
            self.editor.rename(context, "q", f"{self.mine}-renamed")

    def trash(self, name: str) -> None:
        with self.change(name) as context:
            self.editor.remove(context)
        with self.change(name) as context:
            self.editor.bring_back(context)

    def blob(self, _name: str) -> None:
        for size in (50, 4000, 40_000):
            data = self.text(size)
            self.store.intake.put(data)
            self.told.blobs.append(data)

    def collect(self, _name: str) -> None:
        """Take out of the packs what nothing leads to: what was in a conversation that is deleted for good."""
        context = self.store.contexts.create().context
        self.store.contexts.append_many(context, [Append(self.text(size), "gone.v1") for size in (100, 3000, 9000)])
        delete(self.store, context, self.store.writer.head(context).tip)
        for data in self.told.blobs:
            # nothing names them, so they must be asked for to stay
            self.store.intake.put(data)
        for _pause in self.store.collector.steps(grace_seconds=0, least_part=0, dry_run=False):
            pass

    def keyed(self, name: str) -> None:
        for step in range(2):
            key = b"%s %d %d" % (name.encode(), self.day, step)
            root = self.store.intake.put(key)
            with self.change(name) as context:
                turn = self.store.contexts.append(context, key, "x.v1", idempotency_key=key, fs_root=root)
            self.told.keys.append((context, key, turn.turn_id))

    def attach(self, name: str) -> None:
        version = 1 + self.number
        self.store.contexts.register_type("registered", version)
        self.told.types.append(("registered", version))
        with self.change(name) as context:
            turn, root = self.store.contexts.append(context, self.text(40), "x.v1"), self.store.intake.put(self.text(1))
        self.store.contexts.attach_fs(turn.turn_id, root)
        self.told.roots.append((turn.turn_id, root))

    def fork(self, name: str) -> None:
        other = f"{name}-fork"
        context = self.made(other, lambda: self.editor.fork(self.told.contexts[name], other, at=1))
        with self.change(other):
            self.store.contexts.append(context, self.text(100), "x.v1")

    def yesterday(self, _name: str) -> None:
        """Go on with a conversation of the day before, and with the turn that is still open there."""
        name = f"{self.day - 1}-{self.number}"
        if name in self.told.contexts:
            self.append(name)
            with self.change(name) as context:
                self.store.open_turns.resume(context, self.store.writer.texts.of(context)[0].number).add(b"more")
            self.edit(name)


def problems(root: Path, told: Told, noted: Noted) -> list[str]:
    """Open what is left of a store, and say what is wrong with it: all of it, in words."""
    try:
        with Store.open(root) as store:
            # a record that nothing leads to was being blanked
            found = [str(one) for one in fsck(store) if (one.check, one.severity) != ("turns", "warning")]
            found += missing(store, told, noted)
            context = store.contexts.create().context
            turn = store.contexts.append(context, b"and life goes on", "x.v1")
        with Store.open(root) as store:
            if store.contents.payload(turn.turn_id) != b"and life goes on" or store.contexts.last(context, 9) != [turn]:
                found.append("what came afterwards is not there")
    except (ConvfsError, AssertionError) as error:
        return [f"{type(error).__name__}: {error}"]
    return found


def missing(store: Store, told: Told, noted: Noted) -> Iterator[str]:
    """Yield what has been lost of what was acknowledged, and what is there that never was."""
    for name, sure in noted.sure.items():
        state = seen(store, told.contexts[name]) if name in told.contexts else None
        states = told.states[name]
        if state in states[sure:]:
            continue
        if state in states:
            yield f"conversation {name} has lost what was acknowledged"
        elif name != IMPORTED or sure == len(states) - 1:
            yield f"conversation {name} is in a state in which it never was"
    names = {name for _tag, _version, name in store.contents.types()}
    gone = Looked(store).reclaimed
    for turn_id, turn in store.files.turns.scan():
        if turn_id in gone:
            continue
        if isinstance(turn, ConvfsError) or turn.turn_id != turn_id:
            yield f"turn {turn_id} is damaged"
        elif turn.type_tag not in map(type_tag, names):
            yield f"turn {turn_id} has a type without a name"
    there = {context for name, context in told.contexts.items() if noted.sure.get(name)}
    for number, (context, key, turn_id) in enumerate(told.keys):
        if context not in there:
            continue
        before = store.files.turns.count
        turn = store.contexts.append(context, key, "x.v1", idempotency_key=key)
        if number < noted.keys and turn.turn_id != turn_id:
            yield f"the key {key!r} is forgotten"
        if store.files.turns.count == before and store.contexts.fs_root(turn.turn_id) != hash_bytes(key):
            yield f"turn {turn.turn_id} is there without its root"
    for turn_id, root in told.roots[: noted.roots]:
        if store.contexts.fs_root(turn_id) != root:
            yield f"the root of turn {turn_id} is gone"
    for data in told.blobs[: noted.blobs]:
        with suppress(NotFound):
            if store.blobs.blob(hash_bytes(data)) == data:
                continue
        yield "a blob is gone"
    for name, version in told.types[: noted.types]:
        if (type_tag(name), version, name) not in store.contents.types():
            yield f"version {version} of type {name} is gone"


@pytest.fixture
def small_store(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything that is done when something is full be done in a short life."""
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", JOURNAL_BYTES)
    monkeypatch.setattr(recovery, "JOURNALS", JOURNALS)
    monkeypatch.setattr(intake, "_CHUNKED_BYTES", 30_000)
    monkeypatch.setattr(checkpointer, "_FEWEST_TURNS", 60)
    monkeypatch.setattr(checkpointer, "_FEWEST_BYTES", 5000)
    monkeypatch.setattr(PackSet.__init__, "__defaults__", (64 << 10,))
    monkeypatch.setattr(recovery, "_BOOT_ID", memory_path / "boot")
    boot(memory_path, 0)


def boot(directory: Path, number: int) -> None:
    """Make this another boot of the machine."""
    (directory / "boot").write_text(f"boot {number}")
