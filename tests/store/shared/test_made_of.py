"""Blobs of a replica and what they are made of: what others have to read is made of what its space holds."""

import pytest

from store.ids import hash_bytes, hash_key
from store.retention.pruner import delete
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.commit.test_alike import MORE, deltas, said
from tests.store.content.noise import edited, noise
from tests.store.shared.test_pruned import cleared
from tests.store.shared.test_spaces import Team, team

__all__ = ["team"]

KIB = 1 << 10


def needed(store: Store) -> set[int]:
    """Return the keys of all that what lies in the packs of the space is made of."""
    assert store.replica is not None
    _space, packs = store.replica.connected()
    named = [one for number, note in packs.notes() for one in packs.named(number, note) or ()]
    return {key for one in named for key in memoryview(one.needs).cast("q")}


def test_what_was_cut_out_of_entries_is_made_use_of_here_alone(team: Team) -> None:
    a = team.open("a")
    text = noise(100 * KIB)
    cut_out, whole, brought = hash_bytes(text), edited(text, 0.3), edited(edited(text, 0.3), 0.7)
    context = a.contexts.create().context
    for payload in (said(text), whole, said(text + MORE)):
        a.contexts.append(context, payload, "some.type")
        a.checkpointer.flush()
    assert hash_key(cut_out) in a.intake.doomed
    assert deltas(a) == 2
    # of another that the space holds, which itself is made of one that it does not
    assert a.blobs.bases(hash_bytes(whole)) == [cut_out]
    name = a.intake.put(brought)
    assert deltas(a) == 3
    assert needed(a) == {hash_key(hash_bytes(whole))}
    # and if there is no other: whole
    other = noise(100 * KIB, 2)
    a.contexts.append(context, said(other), "some.type")
    a.checkpointer.flush()
    last = a.intake.put(edited(other, 0.5))
    assert deltas(a) == 3
    b = team.open("b")
    assert [b.blobs.blob(one) for one in (name, last)] == [brought, edited(other, 0.5)]
    for store in (a, b):
        assert fsck(store) == []
        store.close()
    team.agree("a", "b")


def test_what_was_cut_out_twice_is_there_once(team: Team) -> None:
    a = team.open("a")
    text = noise(100 * KIB)
    context = a.contexts.create().context
    sizes = []
    for number in range(3):
        payload = b'{"n":%d,"text":"%b"}' % (number, text)
        a.contexts.append(context, payload, "some.type")
        a.checkpointer.flush()
        sizes.append(sum(map(a.files.packs.length, a.files.packs.numbers())))
    assert sizes[2] - sizes[0] < 2 * KIB
    # by its own name the space does not hold it: who brings it brings it once more
    a.intake.put(text)
    assert hash_key(hash_bytes(text)) not in a.intake.doomed
    assert fsck(a) == []


def test_nothing_is_made_of_what_was_dropped(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    a = team.open("a")
    text = noise(100 * KIB)
    gone = a.contexts.create().context
    a.contexts.append(gone, said(text), "some.type")
    a.checkpointer.flush()
    delete(a, gone, a.writer.head(gone).tip)
    # the sweep of its packs is still to come
    with monkeypatch.context() as patch:
        patch.setattr("store.upkeep.gc.Sweep.choose", lambda _self, _part: iter(()))
        cleared(a)
    assert a.replica is not None
    assert a.replica.owes
    context = a.contexts.create().context
    a.contexts.append(context, said(text + MORE), "some.type")
    assert deltas(a) == 0
    cleared(a)
    assert not a.replica.owes
    assert not a.files.index.locate([hash_bytes(text)])
    a.contexts.append(context, said(text + MORE + MORE), "some.type")
    assert deltas(a) == 1
    assert fsck(a) == []
