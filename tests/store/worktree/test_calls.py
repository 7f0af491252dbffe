"""The file tools of each agent, with the frames that their results have."""

import json

import pytest

from store.events.event import Block, Kind, Resource
from store.exporting.steps import Step
from store.worktree.actions import Action, Asked, Command, Delete, Edit, Lines, Move, Read, Task, Tasks, Write
from store.worktree.calls import actions_of, asked_of
from store.worktree.patches import Change

GEMINI_CUT = """IMPORTANT: The file content has been truncated.
Status: Showing lines 1-2 of 9 total lines.
Action: read more of it.

--- FILE CONTENT (truncated) ---
x
y"""
PATCH = """*** Begin Patch
*** Add File: new.txt
+x
+y
*** Update File: a.py
*** Move to: b.py
@@ def f():
 x
-y
+z
@@
-last
*** End of File
*** Delete File: /old
*** End Patch
"""


def actions(
    tool: str, arguments: object, result: str | tuple[str, ...] = "", *, failed: bool = False, cwd: str = "/w"
) -> list[Action]:
    call = Step(1, 0, Kind.TOOL_CALL, tool=tool, arguments=arguments)
    blocks = tuple(Block("text", text) for text in ([result] if isinstance(result, str) else result))
    return actions_of(call, Step(2, 0, Kind.TOOL_RESULT, blocks, failed=failed), cwd)


