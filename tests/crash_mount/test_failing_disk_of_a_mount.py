"""The disk is full or fails at every step of every way to save: the program is told, and nothing is lost.

Every fourth step of every way is tried, another of each four from way to way, with one of three faults in turn: the
disk is full for once, it fails for once, it is full for as long as the program runs.
``CONVFS_LARGE_TESTS=1`` tries all three at every step.
"""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash_mount.faults import SYNCS
from tests.crash_mount.harness import NAME, PROJECT, Bench, Fault, Seen, State, Told, at_every_step, look
from tests.crash_mount.ways import WAYS, Known, Way, drawn
from tests.fusefs.editing.talk import FIRST, SECOND

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
FAULTS = [("ENOSPC", False), ("EIO", False), ("ENOSPC", True)]
TOLD = {errno.ENOSPC, errno.EIO, errno.EROFS}
OTHERWISE = b"Other greetings.\n"

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_at_every_step(all_here: list[Bench], prepared: Path, way: Way) -> None:
    known = Known(all_here[0], way, prepared)

    def run(here: Bench, at: int) -> str:
        first = (WAYS.index(way) + at // 2) % len(FAULTS)
        faults = FAULTS if LARGE else FAULTS[first : first + 1]
        return min(failed(here, known, prepared, Fault(at, kind, lasting)) for kind, lasting in faults)

    at_every_step(all_here, run, first=1 if LARGE else 1 + WAYS.index(way) % 4, every=1 if LARGE else 4)


def failed(here: Bench, known: Known, template: Path, fault: Fault) -> str:
    """Run a way to save on a disk that fails, and look at what is left; say where it failed."""
    way = known.way
    here.begin(template)
    assert here.mount(fault) is None, here.said()
    told = here.run(way.program, way.name, known.after)
    here.settle(removal=way.removal)
    fired = here.fired
    second = None
    try:
        assert not here.died
        check_meanwhile(here, known, told)
        if fired and here.events.exists():
            second = here.run("ed", SECOND, OTHERWISE)
        ended = here.unmount()
        assert ended["status"] in ((0, 3) if fired else (0,))
        after = here.check_after(known.old)
        if second is not None:
            after = without_second(after, known.old, second, fault, fired)
        known.check(after, told, failed=True)
    except BaseException as error:
        error.add_note(f"{fault} at {fired}; the program was told {told}, the second {second}\n{here.said()}")
        raise
    return fired


def check_meanwhile(here: Bench, known: Known, told: Told) -> None:
    """Check that all can still be read, and that the program was told what is so."""
    assert told.errno == 0 or told.errno in TOLD or told.errno < 0
    if known.way.vanishes:
        # what was removed file by file is there again in a few seconds
        assert os.listdir(here.root / "transcripts")
        return
    states = known.failed_states
    seen = roughly(look(here.root, known.old).state, known.old)
    assert seen in [roughly(state, known.old) for state in states], f"meanwhile {seen} is none of {states}"


def roughly(state: State, old: State) -> State:
    """Return what may differ for as long as it is remembered what was written: texts are not drawn yet, and what waits
    for room on the disk is no version yet."""
    talks = {}
    for key, talk in state.talks.items():
        there = old.talks[key].events if key in old.talks else {}
        events = {name: drawn(text) if name in there else b"" for name, text in talk.events.items()}
        talks[key] = replace(talk, events=events, versions=(), metadata="", resources=())
    return replace(state, talks=talks)


def without_second(after: Seen, old: State, second: Told, fault: Fault, fired: str) -> Seen:
    """Check what became of a save after the fault; return what would be there without it."""
    call, _, path = fired.partition(" ")
    harmless = path.startswith("scratch/") or (fault.kind == "ENOSPC" and path.startswith("journal/"))
    if second.errno:
        assert second.errno == errno.EROFS
        assert not harmless or call in SYNCS
        draft = f"{SECOND}.draft"
        return Seen(after.state, {name: data for name, data in after.scratch.items() if name != draft})
    key = f"{PROJECT}/{NAME}"
    talk = after.state.talks[key]
    assert talk.events[SECOND].endswith(OTHERWISE)
    versions = list(talk.versions)
    versions.remove(f"edit-{SECOND[:5]}")
    talk = replace(talk, events=talk.events | {SECOND: old.talks[key].events[SECOND]}, versions=tuple(versions))
    return Seen(replace(after.state, talks=after.state.talks | {key: talk}), after.scratch)


def test_what_was_said_to_be_saved_is_shown_and_comes_with_the_next_mount(here: Bench, template: Path) -> None:
    """The journal fails after the program was told that it has saved."""
    here.begin(template)
    assert here.mount(Fault(1, "EIO", only="pwrite journal/")) is None, here.said()
    old = look(here.root).state
    key, text = f"{PROJECT}/{NAME}", b"Kept, though the journal fails.\n"
    assert here.run("nano", FIRST, text).saved == 1
    here.settle()
    assert here.fired
    assert look(here.root, old).state.talks[key].events[FIRST].endswith(text)
    assert any("begins again" in path.read_text() for path in (here.root / ".convfs" / "errors").iterdir())
    assert here.run("nano", FIRST, OTHERWISE).errno == errno.EROFS
    assert look(here.root, old).state.talks[key].events[FIRST].endswith(text)
    assert here.unmount()["status"] == 3
    after = here.check_after(old)
    assert after.state.talks[key].events[FIRST].endswith(text)
    assert after.scratch[f"{FIRST}.draft"].endswith(OTHERWISE)
