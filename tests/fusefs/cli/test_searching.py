"""``convfs search`` and ``convfs grep``, here and through a daemon."""

import json
import re
import subprocess
import sys

import pytest

from fusefs.cli.output import columns
from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.store import Store
from tests.fusefs.cli.user import User, on_a_terminal, serving
from tests.store.editing.records import TYPE

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


def test_it_says_so_where_much_is_not_indexed(talked: User) -> None:
    assert talked.convfs("search", "lock").stderr == ""
    with Store.open(talked.store, renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "shop", "name": "long"}).context
        line = {"type": "user", "message": {"role": "user", "content": "one more bolt"}}
        items = [Append(json.dumps({**line, "number": number}).encode(), TYPE) for number in range(1500)]
        store.contexts.append_many(context, items)
    done = talked.convfs("search", "bolt", "--limit", 3)
    assert done.stderr == "convfs: 1500 records are not indexed yet: they are looked at after all others\n"
    assert len(done.stdout.splitlines()) == 3
    # meanwhile they were indexed
    assert talked.convfs("search", "bolt", "--limit", 3).stderr == ""


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
    assert "the nearest is project:" in talked.fails("search", "lock", "projct:shop")


def test_a_reader_that_has_enough(talked: User) -> None:
    command = f"{sys.executable} -m fusefs.cli grep . | head -n 1"
    done = subprocess.run(
        command, shell=True, env=talked.environment, cwd=talked.home, capture_output=True, text=True, timeout=60
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def plain(shown: str) -> list[str]:
    """Return what a terminal shows without its colours, by line."""
    return [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", shown).replace("\r", "").splitlines()]


def test_a_terminal_shows_hits_by_conversation(talked: User) -> None:
    shown = on_a_terminal(talked, "search", "lock", "project:*", TZ="XYZ-9")
    assert plain(shown) == [
        "Why does the Daemon hang?",
        "shop/2026-03-05-why-does-the-daemon-hang · 2026-03-06",
        "  3 user · 04:31       then lock again: lock(daemon)",
        "  2 assistant · 04:31  The lock is stale.",
        "  1 user · 04:31       It holds a lock.",
        "",
        "Another lock",
        "mill/2026-03-05-another-lock · 2026-03-06",
        "  1 user · 04:31  Another lock",
        "",
    ]
    assert "\x1b[31m\x1b[1mlock\x1b[0m again: \x1b[31m\x1b[1mlock\x1b[0m(daemon)" in shown
    assert "\x1b" not in on_a_terminal(talked, "search", "lock", NO_COLOR="1")
    [heading, *_rest] = plain(on_a_terminal(talked, "search", "hang", "OR", "zzz"))
    assert heading == "Why does the Daemon hang?"


def test_a_terminal_shows_titles_and_labels(talked: User) -> None:
    [mount_name] = [one["name"] for one in talked.list() if one["project"] == "mill"]
    with Store.open(talked.store, renderer=FileRenderer(), create=False) as store:
        found = store.library.find("mill", mount_name)
        assert found is not None
        store.contexts.set_metadata(found.id, {"title": "Grinding", "labels": ['a "door"'], "naming": None})
    assert plain(on_a_terminal(talked, "search", "grinding"))[0] == "Grinding"
    assert "\x1b[31m\x1b[1mGrind\x1b[0m" in on_a_terminal(talked, "search", "grind")
    assert plain(on_a_terminal(talked, "search", "door"))[2] == '  label  a "door"'
    assert places(talked.run("search", "door")) == [
        f'conversations/mill/{mount_name}/metadata.json:4:    "a \\"door\\""'
    ]


def test_a_terminal_shows_long_lines_around_what_was_found(user: User) -> None:
    user.session("shop", "a", "x" * 500 + " needle " + "界" * 300, "\n".join("needle" for _ in range(9)))
    user.run("import")
    shown = plain(on_a_terminal(user, "search", "needle"))
    assert all(columns(line) <= 100 for line in shown)
    [line] = [line for line in shown if "1 user" in line]
    assert re.search("…x+ needle 界+…$", line)
    assert [line.strip() for line in shown if "needle" in line and "界" not in line][1:] == ["needle", "needle"]
    assert shown[-3].strip() == "… and 6 more lines"


def test_more_than_twenty_hits_go_through_the_pager(user: User) -> None:
    for number in range(11):
        user.session("shop", f"s{number}", f"A lock {number:02}", f"The lock {number:02}", "Well")
    user.run("import")
    pager = user.home / "pager"
    pager.write_text('#!/bin/sh\ncat > "$HOME/paged"; echo "$LESS" >> "$HOME/paged"\n')
    pager.chmod(0o755)
    assert on_a_terminal(user, "search", "lock", PAGER=str(pager)) == ""
    paged = (user.home / "paged").read_text()
    lines = plain(paged)
    assert (lines[-1], paged.count("\x1b[31m")) == ("FRX", 22 + sum(line.startswith("A lock") for line in lines))
    # twenty at a time: a conversation of which more comes later is named again
    assert sum(line.startswith("shop/") for line in lines) >= 11
    (user.home / "paged").unlink()
    assert len(plain(on_a_terminal(user, "search", "--limit", 20, "lock", PAGER=str(pager)))) > 30
    assert not (user.home / "paged").exists()
    # a user who has seen enough
    assert len(plain(on_a_terminal(user, "search", "lock", PAGER="head -n 2"))) == 2
    assert len(plain(on_a_terminal(user, "search", "lock", PAGER="no-such-pager"))) > 30


def test_grep_has_colours_on_a_terminal(talked: User) -> None:
    shown = on_a_terminal(talked, "grep", "-o", "lock.", "project:shop")
    assert shown.count("\x1b[31m\x1b[1mlock") == len(plain(shown)) == 4
