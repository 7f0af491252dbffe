"""New events, made as files."""

import errno
import os
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import FIRST, LAST, SECOND, Talk
from tests.fusefs.tree.mounting import errno_of, until, user

NEW = "00005-user.md"


@pytest.mark.parametrize("name", ["user.md", "00005-user.md", "00120-user.md", "00099-assistant.md", "assistant.md"])
def test_a_new_file_is_appended(talk: Talk, name: str) -> None:
    path = talk.events / name
    path.write_text("One thing more\n")
    listed = "00005-assistant.md" if "assistant" in name else NEW
    assert talk.listed == [FIRST, SECOND, LAST, listed]
    assert talk.new_versions == 1
    assert path.read_text() == "One thing more\n"
    assert (talk.events / listed).read_text() == "One thing more\n"
    assert path.stat().st_ino == (talk.events / listed).stat().st_ino
    assert "One thing more" in talk.transcript
    # the name that it was made with stays, to edit it
    path.write_text("One thing less\n")
    assert (talk.events / listed).read_text() == "One thing less\n"
    assert talk.new_versions == 2
    assert talk.listed == [FIRST, SECOND, LAST, listed]


def test_it_follows_the_last_one(talk: Talk) -> None:
    (talk.events / "user.md").write_text("One thing more\n")
    record = (talk.root / ".records" / "00005.json").read_text()
    assert '"parentUuid":"u3"' in record
    assert '"sessionId":"0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90"' in record


def test_numbers_that_are_taken(talk: Talk) -> None:
    for name in ("00003-user.md", "00002-user.md"):
        assert errno_of(lambda name=name: os.mknod(talk.events / name)) == errno.EEXIST
    assert errno_of(lambda: os.mknod(talk.events / "00077-what.md")) == errno.EINVAL
    assert talk.listed == [FIRST, SECOND, LAST]


def test_renamed_into_place(talk: Talk) -> None:
    (talk.events / "tmp").write_text("One thing more\n")
    os.rename(talk.events / "tmp", talk.events / "user.md")
    assert talk.listed == [FIRST, SECOND, LAST, NEW]
    assert (talk.events / "user.md").read_text() == "One thing more\n"
    assert talk.new_versions == 1


def test_renamed_into_place_while_it_is_open(talk: Talk) -> None:
    with open(talk.events / "tmp", "wb", buffering=0) as file:
        file.write(b"One thing")
        os.rename(talk.events / "tmp", talk.events / "user.md")
        file.write(b" more\n")
        assert talk.new_versions == 0
    assert talk.listed == [FIRST, SECOND, LAST, NEW]
    assert (talk.events / NEW).read_text() == "One thing more\n"
    with open(talk.events / "assistant.md", "wb", buffering=0) as file:
        file.write(b"elsewhere\n")
        os.rename(talk.events / "assistant.md", talk.first)
    assert talk.first.read_text() == "elsewhere\n"
    assert talk.listed == [FIRST, SECOND, LAST, NEW]
    with open(talk.events / "assistant.md", "wb", buffering=0) as file:
        file.write(b"not an event\n")
        os.rename(talk.events / "assistant.md", talk.events / "notes")
    assert talk.listed == [FIRST, SECOND, LAST, NEW, "notes"]
    assert talk.new_versions == 2


def test_saved_again_by_moving_the_old_one_away(talk: Talk) -> None:
    path, backup = talk.events / "user.md", talk.events / "user.md~"
    path.write_text("one\n")
    os.rename(path, backup)
    path.write_text("two\n")
    backup.unlink()
    assert (talk.events / NEW).read_text() == "two\n"
    assert talk.listed == [FIRST, SECOND, LAST, NEW]
    assert talk.new_versions == 2


def test_what_cannot_be_an_event_stays_a_file(talk: Talk) -> None:
    path = talk.events / "reasoning.md"
    assert errno_of(lambda: path.write_text("---\nwrong\n")) == errno.EINVAL
    assert path.read_text() == "---\nwrong\n"
    assert talk.new_versions == 0
    assert "reasoning.md" in talk.errors
    path.unlink()
    (talk.events / "user.md").touch()
    assert talk.listed == [FIRST, SECOND, LAST, "user.md"]
    assert talk.new_versions == 0
    (talk.events / "user.md").write_text("now\n")
    assert talk.listed == [FIRST, SECOND, LAST, NEW]


def test_several_in_a_row_and_from_a_shell(talk: Talk) -> None:
    for number in range(5):
        talk.shell(f"echo {number} > user-{number}; mv user-{number} {5 + number:05}-user.md")
    talk.shell("{ echo a; ls > /dev/null; echo b; } > assistant.md")
    assert len(talk.listed) == 9
    assert talk.new_versions == 6
    assert (talk.events / "00010-assistant.md").read_text() == "a\nb\n"
    talk.mount.tell(append=[1, [user("news", 9)]])
    until(lambda: "00011-user.md" in talk.listed)
    assert (talk.events / "00010-assistant.md").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("one", "other"), [("user.md", NEW), (NEW, "user.md"), ("00005-u.md", NEW), (NEW, "00005-u.md")]
)
def test_what_is_done_by_one_name_is_seen_by_the_others(talk: Talk, one: str, other: str) -> None:
    (talk.events / "user.md").write_text("one\n")
    for number in range(3):
        assert (talk.events / other).read_bytes() == (talk.events / one).read_bytes()
        (talk.events / "tmp").write_text(f"renamed {number}\n")
        (talk.events / "tmp").rename(talk.events / one)
        until(lambda: (talk.events / other).stat().st_ino == (talk.events / one).stat().st_ino)
        assert (talk.events / other).read_text() == f"renamed {number}\n"
        (talk.events / one).rename(talk.events / "backup")
        (talk.events / one).write_text(f"written {number}\n")
        until(lambda: (talk.events / other).stat().st_ino == (talk.events / one).stat().st_ino)
        (talk.events / "backup").unlink()
        (talk.events / other).write_text(f"by the other {number}\n")
        assert (talk.events / one).read_text() == f"by the other {number}\n"
    assert talk.new_versions == 10
    assert talk.listed == [FIRST, SECOND, LAST, NEW]


def test_removed_again(talk: Talk) -> None:
    (talk.events / "user.md").write_text("one\n")
    (talk.events / "user.md").unlink()
    talk.becomes(2)
    assert talk.listed == [FIRST, SECOND, LAST]
    assert not Path(talk.events / "user.md").exists()
