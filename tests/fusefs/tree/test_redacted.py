"""A mount while something is redacted: what was read before, and is in the kernel's memory, is read anew."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import Mounted, add, assistant, mounted, new_store, until, user

SECRET = "tr0ub4dor&3"
NAME = "2026-03-05-talk"


@pytest.fixture
def here(store_path: Path) -> Iterator[Mounted]:
    with new_store(store_path) as store:
        add(store, [user(f"my password is {SECRET}", 1), assistant("noted", 2), user("word " * 300, 3)], name=NAME)
        add(store, [user("something else", 1)], name=f"{NAME}-2")
    with mounted(store_path) as here:
        yield here


def found(mount: Mounted) -> list[str]:
    """Return which files of the mount hold the secret."""
    listed = subprocess.run(
        ["grep", "-rlF", SECRET, str(mount.root)], capture_output=True, text=True, check=False, timeout=30
    )
    return listed.stdout.splitlines()


def test_what_was_read_is_read_anew(here: Mounted) -> None:
    talk = here.root / "conversations/project" / NAME
    event = talk / "events/00001-user.md"
    unlisted = [
        talk / "events.json",
        *(talk / ".records").iterdir(),
        *(talk / ".versions").glob("*/events/00001-user.md"),
        here.root / "search/password/hits.txt",
    ]
    other = (here.root / "conversations/project" / f"{NAME}-2/events/00001-user.md").read_text()
    assert SECRET in event.read_text()
    assert [SECRET in path.read_text() for path in unlisted].count(True) >= 2
    assert len(found(here)) >= 2
    with event.open() as reader:
        assert SECRET in reader.read()
        here.tell(redact=SECRET)
        until(lambda: SECRET not in event.read_text())
        until(lambda: not found(here))
        assert "my password is [redacted]" in event.read_text()
        assert len(event.read_bytes()) == event.stat().st_size
        for read in unlisted:
            until(lambda read=read: SECRET not in read.read_text())
        reader.seek(0)
        assert SECRET not in reader.read()
    assert (here.root / "conversations/project" / f"{NAME}-2/events/00001-user.md").read_text() == other
    versions = [json.loads((version / "metadata.json").read_text()) for version in (talk / ".versions").iterdir()]
    assert len(versions) >= 2


def test_what_was_saved_is_shown_without_it(here: Mounted) -> None:
    event = here.root / "conversations/project" / NAME / "events/00002-assistant.md"
    event.write_text(event.read_text().replace("noted", f"noted {SECRET}"))
    assert SECRET in event.read_text()
    here.tell(redact=SECRET)
    until(lambda: "noted [redacted]" in event.read_text())
    until(lambda: not found(here))
    event.write_text(event.read_text().replace("noted [redacted]", "forgotten"))
    assert "forgotten" in event.read_text()
