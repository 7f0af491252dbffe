"""Sealing of what a space has: less room, the same contents on all machines, whoever dies on the way."""

import os

import pytest

from store.errors import Conflict
from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.retention.pruner import delete
from store.shared import packs, remote
from store.shared.packs import Replacement
from store.store import Store
from store.upkeep.sealer import Sealed
from store.upkeep.space_sealer import LEASE, SpaceSealer
from tests.spaces import until
from tests.store.shared.redacting import SECRET, SECRETS
from tests.store.shared.test_collecting import collect, committed, loaded, objects, payload, said
from tests.store.shared.test_spaces import Team, any_team, team

__all__ = ["any_team", "team"]


def sealed_space(store: Store) -> Sealed:
    assert store.replica is not None
    steps = SpaceSealer(store.replica, store.intake).steps()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Sealed = end.value
            return found


def live(store: Store) -> list[packs.PackNote]:
    assert store.replica is not None
    return [note for _number, note in store.replica.connected()[1].notes() if not note.doomed_ms]


def filled(store: Store, count: int) -> dict[int, list[bytes]]:
    """Conversations of which each is brought in packs of its own."""
    payloads = [[payload(number), payload(number + 1), os.urandom(20)] for number in range(count)]
    return {committed(store, loaded(store, some)[1]): some for some in payloads}


def all_said(store: Store, expected: dict[int, list[bytes]]) -> bool:
    store.writer.catch_up()
    return all(said(store, context) == payloads for context, payloads in expected.items())


