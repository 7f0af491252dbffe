"""Which events differ between two states of conversations, and which of them are the same event, changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.compare import Branch, pairs
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.store import Store
from tests.fusefs.tree.mounting import TYPE, add, assistant, bookkeeping, user

PAGE = "Some text of several words that is long enough to be told from others, about number"


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        yield store


def talk(count: int, start: int = 0) -> list[str]:
    """Return the lines of a session: questions, answers, and bookkeeping between them."""
    return [
        (user(f"{PAGE} {number}", number), assistant(f"Answer {number}", number), bookkeeping())[number % 3]
        for number in range(start, start + count)
    ]


def differing(store: Store, a: Branch, b: Branch) -> list[tuple[int, int]]:
    """Return the numbers of the events that differ, 0 for one that is not there."""
    return [(old.number if old else 0, new.number if new else 0) for old, new in pairs(store.library, a, b)]


def now(store: Store, context: int) -> Branch:
    return Branch(context, store.writer.head(context).tip)


def version(store: Store, context: int, number: int) -> Branch:
    return Branch(context, store.catalogue.versions(context)[number - 1].head)


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_an_edit_and_a_deletion(memory_path: Path, edits: str) -> None:
    (memory_path / "store").mkdir()
    (memory_path / "store/convfs.toml").write_text(f'edits = "{edits}"\n')
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        context = add(store, talk(30))
        editor = Editor(store)
        editor.edit(context, {7: user("Nothing that was said before", 6).encode()})
        editor.edit(context, {11: DELETED})
        first, last = version(store, context, 1), now(store, context)
        assert differing(store, first, last) == [(7, 7), (11, 0)]
        assert differing(store, last, first) == [(7, 7), (0, 11)]
        assert differing(store, first, version(store, context, 2)) == [(7, 7)]
        assert differing(store, last, last) == []


def test_what_was_put_in_between_changes_nothing_behind_it(store: Store) -> None:
    context = add(store, talk(30))
    editor = Editor(store)
    new = Append(user("Put in between", 90).encode(), TYPE)
    editor.rewrite(context, [*range(1, 11), new, *range(11, 31)])
    editor.edit(context, {20: user(f"{PAGE} 18, changed", 18).encode()})
    assert differing(store, version(store, context, 1), now(store, context)) == [(0, 11), (19, 20)]


def test_a_fork_has_what_came_after_it(store: Store) -> None:
    context = add(store, talk(9))
    fork = Editor(store).fork(context, "fork", at=4).context
    store.contexts.append_many(fork, [Append(user("Another way", 50).encode(), TYPE)])
    assert differing(store, now(store, context), now(store, fork)) == [(5, 0), (7, 0), (8, 0), (0, 5)]


def test_conversations_that_say_the_same_have_it_in_common(store: Store) -> None:
    lines = talk(12)
    copied = [line.replace("0b1f8d5e", "77777777").replace("T12:", "T17:") for line in lines]
    a = add(store, lines)
    b = add(store, [user("Something else first", 70), *copied[:4], *copied[7:]], name="copy")
    assert differing(store, now(store, a), now(store, b)) == [(0, 1), (5, 0), (7, 0)]


def test_what_has_nothing_in_common_is_in_one_or_the_other(store: Store) -> None:
    a = add(store, [user("apples", 1), assistant("pears", 2)])
    b = add(store, [user("wood", 3), assistant("iron", 4)], name="other")
    assert differing(store, now(store, a), now(store, b)) == [(1, 0), (2, 0), (0, 1), (0, 2)]
    empty = store.contexts.create(metadata={"project": "project", "name": "empty"}).context
    assert differing(store, now(store, empty), now(store, a)) == [(0, 1), (0, 2)]
    assert differing(store, now(store, empty), now(store, empty)) == []


def test_very_many_that_differ_are_known_by_their_numbers(store: Store) -> None:
    context = add(store, talk(300))
    editor = Editor(store)
    changed = {n: user(f"No word is the same {n}", n).encode() for n in range(1, 300, 3)}
    editor.edit(context, changed)
    found = differing(store, version(store, context, 1), now(store, context))
    assert found == [(number, number) for number in changed]
