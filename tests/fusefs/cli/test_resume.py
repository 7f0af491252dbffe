"""``convfs resume``: the session is where the tool looks, as the conversation now is, and none of its files is touched.

That the tools themselves go on with it is shown with the tools (``tests/agents/test_resume.py``).
"""

import json
import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fusefs.cli.resume import TOOLS
from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.exporting.resume import resuming_of
from store.formats.claude_code.session import folder_name
from store.formats.registry import FORMATS, is_described
from store.store import Store
from tests.fusefs.cli.user import User
from tests.store.formats.databases import llm_database, opencode_database
from tests.store.formats.test_declared import PAGE

SAID = ("Fix the login bug \u2603", "It is fixed.", "And then?", "Nothing else.")
FILES = ["claude-code", "codex", "gemini-cli", "pi", "oh-my-pi", "qwen-code", "copilot-cli", "kimi-code", "droid"]
"""The programs whose sessions are files of their own folders."""
OWN = {"cursor-agent", "openhands"}
"""The programs that go on with sessions of their own alone."""


@pytest.fixture
def work(user: User) -> Path:
    work = user.home / "my shop"
    work.mkdir()
    return work


@pytest.fixture
def session(user: User, work: Path) -> Path:
    """A session of Claude Code, which was imported."""
    path = user.session("shop", "one", *SAID)
    path.write_text(path.read_text().replace('"/home/ada/shop"', json.dumps(str(work))))
    home = user.home / ".claude/projects" / folder_name(str(work))
    home.mkdir()
    path = path.rename(home / "0d3f0000-0000-4000-8000-000000000001.jsonl")
    user.run("import")
    return path


def files(user: User) -> dict[Path, bytes]:
    """Return everything in the user's home but the store."""
    found = (path for path in user.home.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in found if not path.is_relative_to(user.store)}


def printed(user: User, *arguments: object) -> list[list[str]]:
    """Return the words of the commands that ``resume --print`` prints."""
    done = user.convfs("resume", *arguments, "--print")
    assert done.returncode == 0, done
    return [shlex.split(command) for command in done.stdout.removesuffix("\n").split(" && ")]


def edit(user: User, old: bytes, new: bytes, conversation: int = 1) -> None:
    """Change a text in a conversation, wherever it stands."""
    with Store.open(user.store, renderer=FileRenderer(), create=False) as store:
        rows = store.records.rows(store.library.conversation(conversation).head)
        payloads = {row.number: store.contents.payload(row.turn) for row in rows}
        changed = {number: data.replace(old, new) for number, data in payloads.items() if old in data}
        assert changed
        Editor(store).edit(conversation, changed)


def test_every_program_is_tried() -> None:
    # sessions of one program may be of several formats
    written = [one.tool for format_ in FORMATS if is_described(format_) for one in format_.resuming if one.places]
    every = [one.tool for format_ in FORMATS if not is_described(format_) for one in format_.resuming]
    coded = [tool for tool in every if tool not in written]
    assert tuple(tool for tool in dict.fromkeys((*coded, *sorted(written))) if tool not in OWN) == TOOLS
    assert {*coded} - {*FILES} == {*OWN, "aider", "kilo", "llm", "opencode"}


def test_a_session_that_is_there_is_taken_as_it_is(user: User, work: Path, session: Path) -> None:
    before = files(user)
    assert printed(user, 1) == [["cd", str(work)], ["claude", "--resume", session.stem]]
    # as it grows
    with session.open("a") as stream:
        stream.write(session.read_text().splitlines()[0] + "\n")
    before |= files(user)
    assert printed(user, "fix the login", "--in", "claude-code")[1][-1] == session.stem
    assert files(user) == before


def test_a_session_that_its_tool_has_removed_is_put_back(user: User, work: Path, session: Path) -> None:
    content = session.read_bytes()
    session.unlink()
    assert printed(user, 1)[1] == ["claude", "--resume", session.stem]
    assert session.read_bytes() == content


