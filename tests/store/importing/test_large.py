"""Files larger than memory ought to be: imported and exported by a process that never takes much.

A normal run uses 150 MB; with CONVFS_LARGE_TESTS set, lines of 500 MB and 1 GB and files of 1 GB.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.formats.exports import said, tree
from tests.store.importing.sessions import SESSION, long_lines

ROOT = Path(__file__).parents[3]
MOST_MIB = 300
MIB = 1 << 20

large = pytest.mark.skipif("CONVFS_LARGE_TESTS" not in os.environ, reason="takes minutes: set CONVFS_LARGE_TESTS")

RUN = """
import sys
from pathlib import Path
from fusefs.text.render import FileRenderer
from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.store import Store

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

root, path, out = map(Path, sys.argv[1:])
with Store.open(root, renderer=FileRenderer()) as store:
    for _ in range(2):
        report = Importer(store).run([path])
        print(peak(), report.imported + report.grown, report.records, report.opaque, len(report.errors))
    export_native(store, store.library.conversations()[0], out)
    print(peak())
"""


@pytest.fixture
def disk() -> Iterator[Path]:
    """Yield a directory on a disk, which /tmp need not be."""
    folder = Path("/var/tmp") / f"convfs-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def run(folder: Path, path: Path) -> list[list[int]]:
    """Import a file twice and export it, in a process; return what that printed. The export must be the same bytes."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, folder / "store", path, folder / "out"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert filecmp.cmp(path, folder / "out" / path.name, shallow=False)
    return [[int(word) for word in row.split()] for row in done.stdout.splitlines()]


def check(rows: list[list[int]], *, records: int, opaque: int) -> None:
    first, second, exported = rows
    print(f"peaks: {first[0]} MiB importing, {second[0]} again, {exported[0]} exporting")
    assert first[1:] == [1, records, opaque, 0]
    assert second[1:] == [0, 0, 0, 0]
    assert max(first[0], second[0], exported[0]) < MOST_MIB, rows


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("size", [pytest.param(150, id="150"), *(pytest.param(n, marks=large) for n in (500, 1000))])
def test_a_very_long_line(disk: Path, size: int) -> None:
    path = disk / f"{SESSION}.jsonl"
    head, tail = json.dumps({"type": "user", "sessionId": SESSION, "uuid": "u", "parentUuid": None, "x": "|"}).split(
        "|"
    )
    with path.open("wb") as file:
        file.write(long_lines(3))
        file.write(head.encode())
        for number in range(size):
            # neither all alike, nor a burden to generate
            file.write((f"{number:07} some text that goes on, ".encode() * 40_000)[:MIB])
        file.write(tail.encode() + b"\n")
        file.write(long_lines(3, start=3))
    check(run(disk, path), records=7, opaque=1)


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("size", [pytest.param(150, id="150"), pytest.param(1000, marks=large)])
def test_a_file_of_many_lines(disk: Path, size: int) -> None:
    path = disk / f"{SESSION}.jsonl"
    count = 0
    with path.open("wb") as file:
        while file.tell() < size * MIB:
            file.write(long_lines(1000, 3000, start=count))
            count += 1000
    check(run(disk, path), records=count, opaque=0)


@large
@pytest.mark.timeout(2600)
def test_a_session_of_two_gigabytes_with_a_very_long_line(disk: Path) -> None:
    path = disk / f"{SESSION}.jsonl"
    count = 0
    with path.open("wb") as file:
        while file.tell() < 1800 * MIB:
            file.write(long_lines(1000, 3000, start=count))
            count += 1000
            if count == 300_000:
                file.write(b'{"type": "user", "sessionId": "' + SESSION.encode() + b'", "uuid": "x", "text": "')
                for number in range(200):
                    file.write((f"{number:07} some text that goes on, ".encode() * 40_000)[:MIB])
                file.write(b'"}\n')
    check(run(disk, path), records=count + 1, opaque=1)


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("size", [pytest.param(150, id="150"), pytest.param(1000, marks=large)])
def test_a_file_of_nothing_but_blank_lines(disk: Path, size: int) -> None:
    path = disk / "projects" / "-p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for _ in range(size):
            file.write(b"\n" * MIB)
    check(run(disk, path), records=1, opaque=1)


@pytest.mark.timeout(1300)
def test_a_large_file_beside_a_session(disk: Path) -> None:
    path = disk / f"{SESSION}.jsonl"
    path.write_bytes(long_lines(3))
    output = disk / SESSION / "tool-results" / "1.txt"
    output.parent.mkdir(parents=True)
    with output.open("wb") as file:
        for number in range(150):
            file.write((f"{number:07} some text that goes on, ".encode() * 40_000)[:MIB])
    check(run(disk, path), records=3, opaque=0)
    assert filecmp.cmp(output, disk / "out" / output.relative_to(disk), shallow=False)


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("size", [pytest.param(50, id="50"), pytest.param(1000, marks=large)])
def test_an_export_of_many_conversations(disk: Path, size: int) -> None:
    path = disk / "conversations.json"
    count = 0
    with path.open("wb") as file:
        while file.tell() < size * MIB:
            said_by = ["user", "assistant"] * 10
            texts = (f"{count} {at} " + f"word{count}.{at} " * 400 for at in range(20))
            nodes = [
                said(f"{count}-{at}", f"{count}-{at - 1}" if at else "root", role, text)
                for at, (role, text) in enumerate(zip(said_by, texts, strict=True))
            ]
            file.write(b", " if count else b"[")
            file.write(json.dumps(tree(f"c{count}", *nodes, title=f"Talk {count}")).encode())
            count += 1
        file.write(b"]")
    first, second, exported = run(disk, path)
    print(f"peaks: {first[0]} MiB importing, {second[0]} again, {exported[0]} exporting")
    assert first[1:] == [count, 21 * count, 0, 0]
    assert second[1:] == [0, 0, 0, 0]
    assert max(first[0], second[0], exported[0]) < MOST_MIB


@pytest.mark.timeout(1300)
def test_an_export_with_a_text_that_is_larger_than_memory_may_be(disk: Path) -> None:
    path = disk / "conversations.json"
    small = json.dumps(tree("c1", said("1", "root", "user", "Hello"), title="Small")).encode()
    before, after = json.dumps(tree("c2", said("2", "root", "user", "|"), title="Large")).encode().split(b"|")
    with path.open("wb") as file:
        file.write(b"[" + small + b", " + before)
        for number in range(MOST_MIB + 20):
            file.write((f"{number:07} some text that goes on, ".encode() * 40_000)[:MIB])
        file.write(after + b"]")
    first, second, exported = run(disk, path)
    print(f"peaks: {first[0]} MiB importing, {second[0]} again, {exported[0]} exporting")
    assert first[1:] == [2, 3, 1, 0]
    assert second[1:] == [0, 0, 0, 0]
    assert max(first[0], second[0], exported[0]) < MOST_MIB
