"""Events that are removed, and those that come back."""

import errno
import os
import time
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import FIRST, LAST, SECOND, Talk, changed
from tests.fusefs.tree.mounting import errno_of, until


def test_an_event_that_is_removed_is_gone_at_once_and_a_version_later(talk: Talk) -> None:
    talk.second.unlink()
    assert talk.listed == [FIRST, LAST]
    assert not talk.second.exists()
    assert talk.new_versions == 0
    time.sleep(0.4)
    assert talk.new_versions == 0
    talk.becomes(1)
    assert talk.listed == [FIRST, LAST]
    until(lambda: "greetings" not in talk.transcript)
    assert talk.first.exists()
    time.sleep(1.5)
    assert talk.new_versions == 1


def test_syncing_the_directory_removes_it_now(talk: Talk) -> None:
    talk.second.unlink()
    talk.sync()
    assert talk.new_versions == 1
    assert talk.listed == [FIRST, LAST]


def test_what_is_removed_together_is_one_version(talk: Talk) -> None:
    talk.shell("rm *.md")
    assert talk.listed == []
    talk.becomes(1)
    assert talk.listed == []


def test_whoever_has_it_open_keeps_it(talk: Talk) -> None:
    before = talk.second.read_bytes()
    with open(talk.second, "rb", buffering=0) as old, open(talk.second, "r+b", buffering=0) as writer:
        talk.second.unlink()
        assert old.read() == before
        writer.write(b"nowhere")
        assert os.fstat(old.fileno()).st_nlink == 0
    talk.becomes(1)
    assert talk.listed == [FIRST, LAST]


def test_removed_and_made_again_is_an_edit(talk: Talk) -> None:
    text = changed(talk.first)
    with open(talk.first, "rb") as old:
        talk.first.unlink()
        with open(talk.first, "xb") as file:
            file.write(text)
        assert talk.first.read_bytes() == text
        assert b"Hello" in old.read()
    assert talk.new_versions == 1
    talk.sync()
    assert talk.new_versions == 1
    assert talk.first.read_bytes() == text
    talk.first.unlink()
    with open(talk.first, "xb") as file:
        file.write(text)
    time.sleep(1.5)
    assert talk.new_versions == 1


def test_removed_and_renamed_into_place_is_an_edit(talk: Talk) -> None:
    (talk.events / "tmp").write_bytes(text := changed(talk.first))
    talk.first.unlink()
    os.rename(talk.events / "tmp", talk.first)
    talk.sync()
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1


def test_moved_away_and_written_anew_is_an_edit(talk: Talk) -> None:
    before, text = talk.first.read_bytes(), changed(talk.first)
    status = talk.first.stat()
    backup = talk.events / f"{FIRST}~"
    for _ in range(3):
        os.rename(talk.first, backup)
        assert backup.read_bytes() == before
        assert backup.stat().st_mtime_ns == status.st_mtime_ns
        with open(talk.first, "xb") as file:
            file.write(text)
        backup.unlink()
        assert talk.listed == [FIRST, SECOND, LAST]
        before, text = text, before
        status = talk.first.stat()
    talk.sync()
    assert talk.first.read_bytes() == before
    assert talk.new_versions == 3


def test_moved_away_and_back_changes_nothing(talk: Talk) -> None:
    before = talk.first.read_bytes()
    backup = talk.events / f"{FIRST}~"
    ino = talk.first.stat().st_ino
    os.rename(talk.first, backup)
    assert talk.listed == [f"{FIRST}~", SECOND, LAST]
    assert backup.stat().st_ino == ino
    os.rename(backup, talk.first)
    assert talk.first.read_bytes() == before
    assert talk.first.stat().st_ino == ino
    talk.sync()
    assert talk.listed == [FIRST, SECOND, LAST]
    assert talk.new_versions == 0


def test_moved_away_for_good_is_removed_and_kept_as_a_file(talk: Talk) -> None:
    before = talk.first.read_bytes()
    os.rename(talk.first, talk.events / "kept")
    talk.becomes(1)
    assert (talk.events / "kept").read_bytes() == before
    assert talk.listed == [SECOND, LAST, "kept"]


def test_one_that_is_being_written_while_it_is_moved_away(talk: Talk) -> None:
    with open(talk.first, "r+b", buffering=0) as file:
        file.truncate(0)
        file.write(b"to the backup")
        os.rename(talk.first, talk.events / "kept")
        file.write(b", more")
    assert (talk.events / "kept").read_bytes() == b"to the backup, more"
    talk.becomes(1)


@pytest.mark.parametrize(
    "command",
    [
        "tar xf {}/a.tar",
        "install -m 600 {0}/" + FIRST + " .",
        "cp --remove-destination {0}/" + FIRST + " .",
        "cp -a {0}/" + FIRST + " .",
        "rsync -t {0}/" + FIRST + " .",
        "rsync --inplace {0}/" + FIRST + " .",
        "mv {0}/" + FIRST + " .",
    ],
)
def test_programs_that_replace(talk: Talk, tmp_path: Path, command: str) -> None:
    text = changed(talk.first)
    (tmp_path / FIRST).write_bytes(text)
    os.utime(tmp_path / FIRST, (1_700_000_000, 1_700_000_000))
    talk.mount.run("tar", "-C", str(tmp_path), "-cf", str(tmp_path / "a.tar"), FIRST)
    talk.shell(command.format(tmp_path))
    assert talk.first.read_bytes() == text
    assert talk.listed == [FIRST, SECOND, LAST]
    talk.sync()
    assert talk.new_versions == 1
    assert talk.first.read_bytes() == text


