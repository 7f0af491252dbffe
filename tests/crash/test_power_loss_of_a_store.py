"""The power fails at any write or sync: afterwards everything acknowledged is there, whole, and nothing is half there.

``CONVFS_CRASH_POINTS`` sets at how many moments it fails at least; every run has some 200.
"""

import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from store.commit.request import Request
from store.disk.turn_format import Encoding
from store.errors import ConvfsError
from store.ids import hash_bytes
from store.store import Append, Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.crash.power import Outages

pytestmark = pytest.mark.usefixtures("tiny_journals")

POINTS = int(os.environ.get("CONVFS_CRASH_POINTS", "200"))
THREADS = 3


class Told:
    """What was asked of the store, in order, and how much of it was acknowledged."""

    def __init__(self) -> None:
        self.branches: dict[str, list[list[bytes]]] = {}
        """The states that conversations were to be in, one after another."""
        self.acknowledged: dict[str, int] = {}
        self.blobs: list[bytes] = []
        self.keys: list[tuple[int, bytes, bytes, int]] = []
        """Which turns were appended: context, key, payload, turn."""
        self.texts: dict[int, bytes] = {}
        """What was added to open turns, by their numbers. Beyond that, a piece may be there or not."""
        self.closed: set[int] = set()

    def note(self) -> "Told":
        """Return what was acknowledged by now."""
        now = Told()
        now.acknowledged = dict(self.acknowledged)
        now.blobs = list(self.blobs)
        now.keys = list(self.keys)
        now.texts = dict(self.texts)
        now.closed = set(self.closed)
        return now


class Life:
    """A store in use: three threads, each with a conversation of its own, opened and closed in between."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told = Told()

    def run(self) -> None:
        for day in range(2):
            with Store.open(self.root) as store:
                threads = [threading.Thread(target=self.use, args=(store, day, number)) for number in range(THREADS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert self.told.branches

    def use(self, store: Store, day: int, number: int) -> None:
        name = f"{day}-{number}"
        states = self.told.branches[name] = [[]]
        context = store.create_context(metadata={"project": "p", "name": name}).context
        self.told.acknowledged[name] = 0
        served = store.create_context().context
        stream = store.open_turn(served, "x.v1")
        self.told.texts[stream.number] = b""
        for step in range(8):
            payloads = [b'{"%s":%d,"%s":%d}' % (name.encode(), step, b"long " * (7 * step + i), i) for i in range(3)]
            if step == 2:
                # what an import does
                states.append(states[-1] + payloads)
                load = store.load()
                digests = load.payloads(payloads)
                load.sync()
                turns = [store.new_turn(digest, "x.v1", Encoding.JSON) for digest in digests]
                store.submit(Request(context, turns=turns, types=store.types_for(["x.v1"]), action="import"))
            elif step == 5:
                states.append([payloads[0], *states[-1][1:]])
                turn = store.path_to_root(store.tip(context))[0].turn_id
                patch = (turn, hash_bytes(payloads[0]), 0, 1)
                store.submit(
                    Request(context, patches=[patch], blobs=store.journalled(payloads[:1]), action="edit 00001")
                )
            elif step % 2:
                states.append(states[-1] + payloads)
                store.append_many(context, [Append(payload, f"type.{step}") for payload in payloads])
            else:
                states.append(states[-1] + payloads[:1])
                store.append(context, payloads[0], "x.v1")
            self.told.acknowledged[name] += 1
            key = b"%s %d" % (name.encode(), step)
            turn = store.append(served, key, "x.v1", idempotency_key=key, fs_root=hash_bytes(key))
            self.told.keys.append((served, key, key, turn.turn_id))
            stream.add(b"%d, " % step)
            self.told.texts[stream.number] += b"%d, " % step
            if step == 4 + number:
                self.told.closed.add(stream.number)
                stream.seal() if number else stream.abort()
                stream = store.open_turn(served, "x.v1")
                self.told.texts[stream.number] = b""
            if step == 3 and number == 0:
                store.flush()
            if step == 4:
                store.put_blob(payloads[0] * 90)
                self.told.blobs.append(payloads[0] * 90)


def lived(
    directory: Path, chosen: Callable[[int], bool] = lambda _number: True, deaf: tuple[str, ...] = (), seed: int = 0
) -> tuple[Told, dict[Path, Told]]:
    """Live once; return what was asked for, and the images of the disk with what had been acknowledged by then."""
    (directory / "store").mkdir(parents=True)
    life = Life(directory / "store")
    disk = Outages(life.root, directory, chosen, life.told.note, deaf, seed)
    watched(disk, life.run)
    taken = disk.taken.items()
    return life.told, {directory / str(number): noted for number, noted in taken if isinstance(noted, Told)}


def watched(disk: Outages, run: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        try:
            run()
        finally:
            disk.close()


def open_and_close(root: Path) -> None:
    Store.open(root).close()


def problems(image: Path, told: Told, noted: Told) -> list[str]:
    """Open what an outage left, and say what is wrong with it."""
    try:
        with Store.open(image) as store:
            found = [str(finding) for finding in fsck(store)]
            found += missing(store, told, noted)
            context = store.create_context().context
            turn = store.append(context, b"and life goes on", "x.v1")
        with Store.open(image) as store:
            found += [str(finding) for finding in fsck(store)]
            assert store.payload(turn.turn_id) == b"and life goes on"
    except ConvfsError as error:
        return [f"{type(error).__name__}: {error}"]
    return found


def missing(store: Store, told: Told, noted: Told) -> list[str]:
    found = []
    for name, acknowledged in noted.acknowledged.items():
        conversation = store.find("p", name)
        if conversation is None:
            found.append(f"conversation {name} is gone")
            continue
        turns = store.last(conversation.id, 1000, latest=True)
        payloads = [store.payload(turn.turn_id) for turn in turns]
        states = told.branches[name]
        if payloads not in states:
            found.append(f"conversation {name} is in a state in which it never was")
        elif states.index(payloads) < acknowledged:
            found.append(f"conversation {name} has lost what was acknowledged")
        if any(store.type_name(turn.type_tag).startswith("0x") for turn in turns):
            found.append(f"conversation {name} has lost the name of a type")
    for context, key, payload, turn_id in noted.keys:
        if store.append(context, payload, "x.v1", idempotency_key=key).turn_id != turn_id:
            found.append(f"the key {key!r} is forgotten")
        if store.fs_root(turn_id) != hash_bytes(payload):
            found.append(f"the root of turn {turn_id} is gone")
    texts = {text.number: text for text in store.open_turns()}
    for number, text in noted.texts.items():
        if number in texts:
            rest = told.texts[number][len(text) :]
            if texts[number].damaged or not texts[number].text.startswith(text):
                found.append(f"open turn {number} has lost what was added")
            elif not rest.startswith(texts[number].text[len(text) :]) and rest:
                found.append(f"open turn {number} has what was never added")
        elif number not in told.closed:
            found.append(f"open turn {number} is gone")
    for data in noted.blobs:
        if store.blob(hash_bytes(data)) != data:
            found.append("a blob is gone")
    return found


@pytest.fixture
def tiny_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "JOURNAL_BYTES", 24 << 10)


@pytest.fixture
def another_boot(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what makes this a certain boot of the machine."""
    monkeypatch.setattr(recovery, "_BOOT_ID", memory_path / "boot")

    def boot(number: int) -> None:
        (memory_path / "boot").write_text(f"boot {number}")

    boot(0)
    return boot


