"""``convfs mount`` and ``umount``, and commands while a daemon holds the store."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fusefs.cli import backend
from fusefs.mount_table import mount_at
from store.disk.identity import directory_key
from store.errors import StoreBusy
from store.paths import MOUNTS
from store.service import address
from store.service.client import Client
from store.service.operations import stop
from tests.forked import run
from tests.fusefs.cli.mounted import SECONDS, holder, runs, user_on_disk
from tests.fusefs.cli.user import User, serving
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"), reason="FUSE is not available here"
)


@pytest.fixture
def user() -> Iterator[User]:
    with user_on_disk() as user:
        yield user


@pytest.fixture
def mnt(user: User) -> Path:
    """Where the conversations of ``user``, who has one, are mounted."""
    user.session("shop", "a", "Fix the login bug", "Done.")
    user.run("import")
    user.run("mount", "mnt")
    return user.home / "mnt"


def titles(user: User) -> set[str]:
    return {line["title"] for line in user.list()}


def test_mount_returns_when_it_is_ready_and_umount_when_all_is_over(user: User) -> None:
    user.session("shop", "a", "Fix the login bug", "Done.")
    user.run("import")
    mnt = user.home / "new/mnt"
    assert user.run("mount", mnt) == f"Mounted at {mnt}; `convfs umount {mnt}` unmounts.\n"
    assert (mnt / "README.md").read_text()
    (transcript,) = (mnt / "transcripts").rglob("*.md")
    assert "Fix the login bug" in transcript.read_text()
    daemon = holder(user)
    assert daemon is not None
    assert user.run("umount", mnt) == ""
    assert not runs(daemon)
    assert list(mnt.iterdir()) == []
    assert "sound" in user.run("fsck")


def test_a_mount_says_which_store_it_shows(user: User, tmp_path: Path) -> None:
    odd = user.home / "a store, with \\ and \u2603"
    user.run("--store", odd, "import", "--demo")
    user.run("--store", odd, "mount", "mnt")
    mount = mount_at(user.home / "mnt")
    assert mount is not None
    assert mount.source == str(odd)
    # Without being told, this is how the other commands know.
    (conversation,) = (user.home / "mnt/conversations/reading-list").iterdir()
    assert "Demo: plan a reading list" in user.run("show", conversation)
    user.run("umount", "mnt")
    assert mount_at(user.home / "mnt") is None


def test_the_daemon_leaves_the_terminal_and_its_directory_alone(user: User, mnt: Path) -> None:
    process = Path(f"/proc/{holder(user)}")
    assert os.readlink(process / "cwd") == "/"
    assert {os.readlink(process / "fd" / str(stream)) for stream in range(3)} == {"/dev/null"}
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    terminal, session = int(fields[4]), int(fields[3])
    assert terminal == 0
    assert session != int(process.name)


def test_in_the_foreground_it_stays_until_it_is_interrupted(user: User) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    process = subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", "mount", "--foreground", "mnt"],
        env=user.environment,
        cwd=user.home,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == f"Mounted at {user.home / 'mnt'}; Ctrl-C unmounts.\n"
    assert (user.home / "mnt/README.md").exists()
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert mount_at(user.home / "mnt") is None


# --- commands while it is mounted -----------------------------------------------------------------------


def test_what_is_imported_shows_at_once(user: User, mnt: Path) -> None:
    project = next((mnt / "conversations").iterdir())
    assert len(list(project.iterdir())) == 1
    assert len(list((mnt / "transcripts" / project.name).iterdir())) == 1
    user.session("shop", "b", "Another question", "Another answer")
    user.session("blog", "c", "A third")
    assert "2 imported" in user.run("import")
    assert len(list(project.iterdir())) == 2
    assert len(list((mnt / "conversations").iterdir())) == 2
    assert len(list((mnt / "transcripts" / project.name).iterdir())) == 2
    assert any("Another answer" in path.read_text() for path in mnt.glob("transcripts/*/*.md"))


def test_a_session_that_grows_shows_its_new_events(user: User, mnt: Path) -> None:
    (events,) = mnt.glob("conversations/*/*/events")
    assert len(list(events.iterdir())) == 2
    (transcript,) = mnt.glob("transcripts/*/*.md")
    size = transcript.stat().st_size
    user.session("shop", "a", "And now this", "Also done.")
    assert "1 grown" in user.run("import")
    assert len(list(events.iterdir())) == 4
    assert transcript.stat().st_size > size
    assert transcript.read_text().endswith("Also done.\n")


def test_commands_answer_the_same_with_and_without_a_daemon(user: User) -> None:
    user.session("shop", "a", "Fix the login bug \u2603", "Done.")
    user.session("blog", "b", "x" * 300_000)
    user.run("import")
    commands = [["ls"], ["show", "1"], ["show", "2"], ["show", "2", "--json"], ["export", "1", "-o", "out"]]
    before = [user.run(*command) for command in commands]
    shutil.rmtree(user.home / "out")
    user.run("mount", "mnt")
    assert [user.run(*command).replace(f"{user.home}/mnt/", "") for command in commands] == before
    for line in user.list():
        assert (Path(line["path"]) / "events").is_dir()
        assert Path(line["path"]).is_relative_to(user.home / "mnt")


def test_failures_are_told_the_same_with_a_daemon(user: User, mnt: Path) -> None:
    assert "convfs ls" in user.fails("show", "nosuch")
    assert "nosuch" in user.fails("ls", "nosuch")
    assert "nosuch" in user.fails("import", "--format", "nosuch", ".")
    assert str(mnt) in user.fails("fsck")
    assert str(mnt) in user.fails("reindex")
    assert str(mnt) in user.fails("export", "1", "-o", mnt / "out")
    assert str(mnt) in user.fails("import", mnt)


def test_a_conversation_may_be_named_by_any_of_its_paths(user: User, mnt: Path) -> None:
    (line,) = user.list()
    whole = user.run("show", line["id"])
    inside = Path(line["path"])
    assert inside.is_relative_to(mnt)
    paths = [
        inside,
        inside / "events",
        next((inside / "events").iterdir()),
        next(mnt.glob("transcripts/*/*.md")),
        next(mnt.glob("by-date/*/*/*/*")),
        next((mnt / "recent").iterdir()),
        inside.relative_to(user.home),
    ]
    for path in paths:
        assert user.run("show", path) == whole
    assert "convfs ls" in user.fails("show", mnt / "conversations")


def test_a_conversation_may_be_named_wherever_one_stands(user: User, mnt: Path) -> None:
    (line,) = user.list()
    user.session("mill", "b", "Grind")
    user.run("import")
    (other,) = [one for one in user.list() if one["id"] != line["id"]]
    name = f"{other['project']}/{other['name']}"
    whole = user.run("show", other["id"])
    inside = Path(line["path"])
    for place in (mnt, mnt / "conversations", inside.parent, inside, inside / "events", mnt / "search", mnt / "recent"):
        for text in (name, other["name"], other["id"]):
            done = run("fusefs.cli", "show", text, directory=place, environment=user.environment, timeout=SECONDS)
            assert (done.returncode, done.stdout, done.stderr) == (0, whole, ""), (place, text)
    # a path that is there is that
    done = run(
        "fusefs.cli", "log", name, directory=mnt / "conversations", environment=user.environment, timeout=SECONDS
    )
    assert done.returncode == 0


def test_stats_say_where_the_socket_and_the_mount_are(user: User, mnt: Path) -> None:
    numbers = json.loads(user.run("stats", "--json"))
    assert numbers["mountpoint"] == str(mnt)
    socket = Path(numbers["socket"])
    assert socket == user.runtime / "convfs" / f"{directory_key(user.store)}.sock"
    assert socket.is_socket()
    # Also for somebody whose environment is another one.
    assert json.loads(user.run("stats", "--json", XDG_RUNTIME_DIR=""))["socket"] == str(socket)


def test_doctor_sees_the_mount(user: User, mnt: Path) -> None:
    assert f"mounted at {mnt}" in user.convfs("doctor").stdout


def test_a_listing_that_nobody_reads_to_its_end_harms_nothing(user: User, mnt: Path) -> None:
    for number in range(5):
        user.session("shop", f"long-{number}", "x" * 1_000_000)
    user.run("import")
    script = f"{sys.executable} -m fusefs.cli show 2 | head -c 10"
    done = subprocess.run(["bash", "-c", script], env=user.environment, cwd=user.home, capture_output=True, timeout=60)
    assert (done.stdout[:3], done.stderr) == (b"---", b"")
    assert len(user.list()) == 6


# --- what goes wrong --------------------------------------------------------------------------------------


def test_mounting_twice_changes_nothing(user: User, mnt: Path) -> None:
    assert f"Mounted at {mnt} already" in user.run("mount", mnt)
    assert "mounted already" in user.fails("--store", user.home / "other", "mount", mnt)
    assert str(mnt) in user.fails("mount", user.home / "elsewhere")
    assert (mnt / "README.md").exists()


def test_a_directory_with_files_in_it_is_not_hidden(user: User) -> None:
    user.run("import", "--demo")
    (user.home / "full").mkdir()
    (user.home / "full/precious").write_text("mine")
    assert "not empty" in user.fails("mount", "full")
    assert (user.home / "full/precious").read_text() == "mine"
    assert "is a file" in user.fails("mount", "full/precious")


def test_the_store_may_not_lie_in_its_mount(user: User) -> None:
    assert "store" in user.fails("--store", "mnt/store", "mount", "mnt")
    user.run("--store", "s", "import", "--demo")
    assert "store" in user.fails("--store", "s", "mount", "s/mnt")


def test_unmounting_what_is_not_mounted(user: User) -> None:
    assert "nothing is mounted" in user.fails("umount", user.home)
    assert "not convfs" in user.fails("umount", "/proc")


def test_a_mount_in_use_is_not_unmounted_and_the_user_is_named(user: User, mnt: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=mnt / "conversations") as process:
        assert f"sleep ({process.pid})" in user.fails("umount", mnt)
        process.kill()
    user.run("umount", mnt)


_MAPPING = """
import ctypes, sys, time
map_ = ctypes.CDLL(None).mmap
map_.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open(sys.argv[1]) as file:
    map_(None, 1, 1, 2, file.fileno(), 0)
