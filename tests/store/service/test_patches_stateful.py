"""Appends, branches, forks, patches and tombstones over the wire, against a model that forgets nothing.

Whatever a context was at any seq can be read as of that seq, and what it is now as the latest.
"""

import shutil
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from store.disk.turn_format import Turn
from store.errors import Conflict, NotFound
from store.events.event import DELETED
from store.ids import hash_bytes, turn_of
from store.service.client import Client
from store.service.server import Service, serving
from store.store import Store
from store.upkeep.fsck import fsck
from tests.conftest import scratch

Shown = list[tuple[int, bytes | None]]
"""Turns with their payloads as they are seen; None: deleted."""

PAYLOADS = st.binary(min_size=1, max_size=3)
NUMBERS = st.integers(0, 1000)


class Model:
    """A model of contexts: the head and the patches of each."""

    def __init__(self) -> None:
        self.turns: dict[int, tuple[int, bytes]] = {}
        self.heads: dict[int, int] = {}
        self.patches: dict[int, dict[int, bytes | None]] = {}

    def branch(self, context: int) -> list[int]:
        found, turn = [], self.heads[context]
        while turn:
            found.append(turn)
            turn = self.turns[turn][0]
        return found[::-1]

    def shown(self, context: int) -> Shown:
        patches = self.patches[context]
        return [(turn, patches.get(turn, self.turns[turn][1])) for turn in self.branch(context)]


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.model = Model()
        self.over = False
        self.past: list[tuple[int, dict[int, Shown]]] = []
        self.patch_environment = pytest.MonkeyPatch()
        self.patch_environment.setenv("XDG_RUNTIME_DIR", str(self.directory))

    @initialize()
    def open(self, *, reindex: bool = False) -> None:
        self.store = Store.open(self.directory / "store", reindex=reindex)
        self.serving = serving(Service(self.store, ()))
        self.client = Client(self.serving.__enter__().socket)

    def close(self) -> None:
        self.client.close()
        self.serving.__exit__(None, None, None)
        try:
            assert not self.over or fsck(self.store) == []
        finally:
            self.store.close()

    def teardown(self) -> None:
        self.over = True
        try:
            if hasattr(self, "client"):
                try:
                    for context in self.model.heads:
                        self.compare(context)
                finally:
                    self.close()
        finally:
            self.patch_environment.undo()
            shutil.rmtree(self.directory)

    has_context = precondition(lambda self: bool(self.model.heads))

    def context(self, number: int) -> int:
        return sorted(self.model.heads)[number % len(self.model.heads)]

    def note(self) -> None:
        """Remember what everything is now, under the seq of now."""
        self.past.append((self.store.writer.seq, {context: self.model.shown(context) for context in self.model.heads}))

    def payload(self, turn: Turn) -> tuple[int, bytes | None]:
        return turn_of(turn.turn_id), None if turn.deleted else self.client.blob(turn.payload_hash)

    # -- changing --------------------------------------------------------------------------------------------------

    @rule(base=NUMBERS)
    def create(self, base: int) -> None:
        turn = base % (len(self.model.turns) + 1)
        context = self.client.create_context(turn).context
        self.model.heads[context], self.model.patches[context] = turn, {}
        self.note()

    @has_context
    @rule(number=NUMBERS, payload=PAYLOADS, parent=st.none() | NUMBERS, expected=st.none() | st.just(-1) | NUMBERS)
    def append(self, number: int, payload: bytes, parent: int | None, expected: int | None) -> None:
        model, context = self.model, self.context(number)
        head = model.heads[context]
        if expected is not None:
            expected, parent = (head if expected < 0 else expected % (len(model.turns) + 1)), None
            if expected != head:
                with pytest.raises(Conflict):
                    self.client.append(context, payload, "t", expected_head=expected)
                return
        follows = parent % (len(model.turns) + 1) if parent is not None else 0
        turn = self.client.append(context, payload, "t", parent=follows, expected_head=expected)
        assert turn.turn_id not in model.turns
        assert turn_of(turn.parent) == (follows or head)
        assert turn.payload_hash == hash_bytes(payload)
        model.turns[turn.turn_id] = (turn_of(turn.parent), payload)
        model.heads[context] = turn.turn_id
        self.note()

    @has_context
    @rule(number=NUMBERS, some=st.dictionaries(NUMBERS, st.none() | PAYLOADS, min_size=1, max_size=3))
    def patch(self, number: int, some: dict[int, bytes | None]) -> None:
        context = self.context(number)
        branch = self.model.branch(context)
        if not branch:
            with pytest.raises(NotFound):
                self.client.patch(context, {1: b"x"})
            return
        changes = {branch[at % len(branch)]: payload for at, payload in some.items()}
        head = self.client.patch(
            context, {turn: DELETED if payload is None else payload for turn, payload in changes.items()}
        )
        assert head.turn == self.model.heads[context]
        self.model.patches[context].update(changes)
        self.note()

    @has_context
    @rule(number=NUMBERS, at=NUMBERS)
    def fork(self, number: int, at: int) -> None:
        model, context = self.model, self.context(number)
        branch = model.branch(context)
        turn = branch[at % len(branch)] if branch and at % 3 else 0
        fork = self.client.fork(context, turn).context
        model.heads[fork] = turn or model.heads[context]
        model.patches[fork] = dict(model.patches[context])
        self.note()

    @rule(reindex=st.booleans())
    def reopen(self, reindex: bool) -> None:
        self.close()
        self.open(reindex=reindex)

    # -- reading ---------------------------------------------------------------------------------------------------

    @has_context
    @rule(number=NUMBERS)
    def compare(self, number: int) -> None:
        context = self.context(number)
        branch, shown = self.model.branch(context), self.model.shown(context)
        head = self.client.head(context)
        assert (head.turn, head.depth) == (self.model.heads[context], max(len(branch) - 1, 0))
        assert [self.payload(turn) for turn in self.client.last(context, 1000, latest=True)] == shown
        as_appended = [(turn, self.model.turns[turn][1]) for turn in branch]
        assert [self.payload(turn) for turn in self.client.last(context, 1000)] == as_appended

    @has_context
    @rule(number=NUMBERS, start=st.integers(0, 8), count=st.integers(0, 8))
    def page(self, number: int, start: int, count: int) -> None:
        context = self.context(number)
        shown, branch = self.model.shown(context), self.model.branch(context)

        def read(call: Callable[..., list[Turn]], *arguments: int) -> Shown:
            return [self.payload(turn) for turn in call(context, *arguments, latest=True)]

        assert read(self.client.range_by_depth, start, count) == shown[start : start + count]
        assert read(self.client.last, count) == shown[len(shown) - min(count, len(shown)) :]
        if start < len(branch):
            assert read(self.client.before, branch[start], count) == shown[max(start - count, 0) : start]

    @precondition(lambda self: bool(self.past))
    @rule(number=NUMBERS, when=NUMBERS, start=st.integers(0, 8), count=st.integers(0, 8))
    def read_as_of(self, number: int, when: int, start: int, count: int) -> None:
        context = self.context(number)
        seq, then = self.past[when % len(self.past)]
        shown = then.get(context, [])

        def read(call: Callable[..., list[Turn]], *arguments: int) -> Shown:
            return [self.payload(turn) for turn in call(context, *arguments, as_of=seq)]

        assert read(self.client.last, 1000) == shown
        assert read(self.client.range_by_depth, start, count) == shown[start : start + count]
        assert turn_of(self.client.tip(context, seq)) == (shown[-1][0] if shown else 0)


def test_patches_behave_like_the_model() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
