"""The checks of crashes can fail: a build that is made worse on purpose does."""

import signal
from pathlib import Path

import pytest

from tests.crash_mount.faults import DROP, POWER
from tests.crash_mount.harness import Bench, Fault, at_every_step
from tests.crash_mount.test_killed import killed
from tests.crash_mount.ways import WAYS, Known, Way

NANO, FORKED = (next(way for way in WAYS if way.program == program) for program in ("nano", "forked"))


def worse(here: Bench, known: Known, template: Path, dropped: str, last: str) -> None:
    """Save while nothing happens that ``dropped`` names; the daemon is killed at the end of the save; then check."""
    here.begin(template)
    assert here.mount(Fault(1, DROP, lasting=True, only=dropped)) is None, here.said()
    told = here.run(known.way.program, known.way.name, known.after)
    assert told.errno == 0
    if last == "killed":
        here.kill()
        assert here.wait()["status"] == -signal.SIGKILL
    else:
        here.settle()
        here.unmount()
    assert here.fired
    known.check(here.check_after(known.old), told)


@pytest.mark.parametrize("way", [NANO], ids=["nano"])
@pytest.mark.parametrize(
    ("dropped", "last"),
    [
        # neither the draft nor the commit are there
        (r"pwrite (scratch/\.drafts|journal|turns)", "killed"),
        (r"pwrite (journal|turns)|replace scratch/\.drafts", "killed"),
        # logs that no journal was before, and the other way round
        ("pwrite turns/turns.log", "unmounted"),
        ("pwrite blobs", "unmounted"),
    ],
)
def test_a_store_that_does_not_write(here: Bench, prepared: Path, way: Way, dropped: str, last: str) -> None:
    known = Known(here, way, prepared)
    # what is shown is wrong, or nothing can be shown
    with pytest.raises((AssertionError, OSError)):
        worse(here, known, prepared, dropped, last)


@pytest.mark.parametrize("way", [NANO], ids=["nano"])
def test_a_store_that_writes(here: Bench, prepared: Path, way: Way) -> None:
    """Controls: the other tests fail for the reason that they are meant to fail for."""
    known = Known(here, way, prepared)
    here.begin(prepared)
    assert here.mount() is None, here.said()
    told = here.run(way.program, way.name, known.after)
    here.kill()
    assert here.wait()["status"] == -signal.SIGKILL
    known.check(here.check_after(known.old), told)
    assert told.saved == 1


@pytest.mark.parametrize(
    ("way", "deaf"), [(NANO, r"scratch/\.drafts$"), (NANO, r"scratch/\.drafts/"), (FORKED, "journal/[12]")]
)
def test_a_store_that_syncs_too_little(all_here: list[Bench], prepared: Path, way: Way, deaf: str) -> None:
    known = Known(all_here[0], way, prepared)
    with pytest.raises((AssertionError, KeyError)):
        at_every_step(all_here, lambda here, at: killed(here, known, prepared, Fault(at, POWER, deaf=deaf)))
