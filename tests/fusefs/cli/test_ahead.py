"""Reading ahead: the files that a command has loaded from a cold disk."""

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fusefs.cli.user import ROOT
from tests.fusefs.tree.mounting import work_directory

PROGRAM = """
import sys
from types import SimpleNamespace
from fusefs.cli import ahead

folder, sys.argv, sys.dont_write_bytecode = sys.argv[1], ["/usr/bin/convfs", *sys.argv[2:]], False
ahead.__spec__ = SimpleNamespace(cached=f"{folder}/ahead.pyc")
ahead._COLD_BLOCKS = 0
this = ahead._Ahead()
this.read()
import colorsys
this.note()
"""
PATIENCE = 30.0


def start(folder: Path, *words: str) -> str:
    command = [sys.executable, "-c", PROGRAM, folder, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout


def is_at_hand(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as pages:
        states = (ctypes.c_ubyte * (len(pages) // mmap.PAGESIZE))()
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(pages)), states):
            raise OSError("mincore")
        return all(state & 1 for state in states)


def test_a_cold_start_notes_what_it_has_loaded(tmp_path: Path) -> None:
    start(tmp_path, "--store", "/x", "mount", "/y")
    (noted,) = tmp_path.iterdir()
    assert noted.name == "mount.files"
    files = noted.read_text().split("\n")
    assert all(Path(file).is_absolute() for file in files)
    assert {"colorsys.py", "libraries.py"} <= {Path(file).name for file in files}
    assert any(".so" in Path(file).name for file in files)


def test_the_next_cold_start_reads_it_ahead() -> None:
    folder = work_directory() / f"ahead-{os.getpid()}"
    folder.mkdir()
    data = folder / "data"
    try:
        with data.open("wb") as file:
            file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if is_at_hand(data):
            pytest.skip("this file system forgets nothing when it is told to")
        (folder / "grep.files").write_text(f"/no/such/file\n\0\n{folder}\n{folder / 'gone.py'}\n{data}\n")
        start(folder, "mount")
        assert not is_at_hand(data)
        start(folder, "grep")
        end = time.monotonic() + PATIENCE
        while not is_at_hand(data):
            assert time.monotonic() < end
            time.sleep(0.01)
        # the list is that of this start now
        assert str(data) not in (folder / "grep.files").read_text()
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


@pytest.mark.parametrize("words", [["ls"], ["show", "1"], []])
def test_other_commands_note_nothing(tmp_path: Path, words: list[str]) -> None:
    start(tmp_path, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_ends_nothing(tmp_path: Path) -> None:
    start(tmp_path / "missing", "mount")
    assert list(tmp_path.iterdir()) == []
