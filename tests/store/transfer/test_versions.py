"""Versions that come along, where they are asked for."""

from pathlib import Path

from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.events.event import DELETED
from store.service.call import Holder
from store.service.exchange import Chosen, Transfer
from store.store import Store
from tests.store.importing.sessions import line, lines, session
from tests.store.transfer.stores import brought_in, did, exported, only, turns

KEY = "sk-ant-api03-Zk93hfPqX7bWmT4vLs8RyD2uNc6Ja1Ge"


def versioned(giving: Store, taking: Store, *, redacted: bool = False) -> list[str]:
    transfer = Transfer(Holder(giving), Holder(taking), versions=True, redacted=redacted)
    return sorted(one.what for one in transfer.run(transfer.offers(Chosen())))


def states(store: Store, context: int) -> list[list[bytes]]:
    """Return the payloads of every version of a conversation that has turns, oldest first."""
    found = []
    for version in store.catalogue.versions(context):
        runs = store.records.runs(version.head) if version.head else ()
        shown = [turn for run in runs for turn in store.turns.range(*run)]
        found.append([bytes(store.blobs.blob(turn.payload_hash)) for turn in shown if not turn.deleted])
    return [state for state in found if state]


def test_versions_come_along(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", "Two", "Three")))
    context = only(laptop).id
    editor = Editor(laptop)
    editor.edit(context, {2: line("Better", 1)})
    editor.edit(context, {3: DELETED})
    assert versioned(laptop, desktop) == ["new"]
    there = only(desktop)
    assert states(desktop, there.id) == states(laptop, context)
    assert [one.action for one in desktop.catalogue.versions(there.id)][-2:] == ["edit 00002", "delete 00003"]
    assert exported(desktop, there, tmp_path / "there") == exported(laptop, only(laptop), tmp_path / "here")
    assert versioned(laptop, desktop) == ["same"]
    # and those that are made later
    editor.edit(context, {1: line("First", 0)})
    editor.edit(context, {2: line("Best", 1)})
    assert versioned(laptop, desktop) == ["grown"]
    assert states(desktop, there.id) == states(laptop, context)
    assert did(laptop, desktop) == did(desktop, laptop) == ["same"]


def test_patched_versions_come_along(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", "Two", "Three")))
    talk = only(laptop)
    first, second, _third = (turn.turn_id for turn in turns(laptop, talk))
    laptop.contexts.patch(talk.id, {second: line("Better", 1)})
    laptop.contexts.patch(talk.id, {first: line("First", 0)})
    assert versioned(laptop, desktop) == ["new"]
    assert states(desktop, only(desktop).id) == states(laptop, talk.id)
    assert versioned(laptop, desktop) == did(desktop, laptop) == ["same"]


def test_versions_stay_behind_unless_they_are_asked_for(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", "Two")))
    Editor(laptop).edit(only(laptop).id, {2: line("Better", 1)})
    assert did(laptop, desktop) == ["new"]
    assert states(desktop, only(desktop).id) == states(laptop, only(laptop).id)[-1:]


def test_a_restored_version_is_one_there_too(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", "Two")))
    context = only(laptop).id
    Editor(laptop).edit(context, {2: line("Worse", 1)})
    Editor(laptop).restore(context, 1)
    assert versioned(laptop, desktop) == ["new"]
    assert states(desktop, only(desktop).id)[-1] == states(laptop, context)[-1]
    assert versioned(laptop, desktop) == did(desktop, laptop) == ["same"]


def test_versions_leave_without_secrets(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", f"The key is {KEY}")))
    Keeper(laptop).relabel(only(laptop).id, add=["good"])
    Editor(laptop).edit(only(laptop).id, {2: line("gone", 1)})
    assert versioned(laptop, desktop, redacted=True) == ["new"]
    first, last = states(desktop, only(desktop).id)
    assert (last[1], first[1]) == (line("gone", 1), line("The key is [redacted]", 1))
    assert versioned(laptop, desktop, redacted=True) == ["same"]
