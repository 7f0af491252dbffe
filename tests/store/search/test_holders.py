"""Who holds what, against looking through every branch of every context."""

import random
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.errors import NotFound
from store.ids import hash_bytes, turn_of
from store.search.holders import TurnPlace
from store.search.search import Search
from store.store import Store
from tests.store.editing.records import TYPE, called, conversation, dialogue, returned

LONG = "a line of a file\n" * 100
SHORT = "another file\n"


def held(store: Store) -> dict[int, set[TurnPlace]]:
    """Return where every turn is, by looking."""
    found: dict[int, set[TurnPlace]] = {}
    for context in range(1, 1000):
        try:
            tip = store.writer.head(context).tip
        except NotFound:
            return found
        turns = (turn for first, count in store.records.runs(tip) for turn in range(first, first + count))
        for number, turn in enumerate(turns, 1):
            found.setdefault(turn, set()).add(TurnPlace(context, number, turn))
    raise AssertionError("so many contexts were not expected")


def check_places(store: Store, search: Search) -> None:
    expected = held(store)
    for turn in {*range(1, store.files.turns.count + 1), *expected}:
        assert set(search.holders.places([turn])) == expected.get(turn, set())
        assert [place.context for place in search.holders.places([turn])] == sorted(
            place.context for place in expected.get(turn, set())
        )


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("seed", range(3))
def test_places_however_branches_come_to_be(memory_path: Path, edits: str, seed: int) -> None:
    chance = random.Random(seed)
    root = memory_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text(f'edits = "{edits}"\n')
    store = Store.open(root, renderer=FileRenderer())
    contexts = [conversation(store, dialogue(5), f"talk{number}") for number in range(3)]
    for step in range(60):
        context = chance.choice(contexts)
        branch = [
            turn
            for first, count in store.records.runs(store.writer.head(context).tip)
            for turn in range(first, first + count)
        ]
        what = chance.randrange(6)
        if what < 3:
            store.contexts.append_many(context, [Append(payload, TYPE) for payload in dialogue(chance.randrange(1, 4))])
        elif what == 3:
            number = chance.randrange(1, len(branch) + 1)
            Editor(store).edit(context, {number: chance.choice([dialogue(1)[0], DELETED])})
        elif what == 4 and len(contexts) < 12:
            contexts.append(store.contexts.fork(context, turn_of(chance.choice(branch))).context)
        else:
            check_places(store, store.search)
        if step == 30:
            store.search.step()
            store.close()
            store = Store.open(root, renderer=FileRenderer())
    check_places(store, store.search)
    store.close()


def check_contents(search: Search, read: int, again: int, other: int) -> None:
    """Check who holds what of three turns: two say the same, one another thing."""
    holders = search.holders
    assert holders.turns_with(hash_bytes(LONG.encode())) == [read, again]
    assert holders.turns_with(hash_bytes(SHORT.encode())) == [other]
    assert holders.turns_with(hash_bytes(b"nobody said this")) == []
    assert holders.turns_with_uri("file:///src/c1.py") == [read, again]
    assert holders.turns_with_uri("file:///src/c2.py") == [other]
    assert holders.turns_with_uri("file:///src/c") == []
    assert holders.uris(limit=1000) == ["file:///src/c1.py", "file:///src/c2.py"]
    assert holders.uris(limit=1) == ["file:///src/c1.py"]


def test_contents_before_and_after_they_are_filed(store: Store, search: Search) -> None:
    payload = returned(LONG, "c1")
    first = conversation(store, [called("Read", "c1"), payload], "first")
    second = conversation(store, [called("Read", "c1"), payload, called("Read", "c2"), returned(SHORT, "c2")], "second")
    (read,) = (turn.turn_id for turn in store.contexts.last(first, 1))
    _call, again, _other_call, other = (turn.turn_id for turn in store.contexts.last(second, 4))
    check_contents(search, read, again, other)
    while search.step():
        pass
    check_contents(search, read, again, other)
    assert search.holders.turns_of(hash_bytes(payload)) == [read, again]
    assert [place.context for place in search.holders.places([again])] == [second]


def test_what_was_filed_outlives_closing(memory_path: Path) -> None:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        conversation(store, [called("Read", "c1"), returned(LONG, "c1")])
        search = store.search
        while search.step():
            pass
    with Store.open(memory_path / "store", renderer=FileRenderer()) as store:
        assert not store.search.step()
        assert store.search.holders.turns_with(hash_bytes(LONG.encode())) == [2]


def test_a_patched_turn_is_filed_as_it_is_seen(store: Store, search: Search) -> None:
    context = conversation(store, [called("Read", "c1"), returned(SHORT, "c1")])
    fork = store.contexts.fork(context).context
    while search.step():
        pass
    store.contexts.patch(context, {2: returned(LONG, "c1")})
    for _ in range(2):
        (patched,) = search.holders.turns_with(hash_bytes(LONG.encode()))
        assert turn_of(patched) == 2 != patched
        assert [*search.holders.places([2, patched])] == [TurnPlace(fork, 2, 2), TurnPlace(context, 2, patched)]
        while search.step():
            pass
