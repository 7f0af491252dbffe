"""``convfs where``: a hash, a URI, a file in a mount and one beside it."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from blake3 import blake3

from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import can_mount, work_directory

CONTENT = "roses\nthyme\n" * 100


@pytest.fixture
def file(user: User) -> Path:
    """A file that a tool has read in a conversation, which was imported."""
    file = user.home / "garden.txt"
    file.write_text(CONTENT)
    session = user.session("garden", "one", "What do I have?", "Let me see.")
    lines = [
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {}}]},
        },
        {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": CONTENT}]},
            "toolUseResult": {"type": "text", "file": {"filePath": str(file), "content": CONTENT}},
        },
    ]
    with session.open("a") as stream:
        stream.writelines(
            json.dumps(line | {"uuid": f"t{number}", "sessionId": "one"}) + "\n" for number, line in enumerate(lines)
        )
    user.run("import")
    return file


def test_by_whatever_it_is_called(user: User, file: Path) -> None:
    event = f"conversations/garden/{user.list()[0]['name']}/events/00004-result-Read.md\n"
    assert user.run("where", f"file://{file}") == user.run("where", file) == event
    [told] = json.loads(user.run("where", file, "--json"))
    assert (told["event"], told["kind"], told["tool"], told["held_as"]) == (4, "result", "Read", "content")
    assert told["uris"] == [f"file://{file}"]
    elsewhere = user.home / "copy.txt"
    elsewhere.write_text(CONTENT)
    assert user.run("where", elsewhere) == event
    file.write_text("other")
    assert user.run("where", file) == event
    file.unlink()
    assert user.run("where", file) == event
    nothing = user.home / "nothing.txt"
    nothing.touch()
    assert user.fails("where", nothing).endswith(f"no conversation holds {nothing}\n")
    assert user.fails("where", "file:///nowhere").endswith("no conversation holds file:///nowhere\n")
    assert "no conversation holds" in user.fails("where", "0" * 64)
    assert "32" not in user.fails("where", "blob:blake3:00")
    assert json.loads(user.run("where", "0" * 64, "--json")) == []


def test_a_short_text_is_known_by_its_hash(user: User, file: Path) -> None:
    """In any store: those that a record holds itself, too, before they are filed and after."""
    text = b"What do I have?"
    event = f"conversations/garden/{user.list()[0]['name']}/events/00001-user.md\n"
    for _time in range(2):
        for name in (blake3(text).hexdigest(), sha256(text).hexdigest()):
            assert user.run("where", name) == event
            assert user.run("cat", name) == text.decode()
        assert user.run("where", f"blob:sha256:{sha256(text).hexdigest()}") == event
        assert user.run("cat", f"blob:sha256:{sha256(text).hexdigest()}") == text.decode()
    assert user.run("cat", sha256(CONTENT.encode()).hexdigest()) == CONTENT
    assert "this store has no such content" in user.fails("cat", "0" * 64)


def test_lines_of_a_file_are_found_by_the_file(user: User) -> None:
    session = user.session("garden", "one", "What do I have?", "Let me see.")
    part = {
        "filePath": "/beds/north side.txt",
        "content": "roses\nthyme",
        "startLine": 3,
        "numLines": 2,
        "totalLines": 9,
    }
    line = {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "3 roses"}]},
        "toolUseResult": {"type": "text", "file": part},
    }
    with session.open("a") as stream:
        stream.write(json.dumps(line | {"uuid": "t", "sessionId": "one"}) + "\n")
    user.run("import")
    event = f"conversations/garden/{user.list()[0]['name']}/events/00003-result.md\n"
    for asked in ("/beds/north side.txt", "file:///beds/north%20side.txt", "file:///beds/north%20side.txt#L3-4"):
        assert user.run("where", asked) == event
    assert "no conversation holds" in user.fails("where", "/beds/north")


def test_files_in_a_mount(user: User, file: Path) -> None:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    mountpoint = Path(f"{work_directory()}/where-{user.home.parent.name}")
    mountpoint.mkdir()
    user.convfs("mount", mountpoint)
    try:
        [line] = user.list()
        talk = mountpoint / "conversations/garden" / line["name"]
        event = f"conversations/garden/{line['name']}/events/00004-result-Read.md\n"
        [resource] = (path for path in talk.glob("resources/**/*") if path.is_file())
        assert user.run("where", resource) == event
        assert user.run("where", talk / "events/00004-it.md") == event
        (talk / "artifacts/look").write_text(CONTENT)
        assert user.run("where", resource) == event + f"conversations/garden/{line['name']}/artifacts/0.look.log\n"
        assert user.run("where", talk / "artifacts/0.look.log") == user.run("where", resource)
    finally:
        user.convfs("umount", mountpoint)
        mountpoint.rmdir()
