"""Agents look things up, as the manual says: by the server of the Model Context Protocol, and by the skill."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.agents.conftest import NewHome
from tests.agents.model import Call
from tests.agents.test_particulars import CLAUDE_CODE, CODEX
from tests.agents.tools import Home, Tool
from tests.fusefs.cli.user import ROOT, User

MANUAL = (ROOT / "fusefs/MANUAL.md").read_text(encoding="utf-8")
QUESTION = "What did we find out about addresses?"
ANSWER = "That they were compared by case."
NAME = "shop/2026-03-05-fix-the-login-bug"


@pytest.fixture(params=[CLAUDE_CODE, CODEX], ids=str)
def home(request: pytest.FixtureRequest, new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Somebody with a past conversation, and with convfs on the PATH."""
    home = new_home(request.param)
    convfs = home.home / "bin/convfs"
    convfs.parent.mkdir()
    convfs.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m fusefs.cli "$@"\n')
    convfs.chmod(0o755)
    # an agent may begin a shell of its own
    (home.home / ".profile").write_text(f"PATH={shlex.quote(str(convfs.parent))}:$PATH\n")
    monkeypatch.setenv("PATH", f"{convfs.parent}{os.pathsep}{os.environ['PATH']}")
    User.session(home, "shop", "a", "Fix the login bug", "It compares addresses by case.")
    home.run("import")
    return home


def lookups(tool: Tool, *calls: tuple[str, dict[str, object]]) -> list[Call]:
    """Return the calls of a server's tools, led by what an agent does while the server starts."""
    if tool is CLAUDE_CODE:
        names = [f"mcp__convfs__{name}" for name, _arguments in calls]
        known = Call("ToolSearch", {"query": f"select:{','.join(names)}"})
        return [known, *(Call(name, arguments) for name, (_, arguments) in zip(names, calls, strict=True))]
    known = Call("list_mcp_resources", {"server": "convfs"})
    return [known, *(Call(name, arguments, namespace="mcp__convfs") for name, arguments in calls)]


def test_the_server_answers_an_agent(home: Home) -> None:
    [command] = re.findall(rf"^({home.tool.program} mcp add .*)$", MANUAL, re.MULTILINE)
    home.tell(shlex.split(command, comments=True)[1:], "")
    assert "convfs" in home.tell(["mcp", "list"], "")
    asked = lookups(
        home.tool,
        ("search", {"query": "addresses"}),
        ("read_conversation", {"conversation": NAME, "first": 2}),
        ("read_conversation", {"conversation": "nowhere"}),
    )
    home.model.answers(QUESTION, *asked, ANSWER)
    words = [word.replace("Bash,", "mcp__convfs,ToolSearch,Bash,") for word in home.tool.ask]
    assert ANSWER in home.tell(words, QUESTION)
    _known, found, read, refused = [part.text for part in home.model.last(QUESTION).parts if part.kind == "result"]
    assert f"{NAME}, event 2 (assistant), 2026-03-05" in found
    assert "It compares addresses by case." in found
    assert "## 2 · assistant" in read
    assert "Fix the login bug" not in read.partition("## 2")[2]
    assert "no conversation" in refused


def test_the_skill_is_known_to_an_agent(home: Home) -> None:
    installed = home.run("install-skill").splitlines()
    assert f"{home.home}/.{home.tool.program}/skills/convfs/SKILL.md" in installed
    skill = Path(installed[0]).read_text(encoding="utf-8")
    said = skill.partition("description: ")[2].split(",", 1)[0]
    if home.tool is CLAUDE_CODE:
        load = Call("Skill", {"skill": "convfs"})
    else:
        load = home.tool.call(f"cat {home.home}/.codex/skills/convfs/SKILL.md")
    search = home.tool.call("convfs search addresses")
    home.model.answers(QUESTION, load, search, ANSWER)
    words = [word.replace("Bash,", "Skill,Bash,") for word in home.tool.ask]
    assert ANSWER in home.tell(words, QUESTION)
    first, *_others = [one for one in home.model.asked if QUESTION in one.text("user")]
    # it is told of the skill before it asks for it
    listed = json.dumps(first.body, ensure_ascii=False)
    assert said[:40] in listed
    last = home.model.last(QUESTION).text("user", "result")
    assert "finds events, best first, as PATH:LINE:TEXT" in last
    assert "It compares addresses by case." in last
