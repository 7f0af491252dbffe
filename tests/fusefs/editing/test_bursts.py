"""Programs that save again and again: each save is kept at once, and those that follow soon are one version."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import Program, Programs
from store.paths import SETTINGS
from tests.forked import run
from tests.fusefs.editing.talk import FIRST, LAST, LINES, Talk, changed
from tests.fusefs.editing.test_delays import Clock
from tests.fusefs.tree.mounting import PATIENCE, REPOSITORY, add, mounted, new_store

SAVES = """
import os, sys, threading

def save(number, name=sys.argv[1]):
    text = open(name).read()
    data = text.rsplit("---\\n", 1)[0] + f"---\\nDraft {number}\\n"
    if number % 2:
        open(name, "w").write(data)
        return
    open("next.tmp", "w").write(data)
    os.rename("next.tmp", name)

for number in range(int(sys.argv[2])):
    # editors write in threads
    thread = threading.Thread(target=save, args=(number,))
    thread.start()
    thread.join()
"""


class Request:
    """The kernel's account of a request by this process."""

    pid = os.getpid()


def bursts(clock: Clock, seconds: float = 5.0) -> Bursts:
    programs = Programs()
    programs.asks(Request())  # type: ignore[arg-type]  # only the kernel makes them
    return Bursts(programs, seconds, clock)


def test_a_save_goes_on_with_the_one_before_for_some_seconds() -> None:
    clock = Clock()
    told = bursts(clock)
    me = told.program()
    assert me is not None
    assert me.process == os.getpid()
    with told.by(me):
        assert told.tip(1) == 0
        told.saved(1, 70)
        clock.now += 5
        assert told.tip(1) == 70
        assert told.tip(2) == 0
        told.saved(1, 71)
        clock.now += 5
        assert told.tip(1) == 71
        clock.now += 0.1
        assert told.tip(1) == 0


def test_another_program_begins_a_version_of_its_own() -> None:
    told = bursts(Clock())
    with told.by(Program(7, 1)):
        told.saved(1, 70)
        with told.by(Program(8, 1)):
            assert told.tip(1) == 0
        assert told.tip(1) == 70
    # whoever is not known is nobody's program
    assert told.tip(1) == 0
    told.saved(1, 71)
    with told.by(Program(7, 1)):
        assert told.tip(1) == 70


def test_no_seconds_and_no_process_are_no_burst() -> None:
    told = bursts(Clock(), 0)
    with told.by(Program(7, 1)):
        told.saved(1, 70)
        assert told.tip(1) == 0
    assert Programs().asking() is None


@pytest.fixture(params=["branch", "overlay"])
def patient(store_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store with a conversation whose saves of one program are one version, however slow the machine is."""
    with new_store(store_path) as store:
        add(store, LINES)
    (store_path / SETTINGS).write_text(f'version_seconds = 3600\nedits = "{request.param}"\n')
    return store_path


@pytest.fixture
def busy(patient: Path) -> Iterator[Talk]:
    """That conversation, mounted."""
    with mounted(patient) as mount:
        talk = Talk(mount)
        yield talk
        talk.check()


def save(talk: Talk, name: str, count: int) -> None:
    """Have a program of its own save a file so many times."""
    command = [sys.executable, "-c", SAVES, name, str(count)]
    subprocess.run(command, cwd=talk.events, check=True, timeout=3 * PATIENCE)


def test_a_hundred_saves_of_an_editor_are_one_version(busy: Talk) -> None:
    before = busy.first.read_bytes()
    save(busy, FIRST, 100)
    assert busy.new_versions == 1
    assert busy.first.read_text().endswith("---\nDraft 99\n")
    versions = sorted(os.listdir(busy.root / ".versions"))
    assert versions[-1].endswith("-edit-00001")
    was, now = (busy.root / ".versions" / name / "events" / FIRST for name in versions)
    assert was.read_bytes() == before
    assert now.read_bytes() == busy.first.read_bytes()
    # another run is another program
    save(busy, FIRST, 3)
    assert busy.new_versions == 2
    busy.first.write_bytes(changed(busy.first, "Draft 2", "Mine"))
    busy.last.write_bytes(changed(busy.last, "third", "fourth"))
    assert busy.new_versions == 3
    assert max(os.listdir(busy.root / ".versions")).endswith("-edit-00001-00004")


def test_a_version_that_is_open_grows_with_the_saves(busy: Talk) -> None:
    busy.first.write_bytes(changed(busy.first, "Hello", "One"))
    name = max(os.listdir(busy.root / ".versions"))
    file = busy.root / ".versions" / name / "events" / FIRST
    assert "One" in file.read_text()
    fd = os.open(file, os.O_RDONLY)
    busy.first.write_bytes(changed(busy.first, "One", "Three"))
    assert b"One" in os.pread(fd, 4096, 0)
    os.close(fd)
    busy.mount.make_kernel_forget()
    assert max(os.listdir(busy.root / ".versions")) == name
    assert "Three" in file.read_text()
    first = min(os.listdir(busy.root / ".versions"))
    assert "Hello" in (busy.root / ".versions" / first / "events" / FIRST).read_text()


def test_an_event_that_is_made_and_saved_again_is_one_version(busy: Talk) -> None:
    for name, text in (("user.md", "A new"), ("00005-user.md", "A new event"), ("00005-user.md", "A new event.")):
        (busy.events / name).write_text(text)
    assert busy.listed[-1] == "00005-user.md"
    assert (busy.events / "00005-user.md").read_text().endswith("A new event.")
    assert busy.new_versions == 1
    assert max(os.listdir(busy.root / ".versions")).endswith("-add-00005")


def test_what_was_saved_in_a_burst_is_there_after_a_kill(busy: Talk) -> None:
    text = b""
    for number in range(10):
        text = changed(busy.first, "Hello" if not number else f"Word {number - 1}", f"Word {number}")
        busy.first.write_bytes(text)
    store = busy.mount.store
    # as a copy of its files says at this moment
    copy = store.with_name("copy")
    subprocess.run(["cp", "-a", store, copy], check=True, timeout=PATIENCE)
    with new_store(copy) as opened:
        entry = opened.catalogue.every()[0]
        assert len(opened.catalogue.versions(entry.id)) == 2
        assert b"Word 9" in opened.contents.payload(opened.turns.path_to_root(entry.head)[0].turn_id)


def test_history_versions_and_diff_agree(patient: Path) -> None:
    with mounted(patient) as mount:
        talk = Talk(mount)
        save(talk, FIRST, 20)
        save(talk, LAST, 20)
        mount.tell(restore=[1, 2])
        assert [name[:4] for name in sorted(os.listdir(talk.root / ".versions"))] == ["0001", "0002", "0003", "0004"]

    def convfs(*arguments: str) -> str:
        told = os.environ | {"PYTHONPATH": str(REPOSITORY), "CONVFS_STORE": str(patient)}
        done = run("fusefs.cli", *arguments, directory=patient, environment=told, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    log = json.loads(convfs("log", "1", "--json"))
    assert [line["action"] for line in log] == ["append", "edit 00001", "edit 00004", "restore 2"]
    assert "+Draft 19" in convfs("diff", "1@1", "1@2")
    assert "-Draft 19" in convfs("diff", "1@3", "1@4")
    assert FIRST not in convfs("diff", "1@2", "1@3")
    assert "Draft" not in convfs("diff", "1@2", "1@4")


def test_nought_keeps_each_save(talk: Talk) -> None:
    save(talk, FIRST, 5)
    assert talk.new_versions == 5