def test_packs_of_a_space_are_sealed_for_all_machines(any_team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team = any_team
    # none is small enough to be taken whole
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b = team.open("a"), team.open("b")
    expected = filled(a, 4) | filled(b, 4)
    assert all_said(a, expected)
    assert all_said(b, expected)
    assert a.replica is not None
    # one that does not follow, and has read nothing yet
    c = team.open("c")
    assert c.replica is not None
    c.replica.close()
    before = objects(a)
    done = sealed_space(a)
    # each was brought in a pack of its own
    assert done.packs == 8
    assert done.bytes_after < done.bytes_before / 2
    [note] = live(a)
    assert (note.sealed, note.again) == (True, True)
    assert all_said(b, expected)
    # the replaced ones go at once where somebody collects by hand
    collect(a)
    assert objects(a) < before / 2
    assert [said(c, context) for context in expected] == list(expected.values())
    d = team.open("d")
    for store in (a, b, c, d):
        assert all_said(store, expected)
        collect(store)
        assert all_said(store, expected)
        store.close()
    a = team.open("a")
    assert sealed_space(a) == Sealed()
    a.close()
    team.agree("a", "b", "c", "d")


def test_small_ones_never_pile_up(team: Team) -> None:
    a = team.open("a")
    expected: dict[int, list[bytes]] = {}
    for _run in range(12):
        expected |= filled(a, 2)
        sealed_space(a)
        # as many as the logarithm
        assert len(live(a)) <= 4
    assert all_said(team.open("b"), expected)


def test_collecting_by_hand_seals(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    expected = filled(a, 3)
    gone = next(iter(filled(a, 1)))
    # what another takes just then it brings again
    until(lambda: b.writer.seq == a.writer.seq)
    delete(a, gone, a.writer.head(gone).tip)
    assert collect(a).space_bytes > 0
    assert [note.sealed for note in live(a)] == [True], live(a)
    [note] = live(a)
    assert all_said(b, expected)
    # what else there is are its seal and those of the header
    assert note.length <= objects(a) < note.length + 1000


def test_one_machine_seals_at_a_time_and_an_admin(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    expected = filled(a, 2)
    assert a.replica is not None
    with a.replica.leases.held(a.replica.connected()[0].records, LEASE) as other:
        assert other == 0
        assert sealed_space(b) == Sealed()
        # nor are packs replaced by who collects meanwhile
        assert collect(b, wait=False).collector == 1
    assert sealed_space(b).packs == 2
    assert all_said(a, expected)


class Killed(Exception):
    pass


@pytest.mark.parametrize("at", ["before any", "between", "before they are doomed", "after some are"])
def test_who_dies_in_between_loses_nothing(team: Team, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b = team.open("a"), team.open("b")
    expected = filled(a, 5)
    assert all_said(b, expected)
    with monkeypatch.context() as patch:
        if at == "between":
            patch.setattr(packs, "PACK_BYTES", 1)
        publish, doom = packs.Packs.publish, packs.Packs.doom
        calls = [0]

        def published(self: packs.Packs, *args: object, **named: object) -> int:
            calls[0] += 1
            if at == "before any" or (at == "between" and calls[0] == 2):
                raise Killed
            return publish(self, *args, **named)  # type: ignore[arg-type]

        def doomed(self: packs.Packs, numbers: list[int], now_ms: int) -> None:
            if at == "after some are":
                doom(self, list(numbers)[:2], now_ms)
            raise Killed

        patch.setattr(packs.Packs, "publish", published)
        patch.setattr(packs.Packs, "doom", doomed)
        with pytest.raises(Killed):
            sealed_space(a)
    assert all_said(b, expected)
    collect(b)
    sealed_space(b)
    collect(a)
    c = team.open("c")
    for store in (a, b, c):
        assert all_said(store, expected)
        store.close()
    team.agree("a", "b", "c")


def test_what_was_dropped_and_brought_again_stays_whoever_collects(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a machine that was away, and knows the pack that it was brought in by what took its place alone."""
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b, c = team.open("a"), team.open("b"), team.open("c")
    old = committed(a, loaded(a, [payload(1)])[1])
    for store in (b, c):
        store.writer.catch_up()
    assert c.replica is not None
    c.close()
    delete(a, old, a.writer.head(old).tip)
    collect(a)
    b.writer.catch_up()
    again = committed(b, loaded(b, [payload(1)])[1])
    assert all_said(a, {again: [payload(1)]})
    sealed_space(a)
    collect(a)
    b.close()
    c = team.open("c")
    c.writer.catch_up()
    collect(c)
    d = team.open("d")
    for store in (a, c, d):
        assert all_said(store, {again: [payload(1)]})
    # and it can go once more
    delete(c, again, c.writer.head(again).tip)
    assert collect(c).space_bytes > 0
    assert live(c) == []
    for store in (a, c, d):
        store.close()


def test_a_replacement_that_nothing_is_left_of_dooms(team: Team) -> None:
    a = team.open("a")
    filled(a, 1)
    assert a.replica is not None
    known = a.replica.connected()[1]
    assert Replacement(known, sealed=True).finish([known.reached], 1) == 0
    assert live(a) == []


def test_a_writer_seals_nothing(team: Team) -> None:
    a = team.open("a")
    filled(a, 2)
    invited = remote.invite(team.root("a"), "writer")
    until(lambda: remote.accept(invited, team.root("w"), "w") is not None)
    w = team.open("w")
    assert w.replica is not None
    assert SpaceSealer(w.replica, w.intake).unsealed_bytes() == 0
    assert sealed_space(w) == Sealed()


@pytest.mark.parametrize("steps", [2, 3])
def test_what_is_redacted_meanwhile_is_not_published_again(team: Team, steps: int) -> None:
    a, b = team.open("a"), team.open("b")
    context = committed(a, loaded(a, [payload(1), b'{"key":"%b"}' % SECRET])[1])
    b.writer.catch_up()
    replica = b.replica
    assert replica is not None
    run = SpaceSealer(replica, b.intake).steps()
    for _step in range(steps):
        next(run)
    # by now it has all in memory
    Redaction(a, SECRETS).run()
    until(lambda: replica.generation == 1)
    with pytest.raises(Conflict):
        list(run)
    for store in (a, b):
        assert prove(store, SECRETS, ()).found == []
    assert sealed_space(b).packs
    c = team.open("c")
    assert SECRET not in b"".join(said(c, context))
    assert prove(c, SECRETS, ()).found == []
    assert a.replica is not None
    space, known = a.replica.connected()
    named = {note.key for _number, note in known.notes()} | {note.names for _number, note in known.notes()}
    assert {key for prefix in ("packs/", "names/") for key, _size in space.bucket.list(prefix)} <= named
    for number, note in known.notes():
        if note.key and (data := known.data(number, note)) is not None:
            names = [name for _record, some in packs.records_of(data, number) for name in some]
            assert not any(SECRET in bytes(c.blobs.blob(name)) for name in names)
