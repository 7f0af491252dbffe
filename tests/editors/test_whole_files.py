"""``events.json`` and a file in ``resources/``, saved by every program that saves events."""

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
from tests.editors.sessions import OUTPUT, SESSION, records
from tests.fusefs.tree.mounting import can_mount, keep_each_save, new_store, work_directory

SUBSTITUTE = ":%s/alpha/ALEPH too/\n"
HALF = {how.replace("_", " ") for how in HALF_CLOSED}
"""Half of a text is a text, but half of a list in JSON is refused."""

REMOVING = {"cp --remove-destination", "install", "mv", "tar", "rm and create"}
"""A resource alone cannot be removed, to be written anew."""

VIM = ("vim", "tmux")
BY_THEMSELVES = [
    *(
        Pattern(f"vim {options}", partial(vim, options=options, change=SUBSTITUTE), bytes, VIM, left)
        for options, left in {
            "backupcopy=yes": {},
            "backupcopy=no": {},
            "undofile": {".{}.un~": False},
            "backup": {"{}~": True},
        }.items()
    ),
    Pattern("sed -i", partial(run, command='s=sed; sed -i "s/alpha/ALEPH too/" $1'), bytes),
    Pattern("perl -pi", partial(run, command='perl -pi -e "s/alpha/ALEPH too/" $1'), bytes),
    Pattern("ed", partial(run, command=r"printf ',s/alpha/ALEPH too/\nw\nq\n' | ed -s -- $1"), bytes, ("ed",)),
]


class WholePlace(MountedPlace):
    """A directory of a conversation about alpha, in which a file is saved."""

    inside = ""

    @property
    def conversation(self) -> Path:
        (found,) = (self.mount.root / "conversations" / "alpha").iterdir()
        return found

    @property
    def directory(self) -> Path:
        return self.conversation / self.inside


class ResourcePlace(WholePlace):
    """The directory of the file that a tool returned."""

    inside = "resources/home/ada/alpha"


def place(kind: type[WholePlace]) -> Iterator[WholePlace]:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    base = Path(tempfile.mkdtemp(prefix="save-", dir=work_directory()))
    try:
        session = records()
        session[3]["toolUseResult"] = {
            "type": "text",
            "file": {"filePath": "/home/ada/alpha/notes.txt", "content": OUTPUT + "\n"},
        }
        path = base / f"{SESSION}.jsonl"
        lines = [json.dumps(record).replace("/home/ada/garden", "/home/ada/alpha") for record in session]
        path.write_text("".join(line + "\n" for line in lines))
        with new_store(base / "store") as store:
            Importer(store).run([path])
        keep_each_save(base / "store")
        path.unlink()
        with kind(base, {}) as made:
            yield made
    finally:
        shutil.rmtree(base)


@pytest.fixture
def conversation() -> Iterator[WholePlace]:
    yield from place(WholePlace)


@pytest.fixture
def resources() -> Iterator[WholePlace]:
    yield from place(ResourcePlace)


def changed(old: bytes) -> bytes:
    return b"\n".join(line.replace(b"alpha", b"ALEPH too", 1) for line in old.split(b"\n"))


def save(here: WholePlace, name: str, pattern: Pattern) -> bytes:
    """Save a file as the pattern does; return what it then holds."""
    pattern.check_needs()
    path = here.directory / name
    expected, mode = changed(path.read_bytes()), path.stat().st_mode
    listed = {*os.listdir(here.directory), *(left.format(name) for left in pattern.left)}
    if pattern.rewrite:
        pattern.rewrite(here, name, changed)
    else:
        pattern.save(here, name)
    assert here.versions() == 1 + pattern.versions
    assert (path.stat().st_mode, path.stat().st_size) == (mode, len(expected))
    assert set(os.listdir(here.directory)) == listed
    return expected


@pytest.mark.parametrize(
    "pattern",
    [*BY_THEMSELVES, *(pattern for pattern in PATTERNS if pattern.rewrite and pattern.name not in HALF)],
    ids=lambda pattern: pattern.name,
)
def test_events_json(conversation: WholePlace, pattern: Pattern) -> None:
    expected = save(conversation, "events.json", pattern)
    assert (conversation.directory / "events.json").read_bytes() == expected
    assert sum(b"/home/ada/ALEPH too" in payload for payload in conversation.payloads()) == 5
    conversation.remount()
    assert (conversation.directory / "events.json").read_bytes() == expected
    assert conversation.versions() == 2


@pytest.mark.parametrize(
    "pattern",
    [*BY_THEMSELVES, *(pattern for pattern in PATTERNS if pattern.rewrite and pattern.name not in REMOVING)],
    ids=lambda pattern: pattern.name,
)
def test_a_resource(resources: WholePlace, pattern: Pattern) -> None:
    expected = save(resources, "notes.txt", pattern)
    assert (resources.directory / "notes.txt").read_bytes() == expected
    assert b"ALEPH too.md  12 lines" in resources.payloads()[3]
    resources.remount()
    assert (resources.directory / "notes.txt").read_bytes() == expected
    assert resources.versions() == 2


@pytest.mark.parametrize(
    "pattern",
    [one for one in PATTERNS if one.needs[-1:] == ("tmux",) and not one.name.startswith("vim")],
    ids=lambda pattern: pattern.name,
)
def test_a_resource_in_an_editor(resources: WholePlace, pattern: Pattern) -> None:
    pattern.check_needs()
    path = resources.directory / "notes.txt"
    old, mode = path.read_bytes(), path.stat().st_mode
    pattern.save(resources, "notes.txt")
    assert path.read_bytes() == pattern.saved(old)
    assert path.stat().st_mode == mode
    assert sorted(os.listdir(path.parent)) == sorted(
        ["notes.txt", *(left.format("notes.txt") for left in pattern.left)]
    )
    assert resources.versions() == 1 + pattern.versions
    resources.remount()
    assert (resources.directory / "notes.txt").read_bytes() == pattern.saved(old)
