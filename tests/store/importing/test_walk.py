import gzip
import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from store.formats.core.format import Source
from store.importing import walk as module
from store.importing.importer import Importer
from store.importing.walk import (
    Found,
    Skipped,
    Unchanged,
    Unreadable,
    discover,
    leads_into,
    oldest_first,
    own_mounts,
    walk,
)
from store.store import Store
from tests.store.importing import test_database_changes as databases
from tests.store.importing.sessions import event, imported, jp, lines, session
from tests.store.importing.test_cursor import settle


def names(found: list[Found], kind: type = Source) -> list[str]:
    return [each.path.name for each in found if isinstance(each, kind)]


def test_a_directory_of_everything(tmp_path: Path) -> None:
    session(tmp_path, lines("b"), "b")
    session(tmp_path, lines("a"), "a")
    session(tmp_path, lines("sub"), "agent-1", project="-home-ada-shop/a/subagents")
    (tmp_path / "projects/-home-ada-shop/a/tool-results").mkdir()
    (tmp_path / "projects/-home-ada-shop/a/tool-results/1.txt").write_text("long output")
    (tmp_path / "projects/notes.md").write_text("# Notes")
    (tmp_path / "projects/other.jsonl").write_text('{"unlike": "any session"}\n')
    (tmp_path / "projects/binary").write_bytes(os.urandom(3000))
    jp(tmp_path, [event()])
    found = list(walk(tmp_path))
    assert names(found) == ["17727523543-fix-the-login", "a.jsonl", "b.jsonl", "agent-1.jsonl"]
    assert names(found, Skipped) == ["binary", "notes.md", "other.jsonl"]
    assert len(found) == 7


@pytest.mark.parametrize(("data", "kind"), [(b"broken", Source), (gzip.compress(b"{}", mtime=0), Skipped)])
def test_what_begins_as_no_session_does_is_none_under_any_name(tmp_path: Path, data: bytes, kind: type) -> None:
    path = tmp_path / ".factory/sessions/shop/s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert names(list(walk(tmp_path)), kind) == ["s.jsonl"]


def test_sessions_of_a_directory_are_imported_in_the_order_in_which_they_changed(tmp_path: Path) -> None:
    for at, name in enumerate("cab"):
        os.utime(session(tmp_path, lines(name), name), (at, at))
    early = session(tmp_path, lines("d"), "d", project="-home-ada-zoo")
    os.utime(early, (0, 0))
    (early.parent / "notes.md").write_text("# Notes")
    assert names([*oldest_first(walk(tmp_path))]) == ["c.jsonl", "a.jsonl", "b.jsonl", "d.jsonl"]
    with Store.open(tmp_path / "store") as store:
        Importer(store).run([tmp_path])
        sources = [Path(store.catalogue.entry(context).source).stem for context in sorted(store.catalogue.ids())]
    assert sources == ["c", "a", "b", "d"]
    assert len([*oldest_first(walk(early))]) == 1
    found = [*walk(tmp_path)]
    early.unlink()
    assert {id(one) for one in oldest_first(found)} == {id(one) for one in found}


def test_files_of_a_known_session_are_not_looked_at_again(tmp_path: Path) -> None:
    path = session(tmp_path, lines("a"), "a")
    output = path.with_suffix("") / "tool-results/1.txt"
    output.parent.mkdir(parents=True)
    output.write_text("long output")
    found = list(walk(tmp_path, known=lambda where: [str(output)] if where == path else None))
    assert found == [Unchanged(path)]


