"""Conversations that are copied within the mount, by ``cp -r`` and its like."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import FIRST, LAST, NAME, SECOND, Talk, changed
from tests.fusefs.tree.mounting import PATIENCE, Mounted, new_store, until

FILES = [FIRST, SECOND, LAST]


@pytest.fixture
def project(talk: Talk) -> Path:
    """The directory of the conversation's project. It has notes beside its events, a label, a version, and a fork."""
    (talk.root / "notes").mkdir()
    (talk.root / "notes" / "todo").write_text("look again")
    (talk.events / "mine.txt").write_text("between events")
    (talk.root / "artifacts" / "make").write_text("an output")
    (talk.root / "forks" / "before").mkdir()
    metadata = talk.root / "metadata.json"
    metadata.write_text(metadata.read_text().replace('"labels": []', '"labels": ["green"]'))
    talk.first.write_bytes(changed(talk.first))
    return talk.root.parent


def copy(mount: Mounted, *arguments: str) -> None:
    done = mount.run("cp", *arguments)
    assert (done.stdout, done.stderr) == ("", "")


def events(directory: Path) -> dict[str, bytes]:
    return {name: (directory / "events" / name).read_bytes() for name in os.listdir(directory / "events")}


@pytest.mark.parametrize("options", ["-r", "-a"])
def test_a_copy_is_a_fork_with_all_that_is_in_it(talk: Talk, project: Path, options: str) -> None:
    copy(talk.mount, options, str(talk.root), str(project / "copy"))
    there = project / "copy"
    assert events(there) == events(talk.root)
    assert (there / "notes" / "todo").read_text() == "look again"
    assert (there / "artifacts" / "0.make.log").read_text() == "an output"
    assert (there / "events.json").read_bytes() == (talk.root / "events.json").read_bytes()
    assert '"green"' in (there / "metadata.json").read_text()
    (version,) = os.listdir(there / ".versions")
    assert version.endswith("-fork")
    assert (talk.root / "forks" / "copy").resolve() == there.resolve()
    assert os.listdir(there / "forks") == []
    assert talk.errors == ""
    # each goes on by itself
    (there / "events" / FIRST).write_bytes(changed(there / "events" / FIRST, "Goodbye", "Welcome"))
    assert "Goodbye" in talk.first.read_text()
    assert len(os.listdir(there / ".versions")) == 2


LISTED_FIRST = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], symlinks=True)"
MADE_FIRST = """
import os, shutil, sys
# as file managers do: all is counted, and then each directory is made and listed again
def count(old):
    with os.scandir(old) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                count(entry.path)
def copy(old, new):
    os.mkdir(new)
    with os.scandir(old) as entries:
        for entry in list(entries):
            there = f"{new}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                copy(entry.path, there)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), there)
            else:
                with open(entry.path, "rb") as file, open(there, "xb") as to:
                    to.write(file.read())
                shutil.copystat(entry.path, there)
count(sys.argv[1])
copy(*sys.argv[1:])
"""


def by(script: str, old: Path, new: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, old, new], timeout=PATIENCE, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("script", [LISTED_FIRST, MADE_FIRST], ids=["copytree", "file manager"])
def test_programs_that_list_before_they_make_copy_too(talk: Talk, project: Path, script: str) -> None:
    there = project / "copy"
    by(script, talk.root, there)
    assert events(there) == events(talk.root)
    assert (there / "notes" / "todo").read_text() == "look again"
    assert (there / "artifacts" / "0.make.log").read_text() == "an output"
    assert '"green"' in (there / "metadata.json").read_text()
    assert (talk.root / "forks" / "copy").resolve() == there.resolve()
    (version,) = os.listdir(there / ".versions")
    assert version.endswith("-fork")
    by(script, project, project.parent / "again")
    assert sorted(os.listdir(project.parent / "again")) == sorted(os.listdir(project))
    assert events(project.parent / "again" / NAME) == events(talk.root)
    before = min(os.listdir(talk.root / ".versions"))
    by(script, talk.root / ".versions" / before, project / "as-it-was")
    assert events(project / "as-it-was") == events(talk.root / ".versions" / before)
    assert talk.errors == ""


