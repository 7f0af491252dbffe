"""The store against dictionaries, through every order of operations that hypothesis thinks of."""

import shutil

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from store.conversations.contexts import Append
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, NotFound
from store.ids import hash_bytes
from store.store import Store
from store.upkeep import recovery
from tests.conftest import scratch
from tests.model import Model, findings, freeze, refuses

JOURNAL_BYTES = 64 << 10

WORDS = st.builds(
    lambda text, times: text * times,
    st.sampled_from(["", "Zeile ", 'say \\"no\\"', "\\u00e9"]),
    st.sampled_from([1, 2, 700]),
)
LINES = st.builds(
    lambda kind, text, more: (
        b'{"type":"%s","content":"%s","more":[%s]}'
        % (kind.encode(), text.encode(), b",".join(b'"%s"' % word.encode() for word in more))
    ),
    st.sampled_from(["user", "assistant"]),
    WORDS,
    st.lists(WORDS, max_size=3),
)
PAYLOADS = st.one_of(
    LINES,
    st.binary(max_size=200),
    st.builds(
        lambda byte, times: byte * times,
        st.sampled_from([b"\0", b"y", b"{}"]),
        st.sampled_from([0, 1, 3000, 20_000]),
    ),
)
TYPES = st.sampled_from(["jp.event.v1", "claude-code.line.v1", "unheard.of", "another.kind"])
NAMES = st.sampled_from(["one", "two", "three"])
METADATA = st.dictionaries(
    st.sampled_from(["project", "name", "title", "labels", "updated_ms", "started_ms"]),
    st.one_of(st.none(), NAMES, st.integers(0, 1 << 62), st.lists(NAMES, max_size=2)),
    max_size=4,
)


