"""Deleted conversations are not there any more, whoever asks; what others share with them is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.commit.request import Request
from store.conversations.contexts import Append
from store.disk.turn_format import NO_PAYLOAD
from store.editing.editor import Editor
from store.errors import Conflict, NotFound
from store.events.conversation import Change
from store.ids import turn_of
from store.retention.pruner import delete, prune_versions
from store.store import Store
from store.upkeep.fsck import fsck, reindex
from store.upkeep.gc import Reclaiming, Since
from store.upkeep.roots import TurnRuns


def line(number: object) -> bytes:
    return b'{"type":"user","text":"%s"}' % str(number).encode()


def begun(store: Store, name: str, count: int = 4) -> int:
    context = store.contexts.create(metadata={"project": "p", "name": name, "labels": ["a"], "source": f"/{name}"})
    store.contexts.append_many(context.context, [Append(line(number), "x.v1") for number in range(count)])
    return context.context


@pytest.fixture
def root(memory_path: Path) -> Path:
    return memory_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store.open(root, renderer=FileRenderer()) as store:
        yield store
        assert fsck(store) == []


def opened(root: Path) -> Store:
    return Store.open(root, renderer=FileRenderer())


def reclaim(store: Store, runs: list[tuple[int, int]], since: Since | None = None) -> int:
    return Reclaiming(store.writer, runs, since or moment(store)).run()


def moment(store: Store) -> Since:
    store.checkpointer.flush()
    return Since(store.files.heads.length, store.files.turns.count)


@pytest.mark.of_one_machine("what an import brings to a replica has its machine")
def test_a_deleted_context_is_nowhere(root: Path) -> None:
    with opened(root) as store:
        first, second = begun(store, "first"), begun(store, "second")
        store.contexts.append(first, b"x", "x.v1", idempotency_key=b"key")
        store.open_turns.open(first, "x.v1").add(b"some")
        store.library.conversations()
        tip = store.contexts.tip(first)
        with pytest.raises(Conflict):
            delete(store, first, tip + 1)
        told: list[Change] = []
        store.observers.add(told.append)
        delete(store, first, tip)
        assert [(change.context_id, change.deleted, change.moved) for change in told] == [(first, True, False)]

        def check(store: Store) -> None:
            assert [entry.id for entry in store.catalogue.every()] == [second]
            assert store.catalogue.labelled("a")[0].id == second
            assert store.catalogue.by_source("/first") is None
            assert store.catalogue.pruned("source", "/first") == first
            assert store.catalogue.pruned("source", "/second") == 0
            assert store.writer.texts.of() == []
            assert store.catalogue.versions(first) == []
            for question in (store.catalogue.entry, store.writer.head, store.contexts.tip, store.library.conversation):
                with pytest.raises(NotFound):
                    question(first)
            with pytest.raises(NotFound):
                store.contexts.append(first, b"y", "x.v1")
            with pytest.raises(NotFound):
                delete(store, first, tip)

        check(store)
        store.checkpointer.flush()
        check(store)
        assert fsck(store) == []
    with opened(root) as store:
        check(store)
    reindex(root, FileRenderer())
    with opened(root) as store:
        check(store)
        assert fsck(store) == []
        # no id is given twice
        last = begun(store, "third")
        assert last == 3
        delete(store, last, store.contexts.tip(last))
    with opened(root) as store:
        assert begun(store, "fourth") == 4


def test_what_comes_in_the_same_group_finds_it_gone(store: Store) -> None:
    from store.disk.head_format import Deleted

    context = begun(store, "first")
    requests = [
        Request(context, move_head=False, notes=[Deleted(1)]),
        Request(context, turns=[store.contexts.new_turn(store.turns.get(1).payload_hash, "x.v1", 7)]),
    ]
    store.writer.submit_all(requests)
    assert requests[0].error is None
    assert isinstance(requests[1].error, NotFound)


def test_a_fork_keeps_what_it_shares(store: Store) -> None:
    parent = begun(store, "parent")
    fork = Editor(store).fork(parent, "fork", at=3).context
    store.contexts.append(fork, line("more"), "x.v1")
    delete(store, parent, store.contexts.tip(parent))
    assert [store.contents.payload(turn.turn_id) for turn in store.contexts.last(fork, 9)] == [
        line(0),
        line(1),
        line(2),
        line("more"),
    ]


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_versions_that_were_pruned(root: Path, edits: str) -> None:
    root.mkdir()
    (root / "convfs.toml").write_text(f'edits = "{edits}"\n')
    with opened(root) as store:
        context = begun(store, "first")
        for number in range(3):
            Editor(store).edit(context, {2: line(f"edit {number}")})
        versions = store.catalogue.versions(context)
        assert [version.number for version in versions] == [1, 2, 3, 4]
        prune_versions(store, context, versions[1].seq)
        left = store.catalogue.versions(context)
        assert left == versions[2:]
        with pytest.raises(NotFound):
            store.contexts.tip(context, versions[1].seq)
        assert store.contexts.tip(context, versions[2].seq) == versions[2].head
        # the one that it is in stays, whatever is asked for
        prune_versions(store, context, 1 << 40)
        assert store.catalogue.versions(context) == versions[3:]
        store.checkpointer.flush()
        assert fsck(store) == []
    reindex(root, FileRenderer())
    with opened(root) as store:
        assert store.catalogue.versions(context) == versions[3:]
        Editor(store).edit(context, {2: line("again")})
        assert [version.number for version in store.catalogue.versions(context)] == [4, 5]
        assert fsck(store) == []


def test_turns_are_blanked(root: Path) -> None:
    with opened(root) as store:
        kept = begun(store, "kept")
        context = begun(store, "first")
        Editor(store).edit(context, {2: line("edit")})
        old = [turn.turn_id for turn in store.contexts.last(context, 9)]
        store.library.conversations()
        gone = sorted(turn_of(turn) for turn in {5, 6, 7, 8, *old})
        store.contexts.attach_fs(gone[0], store.intake.put(b"a tree of files"))
        delete(store, context, store.contexts.tip(context))
        assert reclaim(store, [(gone[0], len(gone))]) == len(gone)
        for turn_id in gone:
            turn = store.turns.get(turn_id)
            assert (turn.reclaimed, turn.payload_hash, turn.turn_id) == (True, NO_PAYLOAD, turn_id)
            with pytest.raises(NotFound):
                store.contexts.append(kept, b"z", "x.v1", parent=turn_id)
            with pytest.raises(NotFound):
                store.contexts.create(turn_id)
            with pytest.raises(NotFound):
                store.contents.payload(turn_id)
        assert store.contexts.fs_root(gone[0]) is None
        store.contexts.append(kept, b"z", "x.v1")
        store.checkpointer.flush()
        assert fsck(store) == []
    reindex(root, FileRenderer())
    with opened(root) as store:
        assert fsck(store) == []
        assert len(store.contexts.last(kept, 99)) == 5
        assert [turn_id for turn_id, turn in store.files.turns.scan() if turn.reclaimed] == gone


def test_a_superseded_turn_that_was_reclaimed_still_leads_to_what_became_of_it(store: Store) -> None:
    context = begun(store, "first")
    old = store.writer.head(context).turn
    Editor(store).edit(context, {2: line("corrected")})
    prune_versions(store, context, 1 << 40)
    assert reclaim(store, [(2, 3)]) == 3
    turn = store.contexts.append(context, line("goes on"), "x.v1", parent=old)
    assert [store.contents.payload(one.turn_id) for one in store.contexts.last(context, 9)] == [
        line(0),
        line("corrected"),
        line(2),
        line(3),
        line("goes on"),
    ]
    assert turn.depth == 4


@pytest.mark.parametrize("how", ["turn", "fork", "branch"])
def test_what_is_led_to_again_is_not_blanked(store: Store, how: str) -> None:
    context = begun(store, "first")
    delete(store, context, store.contexts.tip(context))
    since = moment(store)
    match how:
        case "turn":
            other = store.contexts.create().context
            store.contexts.append(other, b"z", "x.v1", parent=4)
        case "fork":
            other = store.contexts.create(3).context
        case _:
            other = begun(store, "other")
            store.contexts.append(other, b"z", "x.v1", parent=2)
    assert reclaim(store, [(1, 4)], since) == 0
    assert store.contents.payload(store.contexts.last(other, 9)[0].turn_id) == line(0)


def test_a_record_that_was_torn_while_it_was_blanked(root: Path) -> None:
    with opened(root) as store:
        context = begun(store, "first")
        delete(store, context, store.contexts.tip(context))
        assert reclaim(store, [(1, 4)]) == 4
    log = root / "turns" / "turns.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:150] + bytes(20) + b"torn" + whole[174:])
    with opened(root) as store:
        assert [(finding.check, finding.severity) for finding in fsck(store)] == [("turns", "warning")]
        assert reclaim(store, [(1, 4)]) == 4
        assert fsck(store) == []
        assert all(turn.reclaimed for _, turn in store.files.turns.scan())


def test_turns_that_no_branch_shows_yet(store: Store) -> None:
    unshown = store.writer.unshown
    payload = store.intake.put(b"payload")
    turns = [store.contexts.new_turn(payload, "x.v1", 8)] * 3
    first = Request(0, turns=turns, move_head=False, types=store.writer.types_for(["x.v1"]))
    store.writer.submit(first)
    second = Request(0, parent=3, turns=turns, move_head=False)
    store.writer.submit(second)
    other = Request(0, parent=None, turns=turns, move_head=False)
    store.writer.submit(other)
    assert sorted(unshown.ends()) == [3, 6, 9]
    context = store.contexts.create().context
    store.writer.submit(Request(context, parent=6, turns=turns))
    assert sorted(unshown.ends()) == [9]
    store.writer.submit(Request(context, parent=9, action="branch"))
    assert sorted(unshown.ends()) == []


def test_turn_runs() -> None:
    runs = TurnRuns([(10, 5), (1, 3), (4, 2), (12, 1), (30, 4)])
    assert [turn for turn in range(40) if turn in runs] == [*range(1, 6), *range(10, 15), *range(30, 34)]
    assert list(runs.batches(6)) == [[(1, 5), (10, 1)], [(11, 4), (30, 2)], [(32, 2)]]
    assert list(runs.batches(100)) == [[(1, 5), (10, 5), (30, 4)]]
    assert list(TurnRuns([]).batches(3)) == []


def test_versions_keep_their_numbers(store: Store) -> None:
    context = begun(store, "first")
    for number in range(3):
        Editor(store).edit(context, {2: line(f"edit {number}")})
    versions = store.catalogue.versions(context)
    prune_versions(store, context, versions[1].seq)
    assert store.catalogue.version(context, 3) == versions[2]
    assert Editor(store).restore(context, 3).tip == versions[2].head
    for number in (0, 1, 2, 6):
        with pytest.raises(NotFound, match="was pruned" if 0 < number < 3 else "has no version"):
            store.catalogue.version(context, number)
        with pytest.raises(NotFound):
            Editor(store).restore(context, number)
