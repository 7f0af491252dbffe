"""The power fails under a replica, whose journal is not synced: the space has all that was acknowledged.

Whatever its disk holds then, it opens; without the space it is as it was at some time, whole; with it, nothing that was
acknowledged is missing, and its logs are those of the space, byte for byte.
"""

import itertools
import os
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from store import paths
from store.disk.journal import Journal
from store.errors import ConvfsError, NotFound
from store.shared import remote
from store.shared.space import Place, membership
from store.store import Store
from store.upkeep.fsck import fsck
from tests.crash.life import Life, Noted, Told, boot, problems, seen
from tests.crash.life import small_store as small_store
from tests.crash.power import HOW, Outages, in_turns, rarely, watched
from tests.servers import Postgres
from tests.spaces import let_in
from tests.store.disk.lossy import DROPPED, MIXED

pytestmark = [pytest.mark.usefixtures("small_store"), pytest.mark.logs("nowhere is not there", sometimes=True)]

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
POINTS = 5000 if LARGE else 60
COMPARED = 8
"""Each of so many is compared with another replica."""
NAME = "team"


class Moment(NamedTuple):
    """A replica at a moment: a space to open it in, what was acknowledged by then, how many turns another had added."""

    place: Place
    noted: Noted
    others: int


class Other:
    """Another machine of the space, whose disk is always well."""

    def __init__(self, member: Path, root: Path) -> None:
        let_in(member, root, "other")
        self.appended = 0
        self._root = root
        self._ended = threading.Event()

    @contextmanager
    def living(self) -> Iterator[None]:
        """Append all the time while the block runs."""
        with Store.open(self._root) as store:
            context = store.contexts.create(metadata={"project": "p", "name": "other"}).context
            thread = threading.Thread(target=self._append, args=(store, context))
            thread.start()
            try:
                yield
            finally:
                self._ended.set()
                thread.join()

    def _append(self, store: Store, context: int) -> None:
        while not self._ended.wait(0.05):
            store.contexts.append(context, b'"%d of another"' % self.appended, "x.v1")
            self.appended += 1


def lived(
    directory: Path,
    chosen: Callable[[int], tuple[str, ...]],
    *,
    seed: int = 0,
    threads: int = 3,
    days: int = 2,
    servers: Place | None = None,
) -> tuple[Told, list[tuple[Path, Moment]]]:
    """Live once in a space; return what came of it, and images of the replica's disk with the moments.

    A space in a directory is as it was at that moment, one on servers goes on.
    """
    root, images, server = directory / "store", directory / "images", directory / "server"
    images.mkdir(parents=True)
    place, name = servers or Place(str(server)), f"{NAME}-{uuid.uuid4().hex[:8]}" if servers else NAME
    remote.init(place, name)
    remote.join(place, name, root, "this")
    other = Other(root, directory / "other")
    life = Life(root, directory, threads, days)
    numbers = itertools.count()

    def noted() -> Moment:
        # in this order: what is acknowledged by now is in the space
        said, others = life.told.note(), other.appended
        if servers is not None:
            member = membership(root)
            assert member is not None
            return Moment(member.place, said, others)
        copy = directory / "spaces" / str(next(numbers))
        copy_space(server, copy)
        return Moment(Place(str(copy)), said, others)

    disk = Outages(root, images, chosen, noted, seed=seed)
    with other.living():
        watched(disk, life.run)
    taken = [(images / name, moment) for name, moment in disk.taken.items() if isinstance(moment, Moment)]
    return life.told, taken


def copy_space(server: Path, copy: Path) -> None:
    """Copy a space, whose files never change, while it is in use: nothing may name what is not copied yet."""
    for part in ("log", "records", "objects"):
        shutil.copytree(server / NAME / part, copy / NAME / part, copy_function=os.link)
    (copy / NAME / "new").mkdir()
    for name in ("space.json", "turn"):
        os.link(server / NAME / name, copy / NAME / name)


def told_place(image: Path, place: Place) -> None:
    member = membership(image)
    assert member is not None
    structs.replace(member, place=place).write(image)


