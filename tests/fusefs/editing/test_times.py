"""The time that a file has when it was closed stays: what a program sees later tells it of no change that none made."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fusefs.editing.talk import FIRST, LINES, NAME, Talk, changed
from tests.fusefs.tree.mounting import add, errno_of, keep_each_save, mounted, new_store, until

MS = 1_000_000
PAST = 1_500_000_000_123_000_000


def in_place(path: Path) -> None:
    path.write_bytes(changed(path))


def by_renaming(path: Path) -> None:
    temporary = path.with_name("temporary")
    temporary.write_bytes(changed(path))
    temporary.replace(path)


def with_a_time(path: Path) -> None:
    data = changed(path)
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.utime(file.fileno(), ns=(PAST, PAST))
    assert path.stat().st_mtime_ns == PAST


def with_a_time_by_renaming(path: Path) -> None:
    temporary = path.with_name("temporary")
    temporary.write_bytes(changed(path))
    os.utime(temporary, ns=(PAST, PAST + 456))
    temporary.replace(path)
    assert path.stat().st_mtime_ns == PAST


def nothing_new(path: Path) -> None:
    path.write_bytes(path.read_bytes())


def all_records(path: Path) -> None:
    whole = path.parents[1] / "events.json"
    whole.write_text(whole.read_text().replace('"uuid": "u1"', '"uuid": "u9"'))


def the_title(path: Path) -> None:
    metadata = path.parents[1] / "metadata.json"
    metadata.write_text(metadata.read_text().replace("A talk", "Another talk"))


def a_new_event(path: Path) -> None:
    path.with_name("user.md").write_text("And then?")


def an_output(path: Path) -> None:
    (path.parents[1] / "artifacts" / "make").write_text("made")


def a_scratch_file(path: Path) -> None:
    path.with_name("scratch").write_text("text")
    os.utime(path.with_name("scratch"), ns=(PAST, PAST + 456))


WAYS = [
    in_place,
    by_renaming,
    with_a_time,
    with_a_time_by_renaming,
    nothing_new,
    all_records,
    the_title,
    a_new_event,
    an_output,
    a_scratch_file,
]


def times(root: Path) -> dict[str, int]:
    """Return the times of all files of the conversation, and of its transcript."""
    talk = root / "conversations" / "project" / NAME
    files = [path for path in sorted(talk.rglob("*")) if path.is_file()]
    files.append(root / "transcripts" / "project" / f"{NAME}.md")
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_time_that_closing_showed_stays(store_path: Path, way: Callable[[Path], None], edits: str) -> None:
    with new_store(store_path) as store:
        add(store, LINES)
    keep_each_save(store_path, f'edits = "{edits}"')
    with mounted(store_path) as mount:
        talk = Talk(mount)
        way(talk.first)
        until(lambda: not list((store_path / "scratch" / ".growing").glob("*/*")))
        closed = times(mount.root)
        for _ in range(2):
            talk.sync()
            assert times(mount.root) == closed
        if mount.make_kernel_forget():
            assert times(mount.root) == closed
        assert times(mount.root) == closed
    with mounted(store_path) as mount:
        assert times(mount.root) == closed


def test_every_save_has_another_time(talk: Talk) -> None:
    seen = [talk.first.stat().st_mtime_ns]
    for number in range(20):
        talk.first.write_bytes(changed(talk.first, "Hello" if not number else f"n{number - 1}", f"n{number}"))
        seen.append(talk.first.stat().st_mtime_ns)
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


def test_a_time_that_is_set_afterwards_changes_nothing(talk: Talk) -> None:
    """Programs that save set one by name (``rsync --inplace``), and would say that they failed."""
    (talk.root / "artifacts" / "make").write_text("made")
    until(lambda: not list((talk.mount.store / "scratch" / ".growing").glob("*/*")))
    output = talk.root / "artifacts" / "0.make.log"
    transcript = talk.mount.root / "transcripts" / "project" / f"{NAME}.md"
    whole = (talk.root / "events.json", talk.root / "metadata.json", transcript)
    for path in (talk.first, talk.events, talk.root, *whole, output):
        before = path.stat().st_mtime_ns
        os.utime(path, ns=(PAST, PAST))
        os.utime(path)
        assert path.stat().st_mtime_ns == before, path
    readme = talk.mount.root / "README.md"
    assert errno_of(lambda: os.utime(readme, ns=(PAST, PAST))) == errno.EPERM
    # cutting a file by its name sets its time too, and that is a save
    os.truncate(talk.first, 0)
    assert talk.shell(f"cp -p {FIRST} kept && touch -d @7 kept && stat -c %Y kept").strip() == "7"
