"""A bit flips, in any file of a store, while it is closed or open: right answers or errors, and a daemon that lives.

What is acknowledged while a bit is wrong is right later, too. A run flips a part of all bits, of each file some; with
``CONVFS_LARGE_TESTS=1`` all of them, but for the index: of that, every 16th.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fusefs.daemon.calls import ALL_OPERATIONS
from fusefs.text.render import FileRenderer
from store import paths
from store.conversations.contexts import Append
from store.errors import ConvfsError
from store.ids import Hash, hash_bytes
from store.index import database
from store.service.channel import ServiceGone
from store.service.client import Client
from store.service.server import Service, serving
from store.settings import Settings, load
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import until
from tests.model import freeze, instead
from tests.store.upkeep.everything import Answers, ask, differing, fill

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
CLOSED_FLIPS = 20
OPEN_FLIPS = 40
SETTINGS = b"# what this store is like\ncontent_cache_bytes = 0\nrow_cache_bytes = 0\n"

Bit = tuple[Path, int, int]
"""A file, an offset in it, and a mask."""


@pytest.fixture
def closed(memory_path: Path) -> Path:
    """A store with a little of everything in it, that does not remember what it has read."""
    root = memory_path / "closed"
    root.mkdir()
    (root / paths.SETTINGS).write_bytes(SETTINGS)
    fill(root, memory_path)
    return root


@pytest.fixture
def killed(closed: Path) -> Path:
    """The same, with something in its journal, as kill -9 leaves it."""
    opened = instead(shutil.copytree(closed, closed.with_name("opened")))
    with Store.open(opened, renderer=FileRenderer()) as store:
        store.contexts.append_many(2, [Append(b"late %d" % number * 30, "late.type") for number in range(5)])
        store.contexts.set_metadata(2, {"title": "late"})
        store.contexts.append(6, b"with a key", "late.type", idempotency_key=b"late")
        ask(store)
        return freeze(store, closed.with_name("killed"))


def bits(root: Path, most: int) -> Iterator[Bit]:
    """Yield bits of every file: about ``most`` of each, the header of each among them, or all."""
    source = random.Random(5)
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        size = path.stat().st_size * 8
        every = max(1, size // most)
        if LARGE:
            every = 16 if path.name.startswith("index.db") else 1
        for bit in {source.randrange(min(256, size)) if size else 0, *range(source.randrange(every), size, every)}:
            if bit < size:
                yield path.relative_to(root), bit // 8, 1 << bit % 8


def flip(root: Path, bit: Bit) -> int:
    """Flip a bit in its place; return what the byte is now."""
    path, offset, mask = bit
    with open(root / path, "r+b") as file:
        file.seek(offset)
        now = file.read(1)[0] ^ mask
        file.seek(offset)
        file.write(bytes((now,)))
    return now


def mend(root: Path, bit: Bit, flipped: int) -> None:
    """Flip it back, where nobody has written there meanwhile."""
    path, offset, _mask = bit
    if (root / path).exists():
        data = (root / path).read_bytes()
        if data[offset : offset + 1] == bytes((flipped,)):
            flip(root, bit)


@pytest.mark.timeout(360_000 if LARGE else 600)
@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_while_the_store_is_closed(closed: Path, killed: Path, kind: str) -> None:
    root = {"closed": closed, "killed": killed}[kind]
    copy = closed.with_name("copy")
    shutil.copytree(root, copy)
    instead(copy)
    with Store.open(copy, renderer=FileRenderer()) as store:
        right = ask(store)
    shutil.rmtree(copy)
    flipped = 0
    for bit in bits(root, CLOSED_FLIPS):
        shutil.copytree(root, copy)
        instead(copy)
        flip(copy, bit)
        flipped += 1
        if bit[0].name == paths.SETTINGS and not readable(copy):
            shutil.rmtree(copy)
            continue
        payload = b"appended after %d" % flipped
        with Store.open(copy, renderer=FileRenderer()) as store:
            answers = ask(store)
            assert differing(answers, right) == [], bit
            turn = store.contexts.append(store.contexts.create().context, payload, "x.v1")
        if flipped % 5 == 0:
            with Store.open(copy, renderer=FileRenderer()) as store:
                assert store.contents.payload(turn.turn_id) == payload, bit
                assert differing(without_counts(ask(store)), right) == [], bit
        shutil.rmtree(copy)
    assert flipped > 100


def without_counts(answers: Answers) -> Answers:
    """Leave out what says how much there is, and so changes with what is added."""
    return {name: answer for name, answer in answers.items() if name not in ("types", "turn 23", "turn 24")}


def readable(root: Path) -> bool:
    """Whether the settings can be read; if not, that is said in one line."""
    try:
        load(root)
    except ConvfsError as error:
        said = str(error)
    else:
        return True
    assert str(root / paths.SETTINGS) in said
    assert "\n" not in said
    return False


def test_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / paths.SETTINGS
    for bit in range(8 * len(SETTINGS)):
        path.write_bytes(SETTINGS)
        flip(tmp_path, (Path(paths.SETTINGS), bit // 8, 1 << bit % 8))
        if readable(tmp_path):
            assert isinstance(load(tmp_path)[0], Settings)


class Served:
    """A store and its service, for as long as that lives."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held = ExitStack()
        self.begin()

    def begin(self) -> None:
        self.store = self._held.enter_context(Store.open(self.root, renderer=FileRenderer()))
        place = self._held.enter_context(
            serving(Service(self.store, ALL_OPERATIONS, socket=self.root.with_name("socket")))
        )
        self.client = self._held.enter_context(Client(place.socket))

    def end(self) -> None:
        """Close all that can be closed."""
        try:
            self._held.close()
        except ConvfsError:
            # a store that has failed says so once more
            self._held.close()

    def ask(self) -> Answers:
        """Ask the service everything that a client can; it must answer, be it by an error."""
        answers: Answers = {}
        for name, question in asked(self.client).items():
            try:
                answers[name] = question()
            except ServiceGone:
                raise
            except ConvfsError:
                continue
        return answers


