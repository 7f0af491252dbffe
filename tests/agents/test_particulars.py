"""Gestures that only some agents have: archiving, forking, compacting, subagents, images."""

import base64
import json
from pathlib import Path

import pytest

from tests.agents.conftest import NewHome
from tests.agents.model import Call
from tests.agents.test_gestures import (
    ANSWERS,
    ASKED,
    SAID,
    check_sent,
    check_talk,
    content,
    conversation,
    events,
    exported,
    mounted,
    needs_mount,
    prepare,
    put_back,
    talk,
    talked,
    texts,
    written_into,
)
from tests.agents.tools import MINI, TOOLS, Home
from tests.fusefs.tree.mounting import until
from tests.store.exporting.talks import PNG

CLAUDE_CODE, CODEX = (next(tool for tool in TOOLS if tool.name == name) for name in ("claude-code", "codex"))


def archived(home: Home) -> list[Path]:
    return list((home.home / ".codex/archived_sessions").glob("**/*.jsonl"))


def session_id(path: Path) -> str:
    return path.stem[-36:]


def test_what_codex_archives_stays_one_conversation(new_home: NewHome) -> None:
    home = new_home(CODEX)
    talk(home)
    home.run("import")
    found = conversation(home)
    home.tell(["archive", session_id(home.session)], "")
    assert (len(home.sessions), len(archived(home))) == (0, 1)
    home.run("import")
    assert conversation(home)["id"] == found["id"]
    home.tell(["unarchive", session_id(archived(home)[0])], "")
    assert ANSWERS[2] in home.resume(ASKED[2])
    home.run("import")
    assert conversation(home)["id"] == found["id"]
    check_talk(home, found["id"], 3)


@needs_mount
def test_what_codex_archives_out_of_the_mount_is_there(new_home: NewHome) -> None:
    home = new_home(CODEX)
    with written_into(home):
        talk(home)
        found = conversation(home)
        session = home.session.read_bytes()
        name = home.session.name
        # it cannot rename out of a mount, and says so; or it copies
        words = ["archive", session_id(home.session)]
        with home.running(words, "") as process:
            process.communicate(timeout=60)
        there = [*home.sessions, *archived(home)]
        assert [path.name for path in there] == [name]
        assert there[0].read_bytes() == session
    assert conversation(home)["id"] == found["id"]
    check_talk(home, found["id"])


def test_a_session_that_claude_code_forks_is_a_fork(new_home: NewHome) -> None:
    home = new_home(CLAUDE_CODE)
    talk(home)
    first = home.session
    assert ANSWERS[2] in home.tell([*home.resuming(first), "--fork-session"], ASKED[2], first)
    home.run("import")
    assert len(home.sessions) == 2
    both = home.list()
    assert len({one["name"] for one in both}) == 2
    # a name is followed by what tells it from another's
    whole = {path.name: content(path) for path in home.sessions}
    for one in both:
        [path] = exported(home, one["id"], f"out-{one['id']}")
        assert content(path) == whole[path.name]
    counts = [3 if any(ANSWERS[2] in texts(event) for event in events(home, one["id"])) else 2 for one in both]
    assert sorted(counts) == [2, 3]
    for one, count in zip(both, counts, strict=True):
        check_talk(home, one["id"], count)


@needs_mount
def test_a_session_that_claude_code_compacts_is_whole(new_home: NewHome) -> None:
    home = new_home(CLAUDE_CODE)
    prepare(home)
    home.model.answers("Your task is to create a detailed summary", "<summary>Animals and what they say.</summary>")
    with written_into(home):
        assert ANSWERS[0] in home.ask(ASKED[0])
        assert ANSWERS[1] in home.resume(ASKED[1])
        home.resume("/compact")
        assert ANSWERS[2] in home.resume(ASKED[2])
        sent = home.model.last(ASKED[2])
        assert ASKED[0] not in sent.text("user").replace("Animals and what they say.", "")
        found = conversation(home)
        check_talk(home, found["id"], 3)
        assert any(event["kind"] == "summary" for event in events(home, found["id"]))
        context = home.convfs("context", found["id"]).stdout
        assert ANSWERS[0] not in context
        assert "Animals and what they say." in context
        [path] = exported(home, found["id"])
        assert path.read_bytes() == home.session.read_bytes()
    home.run("fsck")


