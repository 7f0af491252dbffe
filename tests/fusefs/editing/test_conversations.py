"""Whole conversations: made, forked, renamed, removed, brought back."""

import errno
import os
import time

import pytest

from tests.fusefs.editing.talk import FIRST, LAST, NAME, SECOND, Talk, changed
from tests.fusefs.tree.mounting import errno_of, until


def test_a_fork_at_the_end(talk: Talk) -> None:
    os.mkdir(talk.root / "forks" / "another-way")
    fork = talk.root.parent / "another-way"
    until(lambda: os.listdir(talk.root / "forks") == ["another-way"])
    assert os.readlink(talk.root / "forks" / "another-way") == "../../../project/another-way"
    assert sorted(os.listdir(fork / "events")) == talk.listed
    (fork / "events" / "user.md").write_text("only here\n")
    assert sorted(os.listdir(talk.root / "forks" / "another-way" / "events")) == [FIRST, SECOND, LAST, "00005-user.md"]
    assert talk.listed == [FIRST, SECOND, LAST]
    text = changed(talk.first)
    talk.first.write_bytes(text)
    assert b"Hello" in (fork / "events" / FIRST).read_bytes()
    assert errno_of(lambda: os.mkdir(talk.root / "forks" / "another-way")) == errno.EEXIST
    assert errno_of(lambda: os.mkdir(talk.root / "forks" / NAME)) == errno.EEXIST


def test_a_fork_at_an_event(talk: Talk) -> None:
    os.mkdir(talk.root / "forks" / "earlier@00002")
    fork = talk.root.parent / "earlier"
    assert sorted(os.listdir(fork / "events")) == [FIRST, SECOND]
    assert errno_of(lambda: os.mkdir(talk.root / "forks" / "later@00099")) == errno.ENOENT


def test_a_new_conversation(talk: Talk) -> None:
    projects = talk.mount.root / "conversations"
    os.mkdir(projects / "garden")
    os.mkdir(projects / "garden" / "what-to-plant")
    events = projects / "garden" / "what-to-plant" / "events"
    assert os.listdir(events) == []
    (events / "user.md").write_text("What grows in the shade?\n")
    (events / "assistant.md").write_text("Ferns.\n")
    assert sorted(os.listdir(events)) == ["00001-user.md", "00002-assistant.md"]
    transcript = talk.mount.root / "transcripts" / "garden" / "what-to-plant.md"
    until(lambda: "Ferns." in transcript.read_text())
    assert errno_of(lambda: os.mkdir(projects / "garden" / "what-to-plant")) == errno.EEXIST
    assert errno_of(lambda: os.mkdir(projects / "garden" / ".aside")) == errno.EINVAL
    assert errno_of(lambda: os.rmdir(projects / "garden")) == errno.ENOTEMPTY
    os.mkdir(projects / "empty")
    os.rmdir(projects / "empty")
    assert sorted(os.listdir(projects)) == ["garden", "project"]


def test_a_conversation_is_renamed_and_moved(talk: Talk) -> None:
    projects = talk.mount.root / "conversations"
    (talk.events / "notes").write_text("scratch goes along")
    ino = talk.root.stat().st_ino
    os.rename(talk.root, projects / "project" / "other-name")
    assert (projects / "project" / "other-name").stat().st_ino == ino
    assert not talk.root.exists()
    os.mkdir(projects / "elsewhere")
    talk.mount.run("mv", str(projects / "project" / "other-name"), str(projects / "elsewhere"))
    moved = projects / "elsewhere" / "other-name"
    assert b"Hello" in (moved / "events" / FIRST).read_bytes()
    assert (moved / "events" / "notes").read_text() == "scratch goes along"
    until(lambda: (talk.mount.root / "transcripts" / "elsewhere" / "other-name.md").exists())
    os.mkdir(projects / "elsewhere" / "taken")
    assert errno_of(lambda: os.rename(moved, projects / "elsewhere" / "taken")) != 0
    assert moved.exists()


@pytest.mark.parametrize("command", ["rm -r", "rm -rf"])
def test_a_conversation_is_removed_as_a_whole_and_brought_back(talk: Talk, command: str) -> None:
    before = {name: (talk.events / name).read_bytes() for name in talk.listed}
    versions = os.listdir(talk.root / ".versions")
    talk.shell(f"cd ../..; {command} {NAME}")
    assert not talk.root.exists()
    assert NAME not in os.listdir(talk.root.parent)
    trash = talk.mount.root / ".convfs" / "trash"
    assert os.listdir(trash) == [NAME]
    time.sleep(1.5)
    talk.mount.run("mv", str(trash / NAME), str(talk.root))
    assert os.listdir(trash) == []
    assert {name: (talk.events / name).read_bytes() for name in talk.listed} == before
    assert os.listdir(talk.root / ".versions") == versions
    assert sorted(os.listdir(talk.root)) == ["events", "events.json", "forks", "metadata.json", "resources"]


def test_what_cannot_be_removed_alone_is_there_again(talk: Talk) -> None:
    talk.mount.run("rm", str(talk.root / "metadata.json"))
    assert "metadata.json" not in os.listdir(talk.root)
    until(lambda: "metadata.json" in os.listdir(talk.root))
    assert errno_of(lambda: os.rmdir(talk.events)) == errno.ENOTEMPTY
    assert errno_of(lambda: os.rmdir(talk.root)) == errno.ENOTEMPTY
