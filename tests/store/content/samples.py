"""Real sessions for tests: ``$CONVFS_SAMPLES``, else ``../shared/samples`` beside the repository, else none."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def directory() -> Path:
    """Return the directory of the samples; skips the test where there is none."""
    named = os.environ.get("CONVFS_SAMPLES")
    path = Path(named) if named else Path(__file__).resolve().parents[4] / "shared" / "samples"
    if not path.is_dir():
        pytest.skip(f"no sample sessions at {path} (set CONVFS_SAMPLES)")
    return path


def payloads() -> Iterator[bytes]:
    """Yield every line of the JSONL samples, and every other JSON or Markdown sample whole."""
    for path in sorted(directory().rglob("*")):
        if path.suffix == ".jsonl":
            yield from path.read_bytes().split(b"\n")
        elif path.suffix in (".json", ".md", ".traj"):
            yield path.read_bytes()
