"""A replica that has no room for the turns of others: what reclaims them comes before they are in the log."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from store import paths
from store.conversations.contexts import Append
from store.retention.pruner import delete
from store.service import address
from store.store import Store
from tests.model import findings, freeze
from tests.spaces import until
from tests.store.shared.test_spaces import Team, team

__all__ = ["team"]

pytestmark = pytest.mark.usefixtures("small_journals")

TURNS = 1000
"""So many that their log is longer than a journal."""


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as `ulimit -f` does; beyond it, what is there cannot be written over, either."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def append(store: Store, count: int) -> int:
    context = store.contexts.create().context
    for _ in range(0, count, 100):
        store.contexts.append_many(context, [Append(b'"text"', "line")] * min(count, 100))
    return context


def reclaim(store: Store, *contexts: int) -> None:
    for context in contexts:
        delete(store, context, store.writer.head(context).tip)
    for _ in store.collector.steps(grace_seconds=0, least_part=0, dry_run=False):
        pass
    assert store.turns.get(store.files.turns.count).reclaimed


@pytest.mark.parametrize("room", [0, -40, -400], ids=["for no turn", "for a turn less", "for five turns less"])
@pytest.mark.logs("(waits in|left to) the journal", "a copy of this replica has been opened", sometimes=True)
def test_turns_that_are_reclaimed_before_they_are_written_do_not_come_back(team: Team, room: int) -> None:
    a, b = team.open("a"), team.open("b")
    append(a, TURNS)
    first = append(a, 5)
    until(lambda: b.files.turns.count == TURNS + 5)
    b.checkpointer.flush()
    b.close()
    second = append(a, 5)
    reclaim(a, first, second)
    seq = a.writer.seq
    a.close()
    dead = range(TURNS + 1, TURNS + 11)
    size = (team.root("b") / paths.TURN_LOG).stat().st_size + room
    with limited(size):
        b = team.open("b")
        until(lambda: b.writer.seq >= seq)
        assert all(b.turns.get(turn).reclaimed for turn in dead)
    left = freeze(b, team.root("left"))
    b.checkpointer.flush()
    assert all(b.turns.get(turn).reclaimed for turn in dead)
    b.close()
    team.agree("a", "b")
    # and where they come back from the journal
    with limited(size), Store.open(left) as killed:
        assert all(killed.turns.get(turn).reclaimed for turn in dead)
    with Store.open(left) as killed:
        assert all(killed.turns.get(turn).reclaimed for turn in dead)
        assert findings(killed) == []


@pytest.mark.logs("free space", "its disk is full", "left to the journal", sometimes=True)
def test_a_replica_is_opened_read_and_closed_without_a_free_byte(team: Team) -> None:
    a = team.open("a")
    context = append(a, 5)
    b = team.open("b")
    until(lambda: b.contexts.exists(context))
    b.close()
    with limited(0):
        b = team.open("b")
        assert len(b.contexts.last(context, 9)) == 5
        address.note(team.root("b"), b.files.directory)
        b.close()
    append(a, 5)
    a.close()
    with Store.open(team.root("b")) as b:
        until(lambda: b.writer.seq == a.writer.seq)
    team.agree("a", "b")