print(flush=True)
time.sleep(0.3)
"""


def test_a_mount_that_is_in_use_for_another_moment_is_unmounted(user: User, mnt: Path) -> None:
    """A file that is mapped and not open keeps a mount busy, and no list of open files shows who has it."""
    command = [sys.executable, "-c", _MAPPING, mnt / "README.md"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        user.run("umount", mnt)


def test_after_a_daemon_was_killed_everything_goes_on(user: User, mnt: Path) -> None:
    daemon = holder(user)
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    until(lambda: holder(user) is None)
    assert "umount" in user.convfs("doctor").stdout
    assert f"wrong {mnt} has a mount whose daemon died" in user.convfs("doctor").stdout
    assert f"note  {mnt} has a mount" in user.run("--store", user.home / "another", "doctor")
    assert titles(user) == {"Fix the login bug"}
    done = user.convfs("mount", mnt)
    assert done.returncode == 0
    assert "died" in done.stderr
    assert (mnt / "README.md").exists()
    user.run("umount", mnt)


@pytest.mark.parametrize("pause", [0, 0.001, 0.01])
def test_a_mount_after_a_kill_answers(user: User, mnt: Path, pause: float) -> None:
    """The kernel's memory of a mount answers for a while after its daemon has died."""
    for _ in range(3):
        list(mnt.iterdir())
        daemon = holder(user)
        assert daemon is not None
        os.kill(daemon, signal.SIGKILL)
        time.sleep(pause)
        done = user.convfs("mount", mnt)
        assert done.returncode == 0, done
        assert "already" not in done.stdout
        assert holder(user) not in (None, daemon)
        assert len(list(mnt.glob("conversations/*/*"))) == 1
        assert os.statvfs(mnt).f_bsize


