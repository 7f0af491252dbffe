"""Real agents and convfs: import, watch, write into the mount, edit and resume, go on in another agent."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fusefs.mount_table import mount_at
from tests.agents.conftest import NewHome
from tests.agents.model import Held, Request
from tests.agents.tools import SECONDS, TOOLS, Home, Tool, kill
from tests.fusefs.tree.mounting import PATIENCE, can_mount, until

KNOWN = [tool for tool in TOOLS if tool.format]
NATIVE = [tool for tool in KNOWN if tool.native]
EXPORTED = [tool for tool in KNOWN if tool.form]

each = pytest.mark.parametrize("tool", KNOWN, ids=str)
each_that_may_lose = pytest.mark.parametrize("tool", [tool for tool in KNOWN if not tool.derives], ids=str)
each_native = pytest.mark.parametrize("tool", NATIVE, ids=str)
needs_mount = pytest.mark.skipif(not can_mount(), reason="/dev/fuse or fusermount3 is not there")

ASKED = ("Tell me what the marmot says.", "And what does the heron say?", "Who of them was the louder one?")
SAID = "whistling-from-a-rock"
ANSWERS = ("The marmot whistles from its rock.", "The heron croaks, but only at dusk.", "It was the marmot, by far.")
EDITED = "The marmot sleeps until spring."


def prepare(home: Home) -> None:
    """Tell the model what to say in this talk."""
    calls = [home.tool.call(f"echo {SAID}")] if home.tool.shell else []
    home.model.answers(ASKED[0], *calls, ANSWERS[0])
    home.model.answers(ASKED[1], ANSWERS[1])
    home.model.answers(ASKED[2], ANSWERS[2])


def talk(home: Home) -> None:
    """Have the agent hold a talk of two questions, the second one after it was resumed, if it has sessions."""
    prepare(home)
    if home.tool.several:
        told = home.tell(home.tool.several, "", lines=ASKED[:2])
        assert ANSWERS[0] in told
        assert ANSWERS[1] in told
        return
    assert ANSWERS[0] in home.ask(ASKED[0])
    home.wait_a_minute()
    assert ANSWERS[1] in home.resume(ASKED[1])


def conversation(home: Home) -> dict[str, Any]:
    """Return the only conversation in the store, as ``ls`` tells of it.

    But for what Gemini CLI leaves in a file beside it when it resumes one: what it tells a model first, and no more.
    """
    [found] = [one for one in home.list() if one["events"] > home.tool.rewrites]
    return found


def events(home: Home, name: object) -> list[dict[str, Any]]:
    return json.loads(home.run("show", "--json", name))["events"]


def session_of(home: Home, name: str) -> Path:
    """Return the session in a file of this name."""
    [path] = [path for path in home.sessions if path.name == name]
    return path


def texts(event: dict[str, Any]) -> str:
    return "\n".join(str(block.get("text", "")) for block in event["blocks"])


def said(home: Home, name: object, *kinds: str) -> list[tuple[str, str]]:
    """Return kind and text of each event of these kinds."""
    return [(event["kind"], texts(event)) for event in events(home, name) if event["kind"] in kinds]


def check_talk(home: Home, name: object, count: int = 2) -> None:
    """Check that each question and answer is in one event, in order, and a call and what it returned between them."""
    told = said(home, name, "user", "assistant", "tool_call", "tool_result")
    wanted = [("user", ASKED[0]), ("tool_call", f"echo {SAID}"), ("assistant", ANSWERS[0])]
    if not home.tool.shell:
        del wanted[1]
    for asked, answer in list(zip(ASKED, ANSWERS, strict=True))[1:count]:
        wanted += [("user", asked), ("assistant", answer)]
    # some have it with the call, some by itself, some both
    assert not home.tool.shell or sum(text.count(SAID) for kind, text in told if kind.startswith("tool_")) in (2, 3)
    at = -1
    for kind, text in wanted:
        places = [place for place, (one, whole) in enumerate(told) if one == kind and text in whole]
        assert len(places) == 1, (kind, text, told)
        assert places[0] > at, (kind, text, told)
        at = places[0]


def check_sent(home: Home, request: Request, *wanted: str) -> None:
    """Check that a model was sent texts, in this order, each but once, and each call with its result."""
    request.check_calls(again=home.tool.rewrites)
    whole = request.text("user", "assistant", "call", "result")
    place = 0
    for text in filter(None, wanted):
        assert whole.count(text) == 1 or text == SAID, (text, whole)
        found = whole.find(text, place)
        assert found >= 0, (text, whole)
        place = found + len(text)


def talked(tool: Tool) -> list[str]:
    """Return what a model is sent of a :func:`talk`: its first four are the first question, call, result and answer."""
    return [ASKED[0], *([SAID, SAID] if tool.shell else ["", ""]), ANSWERS[0], ASKED[1], ANSWERS[1]]


@contextmanager
def mounted(home: Home, *options: str) -> Iterator[Path]:
    """Mount the store while the block runs; what kills the daemon in it is to unmount what it leaves."""
    root = home.home / "mnt"
    root.mkdir(exist_ok=True)
    with (home.home.parent / "daemon.log").open("ab") as messages:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "fusefs.cli", "mount", str(root), "--foreground", *options],
            env=home.environment,
            cwd=home.work,
            stdin=subprocess.DEVNULL,
            stderr=messages,
            stdout=messages,
        )
    home.daemon = daemon
    try:
        until(lambda: mount_at(root) is not None or daemon.poll() is not None, 60)
        assert daemon.poll() is None, (home.home.parent / "daemon.log").read_text()
        subprocess.run(["ls", root], check=True, timeout=PATIENCE, capture_output=True)
        yield root
        if daemon.poll() is None:
            home.run("umount", root)
            assert daemon.wait(60) == 0
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait(60)
        if mount_at(root) is not None:
            subprocess.run(["fusermount3", "-uz", root], check=False, timeout=PATIENCE)


@contextmanager
def written_into(home: Home, *options: str) -> Iterator[Path]:
    """Mount the store with the agent's sessions in it: the folder of them is a link into the mount."""
    with mounted(home, *options) as root:
        sessions = home.home / home.tool.sessions
        sessions.parent.mkdir(parents=True, exist_ok=True)
        if not sessions.is_symlink():
            sessions.symlink_to(root / ".convfs/native" / home.tool.native)
        yield root


