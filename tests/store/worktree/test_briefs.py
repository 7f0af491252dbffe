"""Heads of calls: the same words for the same thing, whatever tool of whatever agent does it."""

import pytest

from store.events.event import Block, Kind
from store.exporting.steps import Step
from store.worktree.briefs import Brief, brief_of

PATCH = """*** Begin Patch
*** Update File: src/app.py
@@ def run():
 one
-two
+three
+four
*** Add File: notes.txt
+text
*** End Patch
"""


def call(tool: str, arguments: object) -> Step:
    return Step(1, 0, Kind.TOOL_CALL, tool=tool, id="a", arguments=arguments)


def result(text: str, failed: bool = False) -> Step:
    return Step(2, 0, Kind.TOOL_RESULT, (Block("text", text),), id="a", failed=failed)


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Edit", {"file_path": "/w/login.py", "old_string": "a\nb", "new_string": "a\nc\nd\ne"}, "Edit login.py +3 −1"),
        ("edit", {"path": "login.py", "oldText": "a", "newText": "b"}, "Edit login.py +1 −1"),
        ("replace", {"file_path": "/w/login.py", "old_string": "a", "new_string": "b"}, "Edit login.py +1 −1"),
        ("str_replace_editor", {"command": "view", "path": "/w/a.py"}, "Read a.py"),
        ("Write", {"file_path": "/w/new.py", "content": "a\nb\n"}, "Write new.py +2"),
        ("write_file", {"file_path": "/w/new.py", "content": "a\nb\n"}, "Write new.py +2"),
        ("apply_patch", {"input": PATCH}, "Edit app.py, notes.txt +3 −1"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"}, "Delete a.py"),
        ("Read", {"file_path": "/w/login.py"}, "Read login.py"),
        ("read_file", {"absolute_path": "/w/login.py"}, "Read login.py"),
        ("Bash", {"command": "pytest -x"}, "Bash pytest -x"),
        ("bash", {"command": "cd /w && pytest -x\nls"}, "Bash pytest -x …"),
        ("Bash", {"command": "cat a.py"}, "Bash cat a.py"),
        ("shell", {"command": ["bash", "-lc", "pytest -x"]}, "Shell pytest -x"),
        ("shell", {"command": ["git", "commit", "-m", "two words"]}, "Shell git commit -m 'two words'"),
        ("exec_command", {"cmd": "pytest -x"}, "Shell pytest -x"),
        ("run_shell_command", {"command": "pytest -x"}, "Shell pytest -x"),
        ("Grep", {"pattern": "def l", "path": "/w/shop"}, "Grep 'def l'"),
        ("mcp__docs__search", {"limit": 3, "query": "two words"}, "search 'two words'"),
        ("WebFetch", {"url": "http://x.test/", "prompt": "What?"}, "WebFetch http://x.test/"),
        ("Task", {"description": "Look around", "prompt": "Look\naround"}, "Task Look around"),
        ("LS", {"path": "/w/shop"}, "LS shop"),
        ("TodoWrite", {"todos": [{"status": "completed"}, {"status": "pending"}]}, "TodoWrite 1 of 2 done"),
        ("strange", {"x": 1}, "strange"),
        ("strange", None, "strange"),
        ("strange", "text", "strange"),
        ("bad\x1b[2J", {"query": "\u202e"}, "bad\\x1b[2J '\\u202e'"),
    ],
)
def test_what_a_call_is_about(tool: str, arguments: object, line: str) -> None:
    assert brief_of(call(tool, arguments)).line == line


def test_what_failed_says_what_was_asked_for() -> None:
    edit = call("Edit", {"file_path": "/w/login.py", "old_string": "a", "new_string": "b"})
    assert brief_of(edit, result("no such text", failed=True)) == Brief("Edit", "login.py")


def test_a_reading_says_which_lines_were_shown() -> None:
    read = call("Read", {"file_path": "/w/login.py", "offset": 420})
    assert brief_of(read, result("   420→a\n   421→b\n")).line == "Read login.py:420-421"
    assert brief_of(call("Read", {"file_path": "/w/login.py"}), result("     1→a\n")).line == "Read login.py"


def test_long_things_are_cut() -> None:
    assert brief_of(call("Bash", {"command": "x" * 1000})).line == f"Bash {'x' * 120} …"
    many = "".join(f"*** Delete File: {name}.py\n" for name in "abcde")
    assert brief_of(call("apply_patch", {"input": many})).line == "Delete a.py, b.py, c.py and 2 more"
