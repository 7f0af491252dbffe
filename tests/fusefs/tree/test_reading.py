"""A mounted store, as programs see it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fusefs.text.readme import README
from store.store import Store
from tests.fusefs.tree.mounting import TALK, Mounted, add, assistant, bookkeeping, errno_of, mounted, new_store, user

LINES = [
    user("Hello there", 1),
    assistant("General greetings\nin two lines", 2),
    bookkeeping(),
    user("Grüße 🌍 " + "x" * 5000, 3),
    "not JSON at all",
]


@pytest.fixture
def mount(store_path: Path) -> Iterator[Mounted]:
    with new_store(store_path) as store:
        add(store, LINES)
        add(store, [user("elsewhere", 9)], project="other", name="2026-03-05-talk")
    with mounted(store_path) as here:
        yield here


def files(root: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                yield path


def test_every_size_is_exact_before_and_after_reading(mount: Mounted) -> None:
    unlisted = [mount.root / TALK / ".records", mount.root / TALK / ".versions"]
    found = [path for root in (mount.root, *unlisted) for path in files(root)]
    assert len(found) > 15
    for path in found:
        size = path.stat().st_size
        assert len(path.read_bytes()) == size, path
        assert path.stat().st_size == size, path


def test_the_root_lists_what_people_need_and_nothing_that_costs(mount: Mounted) -> None:
    assert sorted(os.listdir(mount.root)) == [
        "README.md",
        "by-branch",
        "by-date",
        "by-label",
        "by-model",
        "by-tool",
        "conversations",
        "html",
        "import",
        "recent",
        "search",
        "transcripts",
    ]
    assert (mount.root / "README.md").read_text() == README
    assert sorted(os.listdir(mount.root / TALK)) == ["events", "events.json", "forks", "metadata.json", "resources"]
    assert (mount.root / TALK / ".records").is_dir()
    assert (mount.root / ".convfs").is_dir()


def test_directories_begin_with_dots_that_lead_the_right_way(mount: Mounted) -> None:
    assert mount.shell("ls -a").split()[:2] == [".", ".."]
    for name in (
        "",
        "conversations",
        "conversations/project",
        TALK,
        f"{TALK}/events",
        "by-date/2026/03/05",
        "by-label",
        "recent",
    ):
        with os.scandir(mount.root / name) as entries:
            assert all(entry.inode() for entry in entries)
        raw = mount.shell(f"ls -ai '{name or '.'}'").splitlines()
        dots = {line.split()[1]: int(line.split()[0]) for line in raw if line.split()[1] in (".", "..")}
        assert dots["."] == os.stat(mount.root / name).st_ino
        if name:
            assert dots[".."] == os.stat((mount.root / name).parent).st_ino


def test_bookkeeping_keeps_its_number_and_has_no_file(mount: Mounted) -> None:
    names = sorted(os.listdir(mount.root / TALK / "events"))
    assert names == ["00001-user.md", "00002-assistant.md", "00004-user.md", "00005-note.md"]
    assert not (mount.root / TALK / "events" / "00003-record.md").exists()
    records = mount.root / TALK / ".records"
    assert sorted(os.listdir(records)) == [f"{number:05}.json" for number in range(1, 6)]
    assert [(records / name).read_bytes() for name in sorted(os.listdir(records))] == [line.encode() for line in LINES]


def test_the_number_finds_an_event_whatever_follows_it(mount: Mounted) -> None:
    events = mount.root / TALK / "events"
    listed = events / "00002-assistant.md"
    other = events / "00002-whatever I like.md"
    assert other.read_bytes() == listed.read_bytes()
    assert other.stat().st_ino == listed.stat().st_ino
    for name in ("00002", "2-assistant.md", "00000-x.md", "00099-user.md", "00002-assistant.txt", "user.md", ".x.swp"):
        assert not (events / name).exists(), name


def test_content_is_what_was_said(mount: Mounted) -> None:
    events = mount.root / TALK / "events"
    assert (events / "00002-assistant.md").read_text().endswith("---\nGeneral greetings\nin two lines\n")
    assert "Grüße 🌍 " + "x" * 5000 in (events / "00004-user.md").read_text()
    assert mount.run("grep", "-rl", "General greetings", "conversations").stdout.split() == [
        f"{TALK}/events/00002-assistant.md"
    ]
    transcript = (mount.root / "transcripts/project/2026-03-05-talk.md").read_text()
    assert transcript.index("Hello there") < transcript.index("General greetings") < transcript.index("Grüße")


def test_a_part_of_any_file_is_that_part_of_the_whole(mount: Mounted) -> None:
    for name in (f"{TALK}/events/00004-user.md", f"{TALK}/events.json", "transcripts/project/2026-03-05-talk.md"):
        whole = (mount.root / name).read_bytes()
        with open(mount.root / name, "rb", buffering=0) as file:
            for offset in (0, 1, 100, 4095, 4096, len(whole) - 1, len(whole), len(whole) + 1, 1 << 40, (1 << 62)):
                assert os.pread(file.fileno(), 777, offset) == whole[offset : offset + 777], (name, offset)


def test_times_are_those_of_events(mount: Mounted) -> None:
    status = os.stat(mount.root / TALK / "events" / "00002-assistant.md")
    assert status.st_mtime == 1_772_712_002
    assert status.st_nlink == 1
    assert status.st_uid == os.getuid()


def test_link_counts_are_those_of_subdirectories(mount: Mounted) -> None:
    for name in (
        "",
        "conversations",
        TALK,
        f"{TALK}/events",
        "by-date",
        "by-date/2026",
        "by-label",
    ):
        path = mount.root / name
        below = sum(1 for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
        assert path.stat().st_nlink == 2 + below, name
    # not counted, and said so
    for name in ("conversations/project", f"{TALK}/resources", "by-tool", "by-branch", "by-model"):
        assert (mount.root / name).stat().st_nlink == 1


def test_no_two_files_share_an_inode(mount: Mounted) -> None:
    seen: dict[int, str] = {}
    for directory, names, below in os.walk(mount.root):
        for name in (*names, *below):
            path = os.path.join(directory, name)
            number = os.lstat(path).st_ino
            assert number < 1 << 53
            assert seen.setdefault(number, path) == path
    assert "loop" not in mount.run("find", ".", "-name", "x").stderr


def test_links_lead_to_conversations(mount: Mounted) -> None:
    day = mount.root / "by-date/2026/03/05"
    names = sorted(os.listdir(day))
    assert names == ["2026-03-05-talk", "2026-03-05-talk@other"]
    assert names == sorted(os.listdir(mount.root / "recent"))
    for directory in (day, mount.root / "recent"):
        for name, project in zip(names, ("project", "other"), strict=True):
            link = directory / name
            assert not os.path.isabs(os.readlink(link))
            assert len(os.readlink(link)) == link.lstat().st_size
            assert link.resolve() == mount.root / "conversations" / project / "2026-03-05-talk"


def test_extended_attributes(mount: Mounted) -> None:
    event = mount.root / TALK / "events" / "00002-assistant.md"
    told = dict(line.split(": ", 1) for line in os.getxattr(event, "user.convfs.all").decode().splitlines())
    assert {"turn", "hash", "type", "model"} <= told.keys()
    assert all(os.getxattr(event, f"user.convfs.{name}").decode() == value for name, value in told.items())
    assert os.getxattr(event, "user.convfs.model") == b"claude-test-1"
    assert os.getxattr(event, "user.convfs.type") == b"claude-code.line.v1"
    digest = os.getxattr(event, "user.convfs.hash").decode()
    assert (mount.root / ".convfs/blobs" / digest).read_bytes() == LINES[1].encode()
    assert os.getxattr(mount.root / TALK, "user.convfs.title") == b"A talk"
    for name, expected in (
        ("security.selinux", errno.ENODATA),
        ("security.capability", errno.ENODATA),
        ("user.other", errno.ENODATA),
        ("user.convfs.nothing", errno.ENODATA),
        ("system.posix_acl_access", errno.EOPNOTSUPP),
    ):
        assert errno_of(partial(os.getxattr, event, name)) == expected, name


def test_what_is_copied_along_is_what_people_set(mount: Mounted, tmp_path: Path) -> None:
    """A copy takes no attributes that it would then tell wrongly of itself, nor the time to read them."""
    talk = mount.root / TALK
    for folder, folders, files in os.walk(talk):
        for name in (*folders, *files):
            assert os.listxattr(Path(folder, name), follow_symlinks=False) == []
    os.setxattr(talk, "user.convfs.label.todo", b"1")
    assert os.listxattr(talk) == ["user.convfs.label.todo"]
    subprocess.run(["cp", "-a", talk, tmp_path / "copy"], check=True)
    assert (tmp_path / "copy" / "events" / "00002-assistant.md").read_bytes() == (
        talk / "events" / "00002-assistant.md"
    ).read_bytes()
    os.removexattr(talk, "user.convfs.label.todo")
    assert os.listxattr(talk) == []


def test_every_write_to_what_was_is_refused(mount: Mounted) -> None:
    versions = mount.root / TALK / ".versions"
    event = versions / os.listdir(versions)[0] / "events" / "00002-assistant.md"
    before = event.read_bytes()
    attempts = [
        lambda: event.open("r+b"),
        lambda: event.open("wb"),
        lambda: event.open("ab"),
        lambda: (event.parent / "00009-user.md").open("xb"),
        lambda: event.unlink(),
        lambda: event.rename(event.with_name("x")),
        lambda: os.truncate(event, 0),
        lambda: os.symlink("a", event.with_name("z")),
        lambda: (event.parent / "directory").mkdir(),
        lambda: event.parent.rmdir(),
        lambda: os.mkfifo(event.with_name("fifo")),
    ]
    for attempt in attempts:
        assert errno_of(attempt) == errno.EROFS
    assert event.read_bytes() == before


def test_names_that_cannot_be(mount: Mounted) -> None:
    for directory in (mount.root, mount.root / "conversations", mount.root / TALK / "events"):
        assert errno_of((directory / ("n" * 256)).stat) == errno.ENAMETOOLONG
        with pytest.raises(FileNotFoundError):
            os.stat(os.fsencode(directory) + b"/\xff\xfe")
        assert not (directory / ("n" * 255)).exists()


def test_a_listing_goes_on_where_it_was(mount: Mounted) -> None:
    names = os.listdir(mount.root / TALK / "events")
    assert len(names) == len(set(names))
    script = f"""
