"""Gestures of programs and people below ``.convfs/native/``, one by one."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import Mounted, assistant, bookkeeping, errno_of, mounted, new_store, until, user

NAME = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
OTHER = "1b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c91.jsonl"
LINES = [user("Buy milk."), bookkeeping(), assistant("Done.", 1), user("And bread.", 2), assistant("Done, too.", 3)]
FIRST = ".convfs/native/claude-code/-home-dev-project"


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class Native:
    """A mounted store with one session; afterwards the file is what an export writes."""

    def __init__(self, mount: Mounted) -> None:
        self.mount = mount
        self.folder = mount.root / FIRST
        self.file = self.folder / NAME

    @property
    def talk(self) -> Path:
        [found] = (self.mount.root / "conversations/project").iterdir()
        return found

    def events(self) -> list[str]:
        return sorted(os.listdir(self.talk / "events"))

    def append(self, line: str) -> bytes:
        with self.file.open("ab") as file:
            file.write(text([line]))
        return self.file.read_bytes()


def check(store: Path, expected: dict[str, bytes]) -> None:
    with new_store(store) as opened:
        assert fsck(opened) == []
        for number, conversation in enumerate(opened.library.conversations()):
            [path, *_] = export_native(opened, conversation, store.parent / f"out-{number}")
            assert path.read_bytes() == expected.pop(path.name)
    assert expected == {}


@contextmanager
def imported(store_path: Path, folder: Path, lines: list[str]) -> Iterator[Store]:
    """Yield a new store, into which a session of these lines was imported."""
    session = folder / "-home-dev-project" / NAME
    session.parent.mkdir()
    session.write_bytes(text(lines))
    with new_store(store_path) as store:
        Importer(store).run([session])
        yield store


@contextmanager
def native_session(store_path: Path, folder: Path, lines: list[str]) -> Iterator[Native]:
    """Mount a store with one session of these lines; afterwards check what the mount showed of its files."""
    with imported(store_path, folder, lines):
        pass
    with mounted(store_path) as mount:
        native = Native(mount)
        yield native
        files = {path.name: path.read_bytes() for path in native.folder.parent.rglob("*.jsonl")}
    check(store_path, files)


@pytest.fixture
def native(store_path: Path, tmp_path: Path) -> Iterator[Native]:
    with native_session(store_path, tmp_path, LINES) as native:
        yield native


def test_a_tool_that_a_page_describes_writes_its_sessions_there(store_path: Path) -> None:
    """By pieces, with what describes them beside; what a person writes goes into its file as the tool writes it."""
    with new_store(store_path):
        pass

    def line(kind: str, number: int, **data: object) -> bytes:
        about = {"id": f"e{number}", "timestamp": "2026-03-05T19:31:54.000Z", "parentId": None}
        return json.dumps({"type": kind, "data": data, **about}).encode() + b"\n"

    began = line("session.start", 0, sessionId="s1", copilotVersion="1.0.102", context={"cwd": "/home/dev/project"})
    with mounted(store_path) as mount:
        folder = mount.root / ".convfs/native/copilot-cli/s1"
        folder.mkdir()
        (folder / "workspace.yaml").write_bytes(b"id: s1\n")
        with (folder / "events.jsonl").open("ab", buffering=0) as stream:
            stream.write(began)
            stream.write(line("user.message", 1, content="Buy milk.", attachments=[])[:30])
            stream.write(line("user.message", 1, content="Buy milk.", attachments=[])[30:])
        [talk] = (mount.root / "conversations/project").iterdir()
        for name in ("assistant.md", "reasoning.md", "note.md"):
            (talk / "events" / name).write_text(f"Written into {name}.\n")
        (talk / "events/call-bash.md").write_text('{"command": "ls"}\n')
        (talk / "events/result-bash.md").write_text("milk\n")
        assert [name.partition("-")[2] for name in sorted(os.listdir(talk / "events"))] == [
            *("user.md", "assistant.md", "reasoning.md", "note.md", "call-bash.md", "result-bash.md")
        ]
        content = (folder / "events.jsonl").read_bytes()
        records = [json.loads(one) for one in content.splitlines()]
        assert [one["type"] for one in records[2:]] == [
            *("assistant.message", "assistant.message", "session.info", "assistant.message", "tool.execution_complete")
        ]
        assert [one["parentId"] for one in records[2:]] == [one["id"] for one in records[1:-1]]
        assert records[-1]["data"]["toolCallId"] == records[-2]["data"]["toolRequests"][0]["toolCallId"]
    check(store_path, {"events.jsonl": content})


def test_what_was_imported_is_there(native: Native) -> None:
    assert native.file.read_bytes() == text(LINES)
    assert native.file.stat().st_size == len(text(LINES))
    assert os.getxattr(native.file, "user.convfs.context") == b"1"
    with native.file.open("rb") as file:
        file.seek(-30, os.SEEK_END)
        assert file.read() == text(LINES)[-30:]


def test_an_edit_of_an_event_is_in_the_file_and_what_is_appended_then_leaves_it(native: Native) -> None:
    native.mount.shell(f"sed -i 's/Buy milk/Buy oat milk/' {native.talk}/events/00001-user.md")
    edited = text([user("Buy oat milk."), *LINES[1:]])
    assert native.file.read_bytes() == edited
    assert native.append(user("And salt.", 4)) == edited + text([user("And salt.", 4)])
    assert native.events()[-1] == "00006-user.md"
    assert "oat" in (native.talk / "events/00001-user.md").read_text()


def test_an_event_that_is_edited_while_a_tool_goes_on_writing(native: Native) -> None:
    with native.file.open("ab", buffering=0) as stream:
        stream.write(text([user("One.", 4)]) + b'{"type":')
        native.mount.shell(f"sed -i 's/Buy milk/Buy a lot of oat milk/' {native.talk}/events/00001-user.md")
        stream.write(b'"user","message":{"role":"user","content":"Two."},"uuid":"u","parentUuid":null}\n')
    lines = native.file.read_bytes().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [json.loads(line)["type"] for line in LINES] + ["user"] * 2
    assert b"a lot of oat" in lines[0]
    assert (native.talk / "events/00007-user.md").read_text().endswith("Two.\n")


def test_a_deleted_event_is_not_in_the_file(native: Native) -> None:
    native.mount.shell(f"cd {native.talk}/events && rm 00004-user.md && sync .")
    assert native.file.read_bytes() == text([*LINES[:3], LINES[4]])
    assert native.append(user("And salt.", 6)) == text([*LINES[:3], LINES[4], user("And salt.", 6)])


def test_a_session_that_is_removed_is_in_the_trash_until_it_is_there_again(native: Native) -> None:
    talk = native.talk
    with native.file.open("rb") as reading:
        native.file.unlink()
        assert reading.read() == text(LINES)
    assert not native.file.exists()
    until(lambda: not talk.exists())
    assert os.listdir(native.mount.root / ".convfs/trash") == [talk.name]
    assert os.listdir(native.folder) == []
    native.file.write_bytes(text(LINES[:3]))
    assert os.listdir(native.folder) == [NAME]
    until(talk.exists)
    assert os.listdir(native.mount.root / ".convfs/trash") == []
    assert native.events() == ["00001-user.md", "00003-assistant.md"]
    assert len(os.listdir(talk / ".versions")) >= 2


def test_a_file_that_is_moved_away_and_written_anew_is_the_same_session(native: Native) -> None:
    native.mount.shell(f"cd {FIRST} && mv {NAME} {NAME}~ && cp {NAME}~ {NAME} && rm {NAME}~")
    assert native.file.read_bytes() == text(LINES)
    assert len(native.events()) == 4
    assert os.listdir(native.mount.root / ".convfs/trash") == []


def test_a_session_is_moved(native: Native) -> None:
    talk = native.talk
    to = native.folder.parent / "-elsewhere"
    to.mkdir()
    native.file.rename(to / OTHER)
    assert (to / OTHER).read_bytes() == text(LINES)
    assert not native.file.exists()
    assert talk.exists()
    with (to / OTHER).open("ab") as file:
        file.write(text([user("Goes on.", 5)]))
    assert native.events()[-1] == "00006-user.md"
    native.folder.rmdir()


def test_a_session_is_renamed_over_another_one(native: Native) -> None:
    for name in (OTHER, "temporary.jsonl"):
        other = native.folder / name
        data = text([*LINES[:3], user(f"This is in {name}.", 9)])
        other.write_bytes(data)
        with native.file.open("rb") as before, other.open("rb") as same:
            held = native.file.read_bytes()
            other.rename(native.file)
            assert before.read() == held
            assert same.read() == data
        assert native.file.read_bytes() == data
        assert os.listdir(native.folder) == [NAME]
    assert len(os.listdir(native.mount.root / "conversations/project")) == 1
    native.append(user("And on.", 10))


def test_a_file_that_is_called_otherwise_is_no_session_whatever_it_holds(native: Native) -> None:
    for name in (".hidden.jsonl", "session.tmp"):
        (native.folder / name).write_bytes(text(LINES))
    assert sorted(os.listdir(native.folder)) == [".hidden.jsonl", NAME, "session.tmp"]
    assert len(os.listdir(native.mount.root / "conversations/project")) == 1
    (native.folder / "session.tmp").rename(native.file)
    (native.folder / ".hidden.jsonl").unlink()
    assert native.file.read_bytes() == text(LINES)


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_session_is_written_anew(native: Native, size: int) -> None:
    data = text([LINES[0], user("x" * size, 1), *LINES[2:]])
    native.file.write_bytes(data)
    assert native.file.read_bytes() == data
    until(lambda: "00002-user.md" in native.events())
    beside = native.folder / "temporary"
    beside.write_bytes(data + text([user("More.", 9)]))
    beside.rename(native.file)
    assert native.file.read_bytes() == data + text([user("More.", 9)])
    until(lambda: "00006-user.md" in native.events())
    assert os.listdir(native.folder) == [NAME]


def test_a_session_is_written_to_in_the_middle(native: Native) -> None:
    with native.file.open("r+b") as file:
        file.seek(text(LINES).index(b"milk"))
        file.write(b"silk")
    assert native.file.read_bytes() == text(LINES).replace(b"milk", b"silk")
    assert (native.talk / "events/00001-user.md").read_text().endswith("Buy silk.\n")


def test_what_is_no_line_yet_waits_and_is_a_turn_when_nothing_comes(native: Native) -> None:
    line = user("Half of it.", 8).encode()
    with native.file.open("ab") as file:
        file.write(line[:50])
    assert native.file.read_bytes() == text(LINES) + line[:50]
    assert len(native.events()) == 4
    with native.file.open("ab") as file:
        file.write(line[50:])
    until(lambda: "00006-user.md" in native.events())
    assert native.file.read_bytes() == text(LINES) + line


def test_a_session_is_emptied(native: Native) -> None:
    os.truncate(native.file, 0)
    assert native.file.read_bytes() == b""
    until(lambda: native.events() == [])
    native.file.write_bytes(text(LINES[:1]))
    until(lambda: native.events() == ["00001-user.md"])


def test_lines_without_a_pause_are_turns_before_the_file_is_closed(native: Native) -> None:
    with native.file.open("ab", buffering=0) as stream:
        for number in range(50):
            stream.write(text([user(f"Line {number}.", number)]))
            time.sleep(0.002)
        until(lambda: "00055-user.md" in native.events())


def test_programs_that_copy_and_remove_trees(native: Native, tmp_path: Path) -> None:
    (native.folder / "notes").mkdir()
    (native.folder / "notes/todo").write_text("milk")
    os.symlink("notes/todo", native.folder / "todo")
    native.mount.shell(f"cp -a {native.folder} {tmp_path}/copy")
    assert (tmp_path / "copy" / native.folder.name / NAME).exists() or (tmp_path / "copy" / NAME).exists()
    native.mount.shell(f"rm -r {FIRST} && mkdir {FIRST} && cp -a {tmp_path}/copy/. {FIRST}")
    assert native.file.read_bytes() == text(LINES)
    assert (native.folder / "todo").read_text() == "milk"
    assert len(native.events()) == 4


def test_new_sessions_by_link_and_by_descriptor(native: Native) -> None:
    beside = native.folder / "lock"
    beside.write_bytes(text([user("By link.")]))
    os.link(beside, native.folder / OTHER)
    beside.unlink()
    assert (native.folder / OTHER).read_bytes() == text([user("By link.")])
    until(lambda: len(list((native.mount.root / "conversations/project").iterdir())) == 2)


def test_directories_of_tools_cannot_be_made_or_removed(native: Native) -> None:
    top = native.mount.root / ".convfs/native"
    assert errno_of(lambda: (top / "mine").mkdir()) != 0
    assert errno_of(lambda: (top / "claude-code").rmdir()) != 0
    assert errno_of(lambda: native.folder.rmdir()) != 0
    assert errno_of(lambda: (top / "claude-code").rename(top / "other")) != 0


def test_appending_to_a_long_session_costs_what_is_appended(store_path: Path, tmp_path: Path) -> None:
    session = tmp_path / "-long" / NAME
    session.parent.mkdir()
    line = text([user("y" * 900 + os.urandom(2000).hex(), 1)])
    session.write_bytes(line * 4000)
    with new_store(store_path) as store:
        Importer(store).run([session])
    with mounted(store_path) as mount:
        file = mount.root / ".convfs/native/claude-code/-long" / NAME

        def append() -> int:
            before = _read_by(mount.daemon.pid)
            with file.open("ab") as stream:
                stream.write(line)
            return _read_by(mount.daemon.pid) - before

        append()
        assert append() < 1 << 20
        assert file.stat().st_size == 4002 * len(line)
        assert subprocess.run(["tail", "-n", "1", file], capture_output=True, check=True).stdout == line


def _read_by(pid: int) -> int:
    """Return how many bytes a process has read."""
    said = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(said[0].removeprefix("rchar: "))


@pytest.fixture
def outputs(store_path: Path, tmp_path: Path) -> Iterator[Native]:
    session = tmp_path / "-home-dev-project" / NAME
    folder = session.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    session.write_bytes(text(LINES))
    (folder / "one.txt").write_bytes(b"first output")
    (folder / "two.txt").write_bytes(bytes(range(256)) * 1000)
    with new_store(store_path) as store:
        Importer(store).run([session])
    with mounted(store_path) as mount:
        yield Native(mount)
    with new_store(store_path) as store:
        assert fsck(store) == []
        paths = export_native(store, store.library.conversations()[0], tmp_path / "out")
        assert {path.name for path in paths} >= {NAME, "one.txt", "two.txt"}


def test_outputs_that_were_imported_with_a_session_are_beside_it(outputs: Native) -> None:
    folder = outputs.file.with_suffix("") / "tool-results"
    assert sorted(os.listdir(outputs.folder)) == [NAME.removesuffix(".jsonl"), NAME]
    assert sorted(os.listdir(folder)) == ["one.txt", "two.txt"]
    assert (folder / "one.txt").read_bytes() == b"first output"
    assert (folder / "two.txt").read_bytes() == bytes(range(256)) * 1000
    with (folder / "one.txt").open("ab") as file:
        file.write(b", and more")
    assert (folder / "one.txt").read_bytes() == b"first output, and more"
    (folder / "three.txt").write_bytes(b"new")
    assert sorted(os.listdir(folder)) == ["one.txt", "three.txt", "two.txt"]
    (folder / "temporary").write_bytes(b"other")
    (folder / "temporary").rename(folder / "two.txt")
    assert (folder / "two.txt").read_bytes() == b"other"
    for path in folder.iterdir():
        path.unlink()
    assert os.listdir(folder) == []
    folder.rmdir()
    folder.parent.rmdir()
    assert os.listdir(outputs.folder) == [NAME]


def test_outputs_that_a_tool_writes_beside_a_session_are_kept_with_it(native: Native, store_path: Path) -> None:
    folder = native.file.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    data = os.urandom(3 << 20)
    (folder / "one.txt").write_bytes(b"output")
    (folder / "large.bin").write_bytes(data)
    on_disk = store_path / "scratch/native/claude-code" / folder.relative_to(native.folder.parent)
    until(lambda: not os.listdir(on_disk))
    assert sorted(os.listdir(folder)) == ["large.bin", "one.txt"]
    assert (folder / "large.bin").read_bytes() == data
    with (folder / "one.txt").open("ab") as file:
        file.write(b" and more")
    assert (folder / "one.txt").read_bytes() == b"output and more"
    until(lambda: not os.listdir(on_disk))
    assert (folder / "one.txt").read_bytes() == b"output and more"
    (folder / "one.txt").write_bytes(b"anew")
    assert (folder / "one.txt").read_bytes() == b"anew"
    native.file.unlink()
    assert sorted(os.listdir(folder)) == ["large.bin", "one.txt"]
    assert (folder / "large.bin").read_bytes() == data
    (folder / "large.bin").unlink()
    assert os.listdir(folder) == ["one.txt"]


def test_a_tool_whose_file_holds_many_conversations_has_it_imported_as_it_grows(mount: Mounted) -> None:
    file = mount.root / ".convfs/native/gemini-cli/shop/chats/session-2026-01-16T18-34-3739ef95.jsonl"
    file.parent.mkdir(parents=True)
    written = text([json.dumps({"sessionId": "3739ef95-0000-4000-8000-000000000000", "projectHash": "0" * 64})])
    for number in range(2):
        said = {"id": f"m{number}", "timestamp": "2026-01-16T18:34:01Z", "type": "user", "content": f"Say {number}."}
        written += text([json.dumps(said)])
        with file.open("ab") as opened:
            opened.write(text([json.dumps(said)]) if number else written)
        assert file.read_bytes() == written
        until(
            lambda expected=f"Say {number}.": expected in mount.shell("cat conversations/*/*/events/*-user.md || true")
        )
    assert len(mount.shell("ls -d conversations/*/*").split()) == 1


def test_a_tool_whose_file_is_one_document(mount: Mounted) -> None:
    file = mount.root / ".convfs/native/gemini-cli/shop/chats/session-2026-01-16T18-34-3739ef95.json"
    file.parent.mkdir(parents=True)
    talk: dict[str, object] = {"sessionId": "3739ef95-0000-4000-8000-000000000000", "projectHash": "0" * 64}
    said: list[dict[str, str]] = []
    for number in range(3):
        what = {"id": f"m{number}", "timestamp": "2026-01-16T18:34:01Z", "type": "user", "content": f"Say {number}."}
        said.append(what)
        data = json.dumps({**talk, "messages": said}, indent=2).encode()
        file.write_bytes(data)
        assert file.read_bytes() == data
        assert f"Say {number}." in mount.shell("cat $(ls -d conversations/*/*/events/*-user.md | tail -n 1)")
    assert len(mount.shell("ls conversations/*/*/events").split()) == 3


def test_a_new_session_while_something_else_is_imported(mount: Mounted) -> None:
    file = mount.root / FIRST / NAME
    file.parent.mkdir()
    large = mount.root / "import/large.jsonl"
    large.write_bytes(text([assistant(os.urandom(2000).hex(), number) for number in range(4000)]))
    until(lambda: not errno_of(lambda: (mount.root / "import/large.jsonl").stat()) and _imports(mount))
    for line in LINES:
        with file.open("ab") as opened:
            opened.write(text([line]))
    assert file.read_bytes() == text(LINES)
    until(lambda: len(mount.shell("ls -d conversations/*/* || true").split()) == 2)


def _imports(mount: Mounted) -> bool:
    """Say whether something is being imported."""
    return (mount.store / "scratch/imported").exists() and any((mount.store / "scratch/imported").iterdir())
