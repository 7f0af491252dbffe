"""Every way in which programs save a file, on a plain disk and in a mount: the same bytes; in a mount, one version."""

import pytest

from tests.editors.patterns import PATTERNS, Pattern
from tests.editors.place import MountedPlace, Place
from tests.editors.saver import HOW
from tests.editors.sessions import ANSWER, LARGE

LARGE_ONES = (
    {"vim", "vim backupcopy=yes", "vim undofile", "nano", "emacs", "emacs precious", "mcedit", "ed", "sed -i"}
    | {"rsync", "rsync --inplace", "cp -a", "cp within", "mv within", "tar", "tee", "dd", ">>", ">> with ls between"}
    | {how.replace("_", " ") for how in HOW}
)
"""The patterns that write what is large in more than one request, or copy it elsewhere."""


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_saving(here: Place, pattern: Pattern) -> None:
    pattern.check_needs()
    save(here, ANSWER, pattern)


@pytest.mark.parametrize(
    "pattern", [one for one in PATTERNS if one.name in LARGE_ONES], ids=lambda pattern: pattern.name
)
def test_saving_what_is_large(here: Place, pattern: Pattern) -> None:
    pattern.check_needs()
    save(here, LARGE, pattern)


def save(here: Place, name: str, pattern: Pattern) -> None:
    """Save the file as the pattern does, and look at everything that may have come of it."""
    path = here.directory / name
    old, mode, versions = here.drawn[name], here.mode(name), here.versions()
    pattern.save(here, name)

    saved = pattern.saved(old)
    assert path.read_bytes() == saved
    assert path.stat().st_size == len(saved)
    assert here.mode(name) == mode
    left = {template.format(name): is_old for template, is_old in pattern.left.items()}
    check_files(here, name, saved, left)
    if not isinstance(here, MountedPlace):
        return

    assert versions is not None
    assert here.read_past_the_cache(name) == saved
    assert here.versions() == versions + pattern.versions
    redrawn = (pattern.redrawn or pattern.saved)(old)
    check_drawn(here, name, redrawn)
    here.remount()
    check_files(here, name, redrawn, left)
    assert here.mode(name) == mode
    assert here.versions() == versions + pattern.versions
    check_drawn(here, name, redrawn)


def check_files(here: Place, name: str, saved: bytes, left: dict[str, bool]) -> None:
    """Check the whole directory: the file that was saved, all the others as they were, and what is left of saving."""
    files = here.files()
    # what editors keep beside an event is not listed once they have ended
    unlisted = [other for other in left if isinstance(here, MountedPlace) and other.endswith("~")]
    assert sorted(files) == sorted({*here.drawn, *left} - {*unlisted})
    files |= {other: (here.directory / other).read_bytes() for other in unlisted}
    for other, drawn in here.drawn.items():
        assert files[other] == (saved if other == name else drawn), other
    for other, is_old in left.items():
        if is_old:
            assert files[other] == here.drawn[name], other


def check_drawn(here: MountedPlace, name: str, redrawn: bytes) -> None:
    """Check what else is drawn of the conversation: versions, transcript, records. No other name is in any of them."""
    number = int(name[:5])
    names = here.version_names()
    for version in names:
        assert sorted(path.name for path in (here.version(names.index(version)) / "events").iterdir()) == sorted(
            here.drawn
        )
    assert (here.version(0) / "events" / name).read_bytes() == here.drawn[name]
    assert (here.version(-1) / "events" / name).read_bytes() == redrawn

    content = redrawn.partition(b"\n---\n")[2]
    section = here.transcript.read_bytes().partition(b"\n## %d " % number)[2].partition(b"\n\n")[2]
    assert section.startswith(content)
    assert section[len(content) :][:4] in {b"", b"\n## "}
