"""The request that each line of a file is due to: over several edits, tools and conversations, and its other names."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.errors import NotFound, UsageError
from store.importing.importer import Importer
from store.store import Store
from store.worktree.blame import blame
from tests.store.worktree.test_changes import ROSES, Talk

BEDS = "/garden/beds.txt"


class Session(Talk):
    """A session with times and requests, all minutes of which are later than those of the sessions before it."""

    _minutes = count(1)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def ask(self, text: str) -> None:
        self._add("user", text)

    def _add(self, role: str, content: object, **told: object) -> None:
        minute = next(self._minutes)
        time = f"2026-03-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z"
        super()._add(role, content, timestamp=time, **({"sessionId": self.name} | told))
        line = json.loads(self.lines[-1])
        self.lines[-1] = json.dumps(line | {"uuid": f"{self.name}{line['uuid']}"})


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def bring(store: Store, directory: Path, *talks: Session) -> None:
    for talk in talks:
        session = directory / f"{talk.name}.jsonl"
        session.write_text("\n".join(talk.lines) + "\n")
        Importer(store).run([session])


def due(store: Store, text: str | None, path: str = BEDS) -> dict[str, str]:
    """Return what each line is due to: the title of the conversation and the number of the request."""
    return {
        line.text: f"{store.library.conversation(line.origin.context).title} @{line.origin.request}"
        if line.origin
        else ""
        for line in blame(store, [path], text)
    }


def test_each_line_has_the_request_that_led_to_it(store: Store, tmp_path: Path) -> None:
    one, other = Session("one"), Session("other")
    one.ask("Plant something else")
    one.read(BEDS, ROSES)
    one.edit(BEDS, "roses", "tulips\nlilies")
    one.ask("And herbs")
    one.edit(BEDS, "mint", "basil")
    other.ask("Vegetables instead")
    other.read(BEDS, ROSES.replace("roses", "tulips\nlilies").replace("mint", "basil"))
    other.edit(BEDS, "lilies", "peas")
    bring(store, tmp_path, other, one)
    now = "by hand\n" + ROSES.replace("roses", "tulips\npeas").replace("mint", "basil")
    told = due(store, now)
    assert list(told) == [*dict.fromkeys(now.split("\n")[:-1])]
    assert {line: whose for line, whose in told.items() if whose} == {
        "tulips": "Plant something else @1",
        "peas": "Vegetables instead @1",
        "basil": "Plant something else @6",
    }
    # of a file that is gone, its last state
    assert due(store, None) == {line: whose for line, whose in told.items() if line != "by hand"}


def test_a_conversation_need_not_have_seen_what_another_wrote(store: Store, tmp_path: Path) -> None:
    one, other = Session("one"), Session("other")
    one.ask("Plant")
    one.write(BEDS, "peas\nbeans\n")
    other.ask("Look")
    other.read(BEDS, "peas\nbeans\n")
    one.edit(BEDS, "peas", "leeks")
    other.edit(BEDS, "beans", "rue")
    bring(store, tmp_path, one, other)
    assert due(store, "leeks\r\nrue\r\n") == {"leeks": "Plant @1", "rue": "Look @1"}


def test_a_file_that_was_never_seen_whole(store: Store, tmp_path: Path) -> None:
    talk = Session("one")
    talk.ask("Plant")
    talk.edit(BEDS, "sage\nmint", "sage\nparsley, sage, rosemary\nmint")
    talk.edit(BEDS, "x", "rue")
    bring(store, tmp_path, talk)
    text = ROSES.replace("sage\n", "sage\nparsley, sage, rosemary\n")
    told = due(store, text)
    # "rue" is a text that anybody may have written
    assert {line: whose for line, whose in told.items() if whose} == {"parsley, sage, rosemary": "Plant @1"}
    twice = text + "sage\nparsley, sage, rosemary\nmint\n"
    assert not any(due(store, twice).values())


def test_a_fork_tells_nothing_twice_and_a_formatter_is_nobody(store: Store, tmp_path: Path) -> None:
    talk = Session("one")
    talk.ask("Plant")
    talk.write(BEDS, "peas\nbeans\n")
    talk.edit(BEDS, "peas", "peas and peas")
    talk.read(BEDS, "peas and peas\n\nbeans\n")
    bring(store, tmp_path, talk)
    [made] = store.library.conversations("garden")
    Editor(store).fork(made.id, "a fork")
    assert [line.origin and line.origin.context for line in blame(store, [BEDS], None)] == [made.id, None, made.id]


def test_a_file_that_was_moved_keeps_what_was_written_under_its_old_name(store: Store, tmp_path: Path) -> None:
    one, other = Session("one"), Session("other")
    one.ask("Plant")
    one.write("/garden/old name.txt", "peas\nbeans\n")
    other.ask("Tidy up")
    other.read("/garden/old name.txt", "peas\nbeans\n")
    patch = "*** Update File: old name.txt\n*** Move to: beds.txt\n@@\n peas\n-beans\n+leeks\n"
    other.call("apply_patch", {"input": f"*** Begin Patch\n{patch}*** End Patch"})
    bring(store, tmp_path, one, other)
    assert due(store, "peas\nleeks\n") == {"peas": "Plant @1", "leeks": "Tidy up @1"}


def test_a_file_that_no_conversation_knows(store: Store, tmp_path: Path) -> None:
    talk = Session("one")
    talk.ask("Plant")
    talk.write("/elsewhere/beds.txt", "peas\n")
    bring(store, tmp_path, talk)
    with pytest.raises(NotFound, match=f"no conversation is known to have read or changed {BEDS}"):
        blame(store, [BEDS], "peas\n")


def test_no_path_is_no_file(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store, pytest.raises(UsageError):
        blame(store, (), None)
