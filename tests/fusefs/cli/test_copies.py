"""Stores that were copied, moved, brought back, or are reached by other paths: told from each other, or refused."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from store import paths
from store.disk.identity import directory_key
from store.errors import StoreBusy
from store.service import address
from store.service.async_client import open_client
from store.service.client import Client, ServiceGone
from store.store import Store
from tests.fusefs.cli.mounted import holder, user_on_disk
from tests.fusefs.cli.user import User, serving
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    not os.access("/dev/fuse", os.W_OK) or not shutil.which("fusermount3"), reason="FUSE is not available here"
)
BOTH = {"Fix the login bug", "Water the plants"}


@pytest.fixture
def user() -> Iterator[User]:
    """Somebody who has two conversations, and whose home is on a disk."""
    with user_on_disk() as user:
        user.session("shop", "a", "Fix the login bug", "Done.")
        user.session("home", "b", "Water the plants", "Done.")
        user.run("import")
        yield user


@pytest.fixture
def mnt(user: User) -> Path:
    user.run("mount", "mnt")
    return user.home / "mnt"


@pytest.fixture
def copy(user: User, mnt: Path) -> Path:
    """A copy of the store that was made while that is mounted."""
    return copied(user.store, user.home / "copy")


def copied(store: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", store, to], check=True)
    return to


def titles(user: User, store: Path, *arguments: str) -> set[str]:
    said = user.convfs("--store", store, *arguments, "ls", "--json")
    assert said.returncode == 0, said
    return {line["title"] for line in json.loads(said.stdout)}


def id_of(user: User, store: Path) -> str:
    return str(json.loads(user.convfs("--store", store, "stats", "--json").stdout)["store_id"])


def files(store: Path) -> dict[Path, bytes]:
    """Return all that a directory holds, but for what SQLite notes of readers, and for notes of mounts."""
    found = (path for path in store.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in found if path.suffix != ".db-shm" and path.parent.name != "mounts"}


# -- what is done to one is done to no other ---------------------------------------------------------------------------


def test_what_is_pruned_in_a_mounted_store_stays_in_its_mounted_copy(user: User, mnt: Path, copy: Path) -> None:
    user.convfs("--store", copy, "mount", "mnt-copy")
    first = next(line["id"] for line in user.list() if line["title"] == "Water the plants")
    user.run("--store", user.store, "prune", first, "--yes")
    assert (titles(user, user.store), titles(user, copy)) == ({"Fix the login bug"}, BOTH)
    other = next(line["id"] for line in user.list() if line["title"] == "Fix the login bug")
    user.run("--store", copy, "prune", other, "--yes")
    assert (titles(user, user.store), titles(user, copy)) == ({"Fix the login bug"}, {"Water the plants"})
    for mountpoint in (mnt, user.home / "mnt-copy"):
        assert len(list(mountpoint.glob("transcripts/*/*.md"))) == 1
    user.run("umount", "mnt-copy")
    user.run("umount", mnt)
    for store in (user.store, copy):
        assert "sound" in user.run("--store", store, "fsck")


def test_what_is_pruned_in_a_copy_stays_in_the_store_that_is_mounted(user: User, copy: Path) -> None:
    """The note of who holds the copy is that of the original."""
    user.convfs("--store", copy, "prune", "--older-than", "0d", "--yes")
    assert (titles(user, user.store), titles(user, copy)) == (BOTH, set())


def test_each_answers_at_a_socket_of_its_own(user: User, mnt: Path, copy: Path) -> None:
    user.convfs("--store", copy, "mount", "mnt-copy")
    sockets = [json.loads(user.run("--store", store, "stats", "--json"))["socket"] for store in (user.store, copy)]
    assert len(set(sockets)) == 2
    user.run("umount", "mnt-copy")
    assert [Path(socket).is_socket() for socket in sockets] == [True, False]
    assert titles(user, user.store) == BOTH


def test_a_path_in_a_mount_names_a_conversation_of_that_store_alone(user: User, mnt: Path) -> None:
    user.run("--store", "other", "import", user.home / ".claude")
    user.run("--store", "other", "mount", "mnt-other")
    (path,) = (user.home / "mnt-other").glob("conversations/*/*plants*")
    user.run("prune", path, "--yes")
    assert titles(user, user.store) == BOTH
    assert titles(user, user.home / "other") == {"Fix the login bug"}
    (path,) = (user.home / "mnt-other").glob("conversations/*/*login*")
    assert "different stores" in user.fails("prune", path, next(mnt.glob("conversations/*/*plants*")), "--yes")
    assert titles(user, user.store) == BOTH
    user.run("redact", "--event", f"{path}@1", "--yes")
    assert titles(user, user.store) == BOTH


# -- ids --------------------------------------------------------------------------------------------------------------


def test_a_copy_gets_an_id_of_its_own_and_says_so_once(user: User, mnt: Path, copy: Path) -> None:
    said = user.convfs("--store", copy, "ls").stderr
    assert said.startswith(f"convfs: this is a copy of the store at {user.store}: ")
    assert said.count("\n") == 1
    assert user.convfs("--store", copy, "ls").stderr == ""
    own = id_of(user, copy)
    assert own != id_of(user, user.store)
    again = copied(copy, user.home / "again")
    assert len({own, id_of(user, again), id_of(user, user.store)}) == 3
    assert id_of(user, copy) == own
    assert "sound" in user.run("--store", copy, "fsck")


def test_mounting_a_copy_says_so(user: User, copy: Path) -> None:
    assert "is a copy" in user.convfs("--store", copy, "mount", "mnt-copy").stderr


def test_a_store_that_was_moved_or_brought_back_stays_the_same(user: User) -> None:
    own = id_of(user, user.store)
    moved = user.store.rename(user.home / "moved")
    assert (user.run("--store", moved, "fsck"), id_of(user, moved)) == ("The store is sound.\n", own)
    backup = copied(moved, user.home / "backup")
    shutil.rmtree(moved)
    copied(backup, moved)
    assert (user.run("--store", moved, "fsck"), id_of(user, moved)) == ("The store is sound.\n", own)
    assert "is a copy" in user.convfs("--store", backup, "ls").stderr


def test_a_store_of_an_earlier_version_is_no_copy(user: User) -> None:
    own = id_of(user, user.store)
    (user.store / "identity").unlink()
    assert (user.run("fsck"), id_of(user, user.store)) == ("The store is sound.\n", own)


@pytest.mark.parametrize("lost", ["journal", "blobs", "index.db", "lock", "turns/turns.log", "identity"])
def test_a_part_of_a_copy_is_opened_or_refused_in_one_line(user: User, mnt: Path, copy: Path, lost: str) -> None:
    path = copy / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    said = user.convfs("--store", copy, "prune", "--older-than", "0d", "--yes")
    assert said.returncode in (0, 1)
    assert all(line.startswith("convfs: ") for line in said.stderr.splitlines())
    assert titles(user, user.store) == BOTH


def test_a_copy_lets_nobody_in_with_the_token_of_the_other(user: User) -> None:
    token = address.token(user.store)
    copy = copied(user.store, user.home / "copy")
    user.convfs("--store", copy, "ls")
    assert address.token(copy) != token
    assert address.token(user.store) == token


# -- other paths, and lost notes ---------------------------------------------------------------------------------------


def test_links_lead_to_the_same_store(user: User, mnt: Path) -> None:
    (user.home / "link").symlink_to(user.store)
    daemon = holder(user)
    assert titles(user, user.home / "link") == BOTH
    assert "already" in user.run("--store", "link", "mount", mnt)
    assert holder(user) == daemon


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a directory at another place")
def test_a_directory_that_is_mounted_twice_is_one_store(user: User, mnt: Path) -> None:
    own, other = id_of(user, user.store), user.home / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", user.store, other], check=True)
    assert (titles(user, other), id_of(user, other)) == (BOTH, own)
    assert f"is mounted at {mnt} already" in user.fails("--store", other, "mount", "elsewhere")
    user.run("umount", mnt)
    assert user.run("--store", other, "fsck") == "The store is sound.\n"
    assert id_of(user, user.store) == own


def test_who_lost_the_note_finds_the_daemon(user: User, mnt: Path) -> None:
    daemon = holder(user)
    (user.store / paths.LOCK).unlink()
    assert titles(user, user.store) == BOTH
    with pytest.raises(StoreBusy, match="another convfs process"):
        Store.open(user.store, create=False)
    assert "`convfs umount" in user.fails("fsck")
    user.run("umount", mnt)
    assert daemon is not None
    assert "sound" in user.run("fsck")


def test_the_place_of_a_mounted_store_is_taken_by_a_copy(user: User, mnt: Path) -> None:
    """As where a backup is brought back while a daemon runs. It must not go on in that."""
    moved = user.store.rename(user.home / "moved")
    copied(moved, user.store)
    before = files(user.store)
    (path,) = mnt.glob("conversations/*/*plants*")
    assert "no longer at" in user.fails("prune", path, "--yes")
    said = user.fails("--store", moved, "prune", "--older-than", "0d", "--yes")
    assert f"{user.store}" in said
    assert "another" in said
    assert files(user.store) == before
    assert "may still be writing" in user.fails("umount", mnt)
    until(lambda: holder(user, moved) is None)
    assert files(user.store) == before
    assert titles(user, moved) == titles(user, user.store) == BOTH
    assert id_of(user, moved) != id_of(user, user.store)
    for store in (user.store, moved):
        assert "sound" in user.run("--store", store, "fsck")


# -- clients -----------------------------------------------------------------------------------------------------------


def test_clients_of_a_copy_do_not_reach_the_other(user: User, mnt: Path, copy: Path) -> None:
    async def names(root: Path) -> set[str]:
        async with open_client(root=root) as client:
            return {talk.title for talk in await client.conversations()}

    with Client.of(user.store) as client:
        assert {talk.title for talk in client.conversations()} == BOTH
    assert trio.run(names, user.store) == BOTH
    # a note of version 0.5, which does not say of which directory it is
    noted = (user.store / paths.LOCK).read_text()
    old = "".join(line for line in noted.splitlines(keepends=True) if not line.startswith("directory "))
    (copy / paths.LOCK).write_text(old)
    for ask in (Client.of, lambda root: trio.run(names, root)):
        with pytest.raises(ServiceGone, match="nobody serves the store at"):
            ask(copy)


def test_a_client_goes_on_with_no_other_store(user: User) -> None:
    copy = copied(user.store, user.home / "copy")
    socket = user.runtime / "socket"
    with serving(user, "--socket", socket):
        client = Client(socket, directory=directory_key(user.store), patience=0.1)
        assert titles(user, copy) == BOTH
        assert "answers at" in user.fails("--store", copy, "serve", "--socket", socket)
        assert len(client.conversations()) == 2
    with serving(user, "--socket", socket, store=copy):
        with pytest.raises(ServiceGone, match="another store"):
            client.conversations()
        with pytest.raises(ServiceGone):
            Client.of(user.store)
    client.close()
