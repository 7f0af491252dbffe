"""New events by their names: which ask for one, which call is answered, and what a name means when written again."""

import errno
import json
import os
from pathlib import Path

import pytest

from fusefs.text.new_event import Asked, is_like_an_event, new_event
from store.events.event import Kind
from tests.fusefs.editing.talk import FIRST, LAST, SECOND, Talk
from tests.fusefs.tree.mounting import errno_of

OURS = [FIRST, SECOND, LAST]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("user.md", Asked(0, Kind.USER, "")),
        ("00012-call-Bash.md", Asked(12, Kind.TOOL_CALL, "Bash")),
        ("call.md", Asked(0, Kind.TOOL_CALL, "")),
        ("result-mcp__a-b.c.md", Asked(0, Kind.TOOL_RESULT, "mcp__a-b.c")),
        ("call-result-user.md", Asked(0, Kind.TOOL_CALL, "result-user")),
    ],
)
def test_names_that_ask_for_events(name: str, asked: Asked) -> None:
    assert new_event(name) == asked
    assert is_like_an_event(name)


@pytest.mark.parametrize(
    "name",
    ["user-x.md", "User.md", "call-.md", "0001-user.md", "00007-what.md", "record.md", "CALL-Bash.md", "note-1.md"],
)
def test_names_that_only_look_so(name: str) -> None:
    assert new_event(name) is None
    assert is_like_an_event(name)


@pytest.mark.parametrize("name", ["foo-user.md", "user.md~", ".user.md.swp", "user", "user.txt", "users.md", "4913"])
def test_names_of_anything_else(name: str) -> None:
    assert new_event(name) is None
    assert not is_like_an_event(name)


def test_nothing_that_is_called_as_an_event_is_a_file(talk: Talk) -> None:
    for name in ("user-x.md", "User.md", "0001-user.md", "record.md"):
        assert errno_of(lambda name=name: (talk.events / name).write_text("x")) == errno.EINVAL
        assert f"events/{name}: events are called" in talk.errors
    (talk.events / "x").write_text("x")
    assert errno_of(lambda: os.link(talk.events / "x", talk.events / "user.md")) == errno.EINVAL
    assert errno_of(lambda: os.rename(talk.events / "x", talk.events / "User.md")) == errno.EINVAL
    for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("x", path)):
        assert errno_of(lambda make=make: make(talk.events / "call-Bash.md")) == errno.EINVAL
    assert talk.listed == [*OURS, "x"]
    assert talk.new_versions == 0


def record(talk: Talk, number: int) -> dict[str, object]:
    found: dict[str, object] = json.loads((talk.root / ".records" / f"{number:05}.json").read_text())
    return found


def test_a_call_and_its_result(talk: Talk) -> None:
    (talk.events / "call-Bash.md").write_text(
        '````block json arguments\n{"timeout": 3}\n````\n\n````block text arguments.command\nls\npwd\n````\n'
    )
    (talk.events / "result-Bash.md").write_text("---\nis_error: true\n---\nnothing here\n")
    assert talk.listed == [*OURS, "00005-call-Bash.md", "00006-result-Bash.md"]
    call, result = record(talk, 5), record(talk, 6)
    message = call["message"]
    assert isinstance(message, dict)
    [part] = message["content"]
    assert (part["name"], part["input"]) == ("Bash", {"timeout": 3, "command": "ls\npwd"})
    assert call["parentUuid"] == "u3"
    assert result["parentUuid"] == call["uuid"] == result["sourceToolAssistantUUID"]
    answer = {"type": "tool_result", "tool_use_id": part["id"], "content": "nothing here", "is_error": True}
    assert result["message"] == {"role": "user", "content": [answer]}
    shown = (talk.events / "00006-result-Bash.md").read_text()
    talk.mount.tell(append=[1, []])
    assert "nothing here" in shown


