"""A file system that held a secret: on the device itself, nothing of it is left once what was freed is discarded."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.store import Store
from tests.fusefs.tree.mounting import until
from tests.store.redaction.planted import ENCODED, plant

SIZE = 96 << 20
SECONDS = 60
AT_ONCE = 8 << 20


def run(*command: object) -> bool:
    done = subprocess.run([*map(str, command)], capture_output=True, check=False, timeout=SECONDS)
    return done.returncode == 0


@pytest.fixture
def disk(memory_path: Path) -> Iterator[tuple[Path, Path]]:
    """A file that holds a file system, and where that is mounted."""
    image, at = memory_path / "image", memory_path / "disk"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    if os.geteuid() or shutil.which("mkfs.ext4") is None or shutil.which("fstrim") is None:
        pytest.skip("only root may mount a file system in a file, and mkfs.ext4 and fstrim are needed for it")
    # a journal of a file system would hold what it has written for a while, and of a device whole pages are trimmed
    made = run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", image)
    if not made or not run("mount", "-o", "loop", image, at):
        pytest.skip("no loop device is to be had here")
    try:
        yield image, at
    finally:
        assert run("umount", at)


def holds(image: Path, needles: list[bytes]) -> list[bytes]:
    """Return which of some bytes the device holds anywhere."""
    found = set()
    with image.open("rb") as file:
        before = b""
        while piece := file.read(AT_ONCE):
            window = before + piece
            found |= {needle for needle in needles if needle in window}
            before = piece[-256:]
    return sorted(found)


def trimmed(image: Path, at: Path, needles: list[bytes]) -> bool:
    """Trim the device; say whether it holds none of some bytes then."""
    os.sync()
    assert run("fstrim", at)
    os.sync()
    return holds(image, needles) == []


def test_nothing_is_left_on_the_device(disk: tuple[Path, Path]) -> None:
    image, at = disk
    secrets = Secrets([ENCODED, b"tr0ub4dor&3"])
    needles = [ENCODED, b"tr0ub4dor&3", "tr0ub4dor&3".encode("utf-16-le"), b"dHIwdWI0ZG9yJj"]
    plant(at / "store", at / "home")
    shutil.rmtree(at / "home")
    with Store.open(at / "store", renderer=FileRenderer()) as store:
        while store.search.step():
            pass
        assert [*store.sealer.steps()]
    os.sync()
    assert holds(image, needles)
    with Store.open(at / "store", renderer=FileRenderer()) as store:
        done = Redaction(store, secrets).run()
        assert prove(store, secrets, done.gone).found == []
    # a mounted ext4 keeps some freed blocks for files that may grow, and these are not trimmed
    assert run("umount", at)
    assert run("mount", "-o", "loop", image, at)
    until(lambda: trimmed(image, at, needles))
    names = list(done.gone)
    with (at / "store/index.db").open("rb") as index:
        held = index.read()
    assert not any(name in held for name in names)
