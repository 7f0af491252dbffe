"""The daemon dies, or the disk fails, at every step of starting after a crash, and of ending while files are open.

However often that happens, what comes of it at last is the same: every save once.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import scratch as memory
from tests.crash_mount.faults import KILL, TORN, is_write
from tests.crash_mount.harness import NAME, PROJECT, Bench, Fault, Seen, State, at_every_step, look
from tests.crash_mount.test_endings import NEW, save_in_every_way
from tests.fusefs.editing.talk import FIRST, LAST, SECOND
from tests.model import instead

FAULTS = [("ENOSPC", False), ("EIO", False), ("ENOSPC", True)]


def check(seen: Seen, old: State) -> None:
    """Check that everything was saved that was closed, once, and that the rest is kept."""
    talk = seen.state.talks[f"{PROJECT}/{NAME}"]
    texts = {name: text.partition(b"\n---\n")[2] for name, text in talk.events.items()}
    assert texts == {FIRST: NEW, SECOND: NEW, LAST: b"The third and last\n", "00005-user.md": b"One thing more\n"}
    assert sorted(talk.versions) == ["add-00005", "append", "edit-00001", "edit-00002"]
    assert seen.scratch == {f"{LAST}.draft": old.talks[f"{PROJECT}/{NAME}"].events[LAST] + b"and more\n"}


@pytest.fixture
def left(here: Bench, template: Path) -> Iterator[tuple[Path, State]]:
    """The store that a killed daemon has left, and the state before."""
    here.begin(template)
    assert here.mount() is None, here.said()
    old = look(here.root).state
    with ExitStack() as files:
        save_in_every_way(here, files)
        here.kill()
        assert here.wait()["status"] == -signal.SIGKILL
    base = memory()
    shutil.copytree(here.store, base / "store")
    instead(base / "store")
    yield base / "store", old
    shutil.rmtree(base)


def check_again(here: Bench, old: State, fired: str) -> None:
    """Start once more, and check what there is."""
    try:
        check(here.check_after(old), old)
    except BaseException as error:
        error.add_note(f"at {fired}\n{here.said()}")
        raise


def test_killed_at_every_step_of_starting(all_here: list[Bench], left: tuple[Path, State]) -> None:
    store, old = left

    def start(here: Bench, fault: Fault) -> str:
        here.begin(store)
        ended = here.mount(fault)
        fired = here.fired
        ended = ended or (here.wait() if fired else here.unmount())
        assert ended["status"] == (-signal.SIGKILL if fired else 0), here.said()
        check_again(here, old, fired)
        return fired

    assert len(at_every_step(all_here, lambda here, at: also_torn(start, here, at, "start"))) > 30


def also_torn(run: Callable[[Bench, Fault], str], here: Bench, at: int, during: str) -> str:
    """Have the daemon killed before a step, and half-way where that is possible."""
    fired = run(here, Fault(at, KILL, during=during))
    if is_write(fired):
        assert run(here, Fault(at, TORN, during=during))
    return fired


def test_a_disk_that_fails_at_every_step_of_starting(all_here: list[Bench], left: tuple[Path, State]) -> None:
    store, old = left
    refused = []

    def start(here: Bench, at: int) -> str:
        kind, lasting = FAULTS[at % len(FAULTS)]
        here.begin(store)
        ended = here.mount(Fault(at, kind, lasting, during="start"))
        fired = here.fired
        if ended is None:
            assert look(here.root, old).state.talks
            ended = here.unmount()
            assert ended["status"] in (0, 3), here.said()
        else:
            refused.append(fired)
            assert ended["status"] == 3, (fired, ended, here.said())
        check_again(here, old, fired)
        return fired

    at_every_step(all_here, start)
    assert len(refused) > 5


def test_killed_at_every_step_of_ending(all_here: list[Bench], template: Path) -> None:
    def end(here: Bench, fault: Fault) -> str:
        here.begin(template)
        assert here.mount(fault) is None, here.said()
        old = look(here.root).state
        with ExitStack() as files:
            save_in_every_way(here, files)
            assert here.watch is not None
            here.watch.arm()
            os.kill(here.pid, signal.SIGTERM)
            ended = here.wait()
            fired = here.fired
            assert ended["status"] == (-signal.SIGKILL if fired else 0), here.said()
        check_again(here, old, fired)
        return fired

    assert len(at_every_step(all_here, lambda here, at: also_torn(end, here, at, "end"))) > 12
