"""Every call with every sort of file comes out as on a plain disk, but for what is refused on purpose."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.editors.place import MountedPlace, Place, PlainPlace, place
from tests.fusefs.tree.mounting import add, can_mount, mounted, new_store, user, work_directory

OUTCOMES = Path(__file__).with_name("outcomes.py")
EVENTS = 700
"""Events for the cases of events: each changes one or two."""

Outcomes = dict[str, str]


@dataclass(frozen=True)
class Otherwise:
    """A difference of a mount: cases (a pattern of what they are called), their outcomes, and why."""

    cases: str
    comes: str
    reason: str


EXCHANGE = Otherwise(
    "rename exchange: .*",
    "EINVAL ",
    "two edits in one could not be told apart; programs that ask for it can do without",
)
OF_EVENTS = [
    EXCHANGE,
    Otherwise("chmod: event", "returns '-rw-------' ", "a mount is its owner's alone, so an event's mode stays"),
    Otherwise("utime( of a link)?: event", r"returns 1772712001000000000 ", "its time is that of its last change"),
    Otherwise("attribute: event", "ENOTSUP ", "there is nowhere to keep one; programs that copy them can do without"),
    Otherwise(
        "open read (creat )?trunc: event", ".*This is it", "a file that is cut to nothing and left so is not saved"
    ),
    Otherwise("link( .*)?: event, .*", "EPERM ", "an event has one name, and its number is it"),
    Otherwise("rename a second name: event, .*", "EPERM ", "the same: it could not get a second one"),
    Otherwise("rename: event, event", "EROFS ", "the same: no event becomes another"),
    Otherwise(
        "rename( a second name)?: (link|dirlink|dangling|loop|pipe), event",
        "EPERM ",
        "an event is text: nothing but a file can become one",
    ),
    Otherwise("rename: file, event", r'returns None \{"b": \["-rw-------", "this is a", 1\]\}', "its mode stays"),
    Otherwise(
        "rename what is inside onto: .*, event", r'returns None .*"b": \["-rw-------", "inside"', "its mode stays"
    ),
    Otherwise(
        "rename a second name: file, event",
        r'returns 1 \{"a": \["-rw-r--r--", "this is a", 1\], "b": \["-rw-------"',
        "the file is an event now, and its other names are those of a file with what it held",
    ),
]


def outcomes(directory: Path, how: str) -> Outcomes:
    """Try all cases in a directory."""
    done = subprocess.run(
        [sys.executable, str(OUTCOMES), str(directory), how], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(line.split("\t") for line in done.stdout.splitlines())
    assert len(found) == len(done.stdout.splitlines())
    return found


def check(plain: Outcomes, mount: Outcomes, otherwise: list[Otherwise]) -> None:
    """Check that the same comes of all cases but some, and that of these comes what should."""
    assert plain.keys() == mount.keys()
    differ = [case for case in plain if plain[case] != mount[case]]
    unused = set(otherwise)
    for case in differ:
        known = next((one for one in otherwise if re.fullmatch(one.cases, case)), None)
        assert known, f"{case}: {plain[case]} on a plain disk, but {mount[case]}"
        assert re.match(known.comes, mount[case]), f"{case}: {mount[case]}, but {known.comes} because {known.reason}"
        unused.discard(known)
    assert unused == set()
    # where it is refused on purpose, nothing else is done
    assert len(differ) < len(plain) / 8


@pytest.fixture(params=["below", "beside"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tried(kind: type[Place], how: str) -> Outcomes:
    """Try all cases in a place of a kind, among events or in a directory beside them."""
    with place(kind) as made:
        directory = made.directory
        if how == "below":
            directory = made.directory / "below"
            directory.mkdir()
        found = outcomes(directory, how)
        assert made.files() == made.drawn
        if isinstance(made, MountedPlace):
            assert made.versions() == 1
            assert made.mount.messages.read_text() == ""
        return found


def test_of_scratch_files(how: str) -> None:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    plain, mount = tried(PlainPlace, how), tried(MountedPlace, how)
    assert len(plain) > 1500
    check(plain, mount, [EXCHANGE])


@pytest.fixture
def base() -> Iterator[Path]:
    base = work_directory() / "outcomes"
    base.mkdir()
    yield base
    shutil.rmtree(base)


def test_of_events(base: Path) -> None:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with new_store(base / "store") as store:
        add(store, [user("This is it.", 1)] * EVENTS)
    with mounted(base / "store") as mount:
        events = mount.root / "conversations/project/2026-03-05-talk/events"
        shutil.copytree(events, base / "plain")
        check(outcomes(base / "plain", "events"), outcomes(events, "events"), OF_EVENTS)
