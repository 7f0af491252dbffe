"""``changes.diff`` in the mount: not listed, and what the conversation did to files, in each of its versions."""

import json
import os
from pathlib import Path

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
