"""Gestures around saving: saves that change nothing or cannot be, crashes, two at once, new ones."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.loops import contents
from tests.editors.patterns import PATTERNS, Pattern, head, quiet
from tests.editors.place import MountedPlace, Place
from tests.editors.saver import HALF_CLOSED, HOW
from tests.editors.sessions import ANSWER, CALL, EVENTS, LARGE, RESULT, USER
from tests.editors.terminal import PATIENCE
from tests.fusefs.tree.mounting import REPOSITORY, errno_of, until

LOOPS = Path(__file__).with_name("loops.py")
SAVER = Path(__file__).with_name("saver.py")
REWRITES = [pattern for pattern in PATTERNS if pattern.rewrite]


def needs(*programs: str) -> None:
    Pattern("", lambda place, name: None, bytes, programs).check_needs()


# -- saves that change nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", REWRITES, ids=lambda pattern: pattern.name)
def test_the_same_bytes_are_no_version(unchanged: MountedPlace, pattern: Pattern) -> None:
    pattern.check_needs()
    assert pattern.rewrite is not None
    pattern.rewrite(unchanged, ANSWER, lambda old: old)


def test_what_changes_no_byte_is_no_version(unchanged: MountedPlace) -> None:
    versions = unchanged.version_names()
    for command in (
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
    ):
        unchanged.shell(command, ANSWER)
        assert unchanged.version_names() == versions, command
    time.sleep(1.2)  # longer than a removed event is waited for


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


def test_what_was_saved_stays_so_while_it_is_mounted(mount: MountedPlace) -> None:
    """After that it is drawn anew: with a newline at its end, and with a head."""
    mount.shell("printf 'No head, no newline.' > $1", ANSWER)
    status = (mount.directory / ANSWER).stat()
    for _ in range(3):
        time.sleep(0.2)
        assert (mount.directory / ANSWER).read_bytes() == b"No head, no newline."
        assert mount.read_past_the_cache(ANSWER) == b"No head, no newline."
        after = (mount.directory / ANSWER).stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (status.st_ino, status.st_size, status.st_mtime_ns)
        mount.mount.make_kernel_forget()
    mount.remount()
    drawn = head(mount.drawn[ANSWER]) + b"No head, no newline.\n"
    assert (mount.directory / ANSWER).read_bytes() == drawn
    assert (mount.directory / ANSWER).stat().st_size == len(drawn)
    assert mount.versions() == 2


def test_the_command_counts_the_same_versions(mount: MountedPlace) -> None:
    mount.shell("sed -i s/alpha/ALEPH/ $1; echo more >> $2", ANSWER, USER)
    names = [name[:4] for name in mount.version_names()]
    mount.remount()
    mount.__exit__(None, None, None)
    command = [sys.executable, "-m", "fusefs.cli", "--store", str(mount.store), "log", "--json", "1"]
    done = subprocess.run(
        command,
        env=mount.environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    log = json.loads(done.stdout)
    assert [f"{version['version']:04}" for version in log] == names
    assert [version["event"] for version in log[1:]] == [int(ANSWER[:5]), int(USER[:5])]
    mount.__enter__()


# -- saves that cannot be ----------------------------------------------------------------------------------------------

BROKEN = (b"type: assistant", b"type: nonsense")
"""A text in the place of something in the head, which then says nothing any more."""

SEEN_AT_CLOSE = [how for how in HOW if how not in {"mapped", "mapped_lazily", "duplicated", "parent_and_child"}]
"""The ways to save in which nothing is written after the last close."""


def broken(data: bytes) -> bytes:
    assert BROKEN[0] in data
    return data.replace(*BROKEN)


def check_refused(mount: MountedPlace, versions: int, text: bytes, reason: str = "nonsense") -> None:
    """Check that the event is as it was, and that what was to be saved is kept beside it, with the reason."""
    draft = f"{ANSWER}.draft"
    # it is listed while the program runs, and there all the same
    assert (mount.directory / draft).read_bytes() == text
    assert {name: data for name, data in mount.files().items() if name in EVENTS} == mount.drawn
    assert not (mount.directory / f"{draft}-2").exists()
    assert mount.versions() == versions
    errors = "".join(path.read_text() for path in (mount.mount.root / ".convfs/errors").iterdir())
    assert ANSWER in errors
    assert reason in errors
    mount.remount()
    assert draft not in os.listdir(mount.directory)
    assert (mount.directory / draft).read_bytes() == text
    assert (mount.directory / ANSWER).read_bytes() == mount.drawn[ANSWER]
    assert mount.versions() == versions


@pytest.mark.parametrize("how", SEEN_AT_CLOSE)
def test_what_cannot_be_read_is_refused_and_kept(mount: MountedPlace, how: str) -> None:
    versions, text = mount.versions(), broken(mount.drawn[ANSWER])
    done = mount.run(sys.executable, str(SAVER), how, ANSWER, "tolerant" * (how == "inherited"), text=text, fails=True)
    assert b"Invalid argument" in done.stderr
    check_refused(mount, versions, text)


def test_what_nobody_can_be_told_of_is_kept(mount: MountedPlace) -> None:
    """The last bytes come from memory, when there is no close any more that could fail."""
    versions, text = mount.versions(), broken(mount.drawn[ANSWER])
    mount.run(sys.executable, str(SAVER), "mapped_lazily", ANSWER, "tolerant", text=text)
    check_refused(mount, versions, text)


@pytest.mark.parametrize("command", ["cp $2 $1", "mv $2 $1", "cat $2 > $1", "cp $2 x && mv x $1", "tee $1 < $2"])
def test_programs_learn_of_a_refusal(mount: MountedPlace, command: str) -> None:
    versions, text = mount.versions(), broken(mount.drawn[ANSWER])
    copy = mount.outside / "copy"
    copy.write_bytes(text)
    copy.chmod(0o600)
    done = mount.run("bash", "-euc", command, "bash", ANSWER, str(copy), fails=True)
    # mv has a text of its own for EINVAL
    assert b"Invalid argument" in done.stderr or b"cannot move" in done.stderr
    check_refused(mount, versions, text)


def test_vim_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("vim", "tmux")
    versions = mount.versions()
    with mount.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.type(":3s/assistant/nonsense/|w")
        terminal.press("Enter")
        terminal.wait_for(r"E514: Write error|E667: Fsync failed|E512: Close failed")
        terminal.press("Enter")
        terminal.type(":q!")
        terminal.press("Enter")
        terminal.wait_end()
    check_refused(mount, versions, broken(mount.drawn[ANSWER]))


def test_nano_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("nano", "tmux")
    versions = mount.versions()
    with mount.terminal("nano", "+3,1", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.press("C-k")
        terminal.type("type: nonsense")
        terminal.press("Enter", "C-o")
        terminal.wait_for("File Name to Write")
        terminal.press("Enter")
        terminal.wait_for(r"Error writing .*Invalid argument")
        terminal.press("C-x")
        terminal.wait_for("Save modified buffer")
        terminal.type("n")
        terminal.wait_end()
    check_refused(mount, versions, broken(mount.drawn[ANSWER]))


def test_emacs_tells_of_a_refusal(mount: MountedPlace) -> None:
    needs("emacs", "tmux")
    versions = mount.versions()
    with mount.terminal("emacs", "-nw", "-Q", "+3", ANSWER) as terminal:
        terminal.wait_for("alpha")
        terminal.press("C-k")
        terminal.type("type: nonsense")
        terminal.press("C-x", "C-s")
        terminal.wait_for(r"Invalid argument")
        terminal.press("C-x", "C-c")
        terminal.wait_for(r"Save file /")
        terminal.type("n")
        terminal.wait_for(r"exit anyway\?")
        terminal.type("yes")
        terminal.press("Enter")
        terminal.wait_end()
    check_refused(mount, versions, broken(mount.drawn[ANSWER]))


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
        terminal.type(":3s/nonsense/assistant/|s/^/&/|$s/omega/OMEGA/|w!")
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


@pytest.mark.parametrize("how", sorted(HALF_CLOSED))
def test_what_is_half_written_at_a_close_is_saved_when_it_is_whole(mount: MountedPlace, how: str) -> None:
    """A close in between may be told that there is no sense in the file yet; nothing is left of that at the end."""
    versions = mount.versions()
    text = mount.drawn[CALL].replace(b"cd notes", b"cd")
    mount.run(sys.executable, str(SAVER), how, CALL, "tolerant", text=text)
    assert mount.files() == mount.drawn | {CALL: text}
    assert mount.versions() == versions + 1
    mount.remount()
    assert mount.files() == mount.drawn | {CALL: text}
    assert mount.versions() == versions + 1


@pytest.mark.parametrize("name", [USER, ANSWER, RESULT, LARGE])
def test_emptying(here: Place, name: str) -> None:
    """A text may be empty: the event is there still."""
    versions = here.versions()
    here.shell("echo > $1", name)
    assert here.files() == here.drawn | {name: b"\n"}
    if isinstance(here, MountedPlace):
        assert here.versions() == (versions or 0) + 1
        here.remount()
        assert here.files() == here.drawn | {name: head(here.drawn[name]) + b"\n"}
        assert here.versions() == (versions or 0) + 1


def test_emptying_what_is_more_than_a_text(mount: MountedPlace) -> None:
    versions = mount.versions()
    mount.shell("echo > $1", CALL)  # bash closes without looking at what comes of it
    assert mount.files() == mount.drawn
    assert (mount.directory / f"{CALL}.draft").read_bytes() == b"\n"
    assert mount.versions() == versions


def test_a_file_that_is_cut_to_nothing_keeps_its_event(mount: MountedPlace) -> None:
    versions = mount.versions()
    for command, name in zip((": > $1", "truncate -s 0 $1", "cp /dev/null $1", "> $1 || true"), EVENTS, strict=False):
        mount.run("bash", "-uc", command, "bash", name)
    time.sleep(4)  # longer than what is written is waited for
    assert mount.versions() == versions
    mount.remount()
    assert {name: data for name, data in mount.files().items() if name in EVENTS} == mount.drawn
    assert mount.versions() == versions


def test_cut_to_nothing_by_one_program_and_written_by_the_next(mount: MountedPlace) -> None:
    versions = mount.versions()
    text = mount.drawn[ANSWER].replace(b"alpha", b"ALEPH")
    mount.run("bash", "-euc", ": > $1; cat > $1", "bash", ANSWER, text=text)
    assert mount.files() == mount.drawn | {ANSWER: text}
    assert mount.versions() == versions + 1
    mount.remount()
    assert mount.files() == mount.drawn | {ANSWER: text}
    assert mount.versions() == versions + 1


def test_a_listing_between_two_writes(here: Place) -> None:
    """Text that is written so far is seen by others, and later text comes after it."""
    versions, old = here.versions(), here.drawn[ANSWER]
    here.shell("{ printf one; ls -l $1; printf two; } >> $1", ANSWER)
    data = (here.directory / ANSWER).read_bytes()
    listed = data.removeprefix(old + b"one").removesuffix(b"two").decode().split()
    assert (listed[0], listed[4], listed[-1]) == ("-rw-------", str(len(old) + len("one")), ANSWER)
    assert data == old + b"one" + data[len(old) + len("one") : -len("two")] + b"two"
    assert here.files() == here.drawn | {ANSWER: data}
    if isinstance(here, MountedPlace):
        assert here.versions() == (versions or 0) + 1
        here.remount()
        assert here.files() == here.drawn | {ANSWER: data + b"\n"}
        assert here.versions() == (versions or 0) + 1


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


def test_what_was_closed_is_what_is_read_while_everything_is_read(here: Place) -> None:
    """Whatever the mount puts into the page cache for others must never be older than a save."""
    count = int(os.environ.get("CONVFS_TEST_LOOPS", "2000")) // 10
    above = here.mount.root if isinstance(here, MountedPlace) else here.directory
    script = "while :; do ls -lR; cat 0*; grep -r alpha; find -type f -newer /; done"
    with subprocess.Popen(
        ["bash", "-c", script], cwd=above, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as reader:
        try:
            here.run(sys.executable, str(LOOPS), ANSWER, str(count))
        finally:
            os.killpg(reader.pid, signal.SIGKILL)
    expected = contents(here.drawn[ANSWER], count)[-1]
    assert here.files() == here.drawn | {ANSWER: expected}
    if isinstance(here, MountedPlace):
        assert here.versions() == 1 + count
        here.remount()
        assert here.files() == here.drawn | {ANSWER: expected}


def test_a_script_that_edits_every_event(mount: MountedPlace) -> None:
    """One version for each event that changes, none for the others."""
    versions = mount.versions()
    mount.shell("sed -i s/alpha/ALEPH/g 0*")
    expected = {name: data.replace(b"alpha", b"ALEPH") for name, data in mount.drawn.items()}
    changed = [name for name in EVENTS if expected[name] != mount.drawn[name]]
    assert 1 < len(changed) < len(EVENTS)
    assert mount.files() == expected
    assert mount.versions() == versions + len(changed)
    mount.remount()
    assert mount.files() == expected
    assert mount.versions() == versions + len(changed)


def test_the_later_of_two_programs_is_told(mount: MountedPlace) -> None:
    """Both write all of the event; what the later one wrote is kept beside it."""
    versions = mount.versions()
    texts = [mount.drawn[ANSWER].replace(b"alpha", word) for word in (b"first", b"second")]
    files = [os.open(mount.directory / ANSWER, os.O_WRONLY | os.O_TRUNC) for _ in texts]
    for file, text in zip(files, texts, strict=True):
        os.write(file, text)
    os.close(files[0])
    assert errno_of(lambda: os.close(files[1])) == errno.ESTALE
    assert mount.files() == mount.drawn | {ANSWER: texts[0], f"{ANSWER}.draft": texts[1]}
    assert mount.versions() == versions + 1
    mount.remount()
    assert mount.files() == mount.drawn | {ANSWER: texts[0]}
    assert (mount.directory / f"{ANSWER}.draft").read_bytes() == texts[1]
    assert mount.versions() == versions + 1


def test_what_two_handles_append_is_not_lost(mount: MountedPlace) -> None:
    """A shell opens the file twice, and each time it is appended to; whatever comes of it, nothing is lost."""
    mount.run("bash", "-c", "{ echo to one; echo to the other >&2; echo to one again; } >> $1 2>> $1", "bash", ANSWER)
    mount.remount()
    kept = b"".join(data for name, data in mount.files().items() if name.startswith(ANSWER))
    assert kept.startswith(mount.drawn[ANSWER])
    assert b"\0" not in kept
    for line in (b"to one\n", b"to the other\n", b"to one again\n"):
        assert line in kept


HOLDER = """
import fcntl, os, sys
name, how = sys.argv[1:]
with open(name, "r+b", buffering=0) as file:
    lock = fcntl.flock if how == "flock" else fcntl.lockf
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(3)
    print("locked", flush=True)
    sys.stdin.read()
    data = file.read().replace(b"alpha", b"ALEPH")
    file.seek(0)
    file.truncate()
    file.write(data)