@pytest.mark.parametrize("tool", FILES)
def test_what_was_edited_is_a_session_of_its_own(user: User, work: Path, session: Path, tool: str) -> None:
    edit(user, b"It is fixed.", b"It was the cable.")
    before = files(user)
    [where, words] = printed(user, 1, "--in", tool)
    assert where == ["cd", str(work)]
    assert words[:-1] == list(resuming_of(tool).words[:-1])
    assert before.items() <= files(user).items()
    [written] = [text.decode() for path, text in files(user).items() if path.suffix == ".jsonl" and path not in before]
    assert session.stem not in words
    assert [text in written for text in ("It was the cable.", "It is fixed.", *SAID[2:])] == [True, False, True, True]
    # once more, and the same
    after = files(user)
    assert printed(user, 1, "--in", tool) == [where, words]
    assert files(user) == after
    # it has gone on there, so that what the conversation is needs another place
    [path] = [path for path in after if path.suffix == ".jsonl" and path not in before]
    path.write_bytes(path.read_bytes() + b'{"type":"more"}\n')
    grown = files(user)
    assert printed(user, 1, "--in", tool)[1] != words
    assert grown.items() <= files(user).items()


@pytest.mark.parametrize("tool", FILES)
def test_what_was_written_for_a_program_is_its_own_afterwards(user: User, work: Path, session: Path, tool: str) -> None:
    commands = printed(user, 1, "--in", tool)
    session.unlink()
    user.run("import")
    [found] = (
        [one for one in user.list() if one["id"] != 1 and one["events"] > 1]
        if tool != "claude-code"
        else [user.list()[0]]
    )
    before = files(user)
    assert printed(user, found["id"]) == commands
    assert tool == "claude-code" or files(user) == before


def test_forks_and_earlier_events(user: User, work: Path, session: Path) -> None:
    user.run("fork", "1@2", "aside")
    sessions = set()
    for name in ("aside", "1@2", "1@3"):
        before = files(user)
        [_where, words] = printed(user, name)
        [path] = files(user).keys() - before.keys()
        assert path.parent == session.parent.with_name(path.parent.name)
        assert words == ["claude", "--resume", path.stem]
        assert (SAID[1] in path.read_text(), SAID[3] in path.read_text()) == (True, False)
        assert (SAID[2] in path.read_text()) is (name == "1@3")
        sessions.add(path.stem)
    assert len(sessions) == 3
    assert "has no event 99" in user.fails("resume", "1@99", "--print")


@pytest.mark.parametrize("tool", ["claude-code", "codex", "pi"])
def test_a_fork_becomes_the_session_that_its_tool_goes_on_with(
    user: User, work: Path, session: Path, tool: str
) -> None:
    if tool != "claude-code":
        printed(user, 1, "--in", tool)
        user.run("import")
    [parent] = [one for one in user.list() if one["format"] == tool]
    user.run("fork", parent["id"], "aside")
    before = files(user)
    commands = printed(user, "aside")
    [path] = files(user).keys() - before.keys()
    count = len(user.list())
    last = json.loads(path.read_text().splitlines()[-1])
    with path.open("a") as stream:
        stream.write(json.dumps(last | {"uuid": "later", "timestamp": "2026-03-05T20:00:00.000Z"}) + "\n")
    user.run("import")
    assert len(user.list()) == count
    [fork] = [one for one in user.list() if one["name"] == "aside"]
    assert fork["source"] == str(path)
    content = path.read_bytes()
    user.run("export", "aside", "-o", "out")
    [exported] = (user.home / "out").rglob("*.jsonl")
    assert exported.read_bytes() == content
    assert exported.name == path.name
    # and it is found there again
    assert printed(user, "aside") == commands
    assert path.read_bytes() == content


def test_nothing_is_written_over_what_somebody_else_has_there(user: User, work: Path, session: Path) -> None:
    edit(user, b"It is fixed.", b"It was the cable.")
    [_where, words] = printed(user, 1)
    [path] = [path for path in files(user) if path.stem == words[-1]]
    path.write_text("mine")
    assert printed(user, 1)[1] != words
    assert path.read_text() == "mine"


