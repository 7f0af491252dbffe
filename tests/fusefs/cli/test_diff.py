"""``convfs diff``, with a daemon and without one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.user import User
from tests.fusefs.tree.mounting import can_mount, keep_each_save, work_directory


@pytest.fixture
def mounted(user: User) -> Iterator[Path]:
    """The directory of a conversation that was edited once, in a mount."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    user.session("garden", "one", "What to plant?", "Roses.", "And then?")
    user.run("import")
    keep_each_save(user.store)
    mountpoint = Path(f"{work_directory()}/diff-{user.home.parent.name}")
    mountpoint.mkdir()
    user.convfs("mount", mountpoint)
    [line] = user.list()
    yield mountpoint / "conversations" / line["project"] / line["name"]
    user.convfs("umount", mountpoint)
    mountpoint.rmdir()


def test_versions_of_a_mounted_conversation(user: User, mounted: Path) -> None:
    (mounted / "events/00002-assistant.md").write_text("Roses.\nAnd thyme.\n")
    (mounted / "events/user.md").write_text("Thank you.\n")
    first, second = sorted((mounted / ".versions").iterdir())[:2]
    name = f"conversations/{mounted.parent.name}/{mounted.name}"
    edit = f"""\
--- {name}/.versions/{first.name}/events/00002-assistant.md
+++ {name}/.versions/{second.name}/events/00002-assistant.md
@@ -5,3 +5,4 @@
 timestamp: 2026-03-05T19:31:01.000Z
 ---
 Roses.
+And thyme.
"""
    assert user.run("diff", first, second / "events") == edit
    assert user.run("diff", "1@1", f"{mounted}@2") == edit
    user.session("house", "two", "What to build?")
    user.run("import", user.home / ".claude/projects/-home-ada-house")
    there = subprocess.run(
        [sys.executable, "-m", "fusefs.cli", "diff", ".@1", "1@2"],
        cwd=mounted.parent.parent / "house" / user.list()[1]["name"],
        env=user.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "What to build?" in there.stdout, "an id and a version are no names of files"
    assert user.run("diff", "1", mounted) == ""
    added = user.run("diff", "1@2", "1")
    assert added.startswith(f"--- /dev/null\n+++ {name}/events/00004-user.md\n@@ -0,0 +1,6 @@\n+---\n")
    assert added.endswith("+Thank you.\n")
    stat = user.run("diff", "1@1", "1", "--stat").splitlines()
    assert [line.rpartition("/")[2] for line in stat[:2]] == [
        "00002-assistant.md | 1 +",
        "00004-user.md      | 6 ++++++ (new)",
    ]
    assert stat[2:] == ["1 events changed, 1 new, 0 gone; 7 lines added, 0 removed"]


def test_forks_alone_and_for_programs(user: User) -> None:
    user.session("garden", "one", "What to plant?", "Roses.", "And then?")
    user.session("house", "two", "What to plant?", "Trees.")
    user.run("import")
    user.run("fork", "1@2", "other")
    told = json.loads(user.run("diff", "1", "other", "--json"))
    assert told["summary"] == {"changed": 0, "added": 0, "removed": 1, "added_lines": 0, "removed_lines": 7}
    [gone] = told["differences"]
    assert (gone["change"], gone["b"], gone["a"]["event"], gone["a"]["kind"]) == ("removed", None, 3, "user")
    assert gone["diff"].endswith("\n-And then?\n")
    told = json.loads(user.run("diff", "other", "2", "--json"))
    assert [(one["change"], (one["a"] or one["b"])["event"]) for one in told["differences"]] == [
        ("removed", 2),
        ("added", 2),
    ]


def test_what_cannot_be_compared(user: User) -> None:
    user.session("garden", "one", "What to plant?")
    user.run("import")
    assert "no conversation is called nothing" in user.fails("diff", "1", "nothing")
    assert "has no version 7: `convfs log" in user.fails("diff", "1@7", "1")
    assert user.fails("diff", "1", code=2)