@needs_mount
def test_what_a_subagent_did_is_its_own_conversation(new_home: NewHome) -> None:
    home = new_home(CLAUDE_CODE)
    order = "Look for the heron's nest and tell where it is."
    arguments = {"description": "Find it", "prompt": order, "subagent_type": "general-purpose"}
    home.model.answers(ASKED[0], Call("Agent", arguments | {"run_in_background": False}), ANSWERS[0])
    home.model.answers(order, home.tool.call(f"echo {SAID}"), "The nest is in the alder.")
    with written_into(home):
        assert ANSWERS[0] in home.ask(ASKED[0])
        files = {path.name: path.read_bytes() for path in home.sessions}
        assert len(files) == 2
        both = home.list()
        assert len(both) == 2
        told = [[texts(event) for event in events(home, one["id"])] for one in both]
        assert sum(any("The nest is in the alder." in text for text in one) for one in told) == 2
        assert sum(any(f"echo {SAID}" in text for text in one) for one in told) == 1
    for one in home.list():
        paths = exported(home, one["id"], f"out-{one['id']}")
        assert [files[path.name] for path in paths if path.name in files] == [
            path.read_bytes() for path in paths if path.name in files
        ]
    home.run("fsck")


@needs_mount
@pytest.mark.parametrize("tool", [CLAUDE_CODE], ids=str)
def test_an_image_that_was_read_is_sent_again(new_home: NewHome, tool: object) -> None:
    home = new_home(CLAUDE_CODE)
    picture = home.work / "picture.png"
    picture.write_bytes(base64.b64decode(PNG))
    home.model.answers(ASKED[0], Call("Read", {"file_path": str(picture)}), ANSWERS[0])
    home.model.answers(ASKED[1], ANSWERS[1])
    assert ANSWERS[0] in home.ask(ASKED[0])
    before = json.dumps(home.model.last(ASKED[0]).body)
    assert '"type": "image"' in before
    home.run("import")
    with mounted(home) as root:
        [resource] = [path for path in root.glob("conversations/*/*/resources/**/*.png") if path.is_file()]
        assert resource.read_bytes().startswith(b"\x89PNG")
        until(lambda: conversation(home))
    put_back(home, conversation(home)["id"])
    assert ANSWERS[1] in home.resume(ASKED[1])
    assert json.dumps(home.model.last(ASKED[1]).body).count('"type": "image"') == 1
    check_sent(home, home.model.last(ASKED[1]), ASKED[0], "[image]", ANSWERS[0], ASKED[1])


def test_a_talk_that_was_continued_twice_is_one(new_home: NewHome) -> None:
    home = new_home(CLAUDE_CODE)
    talk(home)
    assert ANSWERS[2] in home.resume(ASKED[2])
    home.run("import")
    check_talk(home, conversation(home)["id"], 3)
    check_sent(home, home.model.last(ASKED[2]), *talked(home.tool), ASKED[2])


def test_a_trajectory_of_mini_swe_agent_is_whole(new_home: NewHome) -> None:
    home = new_home(MINI)
    done = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"
    home.model.answers(ASKED[0], home.tool.call(f"echo {SAID}"), home.tool.call(done))
    home.ask(ASKED[0])
    home.run("import", home.work)
    found = conversation(home)
    assert found["format"] == home.tool.format
    told = [(event["kind"], texts(event)) for event in events(home, found["id"])]
    wanted = [("user", ASKED[0]), ("tool_call", SAID), ("tool_result", SAID), ("tool_call", done)]
    places = [[at for at, (one, whole) in enumerate(told) if one == kind and text in whole] for kind, text in wanted]
    assert [len(one) for one in places] == [1] * len(wanted), told
    assert places == sorted(places)
    [path] = exported(home, found["id"])
    assert path.read_bytes() == home.session.read_bytes()
