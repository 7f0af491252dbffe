"""The time that a tool's file has when it is closed is the time that it has: an agent that looks sees no change."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import Mounted, assistant, mounted, new_store, until, user

NAME = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
FOLDER = ".convfs/native/claude-code/-home-dev-project"
LINES = [user("Buy milk.", 1), assistant("Done.", 2), user("And bread.", 3)]
PAST = 1_500_000_000_123_456_789


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def written_at_once(path: Path) -> None:
    path.write_bytes(text(*LINES))


def appended(path: Path) -> None:
    path.write_bytes(text(LINES[0]))
    for line in LINES[1:]:
        with path.open("ab") as file:
            file.write(text(line))


def appended_without_an_end(path: Path) -> None:
    path.write_bytes(text(*LINES)[:-20])


def written_anew(path: Path) -> None:
    path.write_bytes(text(*LINES))
    path.write_bytes(text(*LINES[:2], user("And salt.", 4)))


def written_back(path: Path) -> None:
    path.write_bytes(text(*LINES))
    path.write_bytes(text(*LINES))


def renamed_onto(path: Path) -> None:
    path.write_bytes(text(*LINES))
    beside = path.with_name("temporary")
    beside.write_bytes(text(*LINES[:2]))
    os.utime(beside, ns=(PAST, PAST))
    beside.replace(path)
    assert path.stat().st_mtime_ns == PAST


def cut(path: Path) -> None:
    path.write_bytes(text(*LINES))
    os.truncate(path, len(text(*LINES[:2])))


def copied_with_its_time(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(text(*LINES))
        os.utime(file.fileno(), ns=(PAST, PAST))
    assert path.stat().st_mtime_ns == PAST


def touched(path: Path) -> None:
    path.write_bytes(text(*LINES))
    os.utime(path, ns=(PAST, PAST))
    assert path.stat().st_mtime_ns == PAST


def large(path: Path) -> None:
    """So much that a thread brings it into the store."""
    path.write_bytes(text(*(user(f"{number} " + "word " * 2000, number) for number in range(200))))
    with path.open("ab") as file:
        file.write(text(*LINES) * 2000)


WAYS = [
    written_at_once,
    appended,
    appended_without_an_end,
    written_anew,
    written_back,
    renamed_onto,
    cut,
    copied_with_its_time,
    touched,
    large,
]


def settled(mount: Mounted) -> bool:
    """Say whether the store has all that was written."""
    scratch = mount.store / "scratch"
    return not any((scratch / ".native").glob("*")) and not any((scratch / "native").rglob("*.jsonl"))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_time_that_closing_showed_stays(store_path: Path, way: Callable[[Path], None]) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        path = mount.root / FOLDER / NAME
        path.parent.mkdir(parents=True)
        way(path)
        closed = path.stat().st_mtime_ns
        until(lambda: settled(mount))
        assert path.stat().st_mtime_ns == closed
        if mount.make_kernel_forget():
            assert path.stat().st_mtime_ns == closed
    with mounted(store_path) as mount:
        assert (mount.root / FOLDER / NAME).stat().st_mtime_ns == closed


def test_the_time_of_a_file_that_is_kept_open_stays(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        path = mount.root / FOLDER / NAME
        path.parent.mkdir(parents=True)
        with path.open("wb", buffering=0) as file:
            seen = [0]
            for number in range(10):
                file.write(text(user(f"Line {number}.", number)))
                seen.append(os.fstat(file.fileno()).st_mtime_ns)
                os.fsync(file.fileno())
                assert path.stat().st_mtime_ns == seen[-1]
            until(lambda: settled(mount))
            assert path.stat().st_mtime_ns == seen[-1]
            assert sorted(set(seen)) == seen
            file.write(b'{"type":')
            written = path.stat().st_mtime_ns
            assert written > seen[-1]
    # what is no complete line waits, and so does its time
    with mounted(store_path) as mount:
        assert (mount.root / FOLDER / NAME).stat().st_mtime_ns == written


def test_an_edit_of_an_event_has_a_time_of_its_own(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        path = mount.root / FOLDER / NAME
        path.parent.mkdir(parents=True)
        touched(path)
        mount.shell("sed -i s/milk/oats/ conversations/*/*/events/00001-user.md")
        until(lambda: b"oats" in path.read_bytes())
        assert path.stat().st_mtime_ns > PAST
