"""Collecting in a space: what nothing leads to goes on all machines and from the space, and no more than that."""

import gc
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.commit.intake import Load
from store.commit.reliance import Region
from store.commit.request import NewTurn, Request
from store.disk.turn_format import Encoding
from store.errors import Conflict, Gone, NotFound
from store.ids import Hash, type_tag
from store.importing.group import Group
from store.importing.importer import Importer
from store.retention.pruner import delete
from store.shared import packs, remote
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.gc import Collected
from store.upkeep.space_sealer import SpaceSealer
from tests.conftest import scratch
from tests.store.shared.test_importing import another
from tests.store.shared.test_spaces import NAME, Team, any_team, team, until

__all__ = ["any_team", "team"]

ORDERS = 10_000 if os.environ.get("CONVFS_LARGE_TESTS") == "1" else 40
TEXTS = 6


def collect(store: Store, *, wait: bool = True) -> Collected:
    steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=False, wait=wait)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Collected = end.value
            return found


def payload(number: int) -> bytes:
    """A payload of which two in a row have contents in common, which are cut out of them."""
    words = ["\n".join(f"line {line} of text {text}" for line in range(300)) for text in (number, number + 1)]
    return b'{"type":"user","texts":["%b","%b"]}' % (words[0].encode(), words[1].encode())


def loaded(store: Store, payloads: list[bytes]) -> tuple[Load, list[Hash]]:
    """Write payloads as an import does, whose names are to be committed later."""
    load = store.intake.load()
    digests = load.payloads(payloads)
    load.sync()
    return load, digests


def committed(store: Store, digests: list[Hash]) -> int:
    turns = [NewTurn(digest, type_tag("test"), Encoding.JSON, 0, 1) for digest in digests]
    request = Request(None, turns=turns, types=store.writer.types_for(["test"]))
    return store.writer.submit(request).head.context


def said(store: Store, context: int) -> list[bytes]:
    turns = store.contexts.last(context, 100, latest=True)
    return [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns]


def objects(store: Store) -> int:
    assert store.replica is not None
    return sum(size for _key, size in store.replica.connected()[0].bucket.list("packs/"))


def packed(store: Store) -> int:
    """The bytes that a machine has, in packs of its own and of those of the space."""
    assert store.replica is not None
    return sum(map(store.files.packs.length, store.files.packs.numbers())) + store.replica.holdings.cache.size


