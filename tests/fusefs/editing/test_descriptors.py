"""Descriptors: however many files programs look at, and when those that they hold are too many."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from store.service.address import noted_socket
from tests.fusefs.editing.talk import LINES, Talk, changed
from tests.fusefs.tree.mounting import Mounted, add, errno_of, mounted, new_store, until

COUNT = 100_000 if "CONVFS_LARGE" in os.environ else 5_000
OTHERS = 40
"""The descriptors that the work in the background takes meanwhile: two for each thread that reads a database."""
PATIENT = 60 + COUNT / 100
FEW = 256
"""Descriptors that the daemon may have: far fewer than there are files."""

MAKE = """
import sys
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}", "w") as file:
        file.write(str(number))
"""


@pytest.fixture
def few(store_path: Path) -> Iterator[Talk]:
    with new_store(store_path) as store:
        add(store, LINES)
    with mounted(store_path, f"descriptors={FEW}", "serving") as mount:
        talk = Talk(mount)
        yield talk
        talk.check()


def held(mount: Mounted) -> int:
    """Return how many descriptors the daemon has."""
    return len(os.listdir(f"/proc/{mount.daemon.pid}/fd"))


@pytest.mark.timeout(4 * PATIENT)
@pytest.mark.parametrize("place", ["import/many", "conversations/project/2026-03-05-talk/many"])
def test_files_that_are_looked_at_take_none(few: Talk, place: str) -> None:
    directory = few.mount.root / place
    directory.mkdir()
    before = held(few.mount)
    subprocess.run([sys.executable, "-c", MAKE, directory, str(COUNT)], check=True, timeout=PATIENT)
    listed = subprocess.run(["ls", "-lU", directory], check=True, timeout=PATIENT, capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == COUNT + 1
    # the kernel knows all of them now
    assert held(few.mount) < before + OTHERS
    moved = directory.with_name("moved")
    directory.rename(moved)
    for number in range(0, COUNT, 97):
        assert (moved / f"{number}").read_text() == str(number)
        (moved / f"{number}").rename(moved / f"other-{number}")
    assert (moved / "other-97").read_text() == "97"
    few.mount.check_alive()
    assert held(few.mount) < before + OTHERS
    subprocess.run(["rm", "-r", moved], check=True, timeout=PATIENT)
    until(lambda: held(few.mount) < before + OTHERS)
    assert few.new_versions == 0


def test_who_holds_too_many_is_told_and_others_go_on(few: Talk) -> None:
    many = few.root / "many"
    many.mkdir()
    with ExitStack() as opened:
        came = 0
        for number in range(2 * FEW):
            try:
                opened.enter_context(open(many / str(number), "xb", buffering=0)).write(b"x")
            except OSError as error:
                came = error.errno or 0
                break
        assert came == errno.EMFILE
        # what could not be opened was not made either
        assert len(os.listdir(many)) == number
        assert errno_of(lambda: (many / "0").open("rb")) == errno.EMFILE
        assert errno_of(lambda: (few.root / "artifacts" / "make").open("wb")) == errno.EMFILE
        assert os.listdir(few.root / "artifacts") == []
        # whoever connects is let go of at once, and not left to wait
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(os.fsencode(noted_socket(few.mount.store) or ""))
            with suppress(ConnectionError):
                assert client.recv(1) == b""
        few.first.write_bytes(changed(few.first))
        few.becomes(1)
        few.mount.tell(append=[1, [LINES[0]]])
        assert "Goodbye there" in few.transcript
        os.link(many / "0", few.root / "link")
        (many / "1").rename(few.root / "other")
        os.utime(few.root / "other", ns=(1, 1_700_000_000_123_456_789))
        assert (few.root / "other").stat().st_mtime_ns == 1_700_000_000_123_456_789
        (many / "2").unlink()
        assert few.mount.run("ls", "-lR", str(few.root)).returncode == 0
    (few.root / "new").write_bytes(b"there is room again")
    assert (few.root / "new").read_bytes() == b"there is room again"
    (few.root / "artifacts" / "make").write_bytes(b"made")
    assert os.listdir(few.root / "artifacts") == ["0.make.log"]


def test_what_has_lost_its_name_goes_on(talk: Talk) -> None:
    path = talk.root / "file"
    before = held(talk.mount)
    path.write_bytes(b"some")
    with open(path, "rb", buffering=0) as file, open(path, "r+b", buffering=0) as written:
        path.unlink()
        path.write_bytes(b"another")
        assert (os.fstat(file.fileno()).st_nlink, os.fstat(file.fileno()).st_size) == (0, 4)
        written.write(b"SOMETHING")
        os.fchmod(written.fileno(), 0o640)
        os.utime(written.fileno(), ns=(5, 7))
        assert os.fstat(file.fileno()).st_mtime_ns == 7
        assert os.pread(file.fileno(), 100, 0) == b"SOMETHING"
        path.with_name("new").write_bytes(b"new")
        path.with_name("new").replace(path)
        assert os.pread(file.fileno(), 100, 0) == b"SOMETHING"
    with open(path, "rb", buffering=0) as file:
        path.unlink()
        assert file.read() == b"new"
    until(lambda: held(talk.mount) <= before)


def test_what_has_become_an_output_goes_on(talk: Talk) -> None:
    with open(talk.root / "made", "w+b", buffering=0) as file:
        file.write(b"some")
        (talk.root / "made").rename(talk.root / "artifacts" / "make")
        assert os.fstat(file.fileno()).st_size == 4
        file.write(b" more")
        assert os.pread(file.fileno(), 100, 0) == b"some more"
    assert (talk.root / "artifacts" / "0.make.log").read_bytes() == b"some more"


def test_a_file_is_found_by_each_of_its_names(talk: Talk) -> None:
    (talk.root / "a").mkdir()
    (talk.root / "b").mkdir()
    one, other, third = talk.root / "a" / "one", talk.root / "b" / "other", talk.root / "third"
    with open(one, "w+b", buffering=0) as file:
        file.write(b"some")
        os.link(one, other)
        os.link(other, third)
        one.unlink()
        assert (os.fstat(file.fileno()).st_nlink, other.read_bytes()) == (2, b"some")
        (talk.root / "b").rename(talk.root / "c")
        third.unlink()
        assert (os.fstat(file.fileno()).st_nlink, os.fstat(file.fileno()).st_size) == (1, 4)
        os.truncate(talk.root / "c" / "other", 2)
        assert os.fstat(file.fileno()).st_size == 2
        (talk.root / "c" / "other").replace(one)
        os.fchmod(file.fileno(), 0o600)
        assert one.read_bytes() == b"so"
        one.unlink()
        assert (os.fstat(file.fileno()).st_nlink, file.read()) == (0, b"")
    assert os.listdir(talk.root / "a") == []


def test_a_tree_may_be_deeper_than_a_path_is_long(talk: Talk) -> None:
    name = "d" * 200
    script = f"""
        for i in $(seq 60); do mkdir {name} && cd -P {name} || exit 1; done
        echo deep > file && mkdir inner && mv file inner/moved && ln inner/moved linked && ln -s linked symbolic
        cat symbolic && chmod 640 linked && stat -c %a:%h linked && ls -l inner
        touch -d @1.5 linked && cat inner/moved
    """
    said = talk.shell(script)
    assert said.splitlines()[:2] == ["deep", "640:2"]
    assert said.splitlines()[-1] == "deep"
    talk.shell(f"mv {name} top && find top -name linked | wc -l | grep -qx 1 && rm -r top")
    assert held(talk.mount) < 60
