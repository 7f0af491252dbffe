"""``resources/`` in a mount: files as the conversation knew them, also where no record holds them."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import TALK, Mounted, add, errno_of, mounted, new_store, until
from tests.store.worktree.test_changes import ROSES, Talk

BASIL = ROSES.replace("mint", "basil")
LONG = "".join(f"row {number}\n" for number in range(20_000))


def session() -> list[str]:
    talk = Talk()
    talk.read("/garden/beds.txt", ROSES)
    talk.edit("/garden/beds.txt", "mint", "basil")
    talk.call("exec_command", {"cmd": "sed -n '4,5p' beds.txt", "workdir": "/shed"}, "spade\nrake\n")
    talk.write("/garden/long.txt", LONG)
    talk.edit("/garden/long.txt", "row 7\n", "")
    return talk.lines


@pytest.fixture
def here(store_path: Path) -> Iterator[Mounted]:
    with new_store(store_path) as store:
        add(store, session())
    with mounted(store_path) as here:
        yield here


@pytest.fixture
def resources(here: Mounted) -> Path:
    return here.root / TALK / "resources"


def test_files_are_whole_or_say_which_lines_they_are(here: Mounted, resources: Path) -> None:
    assert here.shell(f"cd {TALK}/resources; find . -type f -printf '%P %s\n' | sort").split("\n") == [
        f"garden/beds.txt {len(BASIL)}",
        f"garden/beds@00002.txt {len(ROSES)}",
        f"garden/long.txt {len(LONG) - 6}",
        f"garden/long@00008.txt {len(LONG)}",
        "shed/beds@00006.L4-5.txt 10",
        "",
    ]
    assert (resources / "garden/beds.txt").read_text() == BASIL
    assert (resources / "garden/beds@00002.txt").read_text() == ROSES
    assert (resources / "garden/beds@00004.txt").read_text() == BASIL
    assert (resources / "garden/long.txt").read_text() == LONG.replace("row 7\n", "")
    assert (resources / "shed/beds@00006.L4-5.txt").read_text() == "spade\nrake"
    assert here.shell(f"grep -rl basil {TALK}/resources") == f"{TALK}/resources/garden/beds.txt\n"


def test_no_record_holds_them_so_none_is_written(here: Mounted, resources: Path) -> None:
    beds, held = resources / "garden/beds.txt", resources / "garden/beds@00002.txt"
    assert stat.S_IMODE(beds.stat().st_mode) == 0o400
    assert stat.S_IMODE(held.stat().st_mode) == 0o600
    refused = errno.EROFS if os.geteuid() == 0 else errno.EACCES
    assert errno_of(lambda: beds.write_text("weeds\n")) == refused
    assert errno_of(lambda: os.truncate(beds, 0)) == refused
    assert errno_of(lambda: beds.rename(beds.with_name("plot.txt"))) == errno.EROFS
    assert errno_of(beds.unlink) == errno.EPERM
    (resources / "garden/new").write_text("weeds\n")
    assert errno_of(lambda: (resources / "garden/new").rename(beds)) == errno.EPERM
    (resources / "garden/new").unlink()
    assert beds.read_text() == BASIL
    # what the record holds is written as before, and the rest follows
    held.write_text(ROSES.replace("roses", "lilies"))
    until(lambda: beds.read_text() == BASIL.replace("roses", "lilies"))
    assert beds.stat().st_size == len(BASIL) + 1
    assert errno_of((here.root / TALK / "resources/garden/long@00008.txt").unlink) == errno.EPERM


def test_they_go_with_their_conversation(here: Mounted) -> None:
    here.run("rm", "-r", TALK)
    assert not (here.root / TALK).exists()
    here.run("mv", f".convfs/trash/{TALK.rpartition('/')[2]}", TALK)
    assert (here.root / TALK / "resources/garden/beds.txt").read_text() == BASIL


def test_an_earlier_version_has_its_own(here: Mounted, resources: Path) -> None:
    event = here.root / TALK / "events/00002-result-Read.md"
    event.write_text(event.read_text().replace("roses", "tulips"))
    until(lambda: "tulips" in (resources / "garden/beds.txt").read_text())
    first = min(os.listdir(here.root / TALK / ".versions"))
    then = here.root / TALK / ".versions" / first / "resources/garden/beds.txt"
    assert then.read_text() == BASIL
    assert errno_of(lambda: then.write_text("")) == (errno.EROFS if os.geteuid() == 0 else errno.EACCES)


def test_they_are_found_by_path_and_content(here: Mounted, resources: Path) -> None:
    links = os.listdir(here.root / "by-resource/garden/long.txt")
    assert sorted(links) == [
        f"{name}{end}"
        for name in [TALK.rpartition("/")[2]]
        for end in ("", "@00008-result-Write.md", "@00010-result-Edit.md")
    ]
    assert (here.root / "by-resource/shed/beds.txt").is_dir()
    held_by = os.getxattr(resources / "garden/beds.txt", "user.convfs.held_by").decode()
    assert held_by == f"{TALK}/events/00004-result-Edit.md\n"
