"""``convfs formats``."""

import json
from pathlib import Path

import pytest

from tests.fusefs.cli.user import User


@pytest.fixture
def user(memory_path: Path) -> User:
    return User(memory_path)


def test_formats_are_listed_with_those_of_ones_own(user: User) -> None:
    assert "claude-code" in user.run("formats")
    folder = user.store / "formats"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nrecords = [{ role = "who", text = "what", without = ["why"] }]')
    (folder / "other.toml").write_text('name = "mine"\nrecords = []')
    done = user.convfs("formats")
    told = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert next(iter(told)) == "mine"
    assert told["mine"] == ["a", "page", "its", "own"]
    assert told["qwen-code"] == ["a", "page", "from", "any", "qwen-code"]
    assert told["codex"] == ["code", "from", "any", "codex"]
    assert done.stderr == f"convfs: {folder}/other.toml describes 'mine': call the file mine.toml\n"


def test_a_file_is_looked_at_as_its_format_sees_it(user: User) -> None:
    folder = user.store / "formats"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nrecords = [{ role = "who", text = "what", without = ["why"] }]')
    path = user.home / "a.jsonl"
    lines = [{"who": "user", "what": "Hello there"}, {"who": "ai", "what": "Yes?", "why": "because they said hello"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "is of no known tool" in user.fails("formats", "check", path)
    shown = user.run("formats", "check", path, "--format", "mine")
    assert [line.split() for line in shown.splitlines()] == [
        ["format", "mine"],
        ["session", "a"],
        ["title", "Hello", "there"],
        [],
        ["RECORDS", "KIND"],
        ["1", "user"],
        ["1", "assistant"],
        [],
        ["Texts", "in", "no", "event:"],
        ["1", "why"],
    ]