@pytest.mark.timeout(3600)
def test_everything_acknowledged_survives(memory_path: Path, another_boot: Callable[[int], None]) -> None:
    failed = 0
    while failed < POINTS:
        another_boot(2 * failed)
        told, images = lived(memory_path / str(failed), seed=failed)
        assert len(images) > 100
        another_boot(2 * failed + 1)
        for image, noted in images.items():
            assert problems(image, told, noted) == [], image
        shutil.rmtree(memory_path / str(failed))
        failed += len(images)


def test_the_power_fails_again_during_recovery(memory_path: Path, another_boot: Callable[[int], None]) -> None:
    told, images = lived(memory_path / "first", lambda number: number % 24 == 5)
    for image, noted in images.items():
        another_boot(1)
        directory = memory_path / image.name
        directory.mkdir()
        disk = Outages(image, directory, lambda _number: True, lambda: None)
        watched(disk, partial(open_and_close, image))
        another_boot(2)
        for number in disk.taken:
            assert problems(directory / str(number), told, noted) == [], (image, number)
        assert problems(image, told, noted) == []
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    "forgotten",
    [
        ("journal/1", "journal/2"),
        ("journal/checkpoint",),
        (".pack",),
        ("turns.log",),
        ("heads.log",),
        ("/turns",),
        ("/blobs",),
        ("/journal",),
    ],
)
def test_a_build_that_forgets_a_sync_is_found_out(
    memory_path: Path, another_boot: Callable[[int], None], forgotten: tuple[str, ...]
) -> None:
    """The control: the tests above can fail."""
    told, images = lived(memory_path / "first", deaf=forgotten)
    another_boot(1)
    assert any(problems(image, told, noted) for image, noted in images.items())
