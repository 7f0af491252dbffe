"""``metadata.json``, saved by every program that saves events."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from store.importing.importer import Importer
from tests.editors.patterns import PATTERNS, Pattern, run, vim
from tests.editors.place import MountedPlace
from tests.editors.saver import HALF_CLOSED
from tests.editors.sessions import write_session
from tests.fusefs.tree.mounting import can_mount, new_store, work_directory

NAME = "metadata.json"
SUBSTITUTE = ':%s/"alpha"/"ALEPH too"/\n'
REFUSED = {how.replace("_", " ") for how in HALF_CLOSED}
"""Half of a text is a text, but half of an object in JSON is refused."""

VIM = ("vim", "tmux")
BY_THEMSELVES = [
    *(
        Pattern(f"vim {options}", partial(vim, options=options, change=SUBSTITUTE), bytes, VIM, left)
        for options, left in {"backupcopy=yes": {}, "backupcopy=no": {}, "undofile": {f".{NAME}.un~": False}}.items()
    ),
    Pattern("sed -i", partial(run, command='s=sed; sed -i "s/alpha/ALEPH too/" $1'), bytes),
    Pattern("perl -pi", partial(run, command='perl -pi -e "s/alpha/ALEPH too/" $1'), bytes),
]


class MetadataPlace(MountedPlace):
    """The directory of a conversation that has a label."""

    @property
    def directory(self) -> Path:
        return self.conversation

    def frames(self) -> int:
        """Return how long the log of commits is."""
        return (self.store / "turns" / "heads.log").stat().st_size


@pytest.fixture
def conversation() -> Iterator[MetadataPlace]:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    base = Path(tempfile.mkdtemp(prefix="save-", dir=work_directory()))
    try:
        with new_store(base / "store") as store:
            Importer(store).run([write_session(base)])
            store.contexts.set_metadata(1, {"labels": ["alpha"]})
        with MetadataPlace(base, {}) as made:
            yield made
    finally:
        shutil.rmtree(base)


def changed(old: bytes) -> bytes:
    return old.replace(b'"alpha"', b'"ALEPH too"')


@pytest.mark.parametrize(
    "pattern",
    [*BY_THEMSELVES, *(pattern for pattern in PATTERNS if pattern.rewrite and pattern.name not in REFUSED)],
    ids=lambda pattern: pattern.name,
)
def test_one_change_however_it_is_saved(conversation: MetadataPlace, pattern: Pattern) -> None:
    pattern.check_needs()
    path = conversation.directory / NAME
    expected, mode, frames = changed(path.read_bytes()), path.stat().st_mode, conversation.frames()
    listed = {*os.listdir(conversation.directory), *(name.format(NAME) for name in pattern.left)}
    if pattern.rewrite:
        pattern.rewrite(conversation, NAME, changed)
    else:
        pattern.save(conversation, NAME)
    assert path.read_bytes() == expected
    assert (path.stat().st_mode, path.stat().st_size) == (mode, len(expected))
    assert set(os.listdir(conversation.directory)) == listed
    assert os.listdir(conversation.mount.root / "by-label") == ["ALEPH too"]
    length = conversation.frames()
    assert frames < length < frames + 200
    assert conversation.versions() == 1
    conversation.remount()
    assert conversation.frames() == length
    drawn = (conversation.directory / NAME).read_bytes()
    assert json.loads(drawn)["labels"] == ["ALEPH too"]
    assert drawn == expected
