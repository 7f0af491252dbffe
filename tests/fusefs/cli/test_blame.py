"""``convfs blame``: a file on the disk, one that is gone, one behind a link; for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.fusefs.cli.user import User


@pytest.fixture
def file(user: User) -> Path:
    """A file whose second line was written in a conversation, which was imported."""
    file = user.home / "beds" / "garden.txt"
    file.parent.mkdir()
    file.write_text("by hand\nroses \u2603\n")
    session = user.session("garden", "one", "Plant roses", "I will.")
    call = {
        "type": "tool_use",
        "id": "c",
        "name": "Write",
        "input": {"file_path": str(file), "content": "roses \u2603\n"},
    }
    result = {"type": "tool_result", "tool_use_id": "c", "content": "done"}
    with session.open("a") as stream:
        for role, part in (("assistant", call), ("user", result)):
            line = {"type": role, "message": {"role": role, "content": [part]}, "timestamp": "2026-03-05T23:59:00.000Z"}
            stream.write(json.dumps(line | {"uuid": role, "sessionId": "one"}) + "\n")
    user.run("import")
    return file


def test_each_line_says_where_it_is_from(user: User, file: Path) -> None:
    name = f"garden/{user.list()[0]['name']}"
    told = f"no conversation known{' ' * (len(name) - 19)} (                 1) by hand\n"
    told += f"{name}@1 (2026-03-06 01:59 2) roses \u2603\n"
    assert user.run("blame", file, TZ="UTC-2") == told
    link = user.home / "link"
    link.symlink_to(file.parent)
    assert user.run("blame", "link/garden.txt", TZ="UTC-2") == told
    [by_hand, planted] = json.loads(user.run("blame", file, "--json"))
    assert (by_hand["text"], by_hand["conversation"], by_hand["event"]) == ("by hand", "", 0)
    place = {"conversation": name, "id": 1, "request": 1, "event": 4, "time": "2026-03-05T23:59:00.000Z"}
    assert planted == {"text": "roses \u2603", **place}
    file.unlink()
    assert user.run("blame", file, TZ="UTC-2") == f"{name}@1 (2026-03-06 01:59 1) roses \u2603\n"


def test_what_cannot_be_said_is_one_line(user: User, file: Path) -> None:
    assert "no conversation is known to have read or changed" in user.fails("blame", user.home / "nothing")
    file.write_bytes(b"\0\1")
    assert "is no text: name a file of lines" in user.fails("blame", file, code=2)
    assert "Is a directory" in user.fails("blame", file.parent)
