"""The daemon is killed at every step of every way to save: what is left is the old state or the new one."""

import signal
from pathlib import Path

import pytest

from tests.crash_mount.faults import KILL, TORN, is_write
from tests.crash_mount.harness import Bench, Fault, at_every_step
from tests.crash_mount.ways import WAYS, Known, Way

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_at_every_step(all_here: list[Bench], prepared: Path, way: Way) -> None:
    known = Known(all_here[0], way, prepared)

    def run(here: Bench, at: int) -> str:
        fired = killed(here, known, prepared, Fault(at, KILL))
        if is_write(fired):
            assert killed(here, known, prepared, Fault(at, TORN))
        return fired

    assert len(at_every_step(all_here, run)) >= 3


def killed(here: Bench, known: Known, template: Path, fault: Fault) -> str:
    """Run a way to save until the daemon is killed, and look at what is left; say where that was."""
    way = known.way
    here.begin(template)
    assert here.mount(fault) is None, here.said()
    told = here.run(way.program, way.name, known.after)
    here.settle(removal=way.removal)
    fired = here.fired
    ended = here.wait() if fired else here.unmount()
    assert ended["status"] == (-signal.SIGKILL if fired else 0), here.said()
    try:
        known.check(here.check_after(known.old), told)
    except BaseException as error:
        error.add_note(f"killed at {fault.at}, {fired} ({fault.kind}); the program was told {told}\n{here.said()}")
        raise
    return fired