@pytest.mark.parametrize("what", ["fifo", "socket", "device", "dangling", "loop", "file"])
def test_what_is_no_session_never_blocks(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.jsonl"
    match what:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "device":
            path.symlink_to("/dev/zero")
        case "dangling":
            path.symlink_to("nowhere")
        case "loop":
            path.symlink_to(path.name)
        case "file":
            path.write_text("text")
    assert list(walk(tmp_path)) == [Skipped(path)]
    if what in ("dangling", "loop"):
        assert isinstance(next(walk(path)), Unreadable)
    else:
        assert list(walk(path)) == [Skipped(path)]


def test_a_conversation_of_fifos_never_blocks(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event()])
    for name in ("base_config.json", "metadata.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    imported(store, folder)
    (folder / "events.json").unlink()
    os.mkfifo(folder / "events.json")
    assert list(walk(folder)) == [
        Skipped(folder / name) for name in ("base_config.json", "events.json", "metadata.json")
    ]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_database_beside_fifos_never_blocks(store: Store, tmp_path: Path, by_hand: bool) -> None:
    path = tmp_path / "data.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(databases.CRUSH)
        databases.crush(database, 1, 3)
        database.commit()
    for ending in ("-wal", "-journal", "-shm"):
        os.mkfifo(f"{path}{ending}")
    for imported_, unchanged in ((1, 0), (0, 1)):
        report = Importer(store).run([path], by_hand=by_hand)
        assert report.errors == []
        assert (report.imported, report.unchanged) == (imported_, unchanged)


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    path = session(tmp_path, lines("a"))
    (tmp_path / "again").symlink_to(tmp_path / "projects")
    (path.parent / "loop").symlink_to(tmp_path)
    linked = tmp_path / "linked.jsonl"
    linked.symlink_to(path)
    found = [(source.format, source.path) for source in walk(tmp_path) if isinstance(source, Source)]
    assert found == [("claude-code", linked), ("claude-code", path)]
    assert names(list(walk(tmp_path / "again"))) == [path.name]


def test_directories_nested_deeper_than_calls_may_be(tmp_path: Path) -> None:
    depth = min((os.pathconf(tmp_path, "PC_PATH_MAX") - len(str(tmp_path)) - 60) // 2, 1500)
    deepest = tmp_path.joinpath(*["d"] * depth)
    subprocess.run(["mkdir", "-p", deepest], check=True)
    (deepest / "a.jsonl").write_bytes(lines("a"))
    try:
        assert names(list(walk(tmp_path))) == ["a.jsonl"]
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_beyond_the_longest_path_is_an_error_and_no_more(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=here)
            deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
    finally:
        os.close(here)
    found = list(walk(tmp_path))
    assert [type(each) for each in found] == [Unreadable]
    assert "too long" in found[0].reason  # type: ignore[union-attr]
    subprocess.run(["rm", "-rf", tmp_path / ("d" * 200)], check=True)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path / ("x" * 300), tmp_path / "nul\0"):
        (found,) = walk(path)
        assert isinstance(found, Unreadable)
        assert found.reason


@pytest.mark.parametrize("name", [b"\xff\xfe", b"with\nnewline", b"emoji \xf0\x9f\x98\x80", b"-", b"$(x)"])
def test_names_of_any_bytes(store: Store, tmp_path: Path, name: bytes) -> None:
    folder = os.path.join(os.fsencode(tmp_path), name)
    os.mkdir(folder)
    path = Path(os.fsdecode(os.path.join(folder, name + b".jsonl")))
    path.write_bytes(lines("One"))
    output = path.with_suffix("") / "tool-results" / os.fsdecode(name)
    output.parent.mkdir(parents=True)
    output.write_text("long")
    skipped = tmp_path / os.fsdecode(name + b".txt")
    skipped.write_text("")
    time.sleep(0.03)
    assert imported(store, tmp_path).imported == 1
    assert imported(store, tmp_path).unchanged == 1
    (conversation,) = store.library.conversations()
    assert conversation.title == "One"


@pytest.mark.parametrize("name", ["17727523543-\udcff\udcfe", "17727523543-title"])
def test_directories_of_any_bytes(store: Store, tmp_path: Path, name: str) -> None:
    folder = jp(tmp_path / "\udcff", [event()], name=name)
    (folder / "metadata.json").write_text("{}")
    (folder / "\udcfd").write_text("beside")
    assert imported(store, tmp_path).imported == 1


def test_own_mounts_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mountpoint = tmp_path / "ünd mnt"
    session(tmp_path, lines("a"), "a")
    session(mountpoint, lines("b"), "b")
    (tmp_path / "link").symlink_to(mountpoint / "projects/-home-ada-shop/b.jsonl")
    monkeypatch.setattr(module, "own_mounts", lambda: frozenset([mountpoint]))
    touched: list[str] = []
    real = os.stat

    def noting(path: object, *arguments: object, **options: object) -> os.stat_result:
        touched.append(str(path))
        return real(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", noting)
    assert names(list(walk(tmp_path))) == ["a.jsonl"]
    for inside in (mountpoint, mountpoint / "projects", mountpoint / "missing/deep"):
        (found,) = walk(inside)
        assert isinstance(found, Unreadable)
        assert "mounted store" in found.reason
    assert not any(path.startswith(str(mountpoint)) for path in touched)


def test_own_mounts_are_read_from_the_mount_table(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes(
        b"25 1 0:23 / / rw,relatime shared:1 - ext4 /dev/sda rw\n"
        b"90 25 0:52 / /home/ada/my\\040stor\xc3\xa9 rw,nosuid - fuse.convfs convfs rw,user_id=1000\n"
        b"91 25 0:53 / /home/\xff rw,nosuid shared:7 - fuse.convfs convfs rw\n"
        b"92 25 0:54 / /mnt/other rw - fuse.sshfs ada@host rw\n"
        b"93 25 0:55 / /mnt/plain rw - fuse thing rw\n"
    )
    assert own_mounts(table) == {Path("/home/ada/my storé"), Path("/home/\udcff")}
    assert isinstance(own_mounts(), frozenset)


def test_sessions_are_found_where_tools_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    session(tmp_path / ".claude", lines("a"))
    workspace = tmp_path / ".local/share/jp/workspace/shop-ab1cd/conversations/17727523543-private"
    workspace.mkdir(parents=True)
    jp(tmp_path / "code/shop", [event()])
    (tmp_path / "code/shop/src").mkdir()
    found = discover(tmp_path, tmp_path / "code/shop/src")
    assert found == [
        tmp_path / ".claude/projects",
        tmp_path / "code/shop/.jp/conversations",
        workspace.parent,
    ]
    assert discover(tmp_path / "code", tmp_path) == []


AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from store.importing.walk import walk
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for found in walk(Path(sys.argv[2])):
    print(type(found).__name__, found.path.name, getattr(found, "reason", ""))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody who may not read a file")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    public = Path("/var/tmp") / f"convfs-test-{os.getpid()}"
    session(public, lines("a"), "open")
    closed = session(public, lines("b"), "closed")
    locked = public / "projects/locked"
    locked.mkdir()
    try:
        closed.chmod(0)
        locked.chmod(0)
        for folder in (public, public / "projects", closed.parent):
            folder.chmod(0o755)
        root = Path(__file__).parents[3]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, root, public], capture_output=True, text=True, timeout=60, check=False
        )
        if "PermissionError" in done.stderr or "ModuleNotFoundError" in done.stderr:
            pytest.skip("nobody may not read the code here")
        assert done.stdout.splitlines() == [
            "Unreadable closed.jsonl Permission denied",
            "Source open.jsonl ",
            "Unreadable locked Permission denied",
        ]
    finally:
        subprocess.run(["rm", "-rf", public], check=True)


def test_a_directory_that_goes_while_it_is_walked(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        session(tmp_path, lines(name), name, project=name)
    found = []
    for each in walk(tmp_path):
        found.append(each)
        for project in ("b", "c"):
            subprocess.run(["rm", "-rf", tmp_path / "projects" / project], check=True)
    assert names(found) == ["a.jsonl"]
    assert len(found) == 1
    assert stat.S_ISDIR((tmp_path / "projects").stat().st_mode)


def test_a_path_that_leads_into_a_mount_by_links(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    (tmp_path / "home").mkdir()
    (tmp_path / "home/sessions").symlink_to("../mount/native/tool")
    (tmp_path / "home/again").symlink_to(tmp_path / "home/sessions")
    (tmp_path / "home/round").symlink_to("round")
    (tmp_path / "home/other").symlink_to("nowhere")
    mounts = frozenset([mount])
    leading = ["sessions", "again", "again/project"]
    assert all(leads_into(tmp_path / "home" / path, mounts) for path in leading)
    assert leads_into(mount, mounts)
    assert leads_into(mount / "native", mounts)
    assert not any(leads_into(tmp_path / "home" / path, mounts) for path in ("round", "other", "other/x", ".", "none"))
    assert not leads_into(tmp_path / "home/sessions", frozenset())


def events(folder: Path, count: int) -> list[Path]:
    """Write a session of OpenHands, a file an event; return the files in order."""
    folder.mkdir(parents=True)
    files = [folder / f"{number}.json" for number in range(count)]
    for number, file in enumerate(files):
        event = {"id": number, "source": "user", "action": "message", "args": {"content": f"Number {number}"}}
        file.write_text(json.dumps(event))
    return files


def test_thousands_of_files_are_looked_at_as_they_are_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sessions/1/events"
    files = set(map(str, events(folder, 400)))
    looked_at: list[str] = []
    for name in ("stat", "lstat"):
        real = getattr(os, name)

        def noting(path: object, *more: object, real: Callable[..., os.stat_result] = real, **how: object) -> object:
            looked_at.append(str(path))
            return real(path, *more, **how)

        monkeypatch.setattr(os, name, noting)
    assert imported(store, tmp_path).records == 400
    # a sample tells how large they are
    assert len([path for path in looked_at if path in files]) < 50
    assert imported(store, tmp_path).unchanged == 1
    settle()
    (folder / "7.json").write_text((folder / "8.json").read_text())
    assert imported(store, tmp_path).grown == 1


def test_none_of_many_files_leads_out(tmp_path: Path) -> None:
    *first, main = events(tmp_path / "unpacked/events", 40)
    source = Source("openhands", main.parent, main, first=tuple(map(str, first)))
    assert list(module._Bounds(main.parent).kept(source)) == [source]
    first[20].rename(tmp_path / "secret.json")
    first[20].symlink_to(tmp_path / "secret.json")
    (found,) = module._Bounds(main.parent).kept(source)
    assert isinstance(found, Unreadable)
    assert found.path == first[20]


def test_links_that_lead_out_of_a_folder_are_not_followed(store: Store, tmp_path: Path) -> None:
    secret = session(tmp_path / "home", lines("Secret"), "secret")
    (tmp_path / "home/ssh").mkdir()
    (tmp_path / "home/ssh/id").write_text("Secret key")
    inside = session(tmp_path / "unpacked", lines("Mine"), "mine")
    inside.with_name("link.jsonl").symlink_to(secret)
    # what lies beside a session is kept with it
    inside.with_suffix("").symlink_to(tmp_path / "home/ssh")
    # a conversation that is a directory, its files links
    for name, target in (("events.json", "home/events.json"), ("base_config.json", "home/ssh/id")):
        folder = jp(tmp_path / "unpacked", [event(text="Secret events")], name=f"1772752354{len(name)}-x")
        (tmp_path / "home/events.json").write_bytes((folder / "events.json").read_bytes())
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / target)
    again = session(tmp_path / "unpacked", lines("Mine"), "again").with_name("within.jsonl")
    again.symlink_to(inside)
    found = list(walk(tmp_path / "unpacked"))
    assert {one.path.name for one in found if isinstance(one, Source)} == {"mine.jsonl", "again.jsonl", "within.jsonl"}
    assert not any(one.sidecars for one in found if isinstance(one, Source))
    assert Skipped(inside.with_name("link.jsonl")) in found
    told = {one.path.name for one in found if isinstance(one, Unreadable)}
    assert told == {"id", "events.json", "base_config.json"}
    Importer(store).run([tmp_path / "unpacked"])
    for conversation in store.library.conversations():
        events = store.viewer.events(list(store.records.rows(conversation.head)))
        assert not any("Secret" in str(event) for event in events)
    # what is named itself may be a link, as ~/.claude often is one
    (tmp_path / "link").symlink_to(tmp_path / "home/projects")
    (found_there,) = [one for one in walk(tmp_path / "link") if isinstance(one, Source)]
    assert found_there.path.name == "secret.jsonl"
    assert isinstance(next(walk(inside.with_name("link.jsonl"))), Source)


def test_an_id_is_no_path_to_other_files(tmp_path: Path) -> None:
    (tmp_path / "home/private").mkdir(parents=True)
    (tmp_path / "home/private/a.json").write_text('{"key": "Secret"}')
    path = tmp_path / "storage/session/project/ses_1.json"
    path.parent.mkdir(parents=True)
    (tmp_path / "storage/message").mkdir()
    for identifier in ("../../home/private", str(tmp_path / "home/private")):
        path.write_text(json.dumps({"id": identifier, "directory": "/x", "time": {"created": 1}}))
        (found,) = walk(path)
        assert isinstance(found, Source)
        assert found.first == ()
