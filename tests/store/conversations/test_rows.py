"""Rows of branches at hand, and what it costs that a conversation grows."""

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.conversations.branch import length
from store.conversations.contexts import Append
from store.conversations.records import NO_SUMS, Block, Rows
from store.events.conversation import EventRow
from store.events.event import Kind
from store.index.views import Run
from store.store import Store

TYPE = "claude-code.line.v1"


def row(turn: int, number: int) -> EventRow:
    return EventRow(turn, number, Kind.USER, "", 0, 0, 1, 1, turn, 1)


def rows_of(runs: tuple[Run, ...], asked: list[int] | None = None) -> Rows:
    """Return rows that are made when they are asked for; ``asked`` gets the first number of each block then."""

    def read(some: tuple[Run, ...], number: int) -> Block:
        if asked is not None:
            asked.append(number)
        turns = [turn for first, count in some for turn in range(first, first + count)]
        return Block(some, [row(turn, at) for at, turn in enumerate(turns, number)])

    return Rows(runs, read, lambda _runs: NO_SUMS, lambda _runs: 0)


@given(
    st.lists(st.sampled_from([1, 2, 40, 600, 1500]), max_size=8),
    st.lists(st.tuples(st.integers(-3000, 3000), st.integers(-3000, 3000), st.sampled_from([-700, -1, 1, 2, 600]))),
)
def test_rows_are_a_sequence(counts: list[int], slices: list[tuple[int, int, int]]) -> None:
    runs, first = [], 1
    for count in counts:
        runs.append((first, count))
        first += count + 1
    turns = [turn for first, count in runs for turn in range(first, first + count)]
    rows, same = rows_of(tuple(runs)), [row(turn, number) for number, turn in enumerate(turns, 1)]
    assert len(rows) == len(same)
    assert list(rows) == same
    assert list(reversed(rows)) == same[::-1]
    for start, stop, step in slices:
        assert rows[start:stop:step] == same[start:stop:step]
        if -len(same) <= start < len(same):
            assert rows[start] == same[start]
        else:
            with pytest.raises(IndexError):
                rows[start]
    assert sum(rows.sums(at).json_size for at in range(rows.count_of_blocks)) == sum(turns)


def test_rows_are_read_where_they_are_asked_for() -> None:
    asked: list[int] = []
    rows = rows_of(((1, 100_000),), asked)
    assert rows[50_000].number == 50_001
    assert [one.number for one in rows[-3:]] == [99_998, 99_999, 100_000]
    assert [row.number for row in islice(rows, 3)] == [1, 2, 3]
    assert len(asked) == 3


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


@pytest.fixture
def read(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that were read from the index at a time."""
    real, found = store.views.rows, list[int]()
    monkeypatch.setattr(store.views, "rows", lambda runs, number: found.append(length(runs)) or real(runs, number))
    return found


def test_rows_of_an_edited_branch_are_read_where_it_differs(store: Store, read: list[int]) -> None:
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    store.contexts.append_many(context, [line(f"number {number}") for number in range(5000)])
    before = list(store.records.rows(store.library.conversation(context).head))
    for number in (1, 2500, 5000):
        head = store.contexts.patch(context, {before[number - 1].turn: line(f"patched {number}").payload})
        store.library.conversation(context)
        read.clear()
        after = list(store.records.rows(head.tip))
        assert [one.number for one, other in zip(after, before, strict=True) if one != other] == [number]
        assert sum(read) <= 1
        before = after
    store.contexts.append_many(context, [line("one more")])
    head = store.contexts.last(context, 1)[0].turn_id
    store.library.conversation(context)
    read.clear()
    assert len(list(store.records.rows(store.writer.head(context).tip))) == 5001
    assert sum(read) <= 2
    assert head


def test_memory_is_bounded(memory_path: Path) -> None:
    with Store.open(memory_path / "few", renderer=FileRenderer()) as store:
        store.records._blocks._most = 1000
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        store.contexts.append_many(context, [line(f"number {number}") for number in range(4000)])
        rows = store.records.rows(store.library.conversation(context).head)
        assert [one.number for one in rows] == list(range(1, 4001))
        assert store.records._blocks._held <= 1000
        assert rows[0].number == 1


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