@pytest.mark.parametrize(
    ("tool", "arguments", "result", "expected"),
    [
        (
            "Read",
            {"file_path": "/a.py"},
            "     1→x\n     2→\ty\n\n<system-reminder>\nMind.\n</system-reminder>\n",
            ("x\n\ty", 1, 2),
        ),
        ("Read", {"file_path": "/a.py", "offset": 9, "limit": 2}, "     9\tx\n    10\ty", ("x\ny", 9, 0)),
        ("read", {"path": "/a.py"}, "x\ny\n", ("x\ny\n", 1, 3)),
        ("read", {"path": "/a.py", "offset": 4}, "x\ny\n", ("x\ny\n", 4, 6)),
        (
            "read",
            {"path": "/a.py", "limit": 2},
            "x\ny\n\n[7 more lines in file. Use offset=3 to continue]",
            ("x\ny", 1, 9),
        ),
        (
            "read",
            {"path": "/a.py"},
            "x\ny\n\n[Showing lines 1-2 of 9 (50.0KB limit). Use offset=3 to continue]",
            ("x\ny", 1, 9),
        ),
        ("fs_read_file", {"path": "a.py"}, "```py\nx\ny\n\n```\n", ("x\ny\n", 1, 3)),
        (
            "fs_read_file",
            {"path": "a.py", "start_line": 5, "end_line": 6},
            "```py\n... (starting from line #5) ...\nx\ny\n... (truncated after line #6) ...\n```\n",
            ("x\ny", 5, 0),
        ),
        (
            "read_file",
            {"absolute_path": "/a.py"},
            GEMINI_CUT,
            ("x\ny", 1, 9),
        ),
        ("view", {"path": "/a.py"}, "<file>\n     9|  x\n    10|\n    11|  y\n</file>", ("  x\n\n  y", 9, 0)),
        ("read", {"filePath": "/a.py"}, "<file>\n00009|   x\n00010| y\n</file>", ("  x\ny", 9, 0)),
        (
            "view_file",
            {"AbsolutePath": '"/a.py"'},
            "File Path: `file:///a.py`\nTotal Lines: 2\n1: x\n2:   y\nThe above content is all of the file.",
            ("x\n  y", 1, 2),
        ),
        ("read_file_v2", {"path": "/a.py"}, '{"contents": "x\\ny"}', ("x\ny", 1, 2)),
        (
            "open",
            {"path": "a.py"},
            "[File: a.py (94 lines total)]\r\n1:x\r\n2:y\r\n(92 more lines below)\nbash-$",
            ("x\ny", 1, 94),
        ),
        (
            "read",
            {"filePath": "/a.py"},
            "<file>\n00001| x\n00002| y\n\n(End of file - total 2 lines)\n</file>",
            ("x\ny", 1, 2),
        ),
        (
            "str_replace_editor",
            {"command": "view", "path": "/a.py"},
            "Here's the result of running `cat -n`:\n     1\tx\n     2\ty\n     3\t\n",
            ("x\ny\n", 1, 3),
        ),
        (
            "text_editor",
            {"command": "view", "path": "/a.py", "view_range": [1, 2]},
            "     1\tx\n     2\ty\n",
            ("x\ny", 1, 0),
        ),
        (
            "read",
            {"filePath": "/a.py"},
            "<path>/a.py</path>\n<type>file</type>\n<content>\n1: x\n2: \n3:  y\n\n(End of file - total 3 lines)\n",
            ("x\n\n y", 1, 3),
        ),
        (
            "edit",
            {},
            "[File: /a.py (4 lines total)]\r\n(1 more lines above)\r\n2:x\r\n3:y\r\n(1 more lines below)\r\nbash-$",
            ("x\ny", 2, 4),
        ),
        (
            "read_many_files",
            {"paths": ["*.py"]},
            "--- /a.py ---\n\nx\ny\n\n--- End of content ---",
            ("x\ny", 1, 2),
        ),
        (
            "exec",
            {"input": 'const r = await tools.exec_command({"cmd":"cat a.py","workdir":"/v"});\ntext(r.output)'},
            ("Script completed\nWall time 0.2 seconds\nOutput:\n", "x\ny\n"),
            ("x\ny\n", 1, 3),
        ),
        ("shell", {"command": ["bash", "-lc", "cat a.py"]}, "x\ny\n", ("x\ny\n", 1, 3)),
        ("shell", {"command": ["bash", "-lc", "cd /v && sed -n '3,4p' a.py"]}, "x\ny\n", ("x\ny", 3, 0)),
        (
            "exec_command",
            {"cmd": "sed -n 3,9p a.py", "workdir": "/v"},
            "Chunk ID: 1\nWall time: 0\nOutput:\nx\ny\n",
            ("x\ny\n", 3, 5),
        ),
        ("shell", {"command": "nl -ba a.py | sed -n '3,4p'"}, "     3\tx\n     4\ty\n", ("x\ny", 3, 0)),
        ("shell", {"command": "head -n 2 a.py"}, "x\ny\n", ("x\ny", 1, 0)),
        ("shell", {"command": "head -2 a.py"}, "x\ny\n", ("x\ny", 1, 0)),
        ("shell", {"command": "tail -n +7 a.py"}, "x\ny\n", ("x\ny\n", 7, 9)),
    ],
)
def test_a_read_is_seen_without_its_frame(
    tool: str, arguments: object, result: str | tuple[str, ...], expected: tuple[str, int, int]
) -> None:
    [found] = actions(tool, arguments, result)
    assert isinstance(found, Read)
    assert found.path in ("/a.py", "/w/a.py", "/v/a.py")
    assert (found.text, found.first, found.total) == expected


@pytest.mark.parametrize(
    "command",
    ["cat a b", "cat a; ls", "cat a && ls", "cat a > b", "cat -n a", "sed -i s/a/b/ x", "ls", "cat 'a", "cat a | wc"],
)
def test_a_command_that_does_more_tells_nothing(command: str) -> None:
    assert actions("Bash", {"command": command}, "x\n") == []


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("Read", {"file_path": "/a.py"}, "File unchanged since last read. Its content is still current."),
        (
            "str_replace_editor",
            {"command": "view", "path": "/a"},
            "Here're the files up to 2 levels deep in /a:\n/a/b\n",
        ),
        ("str_replace_editor", {"command": "view", "path": "/a.py"}, "     1\tx\n<response clipped><NOTE>more</NOTE>"),
        ("read", {"filePath": "/a"}, "<path>/a</path>\n<type>directory</type>\n<entries>\nb\n</entries>"),
        ("read", {"path": "/a.py", "start": 3, "end": 4}, "x\n"),
        ("exec", {"input": "await Promise.all([tools.exec_command({}), tools.exec_command({})])"}, "x\n"),
    ],
)
def test_what_a_tool_remarks_is_no_file(tool: str, arguments: object, result: str) -> None:
    assert actions(tool, arguments, result) == []