@pytest.mark.parametrize("at", ["opening", "mounting", "noting"])
def test_a_daemon_that_is_killed_while_it_starts_is_no_success(user: User, at: str) -> None:
    user.session("shop", "a", "Fix the login bug", "Done.")
    user.run("import")
    mnt, notes = user.home / "mnt", user.store / MOUNTS
    reached: dict[str, Callable[[], object]] = {
        "opening": lambda: runs(address.noted_process(user.store)),
        "mounting": lambda: mount_at(mnt),
        "noting": lambda: list(notes.glob("*.json")),
    }
    command = [sys.executable, "-m", "fusefs.cli", "mount", str(mnt)]
    with subprocess.Popen(command, env=user.environment, cwd=user.home, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: bool(reached[at]()))
        daemon = address.noted_process(user.store)
        assert daemon > 1
        os.kill(daemon, signal.SIGKILL)
        _, said = process.communicate(timeout=SECONDS)
    if at == "opening" or process.returncode:
        # (a mount that is there may have answered before it was killed)
        assert process.returncode == 1
        assert said.startswith("convfs: ")
        assert said.count("\n") == 1
    assert user.convfs("mount", mnt).returncode == 0
    assert len(list(mnt.glob("conversations/*/*"))) == 1
    user.run("umount", mnt)
    assert mount_at(mnt) is None


def test_the_mount_of_a_daemon_that_hangs_is_left_alone(user: User, mnt: Path) -> None:
    daemon = holder(user)
    assert daemon is not None
    os.kill(daemon, signal.SIGSTOP)
    try:
        assert f"process {daemon}, that mounts {mnt} does not answer" in user.fails("mount", mnt)
        assert f"process {daemon}, that mounts {mnt} does not answer" in user.convfs("doctor").stdout
        assert mount_at(mnt) is not None
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert len(list(mnt.glob("conversations/*/*"))) == 1
    assert "already" in user.run("mount", mnt)