def test_what_was_deleted_is_gone_from_the_space_and_from_all_machines(any_team: Team) -> None:
    team = any_team
    a, b = team.open("a"), team.open("b")
    kept = committed(a, loaded(a, [payload(0)])[1])
    large = os.urandom(3 << 20)
    context = committed(a, loaded(a, [payload(1), large])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    assert said(b, context) == [payload(1), large]
    delete(b, context, b.writer.head(context).tip)
    before = objects(a), packed(a), packed(b)
    until(lambda: a.writer.seq == b.writer.seq)
    done = collect(a)
    assert done.turns == 2
    assert done.space_bytes > len(large)
    assert objects(a) < before[0] - len(large)
    assert packed(a) < before[1] - len(large)
    until(lambda: b.writer.seq == a.writer.seq)
    collect(b)
    assert packed(b) < before[2] - len(large)
    assert said(a, kept) == said(b, kept) == [payload(0)]
    c = team.open("c")
    assert said(c, kept) == [payload(0)]
    # what is brought once more is a blob like any other
    again = committed(b, loaded(b, [payload(1)])[1])
    for store in (a, c):
        store.writer.catch_up()
        assert said(store, again) == [payload(1)]
    for store in (a, b, c):
        store.close()
    team.agree("a", "b", "c")


def test_what_running_work_relies_on_is_brought_again(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = committed(a, loaded(a, [payload(1)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    delete(a, context, a.writer.head(context).tip)
    # an import finds that it is there, and will name it; it hears of nothing before that
    assert b.replica is not None
    b.replica.close()
    load, digests = loaded(b, [payload(1)])
    assert collect(a).blobs >= 3
    assert a.intake.held(digests, Region(lambda _region: None)) == set()
    named = committed(b, digests)
    del load
    c = team.open("c")
    for store in (a, b, c):
        store.writer.catch_up()
        assert said(store, named) == [payload(1)]
        collect(store)
        assert said(store, named) == [payload(1)]
        store.close()
    team.agree("a", "b", "c")


def test_what_was_found_in_the_space_alone_and_has_gone_from_there_is_not_named(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no pack is small enough to be taken whole
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b = team.open("a"), team.open("b")
    assert b.replica is not None
    b.replica.close()
    context = committed(a, loaded(a, [payload(1)])[1])
    b.writer.catch_up()
    delete(a, context, a.writer.head(context).tip)
    load, digests = loaded(b, [payload(1)])
    # so that it has nothing of it at hand
    loaded(a, [payload(4)])
    collect(b)
    collect(a)
    with pytest.raises(Gone, match="bring it once more"):
        committed(b, digests)
    del load
    load, digests = loaded(b, [payload(1)])
    named = committed(b, digests)
    del load
    a.writer.catch_up()
    for store in (a, b):
        assert said(store, named) == [payload(1)]
        store.close()
    team.agree("a", "b")


def test_an_import_reads_once_more_what_has_gone_meanwhile(
    team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no pack is small enough to be taken whole
    monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    a, b = team.open("a"), team.open("b")
    assert b.replica is not None
    b.replica.close()
    text = "\n".join(f"line {line} of a long text" for line in range(2000))
    first, second = (another(tmp_path, number, text)[0] for number in (1, 2))
    assert Importer(a).run([first]).imported == 1
    b.writer.catch_up()
    for entry in a.catalogue.every():
        delete(a, entry.id, a.writer.head(entry.id).tip)
    # what an import relies on goes with it
    gc.collect()
    commit, times = Group.commit, []

    def late(self: Group) -> None:
        if self._endings and not times:
            # so that it has nothing of it at hand
            loaded(a, [payload(4)])
            collect(b)
            collect(a)
            b.intake.resolver.forget()
        times.extend([1] * len(self._endings))
        commit(self)

    monkeypatch.setattr(Group, "commit", late)
    # it has the same text, which b finds in the space
    report = Importer(b).run([second])
    assert (report.imported, report.errors) == (1, [])
    assert len(times) == 2
    a.writer.catch_up()
    for store in (a, b):
        assert [finding for finding in fsck(store) if finding.severity == "error"] == []
        store.close()
    team.agree("a", "b")


def test_content_that_is_put_and_named_later_stays(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    data = os.urandom(40_000)
    name = a.intake.put(data)
    context = a.contexts.create(metadata={"artifact/out": {"blob": name.hex()}}).context
    until(lambda: b.writer.seq == a.writer.seq)
    delete(a, context, a.writer.head(context).tip)
    # once more, by who relies on it for an hour
    assert b.intake.put(data) == name
    collect(a)
    b.contexts.create(metadata={"artifact/out": {"blob": name.hex()}})
    a.writer.catch_up()
    assert a.blobs.blob(name) == b.blobs.blob(name) == data
    a.close()
    b.close()
    team.agree("a", "b")


def test_turns_that_another_machine_is_about_to_show_stay(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    load, digests = loaded(b, [payload(1), payload(2)])
    turns = [NewTurn(digest, type_tag("test"), Encoding.JSON, 0, 1) for digest in digests]
    first = b.writer.submit(Request(0, turns=turns, types=b.writer.types_for(["test"]))).written[-1].turn_id
    a.writer.catch_up()
    assert collect(a).turns == 0
    context = b.writer.submit(Request(None, parent=first, turns=turns[:1])).head.context
    del load
    a.writer.catch_up()
    assert said(a, context) == [payload(1), payload(2), payload(1)]


def test_one_machine_collects_at_a_time(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = committed(a, loaded(a, [payload(1)])[1])
    until(lambda: b.writer.seq == a.writer.seq)
    delete(a, context, a.writer.head(context).tip)
    assert a.replica is not None
    with a.replica.leases.held(a.replica.connected()[0].records, "gc") as other:
        assert other == 0
        done = collect(b, wait=False)
        assert (done.collector, done.freed_bytes) == (1, 0)
    assert collect(b).collector == 0


class Machines:
    """Two machines of a space that follow it when they are told to, and what their conversations hold."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.stores = [self.opened(name) for name in ("a", "b")]
        self.loads: list[list[tuple[Load, list[Hash], list[bytes]]]] = [[], []]
        self.expected: dict[int, list[bytes]] = {}

    def opened(self, name: str) -> Store:
        store = self.team.open(name)
        assert store.replica is not None
        store.replica.close()
        return store

    def step(self, machine: int, what: str, number: int) -> None:
        store, loads = self.stores[machine], self.loads[machine]
        if what == "load":
            payloads = [payload(number), payload((number + 3) % TEXTS)]
            loads.append((*loaded(store, payloads), payloads))
        elif what == "name" and loads:
            _load, digests, payloads = loads.pop(number % len(loads))
            try:
                context = committed(store, digests)
            except Gone:
                # as an import does
                _load, digests = loaded(store, payloads)
                context = committed(store, digests)
            self.expected[context] = payloads
        elif what == "append":
            context = store.contexts.create().context
            store.contexts.append(context, payload(number), "test")
            self.expected[context] = [payload(number)]
        elif what == "edit":
            # one that changes nothing is none
            store.writer.catch_up()
            for context in self.known(store)[:1]:
                first = store.contexts.last(context, 100)[0].turn_id
                store.contexts.patch(context, {first: payload(number)})
                self.expected[context][0] = payload(number)
        elif what == "delete":
            for context in self.known(store)[number % 2 : number % 2 + 1]:
                try:
                    delete(store, context, store.writer.head(context).tip)
                except (Conflict, NotFound):
                    continue
                del self.expected[context]
        elif what == "follow":
            store.writer.catch_up()
        elif what == "collect":
            collect(store)
        elif what == "seal":
            for _pause in store.sealer.steps():
                pass
        elif what == "seal the space":
            assert store.replica is not None
            for _pause in SpaceSealer(store.replica, store.intake).steps():
                pass
        elif what == "restart" and not loads:
            store.close()
            self.stores[machine] = self.opened("ab"[machine])

    def known(self, store: Store) -> list[int]:
        return [context for context in self.expected if store.contexts.exists(context)]

    def finish(self) -> None:
        for machine in (0, 1):
            while self.loads[machine]:
                self.step(machine, "name", 0)
        self.stores.append(self.opened("c"))
        for store in self.stores:
            store.writer.catch_up()
            for context, payloads in self.expected.items():
                assert said(store, context) == payloads
            assert [finding for finding in fsck(store) if finding.severity == "error"] == []
            store.close()
        self.team.agree("a", "b", "c")


OFTEN = ("load", "name", "delete", "follow", "collect")
SELDOM = ("append", "edit", "seal", "restart", "seal the space", "seal the space")
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from((*OFTEN, *OFTEN, *OFTEN, *SELDOM)),
    st.integers(0, TEXTS - 1),
)


@pytest.mark.timeout(60 + 2 * ORDERS)
@settings(max_examples=ORDERS, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=8, max_size=24), st.booleans())
def test_collecting_and_importing_in_any_order(steps: list[tuple[int, str, int]], by_names: bool) -> None:
    directory = scratch()
    try:
        with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
            if by_names:
                # no pack is small enough to be taken whole
                patch.setattr(packs, "WHOLE_BYTES", 0)
            place = Place(str(directory / "server"))
            remote.init(place, NAME)
            machines = Machines(Team(directory, place, NAME, held))
            for step in steps:
                machines.step(*step)
            machines.finish()
    finally:
        shutil.rmtree(directory)
