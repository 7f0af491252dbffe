"""Machines that are killed in the middle of commits: what was acknowledged is there, once, on all of them."""

import filecmp
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store import paths
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from tests.forked import Forked
from tests.spaces import let_in
from tests.store.shared.machine import content

ROUNDS = 8
LEAST = 60
NAMES = ("a", "b")


class Machine:
    """One machine's lives: ``said`` is the last append that was acknowledged."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.said = -1

    @contextmanager
    def life(self) -> Iterator[int]:
        """Let it live while the block runs; yields where it says what it has done."""
        ours, its = os.pipe()
        with Path(os.devnull).open("r+b") as nothing:
            streams = (nothing.fileno(), its, nothing.fileno())
            # what was not acknowledged is done once more
            arguments = (self.root, self.name, self.said + 1, "archiving")
            process = Forked("tests.store.shared.machine", *arguments, streams=streams)
        os.close(its)
        try:
            yield ours
        finally:
            process.kill()
            process.wait(60)
            with os.fdopen(ours) as said:
                numbers = [int(line) for line in said.read().splitlines(keepends=True) if line.endswith("\n")]
            assert numbers == list(range(self.said + 1, self.said + 1 + len(numbers)))
            self.said += len(numbers)

    def check(self, store: Store) -> None:
        """See that a store has what was acknowledged, once."""
        found = store.catalogue.by_name("machines", self.name)
        assert found is not None
        turns = store.contexts.last(found.id, 1_000_000)
        # the last one may have been done, and not been acknowledged any more
        assert len(turns) in (self.said + 1, self.said + 2)
        for number, turn in enumerate(turns):
            assert store.blobs.blob(turn.payload_hash) == content(self.name, number)


def test_machines_killed_in_the_middle_of_commits(memory_path: Path) -> None:
    place = Place(str(memory_path / "server"))
    remote.init(place, "team")
    machines = [Machine(memory_path / name, name) for name in NAMES]
    remote.join(place, "team", machines[0].root, machines[0].name)
    for machine in machines[1:]:
        let_in(machines[0].root, machine.root, machine.name)
    chance = random.Random(7)
    rounds = 0
    while rounds < ROUNDS or min(machine.said for machine in machines) < LEAST:
        with machines[0].life(), machines[1].life():
            time.sleep(chance.uniform(0.2, 0.8))
        rounds += 1
        assert rounds < 20 * ROUNDS

    for machine in machines:
        with Store.open(machine.root) as store:
            assert [finding for finding in fsck(store) if finding.severity == "error"] == []
            for other in machines:
                other.check(store)
    # whoever was opened last may have committed something by itself: a dictionary
    Store.open(machines[0].root).close()
    for log in (paths.TURN_LOG, paths.HEAD_LOG):
        assert filecmp.cmp(machines[0].root / log, machines[1].root / log, shallow=False)
