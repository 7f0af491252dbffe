"""Appending as clients of the service do: keys, expected heads, parents, file system roots, types of any kind."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.commit import request, writer
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding, Turn
from store.editing.editor import Editor
from store.errors import Conflict, NotFound, TooLarge, UsageError
from store.events.event import Event
from store.ids import hash_bytes, now_ms, type_tag
from store.index.notes import KEPT_MS
from store.store import Store
from store.upkeep import recovery
from tests.model import findings, freeze

HOUR = 3600 * 1000
TREE = b"a tree"
ROOT = hash_bytes(TREE)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "store") as opened:
        yield opened
        if not opened.closed:
            assert findings(opened) == []


def rows(store: Store, table: str) -> list[tuple[object, ...]]:
    store.writer.settle()
    return sorted(store.files.index.db.query(f"SELECT * FROM {table}"))


def at(monkeypatch: pytest.MonkeyPatch, time_ms: int) -> None:
    """Have the writer's clock show a time."""
    monkeypatch.setattr(writer, "now_ms", lambda: time_ms)
    monkeypatch.setattr(request, "now_ms", lambda: time_ms)


# -- idempotency keys ------------------------------------------------------------------------------------------------


def test_a_key_appends_once(store: Store) -> None:
    context, other = store.contexts.create().context, store.contexts.create().context
    turn = store.contexts.append(context, b"one", "test.v1", idempotency_key=b"k")
    later = store.contexts.append(context, b"two", "test.v1")
    assert store.contexts.append(context, b"one", "test.v1", idempotency_key=b"k") == turn
    assert store.writer.head(context).turn == later.turn_id
    # a key is its context's own, and means nothing where there is none
    assert store.contexts.append(other, b"one", "test.v1", idempotency_key=b"k") != turn
    assert store.contexts.append(context, b"one", "test.v1") != store.contexts.append(context, b"one", "test.v1")
    assert store.files.turns.count == 5


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("payload", "type_name", "encoding", "version"),
    [(b"other", "a.v1", 7, 0), (b"one", "b.v1", 7, 0), (b"one", "a.v1", 8, 0), (b"one", "a.v1", 7, 1)],
)
def test_a_key_with_another_turn(
    store: Store, payload: bytes, type_name: str, encoding: int, version: int, settled: bool
) -> None:
    context = store.contexts.create().context
    store.contexts.append(context, b"one", "a.v1", idempotency_key=b"k")
    if settled:
        store.writer.settle()
    with pytest.raises(Conflict, match="turn 1 has this idempotency key"):
        store.contexts.append(
            context, payload, type_name, encoding=encoding, type_version=version, idempotency_key=b"k"
        )
    assert (store.writer.head(context).turn, store.files.turns.count) == (1, 1)


def test_a_retry_expects_what_has_come_true(store: Store) -> None:
    context = store.contexts.create().context
    first = store.contexts.append(context, b"one", "test.v1")
    request = {"expected_head": first.turn_id, "idempotency_key": b"k"}
    turn = store.contexts.append(context, b"two", "test.v1", **request)
    assert store.contexts.append(context, b"two", "test.v1", **request) == turn
    assert store.contexts.append(context, b"two", "test.v1", parent=first.turn_id, idempotency_key=b"k") == turn


def test_large_payloads_and_their_keys(store: Store) -> None:
    context = store.contexts.create().context
    store.intake.put(TREE)
    large = b"x" * (store.writer.journalled_bytes + 1)
    turn = store.contexts.append(context, large, "test.v1", idempotency_key=b"k", fs_root=ROOT, expected_head=0)
    assert store.contexts.append(context, large, "test.v1", idempotency_key=b"k", expected_head=0) == turn
    assert store.contexts.fs_root(turn.turn_id) == ROOT
    with pytest.raises(Conflict):
        store.contexts.append(context, large + b"x", "test.v1", idempotency_key=b"k")
    with pytest.raises(Conflict):
        store.contexts.append(context, large, "test.v1", expected_head=0)


