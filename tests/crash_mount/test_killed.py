"""The daemon is killed, or the power fails, in the middle of saving: what is left is the old state or the new one."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash_mount.faults import JUMPS, KILL, POWER, TORN, is_write
from tests.crash_mount.harness import Bench, Fault, at_every_step
from tests.crash_mount.ways import WAYS, Known, Way
from tests.fusefs.tree.mounting import until

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_at_every_step(all_here: list[Bench], prepared: Path, way: Way) -> None:
    """Every third step is tried, another of each three from way to way; ``CONVFS_LARGE_TESTS=1`` tries them all."""
    known = Known(all_here[0], way, prepared)

    def run(here: Bench, at: int) -> str:
        fired = killed(here, known, prepared, Fault(at, KILL))
        if is_write(fired):
            assert killed(here, known, prepared, Fault(at, TORN))
        return fired

    assert len(at_every_step(all_here, run, **_steps(way, 3))) >= (3 if LARGE else 1)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_power_loss(all_here: list[Bench], prepared: Path, way: Way) -> None:
    """Nothing is there but what was synced. Every sixth step is tried, as above."""
    known = Known(all_here[0], way, prepared)

    def run(here: Bench, at: int) -> str:
        return killed(here, known, prepared, Fault(at, POWER))

    at_every_step(all_here, run, **_steps(way, 6))


def _steps(way: Way, every: int) -> dict[str, int]:
    return {} if LARGE else {"first": 1 + WAYS.index(way) % every, "every": every}


@pytest.mark.parametrize("kind", [KILL, TORN])
def test_while_what_is_derived_is_written(here: Bench, template: Path, kind: str) -> None:
    known = Known(here, WAYS[0], template)
    assert killed(here, known, template, Fault(1, kind, only=JUMPS)) == JUMPS


def killed(here: Bench, known: Known, template: Path, fault: Fault) -> str:
    """Run a way to save until the daemon is killed, and look at what is left; say where that was."""
    way = known.way
    here.begin(template)
    assert here.mount(fault) is None, here.said()
    told = here.run(way.program, way.name, known.after)
    if fault.kind == POWER:
        # a step more, so that the power can fail when the program has been told everything
        with suppress(OSError):
            (here.root / "the end").touch()
    if fault.only:
        # when the background has a moment
        until(lambda: bool(here.fired))
    here.settle(removal=way.removal)
    fired = here.fired
    ended = here.wait() if fired else here.unmount()
    if fired and fault.kind == POWER:
        here.lose_power()
        # programs that want to find their own files again sync them and the directory
        told.has.clear()
    assert ended["status"] == (-signal.SIGKILL if fired else 0), here.said()
    try:
        known.check(here.check_after(known.old), told)
    except BaseException as error:
        error.add_note(f"killed at {fault.at}, {fired} ({fault.kind}); the program was told {told}\n{here.said()}")
        raise
    return fired