"""


@pytest.mark.parametrize("how", ["flock", "fcntl"])
def test_programs_that_lock_a_file_wait_for_each_other(here: Place, how: str) -> None:
    versions = here.versions()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, ANSWER, how],
        cwd=here.directory,
        env=here.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        assert here.run(sys.executable, "-c", HOLDER, ANSWER, how, fails=True).returncode == 3
        waits = subprocess.Popen(["flock", ANSWER, "sed", "-i", "s/omega/OMEGA/", ANSWER], cwd=here.directory)
        if how == "flock":
            time.sleep(0.3)
            assert waits.poll() is None
        else:
            # the two sorts know nothing of each other
            assert waits.wait(PATIENCE) == 0
        holder.communicate(timeout=PATIENCE)
    assert holder.returncode == 0
    assert waits.wait(PATIENCE) == 0
    text = here.drawn[ANSWER].replace(b"omega", b"OMEGA")
    if how == "flock":
        # what was written by name when the lock was had
        text = text.replace(b"alpha", b"ALEPH")
    assert here.files() == here.drawn | {ANSWER: text}
    if isinstance(here, MountedPlace):
        assert here.versions() == (versions or 0) + (2 if how == "flock" else 1)
        here.remount()
        assert here.files() == here.drawn | {ANSWER: text}


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
        terminal.wait_for(r"\(y/n\)\?$")
        terminal.type("n")
        terminal.wait_for("Press ENTER")
        terminal.press("Enter")
        terminal.wait_for("^~$")
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
            other.wait_for(r"assistant.md: |\.md: \S+@|: \S+@\S+ \(pid")
            other.press("C-g")
            other.wait_for("Quit$")
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
    swap = here.directory / swap.name
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