@pytest.mark.parametrize("how", ["kill", "power", "close", "reindex"])
def test_a_key_holds_whatever_happens(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "store")
    context = store.contexts.create().context
    turns = [store.contexts.append(context, b"%d" % n, "test.v1", idempotency_key=b"k%d" % n) for n in range(20)]
    store.checkpointer.flush()
    turns += [store.contexts.append(context, b"%d" % n, "test.v1", idempotency_key=b"k%d" % n) for n in range(20, 40)]
    before = rows(store, "keys")
    root = freeze(store, tmp_path / "copy") if how in ("kill", "power") else store.root
    store.close()
    if how == "power":
        (tmp_path / "boot").write_text("another")
        monkeypatch.setattr(recovery, "_BOOT_ID", tmp_path / "boot")
    with Store.open(root, create=False, reindex=how == "reindex") as again:
        assert rows(again, "keys") == before
        for n, turn in enumerate(turns):
            assert again.contexts.append(context, b"%d" % n, "test.v1", idempotency_key=b"k%d" % n) == turn
        with pytest.raises(Conflict):
            again.contexts.append(context, b"other", "test.v1", idempotency_key=b"k3")
        assert again.files.turns.count == 40
        assert findings(again) == []


def test_a_key_holds_for_a_day(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context = store.contexts.create().context
    now = now_ms()
    turn = store.contexts.append(context, b"one", "test.v1", idempotency_key=b"k")
    at(monkeypatch, now + KEPT_MS - 60_000)
    assert store.contexts.append(context, b"one", "test.v1", idempotency_key=b"k") == turn
    at(monkeypatch, now + KEPT_MS + 60_000)
    again = store.contexts.append(context, b"other", "test.v1", idempotency_key=b"k")
    assert again != turn
    store.writer.settle()
    assert store.contexts.append(context, b"other", "test.v1", idempotency_key=b"k") == again


@given(
    times=st.lists(st.tuples(st.integers(0, 60), st.sampled_from([b"a", b"b", b"c", b"d"])), min_size=1, max_size=25),
    settles=st.sets(st.integers(0, 25)),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_kept_of_keys_follows_from_the_log(
    tmp_path_factory: pytest.TempPathFactory, times: list[tuple[int, bytes]], settles: set[int]
) -> None:
    """However the clock jumps, and however frames were applied together."""
    root = tmp_path_factory.mktemp("keys") / "store"
    with pytest.MonkeyPatch.context() as monkeypatch, Store.open(root) as store:
        context = store.contexts.create().context
        for number, (hour, key) in enumerate(times):
            at(monkeypatch, 10 * KEPT_MS + hour * HOUR)
            kept = store.writer.keys.get(context, key)
            turn = store.contexts.append(context, b"x", "test.v1", idempotency_key=key)
            assert kept in (turn.turn_id, 0)
            if number in settles:
                store.writer.settle()
        before = rows(store, "keys")
        # what is at most a day older than the last is there
        last = {key: hour for hour, key in times}
        assert last.keys() >= {key for _context, key, *_ in before}
    with Store.open(root, create=False, reindex=True) as again:
        assert rows(again, "keys") == before
        assert findings(again) == []


def test_what_is_remembered_of_keys_is_bounded(store: Store) -> None:
    context = store.contexts.create().context
    for number in range(50):
        store.contexts.append(context, b"x", "test.v1", idempotency_key=b"%d" % number)
    assert len(store.writer.keys) <= 50
    store.writer.settle()
    assert len(store.writer.keys) == 0
    assert store.contexts.append(context, b"x", "test.v1", idempotency_key=b"7").turn_id == 8


def together(count: int, work: Callable[[int], Turn]) -> list[Turn | Exception]:
    """Do the same in many threads at once; return what each came to."""
    found: list[Turn | Exception] = []
    start = threading.Barrier(count)

    def one(number: int) -> None:
        start.wait()
        try:
            found.append(work(number))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_one_key_at_once_is_one_turn(store: Store) -> None:
    context = store.contexts.create().context
    for number in range(20):
        key = b"key %d" % number
        found = together(8, lambda _n, key=key: store.contexts.append(context, key, "test.v1", idempotency_key=key))
        assert len({turn.turn_id for turn in found}) == 1
        assert store.files.turns.count == number + 1


def test_one_key_twice_in_one_commit(store: Store) -> None:
    context = store.contexts.create().context
    requests = [
        store.contexts.appending(context, Append(payload, "test.v1"), idempotency_key=b"k")
        for payload in (b"a", b"b", b"a")
    ]
    store.writer.submit_all(requests)
    first, other, again = requests
    assert first.written == again.written
    assert isinstance(other.error, Conflict)
    assert (store.files.turns.count, first.error, again.error) == (1, None, None)


# -- expected heads and parents --------------------------------------------------------------------------------------


def test_an_expected_head(store: Store) -> None:
    context = store.contexts.create().context
    first = store.contexts.append(context, b"one", "test.v1", expected_head=0)
    second = store.contexts.append(context, b"two", "test.v1", expected_head=first.turn_id)
    for wrong in (0, first.turn_id, 99):
        with pytest.raises(Conflict, match="moved on"):
            store.contexts.append(context, b"three", "test.v1", expected_head=wrong)
        with pytest.raises(Conflict, match="moved on"):
            store.contexts.append(context, b"three", "test.v1", expected_head=wrong, parent=first.turn_id)
    branched = store.contexts.append(context, b"three", "test.v1", expected_head=second.turn_id, parent=first.turn_id)
    assert (branched.parent, store.writer.head(context).turn) == (first.turn_id, branched.turn_id)


def test_only_one_of_those_who_expect_a_head_appends(store: Store) -> None:
    context = store.contexts.create().context
    head = 0
    for _round in range(10):
        expected = head
        found = together(
            8, lambda n, expected=expected: store.contexts.append(context, b"%d" % n, "t", expected_head=expected)
        )
        [turn] = [one for one in found if isinstance(one, Turn)]
        assert sum(isinstance(one, Conflict) for one in found) == 7
        head = turn.turn_id
        assert store.writer.head(context).turn == head


def test_a_parent_that_an_edit_has_superseded(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        context = store.contexts.create().context
        turns = [store.contexts.append(context, b"%d" % n, "test.v1") for n in range(4)]
        head = Editor(store).edit(context, {2: b"corrected"})
        assert head.turn not in [turn.turn_id for turn in turns]
        turn = store.contexts.append(context, b"new", "test.v1", parent=turns[3].turn_id, idempotency_key=b"k")
        assert turn.parent == head.turn
        assert [store.contents.payload(one.turn_id) for one in store.contexts.last(context, 9)] == [
            b"0",
            b"corrected",
            b"2",
            b"3",
            b"new",
        ]
        # in the middle: a branch of the edited turns
        turn = store.contexts.append(context, b"instead", "test.v1", parent=turns[1].turn_id)
        assert [store.contents.payload(one.turn_id) for one in store.contexts.last(context, 9)] == [
            b"0",
            b"corrected",
            b"instead",
        ]
        assert store.writer.head(context).turn == turn.turn_id


def test_a_context_from_a_turn(store: Store) -> None:
    first = store.contexts.create().context
    base = store.contexts.append(first, b"one", "test.v1")
    store.contexts.append(first, b"two", "test.v1")
    head = store.contexts.create(base.turn_id)
    assert (head.turn, head.depth) == (base.turn_id, 0)
    turn = store.contexts.append(head.context, b"other", "test.v1", expected_head=base.turn_id)
    assert (turn.parent, turn.depth) == (base.turn_id, 1)
    with pytest.raises(NotFound):
        store.contexts.create(99)


# -- roots, types, payloads ------------------------------------------------------------------------------------------


def test_file_system_roots(store: Store) -> None:
    context = store.contexts.create().context
    for name in (ROOT, hash_bytes(b"never put")):
        with pytest.raises(NotFound, match="put its blob there first"):
            store.contexts.append(context, b"one", "test.v1", fs_root=name)
    assert store.writer.head(context).turn == 0
    other = store.intake.put(b"another")
    assert store.intake.put(TREE) == ROOT
    with_one = store.contexts.append(context, b"one", "test.v1", fs_root=ROOT).turn_id
    without = store.contexts.append(context, b"two", "test.v1").turn_id
    assert (store.contexts.fs_root(with_one), store.contexts.fs_root(without)) == (ROOT, None)
    store.contexts.attach_fs(without, ROOT)
    store.contexts.attach_fs(with_one, other)
    assert (store.contexts.fs_root(with_one), store.contexts.fs_root(without)) == (other, ROOT)
    for ask in (store.contexts.fs_root, lambda turn: store.contexts.attach_fs(turn, ROOT)):
        with pytest.raises(NotFound):
            ask(99)
    with pytest.raises(UsageError, match="32 bytes"):
        store.contexts.attach_fs(without, b"short")
    with pytest.raises(UsageError, match="32 bytes"):
        store.contexts.append(context, b"three", "test.v1", fs_root=b"short")
    before = rows(store, "fs_roots")
    store.close()
    with Store.open(store.root, reindex=True) as again:
        assert rows(again, "fs_roots") == before
        assert (again.contexts.fs_root(with_one), again.contexts.fs_root(without)) == (other, ROOT)


def test_types_are_registered_with_their_versions(store: Store) -> None:
    tag = store.contexts.register_type("com.example.thing", 3)
    assert tag == type_tag("com.example.thing")
    assert (
        store.contexts.register_type("com.example.thing", 3)
        == store.contexts.register_type("com.example.thing", 4)
        == tag
    )
    turn = store.contexts.append(store.contexts.create().context, b"{}", "com.example.thing", type_version=3)
    assert (turn.type_version, store.contents.type_name(turn.type_tag)) == (3, "com.example.thing")
    store.contexts.append(1, b"{}", "another")
    known = [(type_tag("another"), 0, "another"), (tag, 3, "com.example.thing"), (tag, 4, "com.example.thing")]
    assert store.contents.types() == known
    store.close()
    with Store.open(store.root, reindex=True) as again:
        assert again.contents.types() == known


@pytest.mark.parametrize("wrong", [{"type_version": 1 << 16}, {"encoding": 1 << 32}, {"encoding": -1}])
def test_numbers_that_do_not_fit(store: Store, wrong: dict[str, int]) -> None:
    context = store.contexts.create().context
    with pytest.raises(UsageError):
        store.contexts.append(context, b"", "test.v1", **wrong)
    for name in ("\ud800", "x" * 2000):
        with pytest.raises(UsageError):
            store.contexts.append(context, b"", name)
    with pytest.raises(UsageError, match="idempotency key"):
        store.contexts.append(context, b"", "test.v1", idempotency_key=b"x" * 1025)
    with pytest.raises(TooLarge):
        store.contexts.append(context, bytes((64 << 20) + 1), "test.v1")
    assert store.files.turns.count == 0


@given(
    items=st.lists(
        st.tuples(
            st.one_of(
                st.binary(max_size=300),
                st.builds(lambda data, n: data * n, st.binary(min_size=1, max_size=30), st.sampled_from([50, 2000])),
                st.sampled_from([b'{"a": "b"}', b'[1, "' + b"y" * 5000 + b'"]', b"\x82\xa1a\x01\xa1b\x93\x01\x02\x03"]),
            ),
            st.sampled_from(["", "x", "com.example.opaque", "jp.event.v1", "claude-code.line.v1", "a/b\n", "\u00e9"]),
            st.one_of(st.sampled_from(list(Encoding)), st.integers(0, 0xFFFF)),
            st.integers(0, 0xFFFF),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_of_any_type(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[bytes, str, int, int]]
) -> None:
    root = tmp_path_factory.mktemp("opaque") / "store"
    with Store.open(root, renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
        for payload, type_name, encoding, version in items:
            turn = store.contexts.append(context, payload, type_name, encoding=encoding, type_version=version)
            assert (turn.encoding, turn.type_version) == (encoding, version)
        assert store.library.conversation(context).records == len(items)
        for row, event in store.viewer.events(store.records.rows(store.contexts.tip(context))):
            assert isinstance(event, Event)
            assert row.payload_size == len(items[row.number - 1][0])
    with Store.open(root, create=False) as again:
        for turn, (payload, type_name, _encoding, _version) in zip(again.contexts.last(context, 9), items, strict=True):
            assert again.contents.payload(turn.turn_id) == payload
            assert again.contents.type_name(turn.type_tag) == type_name
        assert findings(again) == []
