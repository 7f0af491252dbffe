"""``context.json`` in the mount: not listed, and always what a model should be sent."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from store.delivery.context import Context
from tests.fusefs.tree.mounting import TALK, add, mounted, new_store, until, user
from tests.fusefs.tree.test_conversation_parts import file_read

LONG = "x = 1; " * 100 + "\n"


def messages(directory: Path) -> list[Any]:
    found = json.loads((directory / "context.json").read_bytes())["messages"]
    assert isinstance(found, list)
    return found


def references(directory: Path) -> int:
    return (directory / "context.json").read_text().count("Unchanged: as in event")


def test_it_is_there_and_not_listed(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("look", 1), *read(2), *read(3)])
        conversation = store.library.conversation(1)
        expected = b"".join(Context(store.library, store.settings, conversation, "anthropic").document())
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        assert "context.json" not in os.listdir(directory)
        assert (directory / "context.json").read_bytes() == expected
        assert references(directory) == 1
        status = (directory / "context.json").stat()
        assert oct(status.st_mode) == "0o100400"
        # a program may read it in any order
        with (directory / "context.json").open("rb", buffering=0) as file:
            for offset in (len(expected) - 10, 0, 7, len(expected), 3):
                file.seek(offset)
                assert file.read(50) == expected[offset : offset + 50]


def test_it_follows_the_conversation(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("look", 1), *read(2), *read(3)])
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        before = len(messages(directory))
        assert references(directory) == 1
        (directory / "events" / "user.md").write_text("One more thing.")
        assert "One more thing." in str(messages(directory)[-1])
        assert len(messages(directory)) in (before, before + 1)
        # the content that was referred to goes: what referred to it is sent
        (directory / "events" / "00003-result-Read.md").unlink()
        until(lambda: references(directory) == 0)
        before_that = sorted(os.listdir(directory / ".versions"))[-2]
        assert references(directory / ".versions" / before_that) == 1


def test_metadata_says_what_is_sent(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("look", 1), *read(2), *read(3)])
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        path = directory / "metadata.json"
        plain = json.loads(path.read_bytes())
        assert references(directory) == 1
        for override, found in (
            ({"conversation": {"deduplication": {"enabled": False}}}, 0),
            ({"conversation": {"deduplication": {"min_bytes": 10}}}, 1),
            ({"tools": {"Read": {"deduplicate": False}}}, 0),
            ({}, 1),
        ):
            path.write_text(json.dumps({**plain, **override}, indent=2))
            assert references(directory) == found
            shown = json.loads(path.read_bytes())
            assert {key: shown[key] for key in override} == override
        for wrong, reason in (
            ({"conversation": {"deduplication": False}}, "conversation.deduplication must be a section of its own"),
            ({"tools": {"Read": {"dedup": False}}}, "unknown setting 'tools.Read.dedup'"),
        ):
            with pytest.raises(OSError, match="Invalid argument"):
                path.write_text(json.dumps({**plain, **wrong}, indent=2))
            (directory / "metadata.json.draft").unlink()
            assert reason in "".join(file.read_text() for file in (mount.root / ".convfs/errors").iterdir())


def read(second: int) -> list[str]:
    return file_read("/home/dev/main.py", LONG, second)
