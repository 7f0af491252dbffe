"""The disk cannot read for a moment while sessions' files are written: afterwards all is as it was told."""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.native.test_native import NAME, OTHER, Native, imported, native_session, text
from tests.fusefs.tree.mounting import Mounted, assistant, errno_of, mounted, new_store, until, user

NOISE = random.Random(8)
LINES = [
    (user if number % 2 else assistant)(f"{number} www {NOISE.randbytes(8000).hex()}", number) for number in range(24)
]


@contextmanager
def unreadable(mount: Mounted) -> Iterator[None]:
    mount.tell(unreadable=True)
    try:
        yield
    finally:
        mount.tell(unreadable=False)


@pytest.fixture
def native(store_path: Path, tmp_path: Path) -> Iterator[Native]:
    with native_session(store_path, tmp_path, LINES) as native:
        yield native


def append(file: Path, line: str) -> bool:
    """Append a line as a program does that wants to know; say whether it was taken, whatever a sync then said."""
    fd = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        if refused := errno_of(lambda: os.write(fd, text([line]))):
            assert refused == errno.EIO
            return False
        assert {errno_of(lambda: os.fsync(fd)) for _ in range(3)} <= {0, errno.EIO}
        return True
    finally:
        errno_of(lambda: os.close(fd))


@pytest.mark.parametrize(
    ("number", "read"), [(1, [1, 24]), (12, [12, 24]), (24, []), (24, [24]), (24, [23, 24])], ids=str
)
def test_a_line_is_appended_once_while_an_event_was_edited(native: Native, number: int, read: list[int]) -> None:
    events = [native.talk / "events" / name for name in native.events()]
    event = events[number - 1]
    header = event.read_text().partition("---\n")[2].partition("---\n")[0]
    # which records are at hand decides how far the program gets
    native.mount.tell(forget=True)
    for known in read:
        with events[known - 1].open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read()
    with unreadable(native.mount):
        # what stands there cannot be compared with what is saved, so the edit may be refused
        edited = errno_of(lambda: event.write_text(f"---\n{header}---\nEdited.\n"))
        assert edited in (0, errno.EIO)
        assert append(native.file, user("Appended.", 40))
    until(lambda: native.events()[-1].startswith("00025"))
    assert (native.talk / "events" / native.events()[-1]).read_text().endswith("Appended.\n")
    until(lambda: errno_of(native.file.read_bytes) == 0)
    content = native.file.read_bytes()
    assert content.count(b"Appended.") == 1
    assert content.count(b"\n") == len(LINES) + 1
    assert native.append(user("And more.", 41)) == content + text([user("And more.", 41)])


@pytest.mark.parametrize("gone", [1, 23])
def test_a_line_is_appended_once_to_a_file_that_lacks_a_record(native: Native, gone: int) -> None:
    # such a file is put together from all that is left, which must be read
    (native.talk / "events" / native.events()[gone - 1]).unlink()
    os.sync()
    until(lambda: native.file.read_bytes().count(b"\n") == len(LINES) - 1)
    before = native.file.read_bytes()
    with unreadable(native.mount):
        taken = append(native.file, user("Appended.", 40))
    if not taken:
        assert append(native.file, user("Appended.", 40))
    until(lambda: errno_of(native.file.read_bytes) == 0 and native.events()[-1].startswith("00025"))
    until(lambda: native.file.read_bytes() == before + text([user("Appended.", 40)]))
    [event] = [name for name in native.events() if "Appended." in (native.talk / "events" / name).read_text()]
    assert event.startswith("00025")


def test_a_new_session_becomes_one_conversation(native: Native) -> None:
    other = native.folder / OTHER
    with unreadable(native.mount):
        errno_of(lambda: other.write_bytes(text(LINES[:3])))
    until(lambda: errno_of(other.read_bytes) == 0 and other.read_bytes() == text(LINES[:3]))
    until(lambda: len(list((native.mount.root / "conversations/project").iterdir())) == 2)
    assert native.mount.shell("ls .convfs/native/claude-code/*").split() == [NAME, OTHER]


def test_what_could_not_be_measured_is_measured_later(store_path: Path, tmp_path: Path) -> None:
    with imported(store_path, tmp_path, LINES) as store:
        # as after an index that was made anew
        [entry] = store.catalogue.every()
        store.records.forget(entry)
    (store_path / "convfs.toml").write_text("content_cache_bytes = 0\n")
    with mounted(store_path) as mount:
        native = Native(mount)
        with unreadable(mount):
            native.events()
            assert errno_of((native.talk / "events/00004-user.md").read_bytes) in (errno.ENOENT, errno.EIO)
            assert errno_of(native.file.read_bytes) == errno.EIO
        until(lambda: len(native.events()) == len(LINES))
        assert "3 www" in (native.talk / "events/00004-user.md").read_text()
        assert native.file.read_bytes() == text(LINES)
        sizes = {name: (native.talk / "events" / name).stat().st_size for name in native.events()}
        assert sizes == {name: len((native.talk / "events" / name).read_bytes()) for name in native.events()}
        [transcript] = (mount.root / "transcripts/project").iterdir()
        until(lambda: transcript.stat().st_size == len(transcript.read_bytes()) > sum(map(len, LINES)) // 2)
    with new_store(store_path) as store:
        assert fsck(store) == []


def test_the_check_compares_sizes_with_what_files_show(store_path: Path, tmp_path: Path) -> None:
    with imported(store_path, tmp_path, LINES) as store:
        assert fsck(store) == []
        [conversation] = store.library.conversations()
        row = store.records.rows(conversation.head)[6]
        store.views.add([type(row)(row.turn, row.number, row.kind, "", 0, row.time_ms, 90, 4, 6, 0)], ())
        told = [finding.message for finding in fsck(store)]
    assert any(f"turn {row.turn}" in message and "convfs reindex" in message for message in told)
    assert any(f"{conversation.project}/{conversation.name}" in message for message in told)


@pytest.mark.parametrize("seed", range(40 if os.environ.get("CONVFS_LARGE_TESTS") else 2))
def test_at_random(native: Native, seed: int) -> None:
    """The disk fails and comes back while lines are appended and events are edited: each line is there once."""
    chance = random.Random(seed)
    bad, markers = False, list[str]()
    for step in range(25):
        match chance.choice(["bad", "append", "append", "append", "edit", "read", "forget"]):
            case "bad":
                bad = not bad
                native.mount.tell(unreadable=bad)
            case "append":
                marker = f"line {step} of {seed};"
                if append(native.file, user(marker, 100 + step)):
                    markers.append(marker)
            case "edit":
                name = f"{chance.randrange(1, len(LINES) + 1):05}"
                event = next((path for path in native.talk.glob(f"events/{name}-*.md")), None)
                if event is not None and not errno_of(event.read_bytes):
                    edited = event.read_text() + f"edit {step}\n"
                    assert errno_of(partial(event.write_text, edited)) in (0, errno.EIO)
            case "read":
                assert errno_of(native.file.read_bytes) in (0, errno.EIO)
            case "forget":
                native.mount.tell(forget=True)
    native.mount.tell(unreadable=False)
    until(lambda: errno_of(native.file.read_bytes) == 0)
    until(lambda: len(native.events()) == len(LINES) + len(markers))
    content = native.file.read_bytes().decode()
    assert [content.count(marker) for marker in markers] == [1] * len(markers)
    shown = "".join((native.talk / "events" / name).read_text() for name in native.events()[len(LINES) :])
    assert [shown.count(marker) for marker in markers] == [1] * len(markers)