class StoreMachine(RuleBasedStateMachine):
    """Every rule does something to the store and the same to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.copies = 0
        self.model = Model()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(recovery, "JOURNAL_BYTES", JOURNAL_BYTES)

    @initialize()
    def open(self) -> None:
        self.store = Store.open(self.directory / "store")

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                try:
                    self.model.check(self.store)
                    assert findings(self.store) == []
                    self.model.check(self.store)
                finally:
                    self.store.close()
                with Store.open(self.store.root, create=False) as again:
                    assert again.recovered == []
                    self.model.check(again)
                    assert findings(again) == []
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)

    # -- choosing --------------------------------------------------------------------------------------------------

    def context(self, number: int) -> int:
        contexts = sorted(self.model.heads)
        return contexts[number % len(contexts)]

    def turn(self, number: int) -> int:
        """Return some turn, or 0."""
        return number % (len(self.model.turns) + 1)

    has_context = precondition(lambda self: bool(self.model.heads))

    # -- writing ---------------------------------------------------------------------------------------------------

    @rule(base=st.integers(0, 1000), metadata=METADATA)
    def create(self, base: int, metadata: dict[str, object]) -> None:
        base = self.turn(base)
        head = self.store.contexts.create(base, metadata=metadata)
        assert head.context not in self.model.heads
        assert head.turn == base
        self.model.heads[head.context] = base
        self.model.metadata[head.context] = {}
        self.model.change(head.context, metadata)

    @has_context
    @rule(number=st.integers(0, 1000), payload=PAYLOADS, kind=TYPES, parent=st.one_of(st.just(0), st.integers(0, 1000)))
    def append(self, number: int, payload: bytes, kind: str, parent: int) -> None:
        context, parent = self.context(number), self.turn(parent)
        turn = self.store.contexts.append(context, payload, kind, encoding=Encoding.JSON, parent=parent, created_ms=5)
        assert (turn.created_ms, turn.encoding) == (5, Encoding.JSON)
        self.model.append(context, turn, payload, kind, parent)

    @has_context
    @rule(
        number=st.integers(0, 1000),
        payload=PAYLOADS,
        kind=TYPES,
        parent=st.one_of(st.just(0), st.integers(0, 1000)),
        key=st.sampled_from([b"", b"one", b"two", b"three"]),
        expected=st.one_of(st.none(), st.just(-1), st.integers(0, 1000)),
        tree=st.one_of(st.none(), st.binary(max_size=1)),
    )
    def append_as_clients_do(
        self, number: int, payload: bytes, kind: str, parent: int, key: bytes, expected: int | None, tree: bytes | None
    ) -> None:
        context, parent = self.context(number), self.turn(parent)
        head = self.model.heads[context]
        # -1: what is true
        expected = head if expected == -1 else expected

        root = None if tree is None else self.store.intake.put(tree)

        def append() -> Turn:
            return self.store.contexts.append(
                context,
                payload,
                kind,
                parent=parent,
                expected_head=expected,
                idempotency_key=key,
                fs_root=root,
                created_ms=7,
            )

        known = self.model.keys.get((context, key)) if key else None
        if known is not None:
            if self.model.turns[known][1:] == (payload, kind):
                assert append() == self.store.turns.get(known)
            else:
                refuses(Conflict, append)
            return
        if expected not in (None, head):
            refuses(Conflict, append)
            return
        turn = append()
        self.model.append(context, turn, payload, kind, parent)
        if key:
            self.model.keys[context, key] = turn.turn_id
        if root is not None:
            self.model.roots[turn.turn_id] = root

    @rule(number=st.integers(0, 1000), tree=st.binary(max_size=1))
    def attach_fs(self, number: int, tree: bytes) -> None:
        turn, root = self.turn(number), self.store.intake.put(tree)
        if turn:
            self.store.contexts.attach_fs(turn, root)
            self.model.roots[turn] = root
        else:
            refuses(NotFound, self.store.contexts.attach_fs, turn, root)

    @has_context
    @rule(
        number=st.integers(0, 1000),
        items=st.lists(st.tuples(PAYLOADS, TYPES), max_size=12),
        parent=st.one_of(st.just(0), st.integers(0, 1000)),
    )
    def append_many(self, number: int, items: list[tuple[bytes, str]], parent: int) -> None:
        context, parent = self.context(number), self.turn(parent)
        turns = self.store.contexts.append_many(context, [Append(*item) for item in items], parent=parent)
        assert len(turns) == len(items)
        for turn, (payload, kind) in zip(turns, items, strict=True):
            self.model.append(context, turn, payload, kind, parent)
            parent = 0

    @has_context
    @rule(number=st.integers(0, 1000), at=st.integers(0, 1000))
    def fork(self, number: int, at: int) -> None:
        context = self.context(number)
        branch = self.model.branch(self.model.heads[context])
        turn = branch[at % len(branch)] if branch and at % 3 else 0
        head = self.store.contexts.fork(context, turn)
        base = turn or self.model.heads[context]
        self.model.heads[head.context] = base
        self.model.metadata[head.context] = {"forked_from": {"context": context, "turn": base}}

    @has_context
    @rule(number=st.integers(0, 1000), at=st.integers(0, 1000))
    def fork_where_the_context_never_was(self, number: int, at: int) -> None:
        context, turn = self.context(number), self.turn(at)
        if turn and turn not in self.model.branch(self.model.heads[context]):
            refuses(NotFound, self.store.contexts.fork, context, turn)
            refuses(NotFound, self.store.contexts.before, context, turn, 1)

    @has_context
    @rule(number=st.integers(0, 1000), changes=METADATA)
    def set_metadata(self, number: int, changes: dict[str, object]) -> None:
        context = self.context(number)
        self.store.contexts.set_metadata(context, changes)
        self.model.change(context, changes)

    @rule(data=st.one_of(st.binary(max_size=300), PAYLOADS))
    def put_blob(self, data: bytes) -> None:
        assert self.store.intake.put(data) == hash_bytes(data)
        self.model.blobs[hash_bytes(data)] = data

    # -- opening and closing ---------------------------------------------------------------------------------------

    @rule()
    def flush(self) -> None:
        self.store.checkpointer.flush()
        assert self.store.files.journal.used == 0

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.store.root, create=False)
        assert self.store.recovered == []

    @rule(boot=st.sampled_from(["", "another"]))
    def kill(self, boot: str) -> None:
        """Go on with a copy of the open store: as after kill -9, or in another boot of the machine."""
        self.copies += 1
        copy = freeze(self.store, self.directory / f"copy{self.copies}")
        self.store.close()
        shutil.rmtree(self.store.root)
        with pytest.MonkeyPatch.context() as patch:
            if boot:
                (self.directory / "boot").write_text(f"{boot}{self.copies}")
                patch.setattr(recovery, "_BOOT_ID", self.directory / "boot")
            self.store = Store.open(copy, create=False)

    @rule()
    def reindex(self) -> None:
        self.store.close()
        self.store = Store.open(self.store.root, create=False, reindex=True)
        assert self.store.recovered == []

    @invariant()
    def heads_are_those_of_the_model(self) -> None:
        for context, turn in self.model.heads.items():
            assert self.store.writer.head(context).turn == turn

    @has_context
    @rule(number=st.integers(0, 1000))
    def look(self, number: int) -> None:
        self.model.check_context(self.store, self.context(number))

    @rule()
    def look_for_what_is_not_there(self) -> None:
        self.model.check_absent(self.store)


def test_the_store_behaves_like_the_model() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StoreMachine,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
