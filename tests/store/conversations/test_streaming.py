"""Open turns: durable and seen piece by piece, sealed into one turn, whatever happens between."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

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

from fusefs.text.render import FileRenderer
from store.disk.head_format import HeadFrame, TextAdded
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, DamageError, NotFound, TooLarge
from store.events.conversation import Change
from store.ids import hash_bytes
from store.index.notes import KEPT_MS
from store.store import Store
from store.upkeep import recovery
from tests.conftest import scratch
from tests.model import findings, freeze

TREE = b"a tree"
ROOT = hash_bytes(TREE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened
        if not opened.closed:
            assert findings(opened) == []


def test_a_turn_piece_by_piece(store: Store) -> None:
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "test.v1", encoding=Encoding.JSON, type_version=3)
    assert [turn.add(b"Please "), turn.add(b"fix"), turn.add(b"")] == [7, 10, 10]
    store.contexts.append(context, b"between", "test.v1")
    turn.add(b" it")
    [seen] = store.writer.texts.of(context)
    assert (seen.number, seen.context_id, seen.text, turn.text) == (turn.number, context, b"Please fix it", seen.text)
    assert store.writer.texts.of() == [seen]
    with pytest.raises(NotFound, match="put its blob there first"):
        turn.seal(fs_root=ROOT)
    store.intake.put(TREE)
    sealed = turn.seal(fs_root=ROOT)
    assert (sealed.parent, sealed.depth, sealed.encoding, sealed.type_version) == (1, 1, Encoding.JSON, 3)
    assert store.contents.type_name(sealed.type_tag) == "test.v1"
    assert store.contents.payload(sealed.turn_id) == b"Please fix it"
    assert store.contexts.fs_root(sealed.turn_id) == ROOT
    assert store.writer.head(context).turn == sealed.turn_id
    assert store.writer.texts.of(context) == []
    # once more, as who has not heard of it would
    assert turn.seal() == store.open_turns.resume(context, turn.number).seal() == sealed
    for late in (lambda: turn.add(b"x"), turn.abort, lambda: turn.text):
        with pytest.raises(NotFound):
            late()
    assert store.files.turns.count == 2


def test_a_turn_that_is_dropped(store: Store) -> None:
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "test.v1")
    turn.add(b"never mind")
    turn.abort()
    assert store.writer.texts.of() == []
    for late in (lambda: turn.add(b"x"), turn.abort, turn.seal, lambda: store.open_turns.resume(context, turn.number)):
        with pytest.raises(NotFound):
            late()
    assert (store.writer.head(context).turn, store.writer.texts.size) == (0, 0)


def test_a_piece_that_is_sent_again(store: Store) -> None:
    turn = store.open_turns.open(store.contexts.create().context, "test.v1")
    assert turn.add(b"one ", at=0) == 4
    assert turn.add(b"one ", at=0) == 4
    assert turn.add(b"two", at=4) == 7
    assert turn.add(b"e ", at=2) == 7
    for text, at in ((b"ONE ", 0), (b"x three", 6), (b"x", 8)):
        with pytest.raises(Conflict, match="has 7 bytes"):
            turn.add(text, at=at)
    # of a long one, only a part may have been added when the process died
    assert turn.add(b"two three", at=4) == 13
    assert turn.text == b"one two three"


def test_a_seal_that_expects_another_head(store: Store) -> None:
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "test.v1")
    turn.add(b"text")
    first = store.contexts.append(context, b"first", "test.v1")
    with pytest.raises(Conflict):
        turn.seal(expected_head=0)
    assert turn.text == b"text"
    assert turn.seal(expected_head=first.turn_id).parent == first.turn_id


def test_one_that_is_left_for_a_day_is_sealed_as_it_is(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        context = store.contexts.create().context
        left, empty, fresh = (store.open_turns.open(context, "test.v1") for _ in range(3))
        left.add(b"half of")
        time.sleep(0.005)
        fresh.add(b"going on")
        texts = {text.number: text for text in store.writer.texts.of()}
        assert texts[left.number].opened_ms <= texts[left.number].touched_ms < texts[fresh.number].touched_ms
    with Store.open(tmp_path / "store", create=False) as store:
        # the time goes on while nobody has the store open
        assert store.writer.texts.of() == list(texts.values())
        day_later = texts[fresh.number].touched_ms + KEPT_MS - 1
        assert store.open_turns.end_abandoned(texts[left.number].opened_ms) == []
        ended = store.open_turns.end_abandoned(day_later)
        assert [(text.number, turn is None) for text, turn in ended] == [(left.number, False), (empty.number, True)]
        turn = store.contexts.last(context, 1)[0]
        assert store.contents.payload(turn.turn_id) == b"half of"
        assert store.open_turns.resume(context, left.number).seal() == turn
        assert [text.number for text in store.writer.texts.of()] == [fresh.number]
        assert store.open_turns.end_abandoned(day_later) == []


def test_which_one_a_conversation_goes_on_with(store: Store) -> None:
    context = store.contexts.create().context

    def leading() -> int:
        leading = store.writer.live(context, 0).leading
        return leading.number if leading else 0

    assert leading() == 0
    first = store.open_turns.open(context, "test.v1")
    first.add(b"one")
    assert leading() == first.number
    store.contexts.append(context, b"x", "test.v1")
    assert leading() == 0
    first.add(b"two")
    assert leading() == first.number
    second = store.open_turns.open(context, "test.v1")
    assert leading() == second.number
    first.add(b"three")
    second.add(b"here")
    assert leading() == first.number
    first.seal()
    assert leading() == 0
    second.add(b"again")
    assert leading() == second.number
    second.abort()
    assert leading() == 0


def test_what_a_conversation_goes_on_with_is_known_after_a_restart(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        left, on = (store.contexts.create().context for _ in range(2))
        turns = [store.open_turns.open(context, "test.v1") for context in (left, on)]
        turns[0].add(b"left")
        store.contexts.append(left, b"x", "test.v1")
        store.contexts.append(on, b"x", "test.v1")
        turns[1].add(b"on")
    with Store.open(tmp_path / "store", create=False) as store:
        assert store.writer.live(left).leading is None
        assert store.writer.live(on).leading == store.open_turns.text(turns[1].number)


def test_nothing_to_open(store: Store) -> None:
    context = store.contexts.create().context
    for wrong in (99, 0, -1):
        with pytest.raises(NotFound):
            store.open_turns.open(wrong, "test.v1")
        with pytest.raises(NotFound):
            store.open_turns.resume(context, wrong)
    turn = store.open_turns.open(context, "test.v1")
    with pytest.raises(NotFound):
        store.open_turns.resume(context + 1, turn.number)
    with pytest.raises(TooLarge):
        turn.add(bytes((64 << 20) + 1))
    assert turn.text == b""
    assert store.contents.payload(turn.seal().turn_id) == b""


def test_large_pieces(store: Store) -> None:
    turn = store.open_turns.open(store.contexts.create().context, "test.v1")
    large = bytes(range(256)) * (3 << 12)
    assert turn.add(large) == len(large)
    assert turn.add(b"end") == len(large) + 3
    assert store.contents.payload(turn.seal().turn_id) == large + b"end"


def test_what_it_takes_on_disk_is_what_it_says(store: Store) -> None:
    """And nothing of it shows in the files."""
    turn = store.open_turns.open(store.contexts.create().context, "test.v1")
    before = store.files.heads.length
    for number in range(500):
        turn.add(b"a readable word %03d " % number)
    added = store.files.heads.length - before
    assert added < 500 * (20 + 150)
    turn.seal()
    store.checkpointer.flush()
    for path in (store.root / "turns").iterdir():
        assert b"readable" not in path.read_bytes()


@pytest.mark.parametrize("how", ["kill", "power", "close", "reindex"])
def test_a_turn_that_is_open_stays_open(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "store")
    context = store.contexts.create().context
    sealed, dropped, first, second = (store.open_turns.open(context, "test.v1", encoding=n) for n in range(4))
    for number in range(30):
        for turn in (sealed, dropped, first, second):
            turn.add(b"%d of %d " % (number, turn.number))
        if number == 20:
            store.checkpointer.flush()
    dropped.abort()
    made = sealed.seal()
    texts = store.writer.texts.of(context)
    assert [text.number for text in texts] == [first.number, second.number]
    root = freeze(store, tmp_path / "copy") if how in ("kill", "power") else store.root
    store.close()
    if how == "power":
        (tmp_path / "boot").write_text("another")
        monkeypatch.setattr(recovery, "_BOOT_ID", tmp_path / "boot")
    with Store.open(root, create=False, reindex=how == "reindex") as again:
        assert again.writer.texts.of(context) == texts
        assert again.open_turns.resume(context, sealed.number).seal() == made
        turn = again.open_turns.resume(context, first.number)
        turn.add(b"and on")
        assert again.contents.payload(turn.seal().turn_id) == texts[0].text + b"and on"
        again.open_turns.resume(context, second.number).abort()
        assert findings(again) == []
    with Store.open(root, create=False) as again:
        assert again.writer.texts.of() == []


@pytest.mark.of_one_machine("it writes to the log")
def test_a_piece_that_is_lost(store: Store) -> None:
    """Text before the end is there; nothing is made of what is not whole."""
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "test.v1")
    for word in (b"one ", b"two ", b"three "):
        turn.add(word)
    store.checkpointer.flush()
    pieces = [
        frame
        for frame in store.files.heads.frames()
        if isinstance(frame, HeadFrame) and isinstance(frame.body, TextAdded)
    ]
    store.close()
    with (store.root / "turns" / "heads.log").open("r+b") as file:
        file.seek(pieces[1].offset + 40)
        file.write(b"\xff\xff")
    with Store.open(store.root, create=False) as again:
        [text] = again.writer.texts.of(context)
        assert (text.text, text.damaged) == (b"one ", True)
        turn = again.open_turns.resume(context, turn.number)
        with pytest.raises(DamageError, match="may be lost"):
            turn.seal()
        assert {finding.check for finding in findings(again)} == {"head log", "notes"}
        turn.abort()
        assert again.writer.texts.of() == []


def test_readers_see_each_piece_when_they_are_told(store: Store) -> None:
    context = store.contexts.create().context
    seen: list[tuple[Change, list[bytes]]] = []
    quiet: list[Change] = []

    def listen(change: Change) -> None:
        seen.append((change, [text.text for text in store.writer.texts.of(change.context_id)]))

    store.observers.add(listen, texts=True)
    store.observers.add(quiet.append)
    turn = store.open_turns.open(context, "test.v1")
    for word in (b"a", b"b", b"c"):
        turn.add(word)
    turn.seal()
    store.open_turns.open(context, "test.v1").abort()
    store.observers.remove(listen)
    store.contexts.append(context, b"x", "test.v1")
    assert [texts for _change, texts in seen] == [[b""], [b"a"], [b"ab"], [b"abc"], [], [b""], []]
    assert all(change.streamed for change, _texts in seen)
    assert [change.moved for change, _texts in seen] == [False] * 4 + [True] + [False] * 2
    assert [change.seq for change, _texts in seen] == sorted({change.seq for change, _texts in seen})
    assert [change.tip for change in quiet] == [1, 2]


def test_a_turn_is_open_or_in_the_branch_and_never_both(store: Store) -> None:
    context = store.contexts.create().context
    stop = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        while not stop.is_set():
            head, texts, _leading = store.writer.live(context)
            # the turns hold how many there were before them
            count = head.depth + 1 if head.turn else 0
            if [text.text for text in texts] not in ([], [b""], [b"%d" % count]):
                wrong.append((head, texts))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(60):
            turn = store.open_turns.open(context, "test.v1")
            turn.add(b"%d" % number)
            turn.seal()
    finally:
        stop.set()
        reader.join()
    assert wrong == []


def test_many_at_once(store: Store) -> None:
    contexts = [store.contexts.create().context for _ in range(4)]
    sealed: dict[int, bytes] = {}

    def write(worker: int) -> None:
        for number in range(5):
            turn = store.open_turns.open(contexts[worker % 4], "test.v1")
            words = [b"%d-%d-%d " % (worker, number, word) for word in range(20)]
            for word in words:
                turn.add(word)
            sealed[turn.seal().turn_id] = b"".join(words)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sealed) == 40
    assert all(store.contents.payload(turn) == payload for turn, payload in sealed.items())
    assert store.writer.texts.of() == []


def test_two_add_to_one(store: Store) -> None:
    context = store.contexts.create().context
    turn = store.open_turns.open(context, "test.v1")

    def write(mark: bytes) -> None:
        mine = store.open_turns.resume(context, turn.number)
        for _ in range(50):
            mine.add(mark)

    threads = [threading.Thread(target=write, args=(mark,)) for mark in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turn.text) == sorted(b"abc" * 50)


def test_sealed_and_dropped_at_the_same_time(store: Store) -> None:
    """One of them happens, whoever asks, while others append to the same context; nobody is told otherwise."""
    context = store.contexts.create().context
    rounds, appended = 40, 0
    told: list[tuple[str, object]] = []

    def attempt(what: str, call: Callable[[], object], start: threading.Barrier) -> None:
        start.wait()
        try:
            told.append((what, call()))
        except NotFound:
            told.append((what, None))

    for number in range(rounds):
        turn = store.open_turns.open(context, "test.v1")
        turn.add(b"%d " % number)
        told.clear()
        start = threading.Barrier(5)
        calls: list[tuple[str, Callable[[], object]]] = [
            ("seal", turn.seal),
            ("seal", store.open_turns.resume(context, turn.number).seal),
            ("abort", lambda turn=turn: turn.abort() or True),
            ("add", lambda turn=turn: turn.add(b"more")),
            ("append", lambda: store.contexts.append(context, b"beside", "test.v1")),
        ]
        threads = [threading.Thread(target=attempt, args=(*call, start)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seals = [result for what, result in told if what == "seal"]
        dropped, added = dict(told)["abort"], dict(told)["add"]
        assert (seals[0] is None) == (seals[1] is None) == (dropped is not None), told
        if isinstance(sealed := seals[0], Turn):
            assert seals[1] == sealed
            assert store.contents.payload(sealed.turn_id) == b"%d " % number + (b"more" if added else b"")
        appended += 1 + (seals[0] is not None)
    assert store.writer.head(context).depth + 1 == appended
    assert store.writer.texts.of() == []


PIECES = st.one_of(st.sampled_from([b"", b"a", b"word "]), st.binary(max_size=40))


class StreamingMachine(RuleBasedStateMachine):
    """Open turns against a dictionary, through every order of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.copies = 0
        self.texts: dict[tuple[int, int], bytes] = {}
        self.sealed: dict[tuple[int, int], int] = {}
        self.turns: dict[int, bytes] = {}
        self.heads: dict[int, int] = {}
        self.store = Store.open(self.directory / "store")

    @initialize()
    def begin(self) -> None:
        for _ in range(2):
            self.heads[self.store.contexts.create().context] = 0

    def teardown(self) -> None:
        self.store.close()
        with Store.open(self.store.root, create=False) as self.store:
            self.check()
            for turn, payload in self.turns.items():
                assert self.store.contents.payload(turn) == payload
            assert findings(self.store) == []
        shutil.rmtree(self.directory)

    def one(self, number: int) -> tuple[int, int]:
        return sorted(self.texts)[number % len(self.texts)]

    has_open = precondition(lambda self: bool(self.texts))

    @rule(context=st.sampled_from([1, 2]))
    def open(self, context: int) -> None:
        self.texts[context, self.store.open_turns.open(context, "test.v1").number] = b""

    @has_open
    @rule(number=st.integers(0, 100), text=PIECES)
    def add(self, number: int, text: bytes) -> None:
        place = self.one(number)
        self.texts[place] += text
        assert self.store.open_turns.resume(*place).add(text) == len(self.texts[place])

    @has_open
    @rule(number=st.integers(0, 100))
    def seal(self, number: int) -> None:
        place = self.one(number)
        turn = self.store.open_turns.resume(*place).seal()
        assert turn.parent == self.heads[place[0]]
        self.turns[turn.turn_id] = self.texts.pop(place)
        self.heads[place[0]] = self.sealed[place] = turn.turn_id

    @has_open
    @rule(number=st.integers(0, 100))
    def drop(self, number: int) -> None:
        place = self.one(number)
        self.store.open_turns.resume(*place).abort()
        del self.texts[place]

    @precondition(lambda self: bool(self.sealed))
    @rule(number=st.integers(0, 100))
    def seal_again(self, number: int) -> None:
        place = sorted(self.sealed)[number % len(self.sealed)]
        assert self.store.open_turns.resume(*place).seal().turn_id == self.sealed[place]

    @rule(context=st.sampled_from([1, 2]), text=PIECES)
    def append(self, context: int, text: bytes) -> None:
        turn = self.store.contexts.append(context, text, "test.v1")
        assert turn.parent == self.heads[context]
        self.heads[context] = turn.turn_id
        self.turns[turn.turn_id] = text

    @rule()
    def flush(self) -> None:
        self.store.checkpointer.flush()

    @rule(reindex=st.booleans())
    def reopen(self, reindex: bool) -> None:
        self.store.close()
        self.store = Store.open(self.store.root, create=False, reindex=reindex)

    @rule()
    def kill(self) -> None:
        self.copies += 1
        copy = freeze(self.store, self.directory / f"copy{self.copies}")
        self.store.close()
        shutil.rmtree(self.store.root)
        self.store = Store.open(copy, create=False)

    @invariant()
    def check(self) -> None:
        found = {(text.context_id, text.number): text.text for text in self.store.writer.texts.of()}
        assert found == self.texts
        for context, head in self.heads.items():
            assert self.store.writer.live(context)[0].turn == head


def test_open_turns_behave_like_the_model() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StreamingMachine,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
