"""A disk that fills while the background works, and is given room again: nothing is lost, reading works throughout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.filling import LIMITED
from tests.fusefs.tree.mounting import REPOSITORY

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
SEEDS = range(200) if LARGE else (4, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disk_that_others_fill_and_empty(small_disk: Path, seed: int) -> None:
    """In a process of its own: a store that mapped files ended it."""
    check(small_disk, str(seed))


def test_a_limit_to_the_size_of_files(small_disk: Path) -> None:
    """The error of `ulimit -f`: EFBIG, which no look at what is free foretells."""
    check(small_disk, "3", LIMITED)


def check(disk: Path, *options: str) -> None:
    """Use a store on a disk in a process of its own; see ``filling``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.filling", str(disk / "store"), *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    turns, refused = map(int, done.stdout.split())
    assert turns > 50
    assert refused > 5
