"""A store of version 0.5 reads today as it did then.

``store-0.5.tar.gz`` was made by the code of commit a3cd679 in one go, with its own command where there was one. A talk
about a cart, written for this, was imported as a Claude Code session (thoughts, calls, a failed one, an image, a long
result); exported as Codex, Gemini CLI, Pi and jp sessions, and these imported; so were an aider history and a JSONL of
messages. The first got labels, an artifact, an agent's output and a fork with an edited record; then came all that
``tests.store.upkeep.everything.fill`` makes (deltas, patches, deletions, keys, aliases, reclaimed turns).
``convfs seal`` sealed the pack. After that a record was appended, another one edited, and a turn was left
open, in two pieces.

``store-0.5.json`` is what ``reading`` got out of that store with the code of 0.5. Left out is what was changed on
purpose since: where Codex' files stand among the native ones, and pages of HTML. What transcripts and Markdown are is
that of today: they fence what tools write, and can be written. An export has the blobs of JP now, and a mount the
snapshots of files in ``fs/``. The Codex session shows the thought that it was exported with. Nor does it hold what
depends on the day or the place. Adapted to it is a ``metadata.json`` that had told of a session's files.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.store import Store
from tests.frozen import reading
from tests.fusefs.tree.mounting import REPOSITORY, can_mount, work_directory

HERE = Path(__file__).parent
SAID: reading.Said = json.loads((HERE / "store-0.5.json").read_text(encoding="utf-8"))
OPEN = {143: b"piece by piece", 180: b"It goes on and"}


@pytest.fixture
def store(memory_path: Path) -> Path:
    with tarfile.open(HERE / "store-0.5.tar.gz") as archive:
        archive.extractall(memory_path, filter="tar")
    return memory_path / "store"


@pytest.fixture
def environment(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    (memory_path / "run").mkdir(mode=0o700)
    return reading.environment(memory_path / "run")


@pytest.fixture
def mountpoint(memory_path: Path) -> Iterator[Path]:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    path = work_directory() / f"frozen-{memory_path.name}"
    path.mkdir()
    yield path
    path.rmdir()


LEFT_OPEN = ("open", "context-15")
"""In the names of what has a turn that was left open: a mount seals such a turn once it is a day old."""


def of(*beginnings: str) -> reading.Said:
    return {key: value for key, value in SAID.items() if key.startswith(beginnings)}


def of_a_mount() -> reading.Said:
    return {key: value for key, value in of("mount ").items() if not any(word in key for word in LEFT_OPEN)}


def test_it_is_sound_and_its_open_turns_are_open(store: Path, environment: dict[str, str]) -> None:
    with Store.open(store, create=False) as opened:
        assert opened.recovered == []
        assert {turn.number: bytes(turn.text) for turn in opened.writer.texts.of()} == OPEN
    assert reading.convfs(environment, "--store", store, "fsck") == b"The store is sound.\n"


def test_the_command_says_the_same(store: Path, environment: dict[str, str], memory_path: Path) -> None:
    said = reading.by_command(environment, store, memory_path / "exported")
    assert said == of("ls", "log ", "export ")


def test_a_mount_shows_the_same(store: Path, environment: dict[str, str], mountpoint: Path) -> None:
    shown = reading.mounted(environment, store, mountpoint, LEFT_OPEN)
    assert shown == of_a_mount()
    assert len(shown) > 230


def test_the_index_made_anew_says_the_same(store: Path, environment: dict[str, str], mountpoint: Path) -> None:
    reading.convfs(environment, "--store", store, "reindex")
    assert reading.mounted(environment, store, mountpoint, LEFT_OPEN) == of_a_mount()