def test_resources_say_their_lines() -> None:
    call = Step(1, 0, Kind.TOOL_CALL, tool="Read", arguments={"file_path": "/a b.py"})
    part = Resource("file:///a%20b.py#L3-4", "text/plain", "x\ny", lines=9)
    whole = Resource("file:///a%20b.py", "text/plain", "x\ny")
    result = Step(2, 0, Kind.TOOL_RESULT, resources=(part, whole))
    assert actions_of(call, result) == [Read("/a b.py", "x\ny", 3, 9), Read("/a b.py", "x\ny", 1, 2)]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Write", {"file_path": "/a", "content": "x"}, Write("/a", "x")),
        ("fs_create_file", {"path": "a", "content": "x"}, Write("/w/a", "x")),
        ("mcp__fs__write_file", {"path": "/a", "content": "x"}, Write("/a", "x")),
        ("str_replace_editor", {"command": "create", "path": "/a", "file_text": "x"}, Write("/a", "x")),
        ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, Edit("/a", (Change("x", "y"),))),
        ("edit", {"path": "/a", "oldText": "x", "newText": "y"}, Edit("/a", (Change("x", "y"),))),
        ("edit", {"filePath": "/a", "oldString": "x", "newString": "y"}, Edit("/a", (Change("x", "y"),))),
        ("replace", {"file_path": "/a", "old_string": "x", "new_string": "y"}, Edit("/a", (Change("x", "y"),))),
        (
            "MultiEdit",
            {
                "file_path": "/a",
                "edits": [
                    {"old_string": "x", "new_string": "y", "replace_all": True},
                    {"old_string": "v", "new_string": "w"},
                ],
            },
            Edit("/a", (Change("x", "y", every=True), Change("v", "w"))),
        ),
        ("fs_modify_file", {"patterns": [{"old": "x", "new": "y", "paths": ["a"]}]}, Edit("/w/a", (Change("x", "y"),))),
    ],
)
def test_a_change_is_the_same_whatever_the_tool(tool: str, arguments: object, expected: Action) -> None:
    assert actions(tool, arguments, "done") == [expected]
    assert actions(tool, arguments, "no", failed=True) == []


def test_a_patch_is_taken_apart() -> None:
    expected = [
        Write("/w/new.txt", "x\ny\n"),
        Edit("/w/a.py", (Change("x\ny", "x\nz", hunk=True, after="def f():"), Change("last", "", hunk=True))),
        Move("/w/a.py", "/w/b.py"),
        Delete("/old"),
    ]
    assert actions("apply_patch", {"input": PATCH}) == expected
    assert actions("shell", {"command": ["apply_patch", PATCH]}) == expected
    assert actions("patch", {"patchText": PATCH}) == expected
    for script in (f"apply_patch <<'EOF'\n{PATCH}\nEOF", f"cd /w && apply_patch << END\n{PATCH}\nEND\n"):
        assert actions("shell", {"command": ["bash", "-lc", script]}) == expected
        assert actions("exec_command", {"cmd": script}) == expected
        assert actions("shell", {"command": f"{script}; ls"}) == []
    here = f"apply_patch <<'EOF'\n{PATCH}EOF\n"
    assert actions("shell", {"command": f"cd /w && {here}"}, cwd="/v") == expected
    script = f"const patch = {json.dumps(PATCH)};\ntext(await tools.apply_patch(patch));"
    assert actions("exec", {"input": script}) == expected


