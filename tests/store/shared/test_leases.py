"""Leases: what one machine of a space does for all, and what it leaves to those that are there."""

import threading
import time

import pytest

from store.commit.checkpointer import Learning
from store.errors import Conflict, NotFound
from store.ids import now_ms
from store.index.notes import KEPT_MS
from store.shared import presence
from store.store import Store
from tests.spaces import until
from tests.store.shared.test_spaces import Team, any_team, team

__all__ = ["any_team", "team"]

DAY_LATER = KEPT_MS + 60_000


def following(*stores: Store) -> None:
    for store in stores:
        store.writer.catch_up()


def enough_to_learn_from(store: Store) -> None:
    context = store.contexts.create().context
    for number in range(700):
        text = " ".join(f"word{number * 7919 % (10 + step)} of line {step}" for step in range(40))
        store.contexts.append(context, b'{"number":%d,"text":"%b"}' % (number, text.encode()), "test")


def test_one_machine_trains_the_dictionary_for_all(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    # neither does so by itself meanwhile
    assert a.replica is not None
    with a.replica.leases.held(a.replica.connected()[0].records, "dictionary") as other:
        assert other == 0
        enough_to_learn_from(a)
        following(b)
        b.checkpointer.flush()
        Learning(b.intake).learn()
        assert not b.intake.has_dictionary
    both = [threading.Thread(target=Learning(store.intake).learn) for store in (a, b)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    following(a, b)
    # who came second, once the first was done, has found it
    Learning(a.intake).learn()
    Learning(b.intake).learn()
    for store in (a, b):
        store.writer.settle()
        assert len(store.files.index.dictionaries()) == 1
        assert store.intake.has_dictionary
    assert a.intake.dictionary() == b.intake.dictionary() is not None
    a.close()
    b.close()
    any_team.agree("a", "b")


def test_who_wrongly_believes_to_hold_the_lease_commits_no_second_dictionary(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = team.open("a"), team.open("b")
    enough_to_learn_from(a)
    a.checkpointer.quiesce()
    following(b)
    assert b.replica is not None
    b.replica.close()
    learning = Learning(b.intake)
    samples = learning._samples()

    def slowly() -> list[bytes]:
        if not a.intake.has_dictionary:
            Learning(a.intake)._register(b"a dictionary of another machine, which came first" * 20)
        return samples

    monkeypatch.setattr(learning, "_samples", slowly)
    learning.learn()
    following(a, b)
    for store in (a, b):
        store.writer.settle()
        assert len(store.files.index.dictionaries()) == 1


def test_a_turn_of_a_machine_that_is_there_is_not_ended_by_another(
    any_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_AWAY_SECONDS", 0.3)
    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    turn = a.open_turns.open(context, "test")
    turn.add(b"half of it")
    following(b)
    assert a.replica is not None
    # the clock of b is a day ahead
    later = now_ms() + DAY_LATER
    assert b.open_turns.end_abandoned(later) == []
    for _look in range(3):
        time.sleep(0.2)
        a.replica.say()
        assert b.open_turns.end_abandoned(later) == []
    turn.add(b" and the rest")
    following(b)
    assert b.writer.texts.of()[0].text == b"half of it and the rest"
    # once nothing is heard of its machine any more, it is kept as it is
    a.close()
    assert b.open_turns.end_abandoned(later) == []
    time.sleep(0.4)
    [(text, sealed)] = b.open_turns.end_abandoned(later)
    assert sealed is not None
    assert b.contents.payload(sealed.turn_id) == text.text == b"half of it and the rest"
    again = any_team.open("a")
    assert again.open_turns.resume(context, turn.number).seal().turn_id == sealed.turn_id
    again.close()
    b.close()
    any_team.agree("a", "b")


def test_one_machine_ends_turns_at_a_time_and_its_own_at_once(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    turn = a.open_turns.open(context, "test")
    turn.add(b"left")
    following(b)
    later = now_ms() + DAY_LATER
    assert b.replica is not None
    with b.replica.leases.held(b.replica.connected()[0].records, "abandoned") as other:
        assert other == 0
        assert a.open_turns.end_abandoned(later) == []
    [(_text, sealed)] = a.open_turns.end_abandoned(later)
    assert sealed is not None
    until(lambda: b.writer.seq == a.writer.seq)
    assert b.writer.texts.of() == []


def test_who_goes_on_with_a_turn_that_another_machine_took_up_is_told(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    turn = a.open_turns.open(context, "test")
    turn.add(b"one")
    following(b)
    assert b.replica is not None
    b.replica.close()
    turn.add(b" two")
    theirs = b.open_turns.resume(context, turn.number)
    # as b knows the turn it has less
    with pytest.raises(Conflict):
        theirs.seal()
    following(b)
    assert b.contents.payload(theirs.seal().turn_id) == b"one two"
    # nothing is acknowledged that no turn gets
    with pytest.raises(NotFound):
        turn.add(b" three")
    with pytest.raises(NotFound):
        turn.abort()
    a.close()
    b.close()
    team.agree("a", "b")