import os
fd = os.open({str(mount.root / TALK / "events")!r}, os.O_RDONLY)
first = os.listdir(fd)
assert os.listdir(fd) == first == {names!r}, (first, os.listdir(fd))
"""
    mount.run("python3", "-c", script)


def test_df_shows_the_store(mount: Mounted) -> None:
    status = os.statvfs(mount.root)
    assert status.f_namemax == 255
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    size = sum(path.stat().st_size for path in mount.store.rglob("*") if path.is_file())
    assert abs(used - size) <= size // 2 + status.f_frsize
    assert 0 < status.f_bavail <= status.f_bfree


def test_the_control_directory(mount: Mounted) -> None:
    control = mount.root / ".convfs"
    listed = ["blobs", "errors", "log", "native", "settings.toml", "stats.json", "stats.svg", "trash"]
    assert sorted(os.listdir(control)) == listed
    assert b'"conversations": 2' in (control / "stats.json").read_bytes()
    assert mount.shell("cat .convfs/stats.json; cp .convfs/stats.json /dev/null")
    assert (control / "settings.toml").read_bytes() == b""
    (mount.store / "convfs.toml").write_text("poll_microseconds = 10\n")
    assert (control / "settings.toml").read_text() == "poll_microseconds = 10\n"
    assert os.listdir(control / "blobs") == os.listdir(control / "errors") == []
    for name in ("0" * 64, "0" * 63, "G" * 64, "AB" * 32, "x"):
        assert not (control / "blobs" / name).exists()


def test_names_no_file_can_have_are_shown_under_others(store_path: Path) -> None:
    with new_store(store_path) as store:
        ids = [
            add(store, [user("one")], project="a/b", name="c/d"),
            add(store, [user("two")], project="a/b", name=".."),
            add(store, [user("three")], project="a_b", name="n" * 300),
            add(store, [user("four")], project="\x1b[31m", name="tab\there"),
        ]
    with mounted(store_path) as mount:
        listed = mount.shell("ls conversations/* transcripts/*; cat conversations/*/*/events/*")
        assert [word in listed for word in ("one", "two", "three", "four")] == [True] * 4
        shown = [name for project in (mount.root / "conversations").iterdir() for name in os.listdir(project)]
        assert sorted(int(name.rpartition("~")[2]) for name in shown) == ids
        for link in (mount.root / "recent").iterdir():
            assert link.resolve().is_dir()


def test_an_empty_store_and_an_empty_conversation(store_path: Path) -> None:
    with new_store(store_path):
        pass
    with mounted(store_path) as mount:
        assert os.listdir(mount.root / "conversations") == os.listdir(mount.root / "by-date") == []
    with new_store(store_path) as store:
        add_empty(store)
    with mounted(store_path) as mount:
        empty = mount.root / "conversations/project/2026-03-05-empty"
        assert os.listdir(empty / "events") == os.listdir(empty / "resources") == os.listdir(empty / ".records") == []
        assert (empty / "events.json").read_bytes() == b"[]\n"
        for path in files(mount.root):
            assert len(path.read_bytes()) == path.stat().st_size


def add_empty(store: Store) -> None:
    store.contexts.create(metadata={"project": "project", "name": "2026-03-05-empty", "title": "Empty"})