def test_a_command_writes_the_text_behind_it() -> None:
    assert actions("bash", {"command": "cat > a.py <<'EOF'\nx\ny $z\nEOF"}) == [Write("/w/a.py", "x\ny $z\n")]
    # what the shell makes of it is not known, or it does more
    assert actions("bash", {"command": "cat > a.py <<EOF\n$x\nEOF"}) == []
    assert actions("bash", {"command": "cat > a.py <<'EOF'\nx\nEOF\npython a.py"}) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "asked", "rest"),
    [
        ("Read", {"file_path": "a", "offset": 3, "limit": 2, "x": 1}, [Lines("a", 3, 4)], {"x": 1}),
        ("mcp__fs__read_file", {"path": "a", "end_line": 9}, [Lines("a", 1, 9)], {}),
        ("str_replace_editor", {"command": "view", "path": "a", "view_range": [2, -1]}, [Lines("a", 2)], {}),
        ("str_replace_editor", {"command": "create", "path": "a", "file_text": "t"}, [Write("a", "t")], {}),
        ("shell", {"command": ["bash", "-lc", "ls | wc"], "path": "/"}, [Command("ls | wc")], {"path": "/"}),
        ("shell", {"command": ["git", "show", "a b"]}, [Command("git show 'a b'")], {}),
        ("shell", {"command": ["apply_patch", "*** Delete File: a"]}, [Delete("a")], {}),
        ("todowrite", {"todos": [{"content": "a", "status": "done"}], "n": 1}, [Tasks((Task("a", "done"),))], {"n": 1}),
        ("TodoWrite", {"todos": ["a"]}, [], {"todos": ["a"]}),
        ("Bash", {"timeout": 1}, [], {"timeout": 1}),
        ("Grep", {"path": "a"}, [], {"path": "a"}),
    ],
)
def test_what_a_call_asks_for(tool: str, arguments: object, asked: list[Asked], rest: dict[str, object]) -> None:
    found, left = asked_of(Step(1, 0, Kind.TOOL_CALL, tool=tool, arguments=arguments))
    assert (list(found), left) == (asked, rest)


