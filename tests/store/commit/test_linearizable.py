"""Heads are linearizable: whatever many threads do at once could have been done by one of them after the other.

Every call is noted with when it began and when it ended. A branch says in which order the appends happened; all that
was told must fit that order, and the order must fit the times.
"""

import random
import threading
import time
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import pytest
from msgspec import Struct

from store.errors import Conflict
from store.ids import hash_bytes
from store.store import Store
from tests.model import findings, freeze
from tests.threads import side_by_side

THREADS = 8
CALLS = 120
CONTEXTS = 3


class Call(Struct, frozen=True):
    """One call on a context: what it was, when, which head it expected (-1: none), and the turn that came of it.

    ``turn`` is what was appended, or seen as the head; 0 with ``refused``: nothing, since the head was another.
    """

    context: int
    kind: str
    began: int
    ended: int
    turn: int
    expected: int = -1
    refused: bool = False


def problems(calls: list[Call], branch: list[int], parents: dict[int, int]) -> list[str]:
    """Say what of the calls on one context cannot have been, if its branch came to be as it is."""
    found: list[str] = []
    made = {call.turn: call for call in calls if call.kind == "append" and not call.refused}
    if sorted(made) != sorted(branch):
        found.append("the branch is not what was appended")
        return found
    if branch != sorted(branch):
        found.append("ids do not rise")
    latest = 0
    for turn in branch:
        if made[turn].ended < latest:
            found.append(f"turn {turn} had been told before one that it follows was asked for")
        latest = max(latest, made[turn].began)
    # when each was the head: at the earliest from `since` on, at the latest until `until`
    since = {0: 0} | {turn: made[turn].began for turn in branch}
    until = {turn: made[after].ended for turn, after in pairwise([0, *branch])} | {([0, *branch])[-1]: 1 << 62}
    surely = {turn: (made[turn].ended if turn else 0) for turn in since}
    surely_until = {turn: made[after].began for turn, after in pairwise([0, *branch])} | {([0, *branch])[-1]: 1 << 62}
    for call in calls:
        if call.kind == "append" and not call.refused:
            if call.expected not in (-1, parents[call.turn]):
                found.append(f"turn {call.turn} follows another than the expected {call.expected}")
        elif call.refused:
            known = call.expected in since
            if known and surely[call.expected] <= call.began and call.ended <= surely_until[call.expected]:
                found.append(f"the head was {call.expected} all the time, and was refused")
        elif call.turn not in since or since[call.turn] > call.ended or until[call.turn] < call.began:
            found.append(f"turn {call.turn} was seen as the head when it cannot have been")
    return found


def test_what_cannot_have_been_is_found() -> None:
    def append(turn: int, began: int, ended: int, expected: int = -1) -> Call:
        return Call(1, "append", began, ended, turn, expected)

    sound = [append(1, 10, 20), append(2, 15, 30, 1), Call(1, "head", 12, 13, 0), Call(1, "head", 25, 26, 2)]
    sound.append(Call(1, "append", 28, 29, 0, 1, refused=True))
    parents = {1: 0, 2: 1}
    assert problems(sound, [1, 2], parents) == []
    for wrong in (
        [append(1, 10, 20), append(2, 5, 8)],
        [append(1, 10, 20)],
        [append(1, 10, 20), append(2, 30, 40, 0)],
        [*sound, Call(1, "head", 40, 41, 1)],
        [*sound, Call(1, "head", 1, 2, 1)],
        [*sound, Call(1, "head", 40, 41, 7)],
        [*sound, Call(1, "append", 40, 41, 0, 2, refused=True)],
    ):
        assert problems(wrong, [1, 2], parents) != []
    assert problems([append(2, 10, 20), append(1, 30, 40)], [2, 1], {2: 0, 1: 2}) != []


def at_once(work: Callable[[int], list[Call]]) -> list[Call]:
    start = threading.Barrier(THREADS)

    def run(number: int) -> list[Call]:
        start.wait()
        return work(number)

    return list(chain.from_iterable(side_by_side(THREADS, run)))


@pytest.mark.parametrize("seed", range(3))
def test_heads_are_linearizable(tmp_path: Path, seed: int) -> None:
    shared = [b"said by many %d" % number * 300 for number in range(5)]
    with Store.open(tmp_path / "store") as store:
        contexts = [store.contexts.create().context for _ in range(CONTEXTS)]

        def work(number: int) -> list[Call]:
            source = random.Random(seed * 100 + number)
            calls: list[Call] = []
            seen = dict.fromkeys(contexts, 0)
            for step in range(CALLS):
                context = source.choice(contexts)
                began = time.monotonic_ns()
                kind = source.choice(["append", "append", "expect", "retry", "head"])
                if kind == "head":
                    head = store.writer.head(context)
                    seen[context] = head.turn
                    calls.append(Call(context, "head", began, time.monotonic_ns(), head.turn))
                    continue
                expected = seen[context] if kind == "expect" else -1
                payload = source.choice(shared) if source.random() < 0.5 else b"%d %d %d" % (seed, number, step)
                key = b"%d %d" % (number, step) if kind == "retry" else b""
                try:
                    turn = store.contexts.append(
                        context,
                        payload,
                        "test.v1",
                        expected_head=None if expected < 0 else expected,
                        idempotency_key=key,
                    )
                    if key:
                        assert store.contexts.append(context, payload, "test.v1", idempotency_key=key) == turn
                except Conflict:
                    calls.append(Call(context, "append", began, time.monotonic_ns(), 0, expected, refused=True))
                    continue
                seen[context] = turn.turn_id
                calls.append(Call(context, "append", began, time.monotonic_ns(), turn.turn_id, expected))
            return calls

        calls = at_once(work)
        check(store, contexts, calls)
        copy = freeze(store, tmp_path / "copy")
        store.checkpointer.flush()
        # what many said at once is there once
        for payload in shared:
            assert len(store.files.index.locate([hash_bytes(payload)]).get(hash_bytes(payload), [])) <= 1
            assert store.blobs.blob(hash_bytes(payload)) == payload
        assert findings(store) == []
    with Store.open(copy, create=False) as again:
        check(again, contexts, calls)


def check(store: Store, contexts: list[int], calls: list[Call]) -> None:
    assert sum(call.refused for call in calls) > 0
    for context in contexts:
        turns = store.contexts.last(context, 1 << 20)
        assert [turn.depth for turn in turns] == list(range(len(turns)))
        parents = {turn.turn_id: turn.parent for turn in turns}
        own = [call for call in calls if call.context == context]
        assert problems(own, [turn.turn_id for turn in turns], parents) == []