def asked(client: Client) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {"projects": client.projects}
    for context in range(1, 7):
        found |= {
            f"head {context}": lambda context=context: client.head(context),
            f"last {context}": lambda context=context: client.last(context, 20),
            f"latest {context}": lambda context=context: client.last(context, 20, latest=True),
            f"range {context}": lambda context=context: client.range_by_depth(context, 1, 2),
            f"conversation {context}": lambda context=context: client.conversation(context),
            f"versions {context}": lambda context=context: client.versions(context),
            f"open {context}": lambda context=context: client.open_turns(context),
        }
    for turn in range(1, 22, 3):
        found[f"payload {turn}"] = lambda turn=turn: client.payload(turn)
        found[f"root {turn}"] = lambda turn=turn: client.fs_root(turn)
    name: Hash = hash_bytes(bytes(range(256)) * 40)
    found["blob"] = lambda: client.blob(name)
    found["find"] = lambda: client.find("shop", "first")
    return found


@contextmanager
def served(root: Path) -> Iterator[Served]:
    service = Served(root)
    try:
        yield service
    finally:
        service.end()


@pytest.mark.timeout(360_000 if LARGE else 600)
def test_while_the_store_is_served(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # SQLite, too, is to remember as little as it can
    monkeypatch.setattr(database, "_PRAGMAS", (*database._PRAGMAS[:-1], "cache_size = 1"))
    told: list[tuple[int, bytes]] = []
    flipped = refused = 0
    with served(closed) as service:
        # conversations without a name get one
        until(lambda: "appended" in service.client.projects())
        right = service.ask()
        assert right.keys() == asked(service.client).keys()
        context = service.client.create_context().context
        for bit in list(bits(closed, OPEN_FLIPS)):
            if bit[0].name.endswith(("-shm", "-wal")):
                # shared memory of processes that are alive, and a log that SQLite has checksums in
                continue
            if (closed / bit[0]).stat().st_size <= bit[1]:
                # the index was made anew meanwhile, and is smaller
                continue
            value = flip(closed, bit)
            flipped += 1
            assert differing(service.ask(), right) == [], bit
            if flipped % 3 == 0:
                payload = b"appended while a bit was wrong: %d" % flipped
                try:
                    turn = service.client.append(context, payload, f"type.{flipped % 9}")
                    service.client.set_metadata(context, {"title": str(flipped)})
                    told.append((turn.turn_id, payload))
                except ServiceGone:
                    raise
                except ConvfsError:
                    refused += 1
                    service.end()
                    mend(closed, bit, value)
                    service.begin()
            mend(closed, bit, value)
        assert service.client.stats().turns > len(told)
    assert flipped > 200
    assert refused < flipped // 20
    with Store.open(closed, renderer=FileRenderer()) as store:
        assert [store.contents.payload(turn) for turn, _payload in told] == [payload for _turn, payload in told]
        assert {turn for turn, _payload in told} <= {turn.turn_id for turn in store.contexts.last(context, 10_000)}
        assert fsck(store) == []
