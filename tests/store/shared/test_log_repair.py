"""Logs of a replica that are damaged or gone: put back from the space, byte for byte, whenever it is killed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store import paths
from store.disk.file_header import HEADER_SIZE
from store.errors import DamageError, StoreFailed, Unreachable, UsageError
from store.retention.pruner import delete
from store.shared import archive
from store.store import Store
from store.upkeep.archiving import Archiving, drops_in
from store.upkeep.log_repair import LOGS, put_logs_back
from tests import forked
from tests.spaces import said
from tests.store.shared.archiving import ALL, SEGMENT_BYTES
from tests.store.shared.test_collecting import collect
from tests.store.shared.test_spaces import LARGE, Team, any_team, team

__all__ = ["any_team", "team"]

MOMENTS = 12
DAMAGED = "is damaged|is not there|cannot be|is gone|does not hold|cut off|length of a frame|lost|does not have commit"
LINES = [b"%d" % number for number in range(40)]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES: dict[str, tuple[list[str], Callable[[Path], None]]] = {
    "a frame": ([paths.HEAD_LOG], lambda root: flip(root / paths.HEAD_LOG, 700)),
    "the last frame": ([paths.HEAD_LOG], lambda root: flip(root / paths.HEAD_LOG, -5)),
    "the header": ([paths.HEAD_LOG], lambda root: flip(root / paths.HEAD_LOG, 9)),
    "half of the frames": ([paths.HEAD_LOG], lambda root: cut(root / paths.HEAD_LOG)),
    "all of the frames": ([paths.HEAD_LOG], lambda root: os.truncate(root / paths.HEAD_LOG, HEADER_SIZE)),
    "no head log": ([paths.HEAD_LOG], lambda root: os.unlink(root / paths.HEAD_LOG)),
    "a turn": ([paths.TURN_LOG], lambda root: flip(root / paths.TURN_LOG, HEADER_SIZE + 300)),
    "half of the turns": ([paths.TURN_LOG], lambda root: cut(root / paths.TURN_LOG)),
    "no turn log": ([paths.TURN_LOG], lambda root: os.unlink(root / paths.TURN_LOG)),
    "both": ([paths.TURN_LOG, paths.HEAD_LOG], lambda root: flip_both(root)),
    "neither is there": ([paths.TURN_LOG, paths.HEAD_LOG], lambda root: remove_both(root)),
}


def flip_both(root: Path) -> None:
    flip(root / paths.HEAD_LOG, 700)
    flip(root / paths.TURN_LOG, HEADER_SIZE + 300)


def remove_both(root: Path) -> None:
    for name in LOGS:
        os.unlink(root / name)


def filled(team: Team) -> int:
    """Make two replicas with commits of both, of which some are archived, and some have dropped turns."""
    a, b = team.open("a"), team.open("b")
    context, gone = (a.contexts.create(metadata={"project": "p", "name": name}).context for name in "xy")
    for number, line in enumerate(LINES):
        store = (a, b)[number % 2]
        store.writer.catch_up()
        store.contexts.append(context, line, "line")
    a.writer.catch_up()
    a.contexts.append(gone, b"dropped", "line")
    delete(a, gone, a.writer.head(gone).tip)
    collect(a)
    assert a.replica is not None
    for _pause in Archiving(a.replica, ALL).steps(least=1, drops=drops_in(a.writer.head_log.frames())):
        pass
    a.contexts.append(context, b"in a pack".ljust(LARGE), "line")
    b.writer.catch_up()
    b.close()
    a.close()
    return context


def goes_on(team: Team, context: int) -> None:
    """See that what was repaired has everything, can write, and is what the other is."""
    a, b = team.open("a"), team.open("b")
    assert a.recovered == []
    a.contexts.append(context, b"more", "line")
    b.writer.catch_up()
    for store in (a, b):
        assert said(store, context) == [*LINES, b"in a pack".ljust(LARGE), b"more"]
        store.close()
    team.agree("a", "b")
    assert not list(team.root("a").glob("index.[ok]*"))


@pytest.mark.logs(DAMAGED, sometimes=True)
@pytest.mark.parametrize("damage", DAMAGES)
def test_logs_are_put_back(team: Team, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "SEGMENT_BYTES", SEGMENT_BYTES)
    context = filled(team)
    root = team.root("a")
    assert put_logs_back(root) == []
    whole = {name: (root / name).read_bytes() for name in LOGS}
    names, do = DAMAGES[damage]
    do(root)
    if "no" not in damage and "neither" not in damage:
        # opened as it is, it takes no writes, or still knows what it needs
        Store.open(root, renderer=FileRenderer()).close()
    else:
        with pytest.raises(DamageError, match="convfs remote repair"):
            Store.open(root)
    assert put_logs_back(root) == names
    for name in names:
        assert (root / name).read_bytes() == whole[name]
    Store.open(root, renderer=FileRenderer(), reindex=True).close()
    assert os.listdir(root / paths.SCRATCH) == []
    goes_on(team, context)


@pytest.mark.logs(DAMAGED, sometimes=True)
def test_on_servers_with_an_index_that_was_made_of_the_damaged_log(any_team: Team) -> None:
    context = filled(any_team)
    root = any_team.root("a")
    flip(root / paths.HEAD_LOG, 700)
    refused = pytest.raises(StoreFailed, match=r"heads\.log is damaged: convfs remote repair")
    with Store.open(root, renderer=FileRenderer(), reindex=True) as a, refused:
        a.contexts.append(context, b"never", "line")
    assert put_logs_back(root) == [paths.HEAD_LOG]
    # whoever is killed before the index is made anew does that at the next opening
    goes_on(any_team, context)


@pytest.mark.logs(DAMAGED, sometimes=True)
def test_nothing_is_changed_where_the_space_cannot_say(team: Team) -> None:
    context = filled(team)
    root = team.root("a")
    flip(root / paths.HEAD_LOG, 700)
    Store.open(root, renderer=FileRenderer()).close()
    damaged = (root / paths.HEAD_LOG).read_bytes()
    server = team.space.parent
    away = server.rename(server.with_name("away"))
    with pytest.raises(Unreachable):
        put_logs_back(root)
    assert (root / paths.HEAD_LOG).read_bytes() == damaged
    # put back from an older backup
    away.rename(server)
    last = max((team.space / "log").iterdir(), key=lambda path: path.name)
    kept = last.rename(team.directory / "last")
    with pytest.raises(UsageError, match="does not have commit"):
        put_logs_back(root)
    assert (root / paths.HEAD_LOG).read_bytes() == damaged
    kept.rename(last)
    assert put_logs_back(root) == [paths.HEAD_LOG]
    goes_on(team, context)


@pytest.mark.logs(DAMAGED, sometimes=True)
def test_killed_while_they_are_put_back(team: Team) -> None:
    context = filled(team)
    root, before = team.root("a"), team.directory / "before"
    flip_both(root)
    before.mkdir()
    # with its space: a copy of a replica is another one
    subprocess.run(["cp", "-a", root, team.directory / "server", before], check=True, timeout=60)

    def run(*last: int) -> int:
        for name in ("a", "server"):
            shutil.rmtree(team.directory / name)
            subprocess.run(["cp", "-a", before / name, team.directory], check=True, timeout=60)
        done = forked.run(
            "tests.store.shared.log_repairing", root, *last, directory=forked.ROOT, environment=os.environ, timeout=60
        )
        assert done.returncode == (-9 if last else 0), done.stderr
        return 0 if last else int(done.stdout)

    steps = run()
    assert steps > 20
    for number in range(MOMENTS):
        run(1 + number * (steps - 1) // MOMENTS)
        with ExitStack() as held:
            held.callback(put_logs_back, root)
            # as somebody does who does not know that it is damaged
            held.enter_context(Store.open(root, renderer=FileRenderer()))
        with Store.open(root, renderer=FileRenderer()) as a:
            assert a.recovered == [] or number
            assert said(a, context) == [*LINES, b"in a pack".ljust(LARGE)]
    goes_on(team, context)


@pytest.mark.logs(DAMAGED, sometimes=True)
@pytest.mark.parametrize("words", [("remote", "repair"), ("fsck", "--repair")])
def test_commands_put_them_back(team: Team, words: tuple[str, ...]) -> None:
    context = filled(team)
    root = team.root("a")
    remove_both(root)
    command = [Path(sys.executable).with_name("convfs"), "--store", root]
    refused = subprocess.run([*command, "ls"], capture_output=True, text=True, timeout=60, check=False)
    assert re.fullmatch(r"convfs: .*the log is gone.*: `convfs remote repair` puts it back.*\n", refused.stderr)
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in LOGS:
        assert {"remote": f"Put back {name} from the space.\n", "fsck": f"repaired: {name}, from the space\n"}[
            words[0]
        ] in done.stdout
    goes_on(team, context)


@pytest.mark.logs("does not have commit", sometimes=True)
def test_the_space_gets_back_what_it_has_lost_where_turns_were_reclaimed(team: Team) -> None:
    context = filled(team)
    a = team.open("a")
    assert a.replica is not None
    assert a.replica.repair() == 0
    a.contexts.append(context, b"last", "line")
    a.close()
    max((team.space / "log").iterdir(), key=lambda path: path.name).unlink()
    a = team.open("a")
    assert a.replica is not None
    assert a.replica.repair() == 1
    a.contexts.append(context, b"more", "line")
    b = team.open("b")
    b.writer.catch_up()
    for store in (a, b):
        assert said(store, context)[-2:] == [b"last", b"more"]
        store.close()
    team.agree("a", "b")