def test_what_is_removed_stays_removed_after_a_restart(talk: Talk) -> None:
    talk.second.unlink()
    talk.becomes(1)
    talk.shell("rm -f " + SECOND)
    assert talk.listed == [FIRST, LAST]


# -- coming back -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gone(talk: Talk) -> bytes:
    """Delete the second event; return what its file was."""
    text = talk.second.read_bytes()
    os.unlink(talk.second)
    talk.sync()
    assert talk.new_versions == 1
    assert not talk.second.exists()
    return text


@pytest.mark.parametrize(
    "script",
    [
        "cp {old} .",
        "cp -a {old} .",
        "cat {old} > {name}",
        "install -m 600 {old} {name}",
        "cp {old} tmp; mv tmp {name}",
        "cp {old} tmp; mv -n tmp {name}",
        "cp {old} tmp; tar cf - --transform=s/tmp/{name}/ tmp | tar xf - ; rm tmp",
        "rsync --inplace {old} {name}",
        "rsync {old} {name}",
        "set -C; cat {old} > {name}",
    ],
)
def test_a_deleted_event_comes_back_when_its_file_does(talk: Talk, gone: bytes, script: str) -> None:
    if "rsync" in script and talk.mount.run("which", "rsync", check=False).returncode:
        pytest.skip("there is no rsync")
    first = min(os.listdir(talk.root / ".versions"))
    talk.shell(script.format(old=f"../.versions/{first}/events/{SECOND}", name=SECOND))
    assert talk.second.read_bytes() == gone
    assert talk.listed == [FIRST, SECOND, LAST]
    assert talk.new_versions == 1
    assert "General greetings" in talk.transcript


def test_it_may_say_something_else_then(talk: Talk, gone: bytes) -> None:
    text = gone.replace(b"General", b"Other")
    talk.second.write_bytes(text)
    assert talk.second.read_bytes() == text
    assert talk.new_versions == 1
    assert "Other greetings" in (talk.root / ".records" / "00002.json").read_text()
    os.unlink(talk.second)
    talk.becomes(2)
    talk.second.write_text("The text alone\n")
    assert talk.second.read_text() == "The text alone\n"
    assert talk.listed == [FIRST, SECOND, LAST]
    assert talk.new_versions == 2


def test_what_it_cannot_be_is_refused(talk: Talk, gone: bytes) -> None:
    wrong = gone.replace(b"event: 2", b"event: 7")
    with open(talk.second, "wb", buffering=0) as file:
        file.write(wrong)
        assert talk.second.read_bytes() == wrong
        assert errno_of(file.close) == errno.EINVAL
    assert (talk.events / f"{SECOND}.draft").read_bytes() == wrong
    until(lambda: not talk.second.exists())
    talk.shell(f": > {SECOND}; cp {FIRST} tmp")
    until(lambda: not talk.second.exists())
    assert errno_of(lambda: os.rename(talk.events / "tmp", talk.second)) == errno.EINVAL
    # bookkeeping was never a file
    assert errno_of(lambda: (talk.events / "00003-user.md").write_bytes(gone)) == errno.EEXIST
    talk.shell(f"rm tmp; touch {SECOND}; cp ../.versions/0001*/events/{SECOND} .")
    assert talk.second.read_bytes() == gone
    assert talk.new_versions == 1


@pytest.mark.parametrize("how", ["moved away", "removed", "renamed onto"])
def test_a_save_that_takes_long_is_one_version(talk: Talk, how: str) -> None:
    text, before = changed(talk.first), talk.first.read_bytes()
    backup = talk.events / f"{FIRST}~"
    if how == "removed":
        talk.first.unlink()
    else:
        os.rename(talk.first, backup)
    # longer than any program takes on a line that is not slow
    talk.becomes(1)
    assert FIRST not in talk.listed
    if how == "renamed onto":
        (talk.events / "tmp").write_bytes(text)
        os.rename(talk.events / "tmp", talk.first)
    else:
        with open(talk.first, "xb") as file:
            file.write(text)
    talk.sync()
    assert talk.first.read_bytes() == text
    assert talk.new_versions == 1
    assert [name[-10:] for name in talk.shell("ls ../.versions").split()[1:]] == ["edit-00001"]
    if how != "removed":
        assert backup.read_bytes() == before


def test_what_is_made_again_of_several_that_were_removed_is_a_version_more(talk: Talk) -> None:
    text = changed(talk.first)
    talk.shell("rm 00001*.md 00002*.md")
    talk.becomes(1)
    talk.first.write_bytes(text)
    talk.sync()
    assert talk.new_versions == 2
