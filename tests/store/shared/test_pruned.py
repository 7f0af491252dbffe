"""Pruning in a space: nothing is left on any machine, and those are named that have not come so far."""

import os
from pathlib import Path

import pytest

from store import paths
from store.redaction.clearing import clear
from store.redaction.proof import prove
from store.redaction.secrets import Secrets
from store.retention.pruner import delete
from store.service import jobs
from store.service.upkeep import _uncollected
from store.shared import generations, packs, remote
from store.shared.packs import records_of
from store.store import Store
from store.upkeep.gc import Collected
from tests.store.shared.test_collecting import committed, loaded, said
from tests.store.shared.test_space_sealing import sealed_space
from tests.store.shared.test_spaces import Team, any_team, team

__all__ = ["any_team", "team"]

KNOWN = b"the plan of the yellow submarine"


def cleared(store: Store, *, grace_seconds: float = 0) -> Collected:
    """Collect as ``convfs gc`` does, or with some grace as a daemon."""
    least = 0 if not grace_seconds else 0.25
    steps = jobs.cleared(
        store, store.collector.steps(grace_seconds=grace_seconds, least_part=least, dry_run=False, wait=False)
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Collected = end.value
            return found


def texts(number: int) -> list[bytes]:
    """Payloads of a conversation: the known text in a record, and in contents that are cut out of one."""
    lines = "\\n".join(f"line {line} of {number}" for line in range(400))
    short = b'{"type":"user","message":{"role":"user","content":"%d: %b"}}' % (number, KNOWN)
    long = b'{"type":"user","message":{"role":"user","content":"%b\\n%b"}}' % (KNOWN, lines.encode())
    return [short, long]


def index_all(store: Store) -> None:
    for derived in (store.search, store.texts):
        while derived.step():
            pass


def left(store: Store) -> list[str]:
    """The places of a machine where the known text still is."""
    return prove(store, Secrets([KNOWN]), ()).found


def in_space(store: Store) -> bool:
    """Return whether a pack of the space has the known text, whatever it is packed in."""
    assert store.replica is not None
    known = store.replica.connected()[1]
    for number, note in known.notes():
        data = known.data(number, note) if note.key else None
        for _record, names in records_of(data, number) if data is not None else ():
            if any(KNOWN in bytes(store.blobs.blob(name)) for name in names if store.files.index.locate([name])):
                return True
    return False


def named(store: Store) -> list[str]:
    return [machine for machine, _ms in _uncollected(store)]


def test_each_machine_says_that_nothing_is_left_once_a_look_has_shown_it(
    any_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = any_team
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b, c = team.open("a"), team.open("b"), team.open("c")
    kept = committed(a, loaded(a, [b'{"type":"user","text":"kept"}'])[1])
    gone = committed(a, loaded(a, texts(1))[1])
    for store in (b, c):
        store.writer.catch_up()
        # through the cache
        assert said(store, gone) == texts(1)
    for store in (a, b, c):
        index_all(store)
        assert in_space(store)
    assert left(a)
    assert b.replica is not None
    assert b.replica.holdings.cache.size
    # nothing was dropped so far
    assert named(a) == []
    c.close()
    delete(a, gone, a.writer.head(gone).tip)
    assert cleared(a).cleared
    assert left(a) == []
    b.writer.catch_up()
    assert named(a) == named(b) == ["b", "c"]
    # as a daemon does by itself: the packs are new, and hardly anything else is in them
    done = cleared(b, grace_seconds=3600)
    assert a.replica is not None
    assert done.cleared == a.replica.dropped
    assert left(b) == []
    assert named(b) == ["c"]
    status = remote.status(team.root("a"))
    assert [member.machine for member in status.members if member.collected < status.dropped] == ["c"]
    assert all(member.seen_ms for member in status.members)
    c = team.open("c")
    assert named(a) == ["c"]
    cleared(c)
    assert named(a) == named(c) == []
    d = team.open("d")
    for store in (a, b, c, d):
        assert left(store) == []
        assert not in_space(store)
        assert said(store, kept) == [b'{"type":"user","text":"kept"}']
        store.close()
    team.agree("a", "b", "c", "d")


def test_what_is_still_there_is_not_said_to_be_gone(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    a = team.open("a")
    gone = committed(a, loaded(a, texts(1))[1])
    index_all(a)
    delete(a, gone, a.writer.head(gone).tip)
    assert a.replica is not None
    # a sweep that leaves what it should remove
    with monkeypatch.context() as patch:
        patch.setattr("store.upkeep.gc.Sweep.choose", lambda _self, _part: iter(()))
        assert cleared(a).cleared == 0
    assert named(a) == ["a"]
    assert a.replica.owes
    # and packs that turn up again, of which the index knows nothing
    cleared_upto = a.replica.dropped
    a.files.index.forget_packs(list(a.files.packs.numbers()))
    with pytest.MonkeyPatch.context() as patch:
        logged: list[str] = []
        patch.setattr("store.redaction.clearing._LOG.warning", lambda text, *_words: logged.append(text))
        for _pause in clear(a, cleared_upto):
            pass
    assert len(logged) == 1
    assert named(a) == ["a"]


def test_rows_of_databases_are_erased_from_their_files(team: Team) -> None:
    a = team.open("a")
    gone = committed(a, loaded(a, texts(1))[1])
    index_all(a)
    assert left(a)
    delete(a, gone, a.writer.head(gone).tip)
    assert cleared(a).cleared
    for name in (paths.SEARCH, paths.TEXTS):
        for path in (a.root / name, Path(f"{a.root / name}-wal")):
            assert not path.exists() or KNOWN not in path.read_bytes()


def test_a_machine_of_before_says_nothing_and_is_named(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    gone = committed(a, loaded(a, [os.urandom(40_000)])[1])
    delete(a, gone, a.writer.head(gone).tip)
    assert a.replica is not None
    records = a.replica.connected()[0].records
    b.close()
    record = records.record(f"{generations.SEEN}{2:06}")
    records.swap(record.key, record.version, b'{"ms":5,"seq":1,"generation":0}')
    cleared(a)
    assert a.replica.uncollected() == [("b", 5)]
    # what it had applied without noting it, it finds in its log
    b = team.open("b")
    assert b.replica is not None
    b.replica._published.note(dropped=0, collected=0)
    assert cleared(b).cleared == a.replica.dropped
    assert named(a) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_a_content_goes_from_among_others_that_stay(
    team: Team, monkeypatch: pytest.MonkeyPatch, *, sealed: bool
) -> None:
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b = team.open("a"), team.open("b")
    others = [b'{"type":"user","text":"kept, %d"}' % number for number in range(50)]
    # brought together
    digests = loaded(a, [*others, *texts(1)])[1]
    kept, gone = committed(a, digests[: len(others)]), committed(a, digests[len(others) :])
    if sealed:
        assert sealed_space(a).packs
    b.writer.catch_up()
    assert in_space(a)
    delete(a, gone, a.writer.head(gone).tip)
    cleared(a)
    b.writer.catch_up()
    cleared(b)
    assert named(a) == []
    c = team.open("c")
    for store in (a, b, c):
        assert not in_space(store)
        assert left(store) == []
        assert said(store, kept) == others
        store.close()
    team.agree("a", "b", "c")