BLOCKS = """------- SEARCH
old
=======
new
+++++++ REPLACE
"""
CONFLICT = """<<<<<<< SEARCH
:start_line:3
-------
old
=======
new
>>>>>>> REPLACE
"""
CHANGE = {"oldString": "old", "newString": "new"}
TAGGED = f"<file><path>a.py</path><diff><content>\n{CONFLICT}</content><start_line>3</start_line></diff></file>"
BOTH_LINES = CONFLICT.replace(":start_line:3\n", ":start_line:3\n:end_line:3\n")
QUOTED = {"TargetFile": '"/w/a.py"', "TargetContent": '"old"', "ReplacementContent": '"new"'}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("copilot_replaceString", {"filePath": "/a.py", "oldString": "old", "newString": "new"}, "edit"),
        ("multi_replace_string_in_file", {"replacements": [{"filePath": "/a.py"} | CHANGE]}, "edit"),
        ("replace_in_file", {"path": "a.py", "diff": BLOCKS}, "edit"),
        ("apply_diff", {"path": "a.py", "diff": CONFLICT}, "edit"),
        ("apply_diff", {"path": "a.py", "diff": BOTH_LINES}, "edit"),
        ("apply_diff", {"path": "a.py", "diff": [{"search": "old", "replace": "new", "start_line": 3}]}, "edit"),
        ("apply_diff", {"args": f"<args>\n{TAGGED}\n</args>"}, "edit"),
        ("search_and_replace", {"path": "a.py", "operations": [{"search": "old", "replace": "new"}]}, "edit"),
        ("search_and_replace", {"path": "a.py", "operations": '[{"search": "old", "replace": "new"}]'}, "edit"),
        ("search_replace", {"file_path": "a.py", "content": CONFLICT}, "edit"),
        ("StrReplace", {"path": "a.py", "old_string": "old", "new_string": "new"}, "edit"),
        ("fs_write", {"command": "str_replace", "path": "a.py", "old_str": "old", "new_str": "new"}, "edit"),
        ("editor", {"path": "a.py", "old_text": "old", "new_text": "new"}, "edit"),
        ("builtin_single_find_and_replace", {"filepath": "a.py", "old_string": "old", "new_string": "new"}, "edit"),
        ("replace_file_content", QUOTED, "edit"),
        ("patch", {"path": "a.py", "old_string": "old", "new_string": "new"}, "edit"),
        ("developer__text_editor", {"command": "write", "path": "a.py", "file_text": "x"}, "write"),
        ("fs_write", {"command": "create", "path": "a.py", "file_text": "x"}, "write"),
        ("fsWrite", {"path": "a.py", "text": "x"}, "write"),
        ("write_to_file", {"path": "a.py", "content": "x"}, "write"),
        ("builtin_create_new_file", {"filepath": "a.py", "contents": "x"}, "write"),
        ("delete_file", {"target_file": "a.py"}, "delete"),
        ("Delete", {"path": "a.py"}, "delete"),
        ("edit", {"path": "a.py", "before": "old", "after": "new"}, "edit"),
        ("MultiEdit", {"file_path": "a.py", "changes": [{"old_str": "old", "new_str": "new"}]}, "edit"),
        ("file_editor", {"command": "str_replace", "path": "a.py", "old_str": "old", "new_str": "new"}, "edit"),
        ("write", {"command": "strReplace", "path": "a.py", "oldStr": "old", "newStr": "new"}, "edit"),
        ("editToolCall", {"path": "a.py", "strReplace": {"oldText": "old", "newText": "new"}}, "edit"),
        ("edit_file", {"path": "a.py", "mode": "edit", "edits": [{"old_text": "old", "new_text": "new"}]}, "edit"),
        ("edit_file", {"path": "a.py", "mode": "write", "content": "x"}, "write"),
        ("write", {"command": "create", "path": "a.py", "content": "x"}, "write"),
        ("editor", {"path": "a.py", "new_text": "x"}, "write"),
        ("edit", {"file_path": "a.py", "old_string": "", "new_string": "x"}, "write"),
        ("deleteFile", {"targetFile": "a.py"}, "delete"),
        ("fs_write", {"command": "append", "path": "a.py", "new_str": "x"}, "add"),
        ("fsAppend", {"path": "a.py", "text": "x"}, "add"),
        ("WriteFile", {"path": "a.py", "content": "x", "mode": "append"}, "add"),
        ("write", {"command": "insert", "path": "a.py", "content": "x", "insertLine": 1}, "add"),
        ("editor", {"path": "a.py", "new_text": "x", "insert_line": 3}, "add"),
        ("fs_write", {"command": "undo", "path": "a.py"}, ""),
    ],
)
def test_tools_of_many_programs_change_files(tool: str, arguments: object, expected: str) -> None:
    path = "/a.py" if "/a.py" in json.dumps(arguments) and "/w/" not in json.dumps(arguments) else "/w/a.py"
    wanted = {
        "edit": [Edit(path, (Change("old", "new"),))],
        "write": [Write(path, "x")],
        "delete": [Delete(path)],
        "add": [Edit(path, (Change("", "x"),))],
        "": [],
    }
    assert actions(tool, arguments) == wanted[expected]


