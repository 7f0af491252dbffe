"""``convfs cat``."""

import json
import subprocess
import sys

import pytest

from store.events.conversation import AGENTS, ARTIFACTS, Outputs
from store.store import Store
from tests.fusefs.cli.user import User, serving
from tests.fusefs.tree.mounting import until

LINES = "".join(f"line {number}\n" for number in range(1, 5001))


@pytest.fixture
def talks(user: User) -> list[str]:
    """Two conversations, with outputs."""
    user.session("shop", "0c7ab1de-0000-4000-8000-000000000001", "Build it")
    user.session("shop", "0c7ab1de-0000-4000-8000-000000000002", "Test it")
    user.run("import")
    with Store.open(user.store) as store:
        for context in (1, 2):
            keep(store, context, ARTIFACTS, "make", f"of {context}\n{LINES}".encode())
        keep(store, 1, AGENTS, "Review", json.dumps({"findings": [{"title": "one"}]}).encode())
        keep(store, 1, ARTIFACTS, "raw", b"\xff\x1b[31m\x00")
    return [f"shop/{line['name']}" for line in user.list()]


def keep(store: Store, context: int, outputs: Outputs, asked: str, data: bytes) -> None:
    artifacts = store.artifacts
    name = artifacts.begin(context, outputs, asked)
    artifacts.add(context, outputs, name, data)
    artifacts.end(context, outputs, name)


def test_urls_are_printed_whole_and_by_lines(user: User, talks: list[str]) -> None:
    assert user.run("cat", "artifact://0", "--in", talks[1]) == f"of 2\n{LINES}"
    assert user.run("cat", "artifact://0", "--in", 1, "--offset", 4001, "--limit", 2) == "line 4000\nline 4001\n"
    assert user.run("cat", "agent://0-Review?q=findings[0].title") == '"one"\n'
    assert user.run("cat", "agent://0-Review/findings/0") == '{\n  "title": "one"\n}\n'


def test_a_daemon_prints_them_too(user: User, talks: list[str]) -> None:
    with serving(user):
        assert user.run("cat", "artifact://0", "--in", talks[0]) == f"of 1\n{LINES}"
        assert "is in several conversations" in user.fails("cat", "artifact://0")


def test_bytes_are_printed_as_they_are(user: User, talks: list[str]) -> None:
    written = user.home / "raw"
    line = f"exec {sys.executable} -m fusefs.cli cat artifact://1 > {written}"
    subprocess.run(["bash", "-c", line], env=user.environment, cwd=user.home, check=True)
    assert written.read_bytes() == b"\xff\x1b[31m\x00"


def test_what_is_wrong_is_one_line(user: User, talks: list[str]) -> None:
    assert "is in several conversations: say which (shop/" in user.fails("cat", "artifact://0")
    assert "there is 0, 1" in user.fails("cat", "artifact://7", "--in", 1)
    assert "no artifacts directory" not in user.fails("cat", "agent://0-Review", "--in", 2)
    assert "ids of artifacts are numbers" in user.fails("cat", "artifact://make")
    assert "both a path and ?q=" in user.fails("cat", "agent://0-Review/a?q=b")
    assert "--offset and --limit go without" in user.fails("cat", "agent://0-Review/findings", "--offset", 1)
    assert "has 5001 lines" in user.fails("cat", "artifact://0", "--in", 1, "--offset", 6000)
    assert "is missing" in user.fails("cat", f"blob:sha256:{'0' * 64}")
    user.fails("cat", "artifact://0", "--offset", 0, code=2)
    user.fails("cat", "artifact://0", "--limit", "x", code=2)


def test_what_nobody_ended_is_kept_when_the_service_starts(user: User, talks: list[str]) -> None:
    with Store.open(user.store) as store:
        artifacts = store.artifacts
        artifacts.add(1, ARTIFACTS, artifacts.begin(1, ARTIFACTS, "cut off"), b"so far")
        left = artifacts.path(1, ARTIFACTS, "2.cut_off.log")
    assert user.run("cat", "artifact://2") == "so far"
    with serving(user):
        until(lambda: not left.exists())
        assert user.run("cat", "artifact://2") == "so far"