def test_which_call_a_result_is_of(talk: Talk) -> None:
    for number in (1, 2):
        text = f'---\nid: c{number}\n---\n{{"path": "{number}"}}\n'
        (talk.events / f"{90_000 + number}-call-Read.md").write_text(text)
    result = talk.events / "result.md"
    assert errno_of(lambda: result.write_text("which?\n")) == errno.EINVAL
    assert "2 of them wait: say in the head which one is answered, by id: c1 or c2" in talk.errors
    result.write_text("---\nid: c1\n---\none\n")
    assert '"tool_use_id":"c1"' in (talk.root / ".records" / "00007.json").read_text()
    # the other one is the only one that waits now
    (talk.events / "result-Read.md").write_text("two\n")
    assert '"tool_use_id":"c2"' in (talk.root / ".records" / "00008.json").read_text()
    assert talk.listed[-1] == "00008-result-Read.md"
    refused = [
        ("result-Read.md", "---\nid: c1\n---\nagain\n", "c1 has its result: edit that, or write another call"),
        ("result-Read.md", "three\n", "no call of Read waits for a result: write a call first"),
        ("result-Read.md", "---\nid: c9\n---\nthree\n", "no call c9 waits for a result"),
        ("call-Read.md", "---\nid: c1\n---\n{}\n", "the id c1 is that of event 5: leave it out of the head"),
        ("call.md", "{}\n", "a call is one of a tool: call the file call-TOOL.md"),
        ("call-Read.md", "ls -l\n", "the arguments of Read are a JSON object: write one, or blocks"),
        ("call-Read.md", "---\ntool: Bash\n---\n{}\n", "line 2: the file is called call-Read.md: write tool: Read"),
        ("user.md", "````block json x\n{}\n````\n", "a new user is one text: write it without blocks"),
    ]
    for number, (name, text, reason) in enumerate(refused):
        path = talk.events / f"{91_000 + number}-{name}"
        assert errno_of(lambda path=path, text=text: path.write_text(text)) == errno.EINVAL
        assert reason.replace(name, path.name) in talk.errors
        assert path.read_text() == text
        path.unlink()
    assert len(talk.listed) == len(OURS) + 4


def test_a_second_file_is_a_second_event(talk: Talk) -> None:
    path = talk.events / "user.md"
    path.write_text("one\n")
    path.write_text("two\n")
    talk.shell("echo three > user.md; echo four > user.md")
    talk.shell("echo five > x; mv x user.md; echo six | tee user.md > /dev/null")
    outside = talk.mount.store.with_name("outside")
    outside.write_text("seven\n")
    talk.shell(f"cp {outside} user.md; mv {outside} user.md")
    said = ["one", "two", "three", "four", "five", "six", "seven", "seven"]
    listed = [f"{number:05}-user.md" for number in range(5, 5 + len(said))]
    assert talk.listed == [*OURS, *listed]
    assert [(talk.events / name).read_text().splitlines()[-1] for name in listed] == said
    assert path.read_text() == "seven\n"
    assert talk.new_versions == len(said)
    (talk.events / "00005-user.md").write_text("edited by its own name\n")
    assert talk.listed == [*OURS, *listed]


def test_an_editor_goes_on_with_its_event(talk: Talk) -> None:
    path = talk.events / "user.md"
    with path.open("w") as file:
        file.write("one\n")
        file.flush()
        os.fsync(file.fileno())
        file.write("and more\n")
    assert path.stat().st_size == 13
    # as an editor that looks whether the file is still as it has saved it
    path.write_text("two\n")
    assert path.stat().st_size == 4
    (talk.events / "tmp").write_text("three\n")
    assert path.exists()
    (talk.events / "tmp").rename(path)
    assert talk.listed == [*OURS, "00005-user.md"]
    assert (talk.events / "00005-user.md").read_text() == "three\n"
    # another program, whatever the editor does
    talk.shell("echo four > user.md")
    assert talk.listed == [*OURS, "00005-user.md", "00006-user.md"]
    with path.open("a") as file:
        file.write("and on\n")
    assert Path(talk.events / "00006-user.md").read_text() == "four\nand on\n"


def test_after_its_removal_a_name_is_free(talk: Talk) -> None:
    path = talk.events / "user.md"
    path.write_text("one\n")
    (talk.events / "assistant.md").write_text("two\n")
    path.unlink()
    talk.sync()
    path.write_text("three\n")
    assert talk.listed == [*OURS, "00006-assistant.md", "00007-user.md"]


def test_it_stands_in_the_session_of_its_tool(talk: Talk) -> None:
    (talk.events / "call-Read.md").write_text('{"file_path": "a"}\n')
    (talk.events / "result-Read.md").write_text("x\n")
    shown = json.loads((talk.root / "events.json").read_text())
    call = {key: value for key, value in shown[4].items() if key != "$event"}
    call |= {"uuid": "n1", "parentUuid": shown[5]["uuid"]}
    call["message"] = call["message"] | {"content": [call["message"]["content"][0] | {"id": "toolu_new"}]}
    result = {key: value for key, value in shown[5].items() if key != "$event"} | {"uuid": "n2", "parentUuid": "n1"}
    result["message"] = {"role": "user", "content": [result["message"]["content"][0] | {"tool_use_id": "toolu_new"}]}
    (talk.root / "events.json").write_text(json.dumps([*shown, call, result]))
    assert talk.listed[-2:] == ["00007-call-Read.md", "00008-result-Read.md"]