@pytest.mark.parametrize(
    ("roots", "path"),
    [
        (("/home/ada/shop",), "/home/ada/shop/src/a.py"),
        (("/home/ada/docs", "/srv/shop"), "/srv/shop/src/a.py"),
        (("/home/ada/docs",), "/home/ada/docs/shop/src/a.py"),
        (("/home/ada/docs", "/srv"), "shop/src/a.py"),
    ],
)
def test_paths_that_begin_with_the_name_of_a_folder(roots: tuple[str, ...], path: str) -> None:
    """As Zed's do. Its terminal is in such a folder, too; others are as they are."""
    for tool, given in (
        ("read_file", {"path": "shop/src/a.py"}),
        ("terminal", {"command": "cat a.py", "cd": "shop/src"}),
    ):
        call = Step(1, 0, Kind.TOOL_CALL, tool=tool, arguments=given)
        [found] = actions_of(call, Step(2, 0, Kind.TOOL_RESULT, (Block("text", "x\n"),)), "/elsewhere", roots)
        assert found.path == path
    call = Step(1, 0, Kind.TOOL_CALL, tool="read_file", arguments={"path": "/etc/hosts"})
    [found] = actions_of(call, Step(2, 0, Kind.TOOL_RESULT, (Block("text", "x\n"),)), "", roots)
    assert found.path == "/etc/hosts"


def test_what_cline_shows_after_an_edit_is_the_file() -> None:
    """An editor may have laid it out anew."""
    shown = 'It was saved to a.py.\n\n<final_file_content path="a.py">\nnew\n\n</final_file_content>\n\nMind that.'
    edit, read = actions("replace_in_file", {"path": "a.py", "diff": BLOCKS}, shown)
    assert (edit, read) == (Edit("/w/a.py", (Change("old", "new"),)), Read("/w/a.py", "new\n", 1, 2))
    assert actions("write_to_file", {"path": "a.py", "content": "new"}, shown) == [Write("/w/a.py", "new\n")]
    assert actions("list_files", {"recursive": True}, shown) == []


def test_edits_of_roo_that_say_more_than_a_text() -> None:
    """All places, several files, and what cannot be told without the program: patterns, and what was not done."""
    edit = {"path": "a.py", "search": "old", "replace": "new"}
    assert actions("search_and_replace", edit) == [Edit("/w/a.py", (Change("old", "new", every=True),))]
    assert actions("search_and_replace", edit | {"start_line": 3}) == [Edit("/w/a.py", (Change("old", "new"),))]
    for flag in ({"use_regex": "true"}, {"ignore_case": True}):
        assert actions("search_and_replace", edit | flag) == []
        assert actions("search_and_replace", {"path": "a.py", "operations": [edit | flag]}) == []
    for said in ("Changes were rejected by the user.", "The user denied this operation.", "No changes needed for 'a'"):
        assert actions("search_and_replace", edit, said) == []
    two = TAGGED + TAGGED.replace("a.py", "b.py")
    changes = (Change("old", "new"),)
    assert actions("apply_diff", {"args": two}) == [Edit("/w/a.py", changes), Edit("/w/b.py", changes)]
    lines = "<file><path>a.py</path><line_range>9-10</line_range></file>"
    shown = '<files><file><path>a.py</path>\n<content lines="9-10">\n 9 | x\n10 | y\n</content>\n</file></files>'
    [read] = actions("read_file", {"args": lines}, shown)
    assert read == Read("/w/a.py", "x\ny", 9)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("copilot_readFile", {"filePath": "a.py"}),
        ("view_file", {"AbsolutePath": '"/w/a.py"'}),
        ("builtin_read_file", {"filepath": "a.py"}),
        ("read_files", {"files": [{"path": "a.py"}]}),
        ("fs_read", {"operations": [{"mode": "Line", "path": "a.py"}]}),
        ("run_in_terminal", {"command": "cat a.py"}),
        ("run_command", {"CommandLine": '"cat a.py"', "Cwd": '"/w"'}),
        ("run_commands", {"commands": ["cat a.py"]}),
        ("Execute", {"command": "cat /w/a.py"}),
        ("command_execution", "cat a.py"),
        ("terminal", {"command": "cat a.py", "cd": "/w"}),
        ("exec", {"command": "cat a.py"}),
        ("readFile", {"targetFile": "a.py"}),
        ("read_file", {"args": "<file>\n<path>a.py</path>\n</file>"}),
    ],
)
def test_tools_of_many_programs_read_files(tool: str, arguments: object) -> None:
    [found] = actions(tool, arguments, "x\ny\n")
    assert isinstance(found, Read)
    assert (found.path, found.text.removesuffix("\n")) == ("/w/a.py", "x\ny")


