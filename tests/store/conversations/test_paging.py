"""Pages of long contexts: as they were appended, as they now are, as they were; where ids interleave."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding, Turn
from store.editing.editor import DELETED, Editor
from store.errors import Conflict, NotFound, TooLarge, UsageError
from store.ids import hash_bytes, patch_of, turn_of
from store.store import Store
from tests.model import findings, freeze, ids


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened
        assert findings(opened) == []


def interleaved(store: Store, contexts: int, length: int) -> dict[int, list[int]]:
    """Have contexts grow by a turn each in turn; return their turns."""
    turns: dict[int, list[int]] = {store.contexts.create().context: [] for _ in range(contexts)}
    for number in range(length):
        requests = [store.contexts.appending(context, Append(b"%d" % number, "test.v1")) for context in turns]
        store.writer.submit_all([request for request in requests if request])
        for context, request in zip(turns, requests, strict=True):
            assert request is not None
            turns[context].append(request.written[0].turn_id)
    return turns


def check_pages(store: Store, turns: dict[int, list[int]]) -> None:
    for context, own in turns.items():
        length = len(own)
        assert ids(store.contexts.last(context, 64)) == own[-64:]
        for start in (0, 1, length // 3, length - 5, length - 1, length, length + 1):
            assert ids(store.contexts.range_by_depth(context, start, 10)) == own[start : start + 10]
        for at in (0, 1, length // 2, length - 1):
            assert ids(store.contexts.before(context, own[at], 7)) == own[max(at - 7, 0) : at]


@pytest.mark.of_one_machine("it goes on with the original of a copy that was opened")
def test_interleaved_contexts(store: Store, tmp_path: Path) -> None:
    turns = interleaved(store, 7, 150)
    check_pages(store, turns)
    with Store.open(freeze(store, tmp_path / "copy"), create=False) as again:
        check_pages(again, turns)
    store.checkpointer.flush()
    for context, own in turns.items():
        fork = store.contexts.fork(context, own[70])
        assert ids(store.contexts.last(fork.context, 3)) == own[68:71]
    other = next(iter(turns.values()))
    with pytest.raises(NotFound):
        store.contexts.fork(list(turns)[1], other[70])
    with pytest.raises(NotFound):
        store.contexts.before(list(turns)[1], other[70], 3)


def test_no_branch_is_remembered_for_a_page(store: Store) -> None:
    turns = interleaved(store, 5, 60)
    check_pages(store, turns)
    context, own = next(iter(turns.items()))
    store.contexts.fork(context, own[30])
    store.contexts.append(context, b"instead", "test.v1", parent=own[10])
    assert not store.records._runs


@pytest.mark.parametrize("how", ["missing", "short", "long", "nonsense", "reindex", "kill"])
def test_the_jumps_are_derived(tmp_path: Path, how: str) -> None:
    with Store.open(tmp_path / "store") as store:
        turns = interleaved(store, 4, 100)
        copy = freeze(store, tmp_path / "copy")
    root = copy if how == "kill" else store.root
    path = root / "turns" / "turns.jump"
    data = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(data[: len(data) // 2])
        case "long":
            path.write_bytes(data + data[-120:])
        case "nonsense":
            path.write_bytes(bytes(len(data)))
    with Store.open(root, create=False, reindex=how == "reindex") as again:
        check_pages(again, turns)
        assert findings(again) == []
    if how != "kill":
        assert path.read_bytes() == data


# -- as they now are, and as they were -------------------------------------------------------------------------------


def payloads(store: Store, turns: list[Turn]) -> list[bytes | None]:
    return [None if turn.deleted else store.contents.payload(turn.turn_id) for turn in turns]


def conversation(store: Store, count: int) -> tuple[int, list[Turn]]:
    context = store.contexts.create().context
    return context, store.contexts.append_many(
        context, [Append(b"%d" % n, "test.v1", Encoding.RAW_BYTES) for n in range(count)]
    )


def test_latest_after_an_edit_by_branch(store: Store) -> None:
    context, turns = conversation(store, 6)
    Editor(store).edit(context, {2: b"new", 5: DELETED})
    assert payloads(store, store.contexts.last(context, 9, latest=True)) == [b"0", b"new", b"2", b"3", None, b"5"]
    # who pages back through what it knows gets that, or what became of it
    assert ids(store.contexts.before(context, turns[4].turn_id, 3)) == [2, 3, 4]
    assert payloads(store, store.contexts.before(context, turns[4].turn_id, 3, latest=True)) == [b"new", b"2", b"3"]
    Editor(store).rewrite(context, [1, 2])
    assert payloads(store, store.contexts.before(context, turns[5].turn_id, 3, latest=True)) == [b"0", b"new"]
    assert payloads(store, store.contexts.before(context, turns[1].turn_id, 3, latest=True)) == [b"0"]
    assert ids(store.contexts.before(context, turns[5].turn_id, 2)) == [4, 5]


def test_patches_by_turn(store: Store) -> None:
    context, turns = conversation(store, 6)
    large = b"x" * 100_000
    head = store.contexts.patch(context, {turns[1].turn_id: b"new", turns[4].turn_id: DELETED, turns[5].turn_id: large})
    assert (head.turn, head.depth, patch_of(head.tip)) == (turns[5].turn_id, 5, 1)
    now = [b"0", b"new", b"2", b"3", None, large]
    assert payloads(store, store.contexts.last(context, 9, latest=True)) == now
    assert store.contexts.last(context, 9) == turns
    assert payloads(store, store.contexts.range_by_depth(context, 1, 2, latest=True)) == now[1:3]
    assert payloads(store, store.contexts.before(context, turns[2].turn_id, 2, latest=True)) == now[:2]
    assert [version.action for version in store.catalogue.versions(context)] == ["append", "edit 00002-00006"]
    # nothing new is no patch; a payload brings back what was deleted
    assert store.contexts.patch(context, {turns[1].turn_id: b"new", turns[4].turn_id: DELETED}) == head
    store.contexts.patch(context, {turns[4].turn_id: b"4"}, expected_head=head.turn)
    assert payloads(store, store.contexts.last(context, 2, latest=True)) == [b"4", large]
    assert store.blobs.blob(hash_bytes(large)) == large


def test_patches_that_are_refused(store: Store) -> None:
    context, turns = conversation(store, 3)
    other, others = conversation(store, 2)
    head = store.contexts.patch(context, {turns[0].turn_id: b"new"})
    for wrong in (0, turns[1].turn_id, head.tip + (1 << 40)):
        with pytest.raises(Conflict):
            store.contexts.patch(context, {turns[0].turn_id: b"newer"}, expected_head=wrong)
    for unknown in (others[0].turn_id, 99, 0):
        with pytest.raises(NotFound):
            store.contexts.patch(context, {unknown: b"new"})
    with pytest.raises(TooLarge):
        store.contexts.patch(other, {others[0].turn_id: bytes((64 << 20) + 1)})
    assert store.writer.head(context) == head
    assert store.contexts.patch(context, {turns[0].turn_id: b"newer"}, expected_head=head.tip).patch == head.patch + 1


def test_a_patch_that_another_comes_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    context, turns = conversation(store, 2)
    submit = store.writer.submit
    done: list[Request] = []

    def second(request: Request) -> Request:
        if not done:
            done.append(request)
            store.contexts.patch(context, {turns[0].turn_id: b"first%d" % store.writer.head(context).patch})
        return submit(request)

    monkeypatch.setattr(store.writer, "submit", second)
    # the head is the turn that is expected, before and after the other patch
    head = store.contexts.patch(context, {turns[1].turn_id: b"second"}, expected_head=turns[1].turn_id)
    assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(context, 2, latest=True)] == [
        b"first0",
        b"second",
    ]
    done.clear()
    with pytest.raises(Conflict):
        store.contexts.patch(context, {turns[1].turn_id: b"third"}, expected_head=head.tip)


def test_a_patch_of_what_an_edit_has_superseded(store: Store) -> None:
    context, turns = conversation(store, 4)
    head = Editor(store).edit(context, {2: b"new"})
    patched = store.contexts.patch(context, {turns[2].turn_id: b"newer"})
    assert patched.turn == head.turn
    assert payloads(store, store.contexts.last(context, 9, latest=True)) == [b"0", b"new", b"newer", b"3"]
    Editor(store).rewrite(context, [1, 2, 3])
    with pytest.raises(NotFound, match="no longer"):
        store.contexts.patch(context, {turns[3].turn_id: b"newest"})


def test_a_patch_that_others_would_be_wrong_by(store: Store) -> None:
    """Records keep what was measured of them, so what they refer to stays."""
    line = (
        b'{"type":"assistant","uuid":"%s","message":{"role":"assistant","content":[{"type":"tool_use","id":"%s",'
        b'"name":"Bash","input":{"command":"ls"}}]}}'
    )
    context = store.contexts.create().context
    turn = store.contexts.append(context, line % (b"u1", b"call_1"), "claude-code.line.v1")
    with pytest.raises(UsageError, match="refer"):
        store.contexts.patch(context, {turn.turn_id: line % (b"u1", b"call_2")})
    store.contexts.patch(context, {turn.turn_id: (line % (b"u1", b"call_1")).replace(b'"ls"', b'"ls -l"')})


def test_as_of(store: Store) -> None:
    context, turns = conversation(store, 5)
    seqs = [store.writer.seq]
    store.contexts.patch(context, {turns[1].turn_id: b"new"})
    seqs.append(store.writer.seq)
    store.contexts.append(context, b"5", "test.v1")
    seqs.append(store.writer.seq)
    Editor(store).edit(context, {1: b"edited"})
    store.contexts.patch(context, {turns[1].turn_id: DELETED})
    seqs.append(store.writer.seq)
    states: list[list[bytes | None]] = [
        [b"0", b"1", b"2", b"3", b"4"],
        [b"0", b"new", b"2", b"3", b"4"],
        [b"0", b"new", b"2", b"3", b"4", b"5"],
        [b"edited", None, b"2", b"3", b"4", b"5"],
    ]
    for seq, state in zip(seqs, states, strict=True):
        assert payloads(store, store.contexts.last(context, 9, as_of=seq)) == state
        assert payloads(store, store.contexts.range_by_depth(context, 1, 2, as_of=seq)) == state[1:3]
        assert payloads(store, store.contexts.before(context, turns[2].turn_id, 9, as_of=seq)) == state[:2]
        assert (
            turn_of(store.contexts.tip(context, seq))
            == store.contexts.last(context, 1, as_of=seq)[0].turn_id & (1 << 40) - 1
        )
    assert store.contexts.last(context, 9, as_of=0) == []
