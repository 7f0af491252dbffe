"""Appends and changes while a store is mounted, seen through the mount."""

import os
import subprocess
from pathlib import Path

from tests.fusefs.tree.mounting import PATIENCE, TALK, TRANSCRIPT, Mounted, assistant, until, user


def sizes_hold(mount: Mounted) -> None:
    for directory, _, names in os.walk(mount.root):
        for name in names:
            path = Path(directory, name)
            assert path.stat().st_size == len(path.read_bytes()), path


def test_an_appended_event_appears_everywhere(mount: Mounted) -> None:
    events = mount.root / TALK / "events"
    watched = [mount.root / TRANSCRIPT, mount.root / TALK / "events.json"]
    before = [path.read_bytes() for path in watched]
    metadata = (mount.root / TALK / "metadata.json").read_text()
    assert len(os.listdir(events)) == 3
    mount.tell(append=[1, [assistant("fourth of all", 4)]])
    until(lambda: all(path.stat().st_size > len(old) for path, old in zip(watched, before, strict=True)))
    assert max(os.listdir(events)) == "00004-assistant.md"
    assert "fourth of all" in (events / "00004-assistant.md").read_text()
    assert "fourth of all" in watched[0].read_text()
    assert '"$event": 4' in watched[1].read_text()
    until(lambda: (mount.root / TALK / "metadata.json").read_text() != metadata)
    sizes_hold(mount)


def test_a_transcript_can_be_followed(mount: Mounted) -> None:
    with subprocess.Popen(
        ["tail", "-n", "+1", "-s", "0.1", "-f", str(mount.root / TRANSCRIPT)], stdout=subprocess.PIPE
    ) as tail:
        assert tail.stdout is not None
        try:
            while b"third" not in tail.stdout.readline():
                pass
            mount.tell(append=[1, [user("and then this", 5)]])
            while b"and then this" not in (line := tail.stdout.readline()):
                assert line
        finally:
            tail.kill()
            tail.wait(PATIENCE)


def test_a_file_held_open_shows_what_is_new(mount: Mounted) -> None:
    with open(mount.root / TALK / "events.json", "rb", buffering=0) as file:
        old = file.read()
        mount.tell(append=[1, [user("news", 6)]])
        until(lambda: os.fstat(file.fileno()).st_size > len(old))
        file.seek(0)
        new = file.read()
        assert b'"$event": 4' in new
        assert len(new) == os.fstat(file.fileno()).st_size


def test_another_branch_replaces_the_events_that_differ(mount: Mounted) -> None:
    events = mount.root / TALK / "events"
    assert "second" in (events / "00002-assistant.md").read_text()
    assert (events / "00003-user.md").exists()
    first = int(os.getxattr(events / "00001-user.md", "user.convfs.turn"))
    mount.tell(branch=[1, first, user("another second, and longer than that", 2)])
    until(lambda: sorted(os.listdir(events)) == ["00001-user.md", "00002-user.md"])
    assert "another second" in (events / "00002-user.md").read_text()
    until(lambda: not (events / "00003-user.md").exists())
    sizes_hold(mount)


def test_content_of_the_same_size_and_time_is_not_kept(mount: Mounted) -> None:
    event = mount.root / TALK / "events" / "00003-user.md"
    assert "third" in event.read_text()
    second = int(os.getxattr(event.with_name("00002-assistant.md"), "user.convfs.turn"))
    mount.tell(branch=[1, second, user("THIRD", 3)])
    until(lambda: "THIRD" in event.read_text())
    with event.open() as held:
        mount.tell(branch=[1, second, user("tHiRd", 3)])
        until(lambda: "tHiRd" in event.read_text())
        assert "tHiRd" in held.read()


def test_a_new_conversation_and_project_appear(mount: Mounted, store_path: Path) -> None:
    conversations = mount.root / "conversations"
    assert os.listdir(conversations) == ["project"]
    mount.tell(metadata=[1, {"name": "2026-03-06-renamed", "project": "moved"}])
    until(lambda: os.listdir(conversations) == ["moved"])
    until(lambda: not (mount.root / TALK).exists())
    renamed = conversations / "moved" / "2026-03-06-renamed"
    assert "second" in (renamed / "events" / "00002-assistant.md").read_text()
    until(lambda: not (mount.root / TRANSCRIPT).exists())
    assert "second" in (mount.root / "transcripts/moved/2026-03-06-renamed.md").read_text()
    until(lambda: os.listdir(mount.root / "recent") == ["2026-03-06-renamed"])
    assert (mount.root / "recent/2026-03-06-renamed").resolve() == renamed


def test_a_changed_title_shows_in_the_transcript(mount: Mounted) -> None:
    transcript = mount.root / TRANSCRIPT
    assert "# A talk\n" in transcript.read_text()
    mount.tell(metadata=[1, {"title": "B talk"}])
    until(lambda: "# B talk\n" in transcript.read_text())
    until(lambda: '"title": "B talk"' in (mount.root / TALK / "metadata.json").read_text())


def test_many_appends_while_programs_read(mount: Mounted) -> None:
    with subprocess.Popen(
        ["bash", "-c", "while true; do cat */*/*/events/* > /dev/null; cat transcripts/*/* > /dev/null; done"],
        cwd=mount.root,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as reader:
        try:
            for number in range(60):
                mount.tell(append=[1, [user(f"message {number}", number), assistant("x" * 3000, number)]])
        finally:
            os.killpg(reader.pid, 9)
            _, errors = reader.communicate(timeout=PATIENCE)
    assert errors == b""
    until(lambda: len(os.listdir(mount.root / TALK / "events")) == 123)
    until(lambda: "message 59" in (mount.root / TRANSCRIPT).read_text())
    sizes_hold(mount)