@pytest.mark.parametrize(
    ("tool", "arguments", "result", "expected"),
    [
        ("view", {"path": "a.py"}, "1. x\n2. \n3.   y", ("x\n\n  y", 1, 3)),
        ("view", {"path": "a.py", "view_range": [4, 5]}, "4. x\n5. y", ("x\ny", 4, 0)),
        ("view", {"path": "a.md"}, "1. x\n2. y\n\nEnd", ("1. x\n2. y\n\nEnd", 1, 4)),
        ("read_file", {"path": "a.py"}, "File: a.py\nLines 1-2:\n1 | x\n2 |  y", ("x\n y", 1, 2)),
        (
            "read_files",
            {"files": [{"path": "a.py", "start_line": 9, "end_line": 10}]},
            '{\n  "query": "a.py:9-10",\n  "success": true\n}\n\n 9 | \tx\n10 | y',
            ("\tx\ny", 9, 0),
        ),
        (
            "developer__text_editor",
            {"command": "view", "path": "a.py"},
            "### a.py\n```py\n1: x\n2: y\n```\n",
            ("x\ny", 1, 2),
        ),
        (
            "read_file",
            {"path": "a.py"},
            "path: a.py\ncontent: x\ny\n\nlines_read: 2\nwas_truncated: False",
            ("x\ny\n", 1, 3),
        ),
        (
            "read_file",
            {"path": "a.py", "offset": 4, "limit": 2},
            "path: a.py\ncontent: x\ny\nlines_read: 2\nwas_truncated: False",
            ("x\ny", 5, 0),
        ),
        ("read_file", {"path": "a.py"}, '{"content": "     1|x\\n     2|y", "total_lines": 2}', ("x\ny", 1, 2)),
        ("Read", {"path": "a.py"}, '{"absolutePath": "/w/a.py", "content": "1: x\\n2: y"}', ("x\ny", 1, 2)),
        ("Read", {"filepath": "a.py"}, "Content of /w/a.py:\nx\ny\n", ("x\ny\n", 1, 3)),
        (
            "read_file",
            {"filePath": "a.py", "startLine": 1, "endLine": 2},
            "File: `a.py`. Lines 1 to 2 (9 lines total): \n```py\nx\ny\n```",
            ("x\ny", 1, 9),
        ),
    ],
)
def test_frames_of_many_programs(tool: str, arguments: object, result: str, expected: tuple[str, int, int]) -> None:
    [found] = actions(tool, arguments, result)
    assert isinstance(found, Read)
    assert (found.text, found.first, found.total) == expected


def test_a_result_may_show_the_whole_file_before_and_after() -> None:
    call = Step(1, 0, Kind.TOOL_CALL, tool="edit_file", arguments={"path": "a.py", "mode": "edit"})
    texts = {"output": "Edited a.py", "output.new_text": "y\nz\n", "output.old_text": "x\nz\n", "output.diff": "-x\n+y"}
    result = Step(2, 0, Kind.TOOL_RESULT, tuple(Block("text", text, name=name) for name, text in texts.items()))
    assert actions_of(call, result, "/w") == [Read("/w/a.py", "x\nz\n", 1, 3), Write("/w/a.py", "y\nz\n")]
    made = Step(2, 0, Kind.TOOL_RESULT, (Block("text", "y\n", name="output.new_text"),))
    assert actions_of(call, made, "/w") == [Write("/w/a.py", "y\n")]