def test_whoever_serves_after_a_kill_answers(user: User) -> None:
    user.run("import", "--demo")
    for _ in range(3):
        with serving(user) as daemon:
            daemon.kill()
            with serving(user):
                assert user.list()
            assert daemon.wait(SECONDS) == -signal.SIGKILL


def test_the_mount_of_a_killed_daemon_can_be_unmounted(user: User, mnt: Path) -> None:
    daemon = holder(user)
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    until(lambda: holder(user) is None)
    user.run("umount", mnt)
    assert mount_at(mnt) is None


def test_a_daemon_that_cannot_start_says_why(user: User) -> None:
    user.run("import", "--demo")
    (user.store / "convfs.toml").write_text("inline_limit_bytes = 'x'\n")
    assert "inline_limit_bytes" in user.fails("mount", "mnt")
    assert mount_at(user.home / "mnt") is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_unmounts(user: User, mnt: Path, number: signal.Signals) -> None:
    daemon = holder(user)
    assert daemon is not None
    os.kill(daemon, number)
    until(lambda: mount_at(mnt) is None and holder(user) is None)
    assert titles(user) == {"Fix the login bug"}


def test_a_stop_over_the_socket_unmounts(user: User, mnt: Path) -> None:
    socket = address.noted_socket(user.store)
    assert socket is not None
    with Client(socket) as client:
        client.call(stop())
    until(lambda: mount_at(mnt) is None and holder(user) is None)
    assert not socket.exists()


def test_a_link_to_the_mountpoint_serves_as_well(user: User) -> None:
    user.run("import", "--demo")
    (user.home / "real").mkdir()
    (user.home / "link").symlink_to("real")
    user.run("mount", "link")
    assert mount_at(user.home / "real") is not None
    assert "already" in user.run("mount", "link")
    user.run("umount", "link")
    assert mount_at(user.home / "real") is None


def test_unmounting_ends_an_import_and_what_it_lacks_comes_with_the_next(user: User, mnt: Path) -> None:
    for number in range(150):
        user.session("shop", f"large-{number}", *[os.urandom(40_000).hex() for _ in range(4)])
    importing = subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", "import"],
        env=user.environment,
        cwd=user.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(user.list()) > 3)
    user.run("umount", mnt)
    _, said = importing.communicate(timeout=60)
    assert importing.returncode == 1
    assert said.startswith("convfs: ")
    assert said.count("\n") == 1
    assert 3 < len(user.list()) < 151
    assert "sound" in user.run("fsck")
    user.run("import")
    assert len(user.list()) == 151
    assert "sound" in user.run("fsck")


def test_what_is_said_of_a_conversation_is_listed(mnt: Path, user: User) -> None:
    conversation = next(mnt.glob("conversations/*/*"))
    os.setxattr(conversation, "user.convfs.label.bug", b"")
    text = (conversation / "metadata.json").read_text()
    (conversation / "metadata.json").write_text(text.replace('"pinned": false', '"pinned": true'))
    [line] = json.loads(user.run("ls", "--json"))
    assert (line["labels"], line["pinned"], line["archived"]) == (["bug"], True, False)
    user.run("umount", "mnt")
    assert json.loads(user.run("ls", "--json"))[0]["labels"] == ["bug"]


def options_at(path: Path) -> set[str]:
    """Return the options of the file system that is mounted somewhere."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {option for line in lines if line.split()[4] == str(path) for option in line.split()[-1].split(",")}


@pytest.mark.skipif(os.geteuid() != 0, reason="others are let in only if /etc/fuse.conf allows it, but for root")
def test_others_are_let_in_only_where_asked(mnt: Path, user: User) -> None:
    assert "default_permissions" in options_at(mnt)
    assert "allow_other" not in options_at(mnt)
    user.run("umount", "mnt")
    user.run("mount", "--allow-other", "mnt")
    assert {"allow_other", "default_permissions"} <= options_at(mnt)
    user.run("umount", "mnt")


def test_a_mount_that_fails_leaves_no_directory(user: User) -> None:
    user.session("shop", "a", "Fix the login bug")
    user.run("import")
    (user.home / "file").touch()
    (user.home / "empty").mkdir()
    for place in ("new/place", "empty"):
        user.fails("--store", user.home / "file/store", "mount", user.home / place)
    assert not (user.home / "new").exists()
    assert (user.home / "empty").is_dir()


def test_how_to_end_who_answers_nobody_is_told(user: User, mnt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_PATIENCE_SECONDS", 0.2)
    # one of another version listens elsewhere
    for socket in address.sockets(user.store):
        socket.unlink()
    with pytest.raises(StoreBusy, match=re.escape(f"`convfs umount {mnt}` ends it, or try again")):
        backend.daemon_or_store(user.store)
    user.run("umount", mnt)
    assert titles(user) == {"Fix the login bug"}
