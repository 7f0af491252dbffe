"""Machines and servers that are killed again and again: what was acknowledged is there, once, on all machines.

CONVFS_KILLS is how often, CONVFS_ACKNOWLEDGED how many appends there are at least: 200 and 100000 say it for good.
"""

import filecmp
import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from store import paths
from store.shared import remote
from store.shared.archive import Archive
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from tests.proxy import Proxy
from tests.servers import S3, Postgres
from tests.spaces import let_in
from tests.store.shared.test_killed_machines import Machine

KILLS = int(os.environ.get("CONVFS_KILLS", "8"))
ACKNOWLEDGED = int(os.environ.get("CONVFS_ACKNOWLEDGED", "200"))


@pytest.mark.timeout(300 + 120 * KILLS)
def test_machines_and_servers_that_are_killed(memory_path: Path, s3: S3) -> None:
    chance = random.Random(11)
    with ExitStack() as held:
        server = Postgres(memory_path / "postgres", durable=True)
        server.make()
        server.start()
        held.callback(server.stop, kill=True)
        lines = [held.enter_context(Proxy(server.port)) for _ in range(3)]
        places = [
            Place(postgres=f"postgresql://postgres@127.0.0.1:{line.port}/postgres", objects=s3.url) for line in lines
        ]
        name = f"killed-{os.urandom(4).hex()}"
        remote.init(places[0], name)
        machines = [Machine(memory_path / one, one) for one in "abc"]
        remote.join(places[0], name, machines[0].root, "a")
        for machine, place in zip(machines[1:], places[1:], strict=True):
            let_in(machines[0].root, machine.root, machine.name, place)

        kills = 0
        while kills < KILLS or sum(machine.said + 1 for machine in machines) < ACKNOWLEDGED:
            with machines[0].life(), machines[1].life(), machines[2].life():
                time.sleep(chance.uniform(0.5, 1.5))
                for _ in range(3):
                    match chance.randrange(4):
                        case 0:
                            server.stop(kill=True)
                            server.start()
                            kills += 1
                        case 1:
                            chance.choice(lines).drop()
                        case 2:
                            chance.choice(lines).lose_answers()
                        case 3:
                            line = chance.choice(lines)
                            line.stall()
                            time.sleep(0.3)
                            line.heal()
                    time.sleep(chance.uniform(0.1, 1.0))
            kills += len(machines)

        for _ in range(2):
            for machine in machines:
                with Store.open(machine.root) as store:
                    store.writer.catch_up()
        for machine in machines:
            with Store.open(machine.root) as store:
                assert [finding for finding in fsck(store) if finding.severity == "error"] == []
                for other in machines:
                    other.check(store)
        for machine in machines[1:]:
            for log in (paths.TURN_LOG, paths.HEAD_LOG):
                assert filecmp.cmp(machines[0].root / log, machine.root / log, shallow=False)
        with Store.open(machines[0].root) as store:
            assert store.replica is not None
            archived = Archive(store.replica.connected()[0])
            assert list(archived.problems()) == []
            entries = sum(segment.entries for segment in archived.now().segments)
            assert entries > ACKNOWLEDGED // 2
        print(f"{entries} entries in the archive")
        print(f"{kills} kills, {sum(machine.said + 1 for machine in machines)} acknowledged appends")