def test_who_looks_at_one_before_making_another_gets_a_new_one(talk: Talk, project: Path) -> None:
    new = project / "new"
    assert sorted(os.listdir(talk.root))
    new.mkdir()
    assert os.listdir(new / "events") == []
    (new / "events" / "user.md").write_text("The first")
    assert sorted(os.listdir(talk.events))
    assert os.listdir(new / "events") == ["00001-user.md"]
    assert "forked_from" not in (new / "metadata.json").read_text()


def test_a_copy_of_a_version_is_a_fork_of_that(talk: Talk, project: Path) -> None:
    before = min(os.listdir(talk.root / ".versions"))
    copy(talk.mount, "-r", str(talk.root / ".versions" / before), str(project / "as-it-was"))
    there = project / "as-it-was"
    assert events(there) == events(talk.root / ".versions" / before)
    assert "Hello there" in (there / "events" / FIRST).read_text()
    assert (talk.root / "forks" / "as-it-was").resolve() == there.resolve()
    assert talk.errors == ""


def test_a_project_is_copied_with_its_conversations(talk: Talk, project: Path) -> None:
    top = project.parent
    copy(talk.mount, "-r", str(project), str(top / "again"))
    assert sorted(os.listdir(top / "again")) == sorted(os.listdir(project))
    assert events(top / "again" / NAME) == events(talk.root)
    assert (top / "again" / NAME / "notes" / "todo").read_text() == "look again"
    assert talk.errors == ""


def test_a_copy_that_ends_half_way_is_whole(talk: Talk, project: Path) -> None:
    script = """
import os, sys
old, new = sys.argv[1:]
os.mkdir(new)
os.listdir(old)
os.mkdir(f"{new}/events")
name = f"{new}/events/00001-user.md"
fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.write(fd, open(f"{old}/events/00001-user.md", "rb").read()[:20])
assert not os.path.exists(f"{new}/events/00002-assistant.md")
os._exit(1)
"""
    there = project / "half"
    done = subprocess.run([sys.executable, "-c", script, talk.root, there], timeout=PATIENCE, check=False)
    assert done.returncode == 1
    until(lambda: (there / "events" / SECOND).exists())
    assert {name: (there / "events" / name).read_bytes() for name in FILES} == {
        name: (talk.events / name).read_bytes() for name in FILES
    }
    assert len(os.listdir(there / ".versions")) == 1
    assert talk.errors == ""


def test_what_differs_from_what_is_copied_is_saved(talk: Talk, project: Path) -> None:
    script = """
import os, sys
old, new = sys.argv[1:]
os.mkdir(new)
os.listdir(old)
os.mkdir(f"{new}/events")
for name in sorted(os.listdir(f"{old}/events")):
    data = open(f"{old}/events/{name}", "rb").read()
    with open(f"{new}/events/{name}", "xb") as file:
        for part in (data[:50], data[50:].replace(b"third", b"fourth")):
            file.write(part)
            file.flush()
"""
    there = project / "other"
    subprocess.run([sys.executable, "-c", script, talk.root, there], timeout=PATIENCE, check=True)
    until(lambda: (there / "metadata.json").exists())
    assert "The fourth and last" in (there / "events" / LAST).read_text()
    assert (there / "events" / FIRST).read_bytes() == talk.first.read_bytes()
    assert (there / "events" / "mine.txt").read_text() == "between events"
    assert len(os.listdir(there / ".versions")) == 2


def test_a_program_that_makes_a_conversation_fills_it(talk: Talk, project: Path) -> None:
    new = project / "new"
    new.mkdir()
    (new / "events" / "user.md").write_text("The first")
    # it may list others then
    assert sorted(os.listdir(talk.root))
    assert os.listdir(new / "events") == ["00001-user.md"]
    assert "forked_from" not in (new / "metadata.json").read_text()


@pytest.fixture(autouse=True)
def sound(talk: Talk) -> Iterator[None]:
    yield
    talk.mount.check_alive()
    # every commit is as sound as it was
    store = talk.mount.store
    subprocess.run(["cp", "-a", store, store.with_name("copied")], check=True, timeout=PATIENCE)
    with new_store(store.with_name("copied")) as opened:
        assert fsck(opened) == []
