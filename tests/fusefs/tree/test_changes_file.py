"""``changes.diff`` in the mount: not listed, and what the conversation did to files, in each of its versions."""

import errno
import json
import os
from pathlib import Path

import pytest

from tests.fusefs.tree.mounting import TALK, add, mounted, new_store, user
from tests.fusefs.tree.test_conversation_parts import file_read

BEFORE = "roses\nthyme\n"


def edit(old: str, new: str, second: int) -> list[str]:
    """Return the lines of an edit of the file that was read."""
    given = {"file_path": "/home/dev/beds.txt", "old_string": old, "new_string": new}
    call = {"type": "tool_use", "id": f"e{second}", "name": "Edit", "input": given}
    result = {"type": "tool_result", "tool_use_id": f"e{second}", "content": "done"}
    return [
        json.dumps({"type": role, "uuid": f"e{role}{second}", "message": {"role": role, "content": [part]}})
        for role, part in (("assistant", call), ("user", result))
    ]


def test_it_is_there_and_not_listed_and_follows_the_conversation(store_path: Path) -> None:
    with new_store(store_path) as store:
        add(store, [user("look", 1), *file_read("/home/dev/beds.txt", BEFORE, 2), *edit("roses", "lilies", 3)])
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        assert "changes.diff" not in os.listdir(directory)
        told = "--- a/home/dev/beds.txt\n+++ b/home/dev/beds.txt\n@@ -1,2 +1,2 @@\n-roses\n+lilies\n thyme\n"
        assert (directory / "changes.diff").read_text() == told
        mount.shell(f"sed -i s/lilies/tulips/ '{TALK}/events/00004-it.md'")
        assert (directory / "changes.diff").read_text() == told.replace("lilies", "tulips")
        [first] = [one for one in os.listdir(directory / ".versions") if one.startswith("0001")]
        assert (directory / ".versions" / first / "changes.diff").read_text() == told


def test_each_file_has_a_diff_of_its_own_at_its_path(store_path: Path) -> None:
    lines = [user("look", 1), *file_read("/home/dev/beds.txt", BEFORE, 2), *edit("roses", "lilies", 3)]
    other = [*file_read("/home/dev/notes/beds.txt", "x\n", 4), *edit("x", "y", 5)]
    with new_store(store_path) as store:
        add(store, [*lines, *(line.replace("/home/dev/beds", "/home/dev/notes/beds") for line in other)])
    with mounted(store_path) as mount:
        directory = mount.root / TALK
        assert "changes" not in os.listdir(directory)
        listed = [path for path in (directory / "changes").rglob("*") if path.is_file()]
        assert sorted(str(path.relative_to(directory)) for path in listed) == [
            "changes/home/dev/beds.txt.diff",
            "changes/home/dev/notes/beds.txt.diff",
        ]
        texts = {path: path.read_text() for path in listed}
        assert {path: path.stat().st_size for path in listed} == {path: len(text) for path, text in texts.items()}
        whole = (directory / "changes.diff").read_text()
        assert sorted(texts.values(), key=whole.index) == [
            whole[: whole.index("--- a/home/dev/notes")],
            whole[whole.index("--- a/home/dev/notes") :],
        ]
        beds = directory / "changes/home/dev/beds.txt.diff"
        mount.shell(f"sed -i s/lilies/tulips/ '{TALK}/events/00004-it.md'")
        assert "+tulips\n" in beds.read_text()
        [first] = [one for one in os.listdir(directory / ".versions") if one.startswith("0001")]
        assert "+lilies\n" in (directory / ".versions" / first / "changes/home/dev/beds.txt.diff").read_text()
        for name in ("none.diff", "home/dev/none.diff"):
            assert not (directory / "changes" / name).exists()
        with pytest.raises(OSError) as refused:
            beds.write_text("")
        assert refused.value.errno in (errno.EACCES, errno.EROFS)
        with pytest.raises(OSError) as refused:
            (directory / "changes/mine").mkdir()
        assert refused.value.errno == errno.EROFS