def exported(home: Home, name: object, folder: str = "out", form: str = "native") -> list[Path]:
    """Export a conversation and return the files."""
    done = home.convfs("export", str(name), "--format", form, "-o", home.home / folder)
    assert done.returncode == 0, done
    return [Path(line) for line in done.stdout.splitlines()]


def content(path: Path) -> object:
    """Return what is in a session's file: its bytes, or the rows of a database, whose bytes may lie in its journal."""
    if path.suffix != ".db":
        return path.read_bytes()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return list(database.iterdump())


# -- import ------------------------------------------------------------------------------------------------------------


@each
def test_sessions_are_imported_whole(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    found = conversation(home)
    assert found["format"] == tool.format
    check_talk(home, found["id"])
    path, *others = exported(home, found["id"])
    session = session_of(home, path.name)
    assert content(path) == content(session)
    for other in others:
        # a database comes with the journal that its program left, a session with the files that describe it
        left = session.parent / other.relative_to(path.parent)
        assert other.name == f"{path.name}-wal" or other.read_bytes() == left.read_bytes()
    before = events(home, found["id"])
    assert "0 imported, 0 grown" in home.run("import")
    assert ANSWERS[2] in home.resume(ASKED[2])
    home.run("import")
    if tool.several:
        # a run is a conversation of its own
        [run] = [one["id"] for one in home.list() if one["id"] != found["id"]]
        assert said(home, run, "user", "assistant") == [("user", ASKED[2]), ("assistant", ANSWERS[2])]
        assert events(home, found["id"]) == before
        home.run("fsck")
        return
    assert conversation(home)["id"] == found["id"]
    # Cline has what it tells a model first behind all messages
    before, after = ([one for one in all_ if one["kind"] != "system"] for all_ in (before, events(home, found["id"])))
    assert tool.rewrites or after[: len(before)] == before
    check_talk(home, found["id"], 3)
    home.run("fsck")


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if not tool.format], ids=str)
def test_sessions_that_nobody_knows_are_taken_for_nobodys(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    assert home.session.exists()
    assert "no session of" in home.fails("import", home.home / tool.sessions)


# -- watch -------------------------------------------------------------------------------------------------------------


@each
@needs_mount
def test_what_is_watched_is_what_is_imported(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    prepare(home)
    with mounted(home, "--watch") as root:
        if tool.several:
            talk(home)
        else:
            assert ANSWERS[0] in home.ask(ASKED[0])
            until(lambda: any(ANSWERS[0] in text for text in transcripts(root)), 60)
            home.wait_a_minute()
            assert ANSWERS[1] in home.resume(ASKED[1])
        until(lambda: any(ANSWERS[1] in text for text in transcripts(root)), 60)
        # what it writes at its end may come yet
        time.sleep(1.5)
        check_talk(home, conversation(home)["id"])
    check_is_as_imported(home)


def transcripts(root: Path) -> list[str]:
    """Return the transcripts in a mount; one that is renamed meanwhile is left out."""
    found = []
    for path in list((root / "transcripts").glob("*/*.md")):
        with suppress(FileNotFoundError):
            found.append(path.read_text())
    return found


def check_is_as_imported(home: Home) -> None:
    """Check that the store holds just what an import of the same files makes, under the same names."""
    seen = conversation(home)
    fresh = home.home.parent / "fresh"
    home.run("--store", fresh, "import")
    others = json.loads(home.run("--store", fresh, "ls", "--json"))
    assert len(others) == len(home.list())
    [other] = [one for one in others if one["events"] > home.tool.rewrites]
    told = ("project", "name", "title", "format", "events")
    assert [seen[key] for key in told] == [other[key] for key in told]
    again = json.loads(home.run("--store", fresh, "show", "--json", other["id"]))["events"]
    assert events(home, seen["id"]) == again
    home.run("fsck")


def settled(home: Home, text: str) -> dict[str, Any]:
    """Return the conversation as soon as it says a text: a file that may hold several is imported when it is quiet."""
    until(lambda: any(text in one for _kind, one in said(home, conversation(home)["id"], "assistant")), SECONDS)
    return conversation(home)


# -- native ------------------------------------------------------------------------------------------------------------


@each_native
@needs_mount
def test_killed_in_the_middle_nothing_is_lost_and_nothing_twice(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    prepare(home)
    home.model.answers(ASKED[1], Held(ANSWERS[1]))
    with written_into(home):
        assert ANSWERS[0] in home.ask(ASKED[0])
        home.wait_a_minute()
        with home.running(home.resuming(None), ASKED[1]) as agent:
            home.model.wait_until_held(SECONDS)
            # what it began to write is there a moment later
            time.sleep(0.5)
            kill(agent)
            there = {path.name: path.read_bytes() for path in home.sessions}
            home.daemon.kill()
            home.daemon.wait(60)
    with written_into(home):
        assert {path.name: path.read_bytes() for path in home.sessions} == there
        if tool.asks_again:
            # what was not answered is asked instead
            home.model.release()
            assert ANSWERS[1] in home.resume("Is anybody there?")
        assert ANSWERS[2] in home.resume(ASKED[2])
        sent = home.model.last(ASKED[2])
        check_sent(home, sent, *talked(tool)[:4], *([ASKED[1]] if ASKED[1] in sent.text("user") else []), ASKED[2])
        now = {path.name: path.read_bytes() for path in home.sessions}
        found = settled(home, ANSWERS[2])
        told = [text for _kind, text in said(home, found["id"], "user", "assistant")]
        for text in (ASKED[0], ANSWERS[0], ASKED[2], ANSWERS[2]):
            assert sum(text in one for one in told) == 1, (text, told)
        # a program may write the last record anew when it goes on, so it is not said that the old bytes begin the new
        before = [line for name in there for line in there[name].splitlines() if ASKED[1].encode() in line]
        assert bool(before) == any(ASKED[1] in one for one in told)
    [path] = exported(home, found["id"])
    assert path.read_bytes() == now[path.name]
    assert tool.rewrites or len(now) == 1
    home.run("fsck")


# -- edit, and resume --------------------------------------------------------------------------------------------------


def event_file(root: Path, text: str, kind: str = "") -> Path:
    """Return the file of the only event that says a text."""
    found = [path for path in root.glob(f"conversations/*/*/events/*{kind}*") if text in path.read_text()]
    assert len(found) == 1, (text, found)
    return found[0]


def edit(root: Path, old: str, new: str, kind: str = "") -> None:
    """Change a text in the event that says it."""
    path = event_file(root, old, kind)
    path.write_text(path.read_text().replace(old, new))


@each_native
@needs_mount
def test_what_is_edited_in_the_mount_is_what_a_model_is_sent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    prepare(home)
    with written_into(home) as root:
        assert ANSWERS[0] in home.ask(ASKED[0])
        home.wait_a_minute()
        assert ANSWERS[1] in home.resume(ASKED[1])
        edit(root, ANSWERS[0], EDITED, "-assistant")
        assert ANSWERS[2] in home.resume(ASKED[2])
        sent = home.model.last(ASKED[2])
        assert ANSWERS[0] not in sent.text()
        check_sent(home, sent, *talked(tool)[:3], EDITED, *talked(tool)[4:], ASKED[2])
        told = [text for _kind, text in said(home, settled(home, ANSWERS[2])["id"], "user", "assistant")]
        for text in (ASKED[0], EDITED, ASKED[1], ANSWERS[1], ASKED[2], ANSWERS[2]):
            assert sum(text in one for one in told) == 1, (text, told)


@each_native
@needs_mount
def test_what_is_written_by_hand_is_what_a_model_is_sent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    prepare(home)
    call = tool.call("echo by hand")
    new = {
        "user.md": "What does a hand say?",
        "reasoning.md": "A thought of a hand.",
        f"call-{call.name}.md": json.dumps(call.arguments),
        f"result-{call.name}.md": "It says five.",
        "assistant.md": "Five, said the hand.",
        "note.md": "Nobody is sent this.",
    }
    with written_into(home) as root:
        assert ANSWERS[0] in home.ask(ASKED[0])
        home.wait_a_minute()
        folder = event_file(root, ANSWERS[0], "-assistant").parent
        for name, text in new.items():
            (folder / name).write_text(f"{text}\n")
        assert ANSWERS[2] in home.resume(ASKED[2])
        sent = home.model.last(ASKED[2])
        said_by_hand = ("What does a hand say?", "echo by hand", "It says five.", "Five, said the hand.")
        check_sent(home, sent, *talked(tool)[:4], *said_by_hand, ASKED[2])
        assert "Nobody is sent" not in sent.text()
        # what no model has signed
        assert tool.name not in ("claude-code", "gemini-cli") or "A thought of a hand." not in sent.text()
        if tool.rewrites:
            # it writes all messages anew, without what is none
            return
        told = "\n".join(texts_at(home, settled(home, ANSWERS[2])["id"]))
        for text in (*said_by_hand, "A thought of a hand.", "Nobody is sent this."):
            assert told.count(text) == 1, (text, told)


NAMING = {"claude-code": "forkedFrom", "codex": "forked_from_id", "pi": "parentSession"}
"""How tools name the session that another one is a fork of."""


@pytest.mark.parametrize("tool", [tool for tool in NATIVE if tool.name in NAMING], ids=str)
@needs_mount
def test_a_fork_is_a_session_beside_its_parent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    with written_into(home) as root:
        talk(home)
        parent, found = home.session, conversation(home)
        [at] = [event["event"] for event in events(home, found["id"]) if ANSWERS[0] in texts(event)]
        home.run("fork", f"{found['id']}@{at}", "aside")
        # the tool's own place is in the mount
        [fork] = exported(home, f"{found['project']}/aside", tool.exported, tool.form)
        assert fork in home.sessions
        assert os.path.realpath(fork).startswith(str(root.resolve()))
        data = fork.read_bytes()
        assert fork.parent == parent.parent
        assert NAMING[tool.name].encode() in data
        assert parent.stem.encode() in data or parent.stem[-36:].encode() in data
        before = parent.read_bytes()
        assert ANSWERS[2] in home.resume(ASKED[2], fork)
        check_sent(home, home.model.last(ASKED[2]), *talked(tool)[:4], ASKED[2])
        assert parent.read_bytes() == before
        assert fork.read_bytes().startswith(data)
        assert any(ANSWERS[2] in text for one in home.list() for text in texts_at(home, one["id"]))
    home.run("fsck")


def texts_at(home: Home, name: str) -> list[str]:
    return [texts(event) for event in events(home, name)]


@each
@needs_mount
def test_what_is_edited_and_exported_is_what_a_model_is_sent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    with mounted(home) as root:
        edit(root, ANSWERS[0], EDITED, "-assistant")
    put_back(home, conversation(home)["id"])
    assert ANSWERS[2] in home.resume(ASKED[2])
    sent = home.model.last(ASKED[2])
    assert ANSWERS[0] not in sent.text()
    check_sent(home, sent, *talked(tool)[:3], EDITED, *talked(tool)[4:], ASKED[2])


def put_back(home: Home, name: object) -> None:
    """Have a conversation's native export take the place of the agent's session."""
    path = exported(home, name)[0]
    # that of a fork has the fork's name
    session = next((one for one in home.sessions if one.name == path.name), home.sessions[-1])
    if home.tool.is_folder:
        shutil.rmtree(session.parent)
        shutil.copytree(path.parent, session.parent)
        return
    for beside in session.parent.glob(f"{session.name}-*"):
        # the journal of the database as it was
        beside.unlink()
    shutil.copyfile(path, session)


@each_that_may_lose
@needs_mount
def test_what_is_deleted_is_not_sent(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    with mounted(home) as root:
        event_file(root, ANSWERS[0], "-assistant").unlink()
        for path in root.glob("conversations/*/*/events/*-call-*"):
            path.unlink()
    put_back(home, conversation(home)["id"])
    assert ANSWERS[2] in home.resume(ASKED[2])
    sent = home.model.last(ASKED[2])
    assert not sent.check_calls()
    assert SAID not in sent.text()
    assert ANSWERS[0] not in sent.text()
    check_sent(home, sent, ASKED[0], *talked(tool)[4:], ASKED[2])


@each_that_may_lose
def test_a_fork_goes_on_from_where_it_was_made(new_home: NewHome, tool: Tool) -> None:
    home = new_home(tool)
    talk(home)
    home.run("import")
    found = conversation(home)
    [at] = [event["event"] for event in events(home, found["id"]) if ANSWERS[0] in texts(event)]
    home.run("fork", f"{found['id']}@{at}", "aside")
    if tool.form:
        # beside the session that it was made of
        [session] = exported(home, f"{found['project']}/aside", tool.exported, tool.form)[:1]
        assert session in home.sessions
    else:
        put_back(home, f"{found['project']}/aside")
        session = home.sessions[-1]
    before = session.stat().st_size
    assert ANSWERS[2] in home.resume(ASKED[2], session)
    # a database has room for more before it grows, and what names other files is as long as before
    assert session.suffix == ".db" or tool.is_folder or session.stat().st_size > before
    sent = home.model.last(ASKED[2])
    assert ASKED[1] not in sent.text()
    check_sent(home, sent, *talked(tool)[:4], ASKED[2])


# -- to each other -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", EXPORTED, ids=lambda tool: f"to-{tool}")
@pytest.mark.parametrize("source", KNOWN, ids=lambda tool: f"from-{tool}")
def test_a_talk_goes_on_in_another_agent(new_home: NewHome, home_of_all: NewHome, source: Tool, target: Tool) -> None:
    if source == target:
        pytest.skip("that is the file itself")
    if target.where_used and source.name == "llm":
        pytest.skip("llm tells no directory, by which the other one looks for what it goes on with")
    home = home_of_all(source)
    if not home.sessions:
        talk(home)
        home.run("import")
    other = new_home(target)
    # it was held where the other one works
    other.work = home.work
    prepare(other)
    other.settle()
    paths = exported(home, conversation(home)["id"], str(other.home / target.exported), target.form)
    session = next(path for path in paths if path in other.sessions)
    assert ANSWERS[2] in other.resume(ASKED[2], session)
    check_sent(other, other.model.last(ASKED[2]), *talked(source), ASKED[2])
