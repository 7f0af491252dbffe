"""The contents of the repository."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOP_LEVEL = {"LICENSE", "README.md", "fusefs", "mount.sh", "pyproject.toml", "store", "tests"}


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    return [name for name in os.fsdecode(listed).split("\0") if name]


def test_the_top_level_holds_what_it_should(tracked: list[str]) -> None:
    top = {name.partition("/")[0] for name in tracked}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("script", ["mount.sh", "tests/run.sh", ".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", path], check=True)


def test_nothing_is_left_undone(tracked: list[str]) -> None:
    marks = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + r"X)\b|NotImplemented" + "Error")
    found = [
        f"{name}:{number}"
        for name in tracked
        if name.endswith((".py", ".sh", ".toml", ".md")) and (ROOT / name).exists()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert found == []


def test_docstrings_begin_with_nouns(tracked: list[str]) -> None:
    begins = re.compile(r'^\s*"""(?:What|Take note)\b')
    found = [
        f"{name}:{number}"
        for name in tracked
        if name.endswith(".py") and (ROOT / name).exists()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if begins.match(line)
    ]
    assert found == []
