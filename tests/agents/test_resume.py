"""``convfs resume`` with real agents: what a model is sent is the conversation as it is, in whichever agent."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agents.conftest import NewHome
from tests.agents.test_gestures import (
    ANSWERS,
    ASKED,
    EDITED,
    EXPORTED,
    KNOWN,
    check_sent,
    conversation,
    edit,
    events,
    mounted,
    needs_mount,
    prepare,
    talk,
    talked,
    texts,
    written_into,
)
from tests.agents.tools import Home, Tool

WITHOUT_TERMINAL = {
    "claude-code": ["--resume", "{session}", "-p", "{question}"],
    "codex": [
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("resume", "{session}", "{question}"),
    ],
    "gemini-cli": ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "--resume", "{session}", "-p", "{question}"],
    "pi": ["--provider", "mine", "--model", "m", "--session", "{session}", "-p", "{question}"],
    "oh-my-pi": ["--provider", "mine", "--model", "m", "--resume", "{session}", "-p", "{question}"],
    "llm": ["--conversation", "{session}", "-m", "m", "{question}"],
    "aider": [
        *("--model", "openai/m", "--no-git", "--yes-always", "--no-check-update", "--analytics-disable"),
        *("--no-show-model-warnings", "--restore-chat-history", "--chat-history-file", "{session}"),
        *("--message", "{question}"),
    ],
    "qwen-code": ["--auth-type", "openai", "--approval-mode", "yolo", "--resume", "{session}", "-p", "{question}"],
    "copilot-cli": ["--allow-all-tools", "--resume", "{session}", "-p", "{question}"],
    "kimi-cli": ["--print", "--yolo", "--session", "{session}", "-p", "{question}"],
    "kimi-code": ["-m", "m", "--session", "{session}", "-p", "{question}"],
    "mistral-vibe": ["--trust", "--yolo", "--resume", "{session}", "-p", "{question}"],
    "continue": ["--config", "{home}/.continue/config.yaml", "--auto", "--fork", "{session}", "-p", "{question}"],
    "cline": ["--data-dir", "{home}/.cline/data", "--id", "{session}"],
    "hermes": ["chat", "-Q", "--yolo", "--resume", "{session}", "-q", "{question}"],
    "openhands": ["--headless", "--override-with-envs", "--resume", "{session}", "-t", "{question}"],
    "opencode": ["run", "-m", "mine/m", "--session", "{session}", "{question}"],
    "kilo": ["run", "--auto", "-m", "mine/m", "--session", "{session}", "{question}"],
}
"""How an agent goes on with the session that is the last word of the printed command, and ends after its answer."""

TARGETS = [*EXPORTED, *(tool for tool in KNOWN if tool.name in ("opencode", "kilo", "aider"))]
OWN = [tool for tool in KNOWN if tool.name in WITHOUT_TERMINAL and tool.name != "continue"]
"""Those that go on in the session that they are told; the other one begins another with the same beginning."""
TAKING = [tool for tool in OWN if tool.name not in ("llm", "hermes", "openhands")]
"""Those that take in what they did not write."""


def session_id(path: Path) -> str:
    return path.stem[-36:]


def files(home: Home) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.sessions}


def go_on(home: Home, name: object, *options: object, asked: str = ASKED[2], answer: str = ANSWERS[2]) -> str:
    """Resume a conversation, ask the last question and return the session: its id, or the path of its file."""
    done = home.convfs("resume", str(name), "--print", *options)
    assert done.returncode == 0, done
    there, *taking, command = done.stdout.strip().split(" && ")
    assert shlex.split(there) == ["cd", str(home.work)]
    program, *words = shlex.split(command)
    assert program == home.tool.program
    for one in taking:
        home.tell(shlex.split(one)[1:], "")
    filled = [word.replace("{session}", words[-1]) for word in WITHOUT_TERMINAL[home.tool.name]]
    assert answer in home.tell(filled, asked)
    return words[-1]


def check_last(home: Home, wanted: Sequence[str]) -> None:
    check_sent(home, home.model.last(ASKED[2]), *wanted, ASKED[2])


@pytest.mark.parametrize("tool", OWN, ids=str)
def test_an_agents_own_session_is_where_it_was(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    before = files(home)
    home.run("resume", conversation(home)["id"], "--print")
    assert files(home) == before
    go_on(home, conversation(home)["id"])
    assert tool.rewrites or len(home.sessions) == len(before)
    check_last(home, talked(tool))


@pytest.mark.parametrize("tool", [tool for tool in OWN if tool.several], ids=str)
def test_one_run_of_several_goes_on_by_itself(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    found = conversation(home)["id"]
    assert ANSWERS[2] in home.resume(ASKED[2])
    home.run("import")
    [after] = [one["id"] for one in home.list() if one["id"] != found]
    before = files(home)
    go_on(home, found)
    check_last(home, talked(tool))
    assert files(home) == before
    home.model.answers(ASKED[1], ANSWERS[1])
    assert go_on(home, after, asked=ASKED[1], answer=ANSWERS[1])
    sent = home.model.last(ASKED[1])
    check_sent(home, sent, ASKED[2], ANSWERS[2], ASKED[1])
    assert ASKED[0] not in sent.text()


@pytest.mark.parametrize("tool", TAKING, ids=str)
@needs_mount
def test_what_was_edited_is_what_a_model_is_sent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    before = files(home)
    with mounted(home) as root:
        edit(root, ANSWERS[0], EDITED, "-assistant")
        go_on(home, conversation(home)["id"])
    wanted = talked(tool)
    check_last(home, [*wanted[:3], EDITED, *wanted[4:]])
    assert ANSWERS[0] not in home.model.last(ASKED[2]).text()
    if tool.format not in ("opencode", "kilo") and not tool.rewrites:
        # its own file is as it was
        assert before.items() <= files(home).items()


@pytest.mark.parametrize("tool", TAKING, ids=str)
def test_a_fork_and_an_earlier_event_are_sessions_of_their_own(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    found = conversation(home)
    [at] = [event["event"] for event in events(home, found["id"]) if ANSWERS[0] in texts(event)]
    home.run("fork", f"{found['id']}@{at}", "aside")
    sessions = []
    for name in (f"{found['project']}/aside", f"{found['id']}@{at}"):
        home.wait_a_minute()
        sessions.append(go_on(home, name))
        assert ASKED[1] not in home.model.last(ASKED[2]).text()
        check_last(home, talked(tool)[:4])
    assert len({*sessions}) == 2


@pytest.mark.parametrize("target", TARGETS, ids=lambda tool: f"to-{tool}")
@pytest.mark.parametrize("source", OWN, ids=lambda tool: f"from-{tool}")
def test_in_another_agent(new_home: NewHome, home_of_all: NewHome, source: Tool, target: Tool) -> None:
    if source == target:
        pytest.skip("that is the file itself")
    home = home_of_all(source)
    if not home.sessions:
        talk(home)
        home.run("import")
    other = new_home(target)
    # it was held where the other one works
    other.work = home.work
    prepare(other)
    other.settle()
    other.environment["CONVFS_STORE"] = str(home.store)
    go_on(other, conversation(home)["id"], "--in", target.name)
    check_last(other, talked(source))


@pytest.mark.parametrize("tool", [tool for tool in OWN if tool.name in ("claude-code", "pi")], ids=str)
@needs_mount
def test_where_an_agent_keeps_its_sessions_in_the_mount(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    with written_into(home) as root:
        talk(home)
        found = conversation(home)
        edit(root, ANSWERS[0], EDITED, "-assistant")
        # its own file has the edit already
        assert session_id(home.session) in home.run("resume", found["id"], "--print")
        go_on(home, found["id"])
        assert len(home.sessions) == 1
        wanted = talked(tool)
        check_last(home, [*wanted[:3], EDITED, *wanted[4:]])
        home.run("fork", f"{found['id']}@{found['events'] - 2}", "aside")
        go_on(home, f"{found['project']}/aside")
        assert len(home.sessions) == 2
