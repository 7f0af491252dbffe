"""The power fails at any write or sync: afterwards everything acknowledged is there, whole, and nothing is half there.

Every run looks at 400 such moments; ``CONVFS_LARGE_TESTS=1`` at 20,000. The controls are builds that lack a part of
what makes a store safe: they must be found out.
"""

import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from store.disk import journal_format
from store.store import Store
from tests.crash.life import THREADS, Life, Noted, Told, boot, problems
from tests.crash.life import small_store as small_store
from tests.crash.power import HOW, Outages, in_turns, rarely, watched
from tests.store.disk.lossy import DROPPED, MIXED, TORN

pytestmark = pytest.mark.usefixtures("small_store")

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
POINTS = 20_000 if LARGE else 400
JOURNALS = ("journal/1", "journal/2", "journal/3")

Images = list[tuple[Path, Noted]]


def lived(
    directory: Path,
    chosen: Callable[[int], tuple[str, ...]],
    *,
    seed: int = 0,
    threads: int = THREADS,
    **lacks: tuple[str, ...],
) -> tuple[Told, Images]:
    """Live once; return what came of it, and the images of the disk with what had been acknowledged by then."""
    root, images = directory / "store", directory / "images"
    root.mkdir(parents=True)
    images.mkdir()
    life = Life(root, directory, threads)
    disk = Outages(root, images, chosen, life.told.note, seed=seed, **lacks)
    watched(disk, life.run)
    taken = disk.taken.items()
    return life.told, [(images / name, noted) for name, noted in taken if isinstance(noted, Noted)]


def open_and_close(root: Path) -> None:
    Store.open(root).close()


@pytest.mark.timeout(36_000 if LARGE else 900)
def test_everything_acknowledged_survives(memory_path: Path) -> None:
    points, kinds, life = 0, Counter[str](), 0
    while points < POINTS:
        boot(memory_path, 2 * life)
        directory = memory_path / str(life)
        told, images = lived(directory, in_turns(life), seed=life)
        whole(directory / "store")
        boot(memory_path, 2 * life + 1)
        for image, noted in images[: POINTS - points]:
            assert problems(image, told, noted) == [], image
            shutil.rmtree(image)
            kinds[image.name.partition("-")[2]] += 1
        points = kinds.total()
        shutil.rmtree(directory)
        life += 1
    assert points == POINTS
    assert all(kinds[how] > POINTS // 5 for how in HOW)


def whole(root: Path) -> None:
    """Assert that everything happened which the life is to have in it: full packs, rewritten ones, a dictionary …"""
    packs = root / "blobs"
    assert max(int(path.stem) for path in packs.glob("0*.pack")) >= 3
    assert list(packs.glob("r*.pack"))
    with Store.open(root) as store:
        assert store.intake.has_dictionary
        assert store.files.turns.count > 200
        assert len(store.contents.types()) > 10
        assert store.writer.texts.of()
        assert sum(1 for _ in store.files.heads.frames()) > 500


@pytest.mark.timeout(600)
def test_the_power_fails_again_during_recovery(memory_path: Path) -> None:
    """At every operation of an opening and a closing, in one way each."""
    told, images = lived(memory_path / "first", rarely(31 if LARGE else 223, MIXED))
    points = 0
    for number, (image, noted) in enumerate(images):
        boot(memory_path, 2 * number + 1)
        again = memory_path / image.name
        again.mkdir()
        disk = Outages(image, again, in_turns(number), lambda: None, seed=number)
        watched(disk, partial(open_and_close, image))
        boot(memory_path, 2 * number + 2)
        for name in disk.taken:
            assert problems(again / name, told, noted) == [], (image, name)
        assert problems(image, told, noted) == []
        shutil.rmtree(again)
        points += len(disk.taken)
    assert points > 60


FORGOTTEN = [
    JOURNALS,
    ("journal/checkpoint",),
    (".pack",),
    ("turns.log",),
    ("heads.log",),
    ("/turns",),
    ("/blobs",),
    ("/journal",),
    ("/turns", "/blobs", "/journal", "/store"),
]


@pytest.mark.parametrize("forgotten", FORGOTTEN, ids=" ".join)
def test_a_build_that_forgets_a_sync_is_found_out(memory_path: Path, forgotten: tuple[str, ...]) -> None:
    assert found_out(memory_path, lived(memory_path / "first", rarely(7, DROPPED, MIXED), deaf=forgotten))


def test_a_build_that_syncs_nothing_is_found_out(memory_path: Path) -> None:
    assert found_out(memory_path, lived(memory_path / "first", rarely(7, DROPPED, MIXED), deaf=("",)))


def test_a_build_that_acknowledges_before_it_syncs_is_found_out(memory_path: Path) -> None:
    assert found_out(memory_path, lived(memory_path / "first", rarely(1, DROPPED), threads=1, late=JOURNALS))


def test_a_build_that_does_not_look_whether_a_commit_is_whole_is_found_out(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lived(memory_path / "first", rarely(1, TORN), threads=1)

    def trusting(data: bytes, seed: int = 0) -> object:
        """Take whatever checksum there is."""
        return _Any() if isinstance(data, memoryview) else zlib.crc32(data, seed)

    monkeypatch.setattr(journal_format, "crc32", trusting)
    assert found_out(memory_path, life)


class _Any:
    __hash__ = None  # type: ignore[assignment]  # equal to everything

    def __eq__(self, _other: object) -> bool:
        return True


def found_out(directory: Path, life: tuple[Told, Images]) -> bool:
    """Whether a life is not as a store's should be."""
    told, images = life
    boot(directory, 1)
    return any(problems(image, told, noted) for image, noted in spread(images))


def spread(images: Images) -> Iterator[tuple[Path, Noted]]:
    """Yield all images, those that lie far from each other first."""
    step = 16
    for start in range(step):
        yield from islice(images, (5 * start) % step, None, step)
