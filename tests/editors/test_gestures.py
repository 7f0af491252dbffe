"""What people and programs do around saving: saves that change nothing or cannot be, crashes, two at once, new ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.loops import contents
from tests.editors.patterns import PATTERNS, Pattern, quiet
from tests.editors.place import MountedPlace, Place
from tests.editors.saver import HOW
from tests.editors.sessions import ANSWER, CALL, EVENTS, RESULT, USER
from tests.editors.terminal import PATIENCE
from tests.mount.mounting import until

LOOPS = Path(__file__).with_name("loops.py")
SAVER = Path(__file__).with_name("saver.py")
REWRITES = [pattern for pattern in PATTERNS if pattern.rewrite]


def needs(*programs: str) -> None:
    Pattern("", lambda place, name: None, bytes, programs).check_needs()


# -- saves that change nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", REWRITES, ids=lambda pattern: pattern.name)
def test_the_same_bytes_are_no_version(mount: MountedPlace, pattern: Pattern) -> None:
    pattern.check_needs()
    assert pattern.rewrite is not None
    versions, payloads = mount.version_names(), mount.payloads()
    pattern.rewrite(mount, ANSWER, lambda old: old)
    assert mount.files() == mount.drawn
    assert mount.version_names() == versions
    mount.remount()
    assert mount.files() == mount.drawn
    assert mount.version_names() == versions
    assert mount.payloads() == payloads


@pytest.mark.parametrize(
    "command",
    [
        "touch $1",
        "touch -d 2020-02-02 $1",
        ": >> $1",
        "exec 3<>$1; exec 3>&-",
        "cat $1 > /dev/null",
        "truncate -s $(stat -c %s $1) $1",
        "flock $1 true",
        "mv $1 x && mv x $1",
        "cp -a $1 x && mv x $1",
        "sync $1; sync -d $1; sync .",
    ],
)
def test_what_changes_no_byte_is_no_version(mount: MountedPlace, command: str) -> None:
    versions = mount.version_names()
    mount.shell(command, ANSWER)
    time.sleep(1.5)
    assert mount.files() == mount.drawn
    assert mount.version_names() == versions
    mount.remount()
    assert mount.files() == mount.drawn
    assert mount.version_names() == versions


# -- every sort of event -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "word", "other"),
    [
        (USER, b"alpha", b"beta"),
        (ANSWER, b"longer", b"shorter"),
        (CALL, b"notes", b"'my notes'"),
        (RESULT, b"12 lines", b"13 lines"),
    ],
)
def test_every_sort_of_event_can_be_edited(mount: MountedPlace, name: str, word: bytes, other: bytes) -> None:
    versions = mount.versions()
    before = mount.payloads()
    mount.run("sed", "-i", f"s/{word.decode()}/{other.decode()}/", name)
    expected = mount.drawn | {name: mount.drawn[name].replace(word, other)}
    assert mount.files() == expected
    mount.remount()
    assert mount.files() == expected
    assert mount.versions() == versions + 1
    number = int(name[:5])
    after = mount.payloads()
    assert len(after) == len(before)
    assert {at for at in range(len(before)) if after[at] != before[at]} == {number - 1}
    # a result's text stands twice in its record, and nothing else of the record changed
    assert after[number - 1] == before[number - 1].replace(word, other)


# -- saves that cannot be ----------------------------------------------------------------------------------------------

BROKEN = b"---\nevent: 2\ntype: nonsense\n---\nThis is not how it began.\n"


def check_refused(mount: MountedPlace, versions: int) -> None:
    """Check that the event is as it was, and that what was to be saved is kept beside it, with the reason."""
    draft = f"{ANSWER}.draft"
    files = mount.files()
    assert files.pop(draft) == BROKEN
    for other in [other for other in files if other not in EVENTS]:
        del files[other]  # backups and the like
    assert files == mount.drawn
    assert mount.versions() == versions
    errors = "".join(path.read_text() for path in (mount.mount.root / ".convfs/errors").iterdir())
    assert ANSWER in errors
    assert "nonsense" in errors
    mount.remount()
    assert (mount.directory / draft).read_bytes() == BROKEN
    assert (mount.directory / ANSWER).read_bytes() == mount.drawn[ANSWER]
    assert mount.versions() == versions


@pytest.mark.parametrize("how", [how for how in HOW if how not in {"mapped_lazily", "inherited"}])
def test_what_cannot_be_read_is_refused_and_kept(mount: MountedPlace, how: str) -> None:
    versions = mount.versions()
    done = mount.run(sys.executable, str(SAVER), how, ANSWER, text=BROKEN, fails=True)
    assert b"[Errno 22]" in done.stderr
    check_refused(mount, versions)


@pytest.mark.parametrize("command", ["cp $2 $1", "mv $2 $1", "cat $2 > $1", "cp $2 x && mv x $1", "tee $1 < $2"])
def test_programs_learn_of_a_refusal(mount: MountedPlace, command: str) -> None:
    copy = mount.outside / "copy"
    copy.write_bytes(BROKEN)
    copy.chmod(0o600)
    versions = mount.versions()
    done = mount.run("bash", "-euc", command, "bash", ANSWER, str(copy), fails=True)
    assert b"Invalid argument" in done.stderr
    check_refused(mount, versions)


def test_vim_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("vim", "tmux")
    versions = mount.versions()
    with mount.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.type(":%d|0r! printf '%s' '" + BROKEN.decode().replace("\n", "\\n") + "' | sed '$a\\\\'")
        terminal.press("Enter")
        terminal.type(":$d")
        terminal.press("Enter")
        terminal.wait_for("nonsense")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(r"E514|E13|E212|[Cc]lose failed|E\d+:")
        terminal.press("Enter")
        terminal.type(":q!")
        terminal.press("Enter")
        terminal.wait_end()
    check_refused(mount, versions)


def test_nano_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("nano", "tmux")
    versions = mount.versions()
    with mount.terminal("nano", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.press("M-\\", "M-T")
        terminal.type(BROKEN.decode().removesuffix("\n"))
        terminal.press("C-o")
        terminal.wait_for("File Name to Write")
        terminal.press("Enter")
        terminal.wait_for(r"Error writing .*Invalid argument")
        terminal.press("C-x")
        terminal.type("n")
        terminal.wait_end()
    check_refused(mount, versions)


def test_emacs_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("emacs", "tmux")
    versions = mount.versions()
    with mount.terminal("emacs", "-nw", "-Q", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.press("C-x", "h", "C-w")
        terminal.type(BROKEN.decode())
        terminal.press("C-x", "C-s")
        terminal.wait_for(r"Invalid argument")
        terminal.press("C-x", "C-c")
        terminal.wait_for(r"Save file .*\?")
        terminal.type("n")
        terminal.wait_for(r"exit anyway\?")
        terminal.type("yes")
        terminal.press("Enter")
        terminal.wait_end()
    check_refused(mount, versions)


def test_a_refused_save_is_saved_once_it_is_right(mount: MountedPlace) -> None:
    """The same editor, after its first save was refused, corrects the text and saves again."""
    needs("vim", "tmux")
    versions = mount.versions()
    with mount.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.type(":3s/assistant/nonsense/|w")
        terminal.press("Enter")
        terminal.wait_for(r"E\d+:")
        terminal.press("Enter")
        terminal.type(":3s/nonsense/assistant/|s/^/&/|$s/omega/OMEGA/|w")
        terminal.press("Enter")
        terminal.wait_for(r"\d+L, \d+B written")
        terminal.type(":q")
        terminal.press("Enter")
        terminal.wait_end()
    expected = mount.drawn[ANSWER].replace(b"omega", b"OMEGA")
    assert (mount.directory / ANSWER).read_bytes() == expected
    assert mount.versions() == versions + 1
    mount.remount()
    assert (mount.directory / ANSWER).read_bytes() == expected
    assert mount.versions() == versions + 1


# -- one after the other, and two at once ------------------------------------------------------------------------------


def test_what_was_closed_is_what_another_process_reads(here: Place) -> None:
    count = int(os.environ.get("CONVFS_TEST_LOOPS", "2000"))
    versions = here.versions()
    here.run(sys.executable, str(LOOPS), ANSWER, str(count))
    expected = contents(here.drawn[ANSWER], count)[-1]
    assert here.files() == here.drawn | {ANSWER: expected}
    if isinstance(here, MountedPlace):
        assert versions is not None
        assert here.versions() == versions + count
        here.remount()
        assert here.files() == here.drawn | {ANSWER: expected}
        assert here.versions() == versions + count


def test_vim_notices_that_another_has_saved(here: Place) -> None:
    needs("vim", "tmux")
    with here.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.type("oMine.")
        terminal.press("Escape")
        time.sleep(1.1)  # vim looks at seconds
        here.shell("sed -i s/alpha/ALEPH/ $1", ANSWER)
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for("has been changed since reading it")
        terminal.type("n")
        terminal.press("Enter")
        terminal.type(":q!")
        terminal.press("Enter")
        terminal.wait_end()
    assert (here.directory / ANSWER).read_bytes() == here.drawn[ANSWER].replace(b"alpha", b"ALEPH")


def test_vim_shows_what_another_has_saved(here: Place) -> None:
    needs("vim", "tmux")
    with here.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        here.shell("sed -i 's/alpha/ALEPH/' $1", ANSWER)
        terminal.type(":e")
        terminal.press("Enter")
        terminal.wait_for("ALEPH")
        terminal.type(":q")
        terminal.press("Enter")
        terminal.wait_end()
        quiet(terminal)


def test_emacs_notices_that_another_has_saved(here: Place) -> None:
    needs("emacs", "tmux")
    with here.terminal("emacs", "-nw", "-Q", ANSWER) as terminal:
        terminal.wait_for("alpha")
        here.shell("sed -i s/alpha/ALEPH/ $1", ANSWER)
        terminal.type("x")
        terminal.wait_for("changed on disk; really edit the buffer")
        terminal.type("n")
        terminal.wait_for("File changed on disk: ")
        terminal.press("C-g")
        terminal.wait_for("Quit$")
        terminal.press("C-x", "C-c")
        terminal.wait_end()


def test_emacs_locks_what_is_being_edited(here: Place) -> None:
    needs("emacs", "tmux")
    lock = here.directory / f".#{ANSWER}"
    with here.terminal("emacs", "-nw", "-Q", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.type("x")
        until(lambda: os.path.islink(lock))
        assert "@" in os.readlink(lock)
        with here.terminal("emacs", "-nw", "-Q", ANSWER) as other:
            other.wait_for("alpha")
            other.type("y")
            other.wait_for(r"locked by .*\?|steal")
            other.type("q")
            other.press("C-x", "C-c")
            other.wait_end()
        terminal.press("C-x", "u", "C-x", "C-s")
        until(lambda: not os.path.islink(lock))
        terminal.press("C-x", "C-c")
        terminal.wait_end()
    assert here.files() == here.drawn


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_vim_recovers_what_was_typed_before_it_was_killed(here: Place) -> None:
    needs("vim", "tmux")
    swap = here.directory / f".{ANSWER}.swp"
    running = subprocess.Popen(
        ["vim", "-X", "--not-a-term", "--cmd", "set updatecount=1", ANSWER],
        cwd=here.directory,
        env=here.environment | {"TERM": "dumb"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert running.stdin is not None
        running.stdin.write(b"GoNever saved.\x1b:preserve\r")
        running.stdin.flush()
        until(lambda: swap.exists() and b"Never saved." in swap.read_bytes())
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait(PATIENCE)
        assert running.stdin is not None
        running.stdin.close()
    if isinstance(here, MountedPlace):
        here.remount()
    assert swap.exists()
    versions = here.versions()
    with here.terminal("vim", "-r", ANSWER) as terminal:
        terminal.wait_for("Recovery completed")
        terminal.press("Enter")
        terminal.wait_for("Never saved.")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(r"\d+L, \d+B written")
        terminal.type(":q")
        terminal.press("Enter")
        terminal.wait_end()
    swap.unlink()
    assert here.files() == here.drawn | {ANSWER: here.drawn[ANSWER] + b"Never saved.\n"}
    if versions is not None:
        assert here.versions() == versions + 1


# -- new events --------------------------------------------------------------------------------------------------------


def check_new(mount: MountedPlace, name: str, content: bytes) -> None:
    """Check that there is one event more, with this content."""
    files = mount.files()
    assert files.pop(name).partition(b"\n---\n")[2] == content
    assert files == mount.drawn


def test_vim_writes_a_new_event_and_edits_it(mount: MountedPlace) -> None:
    needs("vim", "tmux")
    versions = mount.versions()
    with mount.terminal("vim", "user.md") as terminal:
        terminal.wait_for(r'"user.md" \[New\]')
        terminal.type("iAnother question.")
        terminal.press("Escape")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(r" 1L, \d+B written")
        check_listed(mount, "00007-user.md")
        assert mount.versions() == versions + 1
        terminal.type("oAnd one more.")
        terminal.press("Escape")
        terminal.type(":w")
        terminal.press("Enter")
        terminal.wait_for(r" 2L, \d+B written")
        terminal.type(":q")
        terminal.press("Enter")
        terminal.wait_end()
        quiet(terminal)
    assert mount.versions() == versions + 2
    assert b"Another question.\nAnd one more.\n" in (mount.directory / "user.md").read_bytes()
    mount.remount()
    check_new(mount, "00007-user.md", b"Another question.\nAnd one more.\n")
    assert mount.versions() == versions + 2
    assert len(mount.payloads()) == 7


def check_listed(mount: MountedPlace, name: str) -> None:
    events = [listed for listed in os.listdir(mount.directory) if not listed.startswith(".")]
    assert sorted(events) == sorted([*EVENTS, name])


@pytest.mark.parametrize(
    "write",
    [
        lambda mount: mount.shell("echo Hello. > user.md"),
        lambda mount: mount.shell("echo Hello. > 00120-user.md"),
        lambda mount: mount.shell("echo Hello. | tee user.md > /dev/null"),
        lambda mount: mount.shell("echo Hello. > $1; cp $1 user.md", str(mount.outside / "new")),
        lambda mount: mount.shell("echo Hello. > x; mv x user.md"),
        lambda mount: mount.shell("echo Hello. > $1; install -m 600 $1 user.md", str(mount.outside / "new")),
        lambda mount: mount.shell("echo Hello. > $1; rsync $1 user.md", str(mount.outside / "new")),
    ],
    ids=["echo", "beyond the head", "tee", "cp", "mv", "install", "rsync"],
)
def test_a_new_event_is_one_version(mount: MountedPlace, write: Callable[[MountedPlace], None]) -> None:
    versions = mount.versions()
    write(mount)
    assert mount.versions() == versions + 1
    check_listed(mount, "00007-user.md")
    mount.remount()
    check_new(mount, "00007-user.md", b"Hello.\n")
    assert mount.versions() == versions + 1


def test_a_number_that_is_taken_is_refused(mount: MountedPlace) -> None:
    versions = mount.versions()
    done = mount.run("bash", "-c", "set -o noclobber; echo Hello. > 00002-user.md", fails=True)
    assert b"exist" in done.stderr or b"overwrite" in done.stderr
    assert mount.files() == mount.drawn
    assert mount.versions() == versions


def test_a_removed_event_is_one_version(mount: MountedPlace) -> None:
    versions = mount.versions()
    mount.shell("rm $1", ANSWER)
    expected = {name: data for name, data in mount.drawn.items() if name != ANSWER}
    assert mount.files() == expected
    until(lambda: mount.versions() == versions + 1)
    mount.remount()
    assert mount.files() == expected
    assert mount.versions() == versions + 1
    assert (mount.version(0) / "events" / ANSWER).read_bytes() == mount.drawn[ANSWER]
