"""``convfs where``: a hash, a URI, a file in a mount and one beside it."""

import json
from pathlib import Path

import pytest

from tests.cli.user import User
from tests.mount.mounting import can_mount, work_directory

CONTENT = "roses\nthyme\n" * 100


@pytest.fixture
def file(user: User) -> Path:
    """A file that a tool has read in a conversation, which was imported."""
    file = user.home / "garden.txt"
    file.write_text(CONTENT)
    session = user.session("garden", "one", "What do I have?", "Let me see.")
    lines = [
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {}}]}},
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": CONTENT}]},
            "toolUseResult": {"type": "text", "file": {"filePath": str(file), "content": CONTENT}},
        },
    ]
    with session.open("a") as stream:
        stream.writelines(json.dumps(line | {"uuid": f"t{number}"}) + "\n" for number, line in enumerate(lines))
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
    assert user.fails("where", "file:///nowhere").endswith("no conversation holds file:///nowhere\n")
    assert "no conversation holds" in user.fails("where", "0" * 64)
    assert "32" not in user.fails("where", "blob:blake3:00")
    assert json.loads(user.run("where", "0" * 64, "--json")) == []


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