def test_the_program_takes_the_place_of_the_command(user: User, work: Path, session: Path) -> None:
    programs = user.home / "programs"
    programs.mkdir()
    program = programs / "claude"
    program.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\nexit 7\n')
    program.chmod(0o700)
    done = user.convfs("resume", 1, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (7, f"{work}\n--resume\n{session.stem}\n")
    assert user.fails("resume", 1, "--in", "codex", PATH=str(programs)).startswith("convfs: codex is not installed")


def test_a_directory_that_is_gone_is_one_line(user: User, work: Path, session: Path) -> None:
    work.rmdir()
    before = files(user)
    told = user.fails("resume", 1, "--in", "codex", "--print")
    assert told == f"convfs: {work}, where the conversation was held, is gone: make it again first\n"
    assert "gone" in user.fails("resume", 1)
    assert files(user) == before


def test_what_cannot_go_on_is_one_line(user: User, work: Path, session: Path) -> None:
    told = user.fails("resume", 1, "--in", "nosuch", "--print")
    assert told.startswith("convfs: nosuch is no program that goes on with sessions: choose one of claude-code, codex")
    assert "this was edited since" in user.fails("resume", 1, "--in", "llm", "--print")
    document = user.home / "made.trajectory"
    step = {"action": "ls", "observation": "a.py", "response": "I look.", "thought": "I look."}
    document.with_suffix(".traj").write_text(json.dumps({"trajectory": [step], "history": [], "info": {}}))
    user.run("import", document.with_suffix(".traj"))
    [other] = [one for one in user.list() if one["format"] == "swe-agent"]
    assert "no program goes on with sessions of swe-agent: name one by --in (claude-code" in user.fails(
        "resume", other["id"]
    )


@pytest.mark.parametrize("tool", ["opencode", "kilo"])
def test_databases(user: User, work: Path, tool: str) -> None:
    path = user.home / f".local/share/{tool}/{tool}.db"
    path.parent.mkdir(parents=True)
    opencode_database(user.home / "oc.db").rename(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE session SET directory = ?", (str(work),))
        database.commit()
    llm = user.home / ".config/io.datasette.llm"
    llm.mkdir(parents=True)
    llm_database(llm / "logs.db")
    user.run("import")
    talks = {one["title"]: one["id"] for one in user.list()}
    before = files(user)
    assert printed(user, talks["Session 0"]) == [["cd", str(work)], [tool, "--session", "ses_1"]]
    assert printed(user, talks["Names for pets"])[1] == ["llm", "chat", "--conversation", "c1"]
    assert files(user) == before
    user.run("fork", talks["Session 0"], "aside")
    [where, taking, words] = printed(user, "aside")
    assert where == ["cd", str(work)]
    [path] = files(user).keys() - before.keys()
    assert taking == [tool, "import", str(path)]
    document = json.loads(path.read_text())
    assert words == [tool, "--session", document["info"]["id"]]
    assert document["info"]["directory"] == str(work)
    parts = [part for message in document["messages"] for part in message["parts"]]
    assert [part.get("text") or part["state"].get("output") or part["state"]["error"] for part in parts] == [
        *(
            "List the\nfiles",
            "file:///home/ada/a.py",
            "I will look.",
            "a.py\nb.py and some more\n",
            "no such file",
            "Two files é.",
        ),
    ]


def test_aider(user: User, work: Path) -> None:
    history = work / ".aider.chat.history.md"
    history.write_text("\n# aider chat started at 2026-03-05 19:31:54\n\n#### Fix it  \n\nIt is fixed.\n\n")
    user.run("import", history)
    command = ["aider", "--restore-chat-history", "--chat-history-file"]
    assert printed(user, "fix-it") == [["cd", str(work)], [*command, str(history)]]
    edit(user, b"It is fixed.", b"It was the cable.", 2)
    [_where, words] = printed(user, "fix-it")
    assert words[:-1] == command
    assert Path(words[-1]).parent == work
    assert Path(words[-1]).read_text().endswith("\n#### Fix it  \n\nIt was the cable.\n\n")
    assert "It is fixed." in history.read_text()


def test_a_page_of_ones_own(user: User, work: Path, session: Path) -> None:
    (user.store / "formats").mkdir(exist_ok=True)
    page = f'{PAGE}\n[[resume]]\ntool = "chatter"\ncommand = ["chatter", "{{session}}", "{{path}}"]\n'
    (user.store / "formats" / "chat-lines.toml").write_text(page)
    [where, words] = printed(user, 1, "--in", "chatter")
    path = Path(words[2])
    assert (where, words[:2]) == (["cd", str(work)], ["chatter", path.stem])
    assert path.parent == user.home / ".chatlines" / folder_name(str(work))
    assert all(text in path.read_text() for text in SAID)
    assert printed(user, 1, "--in", "chatter") == [where, words]
    assert "chat-lines          a page   from any  chatter\n" in user.run("formats")
    assert user.run("export", 1, "--format", "chat-lines", "-o", "out").endswith(".chatlines\n")
