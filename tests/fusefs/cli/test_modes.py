"""Files of a daemon can be read by nobody else, whatever the umask and whatever was there before."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.mount_table import mount_at
from store.service import address
from store.service.client import Client
from tests.fusefs.cli.mounted import user_on_disk
from tests.fusefs.cli.user import User
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"), reason="FUSE is not available here"
)
SECONDS = 60


@pytest.fixture
def user() -> Iterator[User]:
    with user_on_disk() as user:
        yield user


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("before", [None, 0o755])
def test_all_that_is_on_disk_is_its_owners_alone(user: User, umask: int, before: int | None) -> None:
    if before is not None:
        user.store.mkdir(parents=True)
        user.store.chmod(before)

    def convfs(*arguments: object) -> None:
        command = [sys.executable, "-m", "fusefs.cli", *map(str, arguments)]
        subprocess.run(command, env=user.environment, cwd=user.home, umask=umask, check=True, timeout=SECONDS)

    user.session("shop", "a", "Fix the login bug, the key is hunter-2-hunter", "Done.", "x" * 50_000)
    user.session("shop", "b", "Water the plants", "Done.")
    convfs("import")
    convfs("import", Path(__file__).parents[3] / "fusefs" / "cli" / "demo")
    check(user, "imported")
    mnt = user.home / "mnt"
    convfs("mount", "--tcp", "127.0.0.1:0", mnt)
    check(user, "mounted")
    live(user, mnt)
    check(user, "edited")
    convfs("search", "bug")
    convfs("stats", "--by", "tool")
    convfs("seal")
    convfs("prune", "--trash", "--yes")
    convfs("gc")
    convfs("redact", "--pattern", "hunter-2-[a-z]+", "--yes")
    check(user, "redacted")
    convfs("export", "1", "-o", "out")
    process = address.noted_process(user.store)
    os.kill(process, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{process}/exe") or not os.path.lexists(f"/proc/{process}"))
    check(user, "killed")
    convfs("umount", mnt)
    assert mount_at(mnt) is None
    convfs("reindex")
    convfs("fsck")
    with subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", "serve"], env=user.environment, umask=umask, stderr=subprocess.DEVNULL
    ) as daemon:
        until(lambda: address.noted_process(user.store) == daemon.pid and bool(address.noted_socket(user.store)))
        check(user, "served")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(SECONDS) == 0
    check(user, "closed")
    # exports are the user's own files
    [exported] = (user.home / "out").rglob("*.jsonl")
    assert stat.S_IMODE(exported.stat().st_mode) == 0o666 & ~umask


def live(user: User, mnt: Path) -> None:
    """Do in the mount what makes files on the disk; what is made there has the mode that it is given, here 0600."""
    mask = os.umask(0o077)
    try:
        [talk] = mnt.glob("conversations/shop/*login*")
        event = next(path for path in (talk / "events").iterdir() if "Done." in path.read_text())
        event.write_text(event.read_text().replace("Done.", "Not done."))
        event.write_text("what is no event\n````block")
        (talk / ".swp").write_text("scratch")
        (talk / "folder").mkdir()
        (talk / "folder" / "note").write_text("scratch")
        (mnt / "import" / "new.jsonl").write_bytes(user.session("blog", "c", "A third", "Yes.").read_bytes())
        [other] = mnt.glob("conversations/shop/*plants*")
        shutil.rmtree(other)
    finally:
        os.umask(mask)
    with Client.of(user.store) as client:
        context = client.conversations()[0].id
        turn = client.open_turn(context, "text.assistant.v1")
        turn.add(b"half a word")


def check(user: User, when: str) -> None:
    found = {}
    for path in (user.store, *user.store.rglob("*"), *(user.runtime / "convfs").rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue  # gone meanwhile
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != wanted:
            found[str(path)] = oct(stat.S_IMODE(mode))
    assert not found, when
