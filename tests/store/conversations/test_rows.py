"""Rows of branches at hand, and what it costs that a conversation grows."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.conversations.branch import length
from store.conversations.contexts import Append
from store.conversations.records import Rows, RowsAtHand
from store.events.conversation import EventRow
from store.events.event import Kind
from store.store import Store

TYPE = "claude-code.line.v1"


def row(turn: int, number: int) -> EventRow:
    return EventRow(turn, number, Kind.USER, "", 0, 0, 1, 1, 1, 1)


class Branches:
    """Branches made at random: every turn follows an earlier one, or none."""

    def __init__(self, parents: list[int]) -> None:
        self._parents = [0, *(parent % (turn + 1) for turn, parent in enumerate(parents))]
        self.count = len(parents)

    def path(self, turn: int) -> list[int]:
        found = []
        while turn:
            found.append(turn)
            turn = self._parents[turn]
        return found[::-1]

    def ancestor(self, turn: int, depth: int) -> int:
        path = self.path(turn)
        return path[depth] if 0 <= depth < len(path) else 0

    def rows(self, turn: int) -> list[EventRow]:
        return [row(turn, number) for number, turn in enumerate(self.path(turn), 1)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(0, 60), st.randoms(use_true_random=False))
def test_rows_are_always_those_of_the_branch(parents: list[int], most: int, rng: random.Random) -> None:
    branches = Branches(parents)
    at_hand = RowsAtHand(branches.ancestor, most)
    given_out: list[tuple[int, Rows]] = []
    for _ in range(60):
        turn = rng.randint(1, branches.count)
        rows = at_hand.get(turn)
        if rows is None:
            before = at_hand.before(turn)
            whole = branches.rows(turn)
            rows = at_hand.put(turn, whole[len(before) :] if before is not None else whole, before)
        given_out.append((turn, rows))
        if not rng.randrange(20):
            at_hand.clear()
    for turn, rows in given_out:
        # what was given out stays what it was, whatever was added to the list that it shares
        assert list(rows) == branches.rows(turn)
        assert len(rows) == len(branches.path(turn))


def test_rows_are_a_sequence() -> None:
    shared = [row(turn, turn) for turn in range(1, 8)]
    rows, same = Rows(shared, 5), shared[:5]
    assert [rows[0], rows[4], rows[-1], rows[-5]] == [same[0], same[4], same[-1], same[-5]]
    for some in (slice(None), slice(1, 3), slice(-2, None), slice(3, 100), slice(None, None, -1), slice(4, 0, -2)):
        assert rows[some] == same[some]
    for beyond in (5, -6):
        with pytest.raises(IndexError):
            rows[beyond]
    assert Rows(shared, 3).begins(rows)
    assert not rows.begins(Rows(shared, 3))
    assert not rows.begins(Rows(list(shared), 7))


def test_memory_is_bounded_by_rows_and_by_branches() -> None:
    at_hand = RowsAtHand(lambda turn, _depth: turn, 120)
    for turn in range(1, 50):
        at_hand.put(turn, [row(turn, 1)] * 20)
    assert [turn for turn in range(1, 50) if at_hand.get(turn) is not None] == [45, 46, 47, 48, 49]
    at_hand.put(50, [row(50, 1)] * 500)
    assert [turn for turn in range(1, 51) if at_hand.get(turn) is not None] == [50]
    for turn in range(51, 150):
        at_hand.put(turn, [])
    assert len([turn for turn in range(1, 150) if at_hand.get(turn) is not None]) == 30


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with Store.open(memory_path / "store", renderer=FileRenderer()) as opened:
        yield opened


def line(text: str) -> Append:
    return Append(json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode(), TYPE)


def side_by_side(store: Store, contexts: list[int], turns: int) -> None:
    """Append to several contexts in turns, so that no two turns of one lie together."""
    for number in range(turns):
        requests = [
            store.contexts.appending(context, Append(*_payload(f"{number} of {context}"))) for context in contexts
        ]
        store.writer.submit_all([request for request in requests if request is not None])


def _payload(text: str) -> tuple[bytes, str]:
    append = line(text)
    return append.payload, append.type_name


def test_what_an_append_costs_does_not_grow_with_the_conversation(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [store.contexts.create(metadata={"project": "p", "name": f"n{name}"}).context for name in range(3)]
    real, asked = store.views.rows, list[int]()
    monkeypatch.setattr(store.views, "rows", lambda runs, number: asked.append(length(runs)) or real(runs, number))
    costs = []
    for turns in (30, 300):
        side_by_side(store, contexts, turns)
        # a few hundred turns of a branch of which none lie together are one query or two
        for context in contexts:
            store.records.rows(store.library.conversation(context).head)
        asked.clear()
        for _ in range(20):
            side_by_side(store, contexts, 2)
            for context in contexts:
                conversation = store.library.conversation(context)
                assert conversation.events == conversation.records == len(store.records.rows(conversation.head))
        costs.append(sum(asked))
    assert costs[0] == costs[1]
    for context in contexts:
        grown = store.library.conversation(context)
        rows = list(store.records.rows(grown.head))
        assert grown.transcript_size == sum(row.section_size for row in rows)
        assert grown.json_size == sum(row.json_size for row in rows)
        store.records.forget(store.catalogue.entry(context))
        assert store.library.conversation(context) == grown
        assert list(store.records.rows(grown.head)) == rows


def test_sums_hold_through_patches_forks_and_branches(store: Store) -> None:
    """Whatever was known of them before: the sums are those of the rows."""
    rng = random.Random(3)
    contexts = [store.contexts.create(metadata={"project": "p", "name": "first"}).context]
    store.contexts.append_many(contexts[0], [line(f"begin {number}") for number in range(5)])
    for step in range(120):
        context = rng.choice(contexts)
        turns = store.contexts.last(context, 50)
        match rng.randrange(6):
            case 0 | 1:
                store.contexts.append_many(context, [line(f"step {step}"), line("x" * rng.randrange(300))])
            case 2:
                store.contexts.patch(context, {rng.choice(turns).turn_id: line(f"patched {step}").payload})
            case 3:
                store.contexts.append(context, line(f"branch {step}").payload, TYPE, parent=rng.choice(turns).turn_id)
            case 4 if len(contexts) < 8:
                contexts.append(store.contexts.fork(context, metadata={"project": "p", "name": f"fork {step}"}).context)
            case _:
                store.library.conversation(context)
    for context in contexts:
        known = store.library.conversation(context)
        rows = list(store.records.rows(known.head))
        assert (known.events, known.transcript_size) == (len(rows), sum(row.section_size for row in rows))
        store.records.forget(store.catalogue.entry(context))
        assert list(store.records.rows(known.head)) == rows
        assert store.library.conversation(context) == known


def test_records_are_measured_a_few_at_a_time(store: Store) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    assert store.library.measure_some(context, 4)
    store.contexts.append_many(context, [line(str(number)) for number in range(10)])
    assert [store.library.measure_some(context, 4) for _ in range(3)] == [False, False, True]
    assert store.views.measures([context])[context].events == 10
    fork = store.contexts.fork(
        context, store.contexts.last(context, 3)[0].turn_id, metadata={"project": "p", "name": "f"}
    ).context
    assert [store.library.measure_some(fork, 5) for _ in range(2)] == [False, True]
    assert store.library.conversation(fork).events == 8
