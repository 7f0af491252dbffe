"""``convfs search`` and ``convfs grep``, here and through a daemon."""

import json
import re
import subprocess
import sys

import pytest

from tests.fusefs.cli.user import User, serving

TEXTS = (
    "Why does the Daemon hang?\nIt holds a lock.",
    "The lock is stale.",
    "Remove it,\nthen lock again: lock(daemon)",
)


@pytest.fixture
def talked(user: User) -> User:
    user.session("shop", "a", *TEXTS)
    user.session("mill", "b", "Another lock", "None.")
    user.run("import")
    return user


def places(printed: str) -> list[str]:
    """Return what is printed without the names of conversations."""
    return [re.sub(r"^conversations/(\w+)/[^/]+/events/", r"\1 ", line) for line in printed.splitlines()]


def check(user: User) -> None:
    assert sorted(places(user.run("search", "lock", "project:shop"))) == [
        "shop 00001-user.md:7:It holds a lock.",
        "shop 00002-assistant.md:7:The lock is stale.",
        "shop 00003-user.md:8:then lock again: lock(daemon)",
    ]
    # what has both on one line comes first, and no other line of it
    assert places(user.run("search", "daemon", "lock")) == [
        "shop 00003-user.md:8:then lock again: lock(daemon)",
        "shop 00001-user.md:6:Why does the Daemon hang?",
        "shop 00001-user.md:7:It holds a lock.",
    ]
    assert places(user.run("search", "Daemon", "lock")) == places(user.run("search", "Daemon lock"))
    assert len(user.run("search", "lock", "--limit", 2).splitlines()) == 2
    assert places(user.run("search", "role:assistant", "project:mill")) == ["mill 00002-assistant.md"]
    (hit,) = json.loads(user.run("search", "--json", '"stale."'))
    assert hit["path"].endswith("events/00002-assistant.md")
    assert hit["lines"] == [{"number": 7, "text": "The lock is stale."}]
    assert (hit["event"], hit["kind"], hit["time"]) == (2, "assistant", "2026-03-05T19:31:01.000Z")
    assert json.loads(user.convfs("search", "--json", "nowhere").stdout) == []


def test_search(talked: User) -> None:
    check(talked)
    with serving(talked):
        check(talked)


def test_grep(talked: User) -> None:
    assert sorted(places(talked.run("grep", "lock", "-c"))) == [
        "mill 00001-user.md:1",
        "shop 00001-user.md:1",
        "shop 00002-assistant.md:1",
        "shop 00003-user.md:1",
    ]
    assert places(talked.run("grep", "daemon")) == ["shop 00003-user.md:8:then lock again: lock(daemon)"]
    assert places(talked.run("grep", "-F", "lock(")) == ["shop 00003-user.md:8:then lock again: lock(daemon)"]
    assert sorted(places(talked.run("grep", "-il", "DAEMON"))) == ["shop 00001-user.md", "shop 00003-user.md"]
    assert places(talked.run("grep", "-w", "d.es")) == ["shop 00001-user.md:6:Why does the Daemon hang?"]
    assert talked.convfs("grep", "-w", "doe").returncode == 1
    assert places(talked.run("grep", "^.o", "project:mill")) == ["mill 00002-assistant.md:7:None."]


def test_what_cannot_be_searched_for(talked: User) -> None:
    for words in (["/a(/"], ["after:soon"], ["role:nobody"], ['""'], ["--", "-lock"]):
        talked.fails("search", *words)
    talked.fails("grep", "lock", "lock")
    talked.fails("grep", "")
    talked.fails("grep", "-l", "-c", "lock", code=2)
    assert talked.convfs("search", "nowhere").returncode == 1


def test_a_reader_that_has_enough(talked: User) -> None:
    command = f"{sys.executable} -m fusefs.cli grep . | head -n 1"
    done = subprocess.run(
        command, shell=True, env=talked.environment, cwd=talked.home, capture_output=True, text=True, timeout=60
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)