def wrong(image: Path, told: Told, moment: Moment, *, compared: bool = False) -> list[str]:
    """Open what is left of a replica, without its space and with it, and say what is wrong, in words."""
    told_place(image, Place(str(image / "nowhere")))
    try:
        found = list(inconsistent(image, told))
        told_place(image, moment.place)
        if moment.place.postgres:
            # the one that went on has its number
            remote.adopt(image)
        found += problems(image, told, moment.noted)
        with Store.open(image) as store:
            assert store.replica is not None
            found += [store.replica.status()] if store.replica.status() else []
            entry = store.catalogue.by_name("p", "other")
            turns = len(store.contexts.last(entry.id, 10_000)) if entry else 0
            if turns < moment.others:
                found.append(f"of {moment.others} turns of another machine there are {turns}")
        if compared:
            beside = image.with_name(f"{image.name}-beside")
            let_in(image, beside, "beside")
            Store.open(beside).close()
            for log in (paths.TURN_LOG, paths.HEAD_LOG):
                # whoever was opened last may have committed something by itself: a dictionary
                if not (beside / log).read_bytes().startswith((image / log).read_bytes()):
                    found.append(f"{log} differs")
            shutil.rmtree(beside)
    except (ConvfsError, AssertionError) as error:
        return [f"{type(error).__name__}: {error}"]
    return found


def inconsistent(image: Path, told: Told) -> Iterator[str]:
    """Yield what is wrong with a replica by itself: it may be older than what was acknowledged, and nothing else."""
    # to be read: it would learn a dictionary otherwise, which it cannot file without the space
    with Store.open(image, only_read=True) as store:
        # what was being written to the packs is only cut off where it may be
        for one in fsck(store):
            if one.check != "packs" and (one.check, one.severity) != ("turns", "warning"):
                yield f"alone: {one}"
        for name, context in told.contexts.items():
            try:
                state = seen(store, context)
            except NotFound:
                state = None
            if state not in told.states[name] and name != "imported":
                yield f"alone: conversation {name} is in a state in which it never was"


@pytest.mark.timeout(36_000 if LARGE else 900)
def test_everything_acknowledged_survives_in_the_space(memory_path: Path) -> None:
    points, kinds, behind, life = 0, Counter[str](), 0, 0
    while points < POINTS:
        boot(memory_path, 2 * life)
        directory = memory_path / str(life)
        told, images = lived(directory, now_and_then(1 if LARGE else 37, life), seed=life)
        boot(memory_path, 2 * life + 1)
        for image, moment in images[: POINTS - points]:
            behind += older(image, moment)
            assert wrong(image, told, moment, compared=points % COMPARED == 0) == [], image
            shutil.rmtree(image)
            shutil.rmtree(moment.place.directory)
            kinds[image.name.partition("-")[2]] += 1
            points += 1
        shutil.rmtree(directory)
        life += 1
    assert all(kinds[how] > POINTS // 5 for how in HOW)
    # it is the space that has what they lack
    assert behind > POINTS // 10


@pytest.mark.timeout(300)
def test_everything_acknowledged_survives_on_servers(memory_path: Path, postgres: Postgres) -> None:
    servers = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    told, images = lived(memory_path / "first", now_and_then(1 if LARGE else 83, 3), days=1, servers=servers)
    boot(memory_path, 1)
    assert len(images) > 4
    for number, (image, moment) in enumerate(images):
        assert wrong(image, told, moment, compared=number == 0) == [], image


def now_and_then(every: int, seed: int) -> Callable[[int], tuple[str, ...]]:
    return lambda number: in_turns(seed)(number // every) if number % every == seed % every else ()


def older(image: Path, moment: Moment) -> bool:
    """Whether the logs of a replica, as it opens without its space, end before those of the space."""
    told_place(image, Place(str(image / "nowhere")))
    with Store.open(image) as store:
        return (Path(moment.place.directory) / NAME / "log" / f"{store.writer.seq:016x}").exists()


def test_a_build_that_goes_on_behind_a_gap_is_found_out(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, images = lived(memory_path / "first", rarely(5, MIXED), threads=1)
    boot(memory_path, 1)
    monkeypatch.setattr(Journal, "_end_at_gap", lambda *_: None)
    assert any(wrong(image, told, moment) for image, moment in images)


def test_a_build_that_erases_before_it_syncs_is_found_out(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", lambda _: None)
        told, images = lived(memory_path / "first", rarely(2, DROPPED), threads=1)
    boot(memory_path, 1)
    assert any(wrong(image, told, moment) for image, moment in images)
