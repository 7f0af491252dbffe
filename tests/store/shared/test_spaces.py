"""A space in a directory, and stores of several machines that are replicas of it."""

import filecmp
import hashlib
import json
import os
import re
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fusefs.text.render import FileRenderer
from store import paths
from store.commit import patience
from store.conversations.contexts import Contexts
from store.disk.head_format import ContextCreated, HeadFrame
from store.editing.keeper import Keeper
from store.errors import Conflict, DamageError, FormatTooNew, NotFound, StoreBusy, StoreFailed, Unreachable, UsageError
from store.events.conversation import ARTIFACTS, Change
from store.ids import hash_bytes
from store.importing.importer import Importer
from store.index.beside import remove_database
from store.shared import remote, sessions
from store.shared.connect import connect
from store.shared.entry import Entry, new_token
from store.shared.space import Place, membership
from store.store import Store
from store.upkeep.fsck import fsck
from tests.spaces import MAKERS, let_in, said, spaces, until

NAME = "team"
FROZEN = Path(__file__).parents[2] / "frozen" / "space-1.tar.gz"
LARGE = 3 << 20


class Team:
    """A space, and replicas of it by name."""

    def __init__(self, directory: Path, place: Place, name: str, held: ExitStack) -> None:
        self.directory = directory
        self.place = place
        self.name = name
        self.space = directory / "server" / name
        """Where it is, if it is in a directory."""
        self._held = held
        self._first: Path | None = None

    def root(self, name: str) -> Path:
        return self.directory / name

    def open(self, name: str, machine: str = "") -> Store:
        if membership(self.root(name)) is None:
            if self._first is None:
                self._first = self.root(name)
                remote.join(self.place, self.name, self._first, machine or name)
            else:
                let_in(self._first, self.root(name), machine or name)
        store = Store.open(self.root(name), renderer=FileRenderer())
        self._held.callback(close, store)
        return store

    def agree(self, *names: str) -> None:
        """See that closed replicas, opened once more, have the same logs and are sound."""
        for name in names:
            with Store.open(self.root(name), renderer=FileRenderer()) as store:
                assert [finding for finding in fsck(store) if finding.severity == "error"] == []
        for log in (paths.TURN_LOG, paths.HEAD_LOG):
            for name in names[1:]:
                assert filecmp.cmp(self.root(names[0]) / log, self.root(name) / log, shallow=False)


def close(store: Store) -> None:
    with suppress(StoreFailed):
        store.close()


@pytest.fixture
def team(memory_path: Path) -> Iterator[Team]:
    place = Place(str(memory_path / "server"))
    remote.init(place, NAME)
    with ExitStack() as held:
        yield Team(memory_path, place, NAME, held)


@pytest.fixture(params=MAKERS)
def any_team(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Team]:
    place, name = spaces(request, request.param, memory_path / "server").make()
    with ExitStack() as held:
        yield Team(memory_path, place, name, held)


def test_what_one_machine_does_is_in_the_other_and_told(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    changes: list[Change] = []
    b.observers.add(changes.append)
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    first = a.contexts.append(context, b'"one"', "line")
    until(lambda: any(change.tip == first.turn_id for change in changes))
    assert (changes[0].created, changes[0].described) == (True, True)
    assert said(b, context) == [b'"one"']
    assert b.catalogue.entry(context).name == "first"
    # the other way, behind what has come
    second = b.contexts.append(context, b'"two"', "line")
    until(lambda: a.writer.head(context).turn == second.turn_id)
    patched = a.contexts.patch(context, {first.turn_id: b'"ONE"'})
    until(lambda: b.writer.head(context).patch == patched.patch)
    assert said(b, context) == [b'"ONE"', b'"two"']
    a.close()
    b.close()
    any_team.agree("a", "b")


def test_contents_in_packs_are_there_before_their_names(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    # beginning as no JSON does, of which strings would be cut out
    contents = [b"\0" + os.urandom(LARGE), b"small", b"\0" + os.urandom(40_000)]
    names = [a.intake.put(data) for data in contents]
    context = a.contexts.create(metadata={"artifact/out": {"blob": names[0].hex()}}).context
    until(lambda: b.writer.seq == a.writer.seq)
    assert b.catalogue.entry(context).metadata["artifact/out"] == {"blob": names[0].hex()}
    assert [b.blobs.blob(name) for name in names] == contents
    space = connect(any_team.place, any_team.name)
    packs = list(space.bucket.list("packs/"))
    # what came from the other machine is held, and published no more
    assert [b.intake.put(data) for data in contents] == names
    assert list(space.bucket.list("packs/")) == packs
    space.close()


def test_what_is_put_once_more_after_a_day_stays_on_all_machines(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    data = b"\0" + os.urandom(LARGE)
    name = a.intake.put(data)
    space = connect(any_team.place, any_team.name)
    packs = set(space.bucket.list("packs/"))
    for pack in a.writer.packs.numbers():
        os.utime(a.writer.packs.path(pack), ns=(0, 0))
    # as it was written long ago, the others are told that it is to stay
    assert a.intake.put(data) == name
    again = set(space.bucket.list("packs/"))
    assert len(again - packs) == 1
    # and no more for an hour
    assert a.intake.put(data) == name
    assert set(space.bucket.list("packs/")) == again
    a.contexts.create()
    until(lambda: b.writer.seq == a.writer.seq)
    assert b.intake.put(data) == name
    assert set(space.bucket.list("packs/")) == again
    space.close()


def test_a_pack_that_was_not_published_is_before_anything_is_committed(any_team: Team) -> None:
    a = any_team.open("a")
    data = os.urandom(40_000)
    context = a.contexts.create().context
    replica = a.replica
    assert replica is not None
    # as if killed after its packs were written, and before they were published
    a.intake.publish = None
    a.intake.published = lambda _end: None
    name = a.intake.put(data)
    a.close()
    a = any_team.open("a")
    assert a.intake.put(data) == name
    turn = a.contexts.append(context, data, "file")
    assert turn.payload_hash == name
    b = any_team.open("b")
    assert b.blobs.blob(b.contexts.last(context, 1)[0].payload_hash) == data
    assert [finding for finding in fsck(b) if finding.severity == "error"] == []


def test_who_was_not_there_catches_up(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    until(lambda: b.writer.seq == a.writer.seq)
    b.close()
    for number in range(50):
        a.contexts.append(context, json.dumps({"number": number}).encode(), "line")
    a.contexts.append(context, os.urandom(LARGE), "file")
    expected = said(a, context)
    a.close()
    b = any_team.open("b")
    assert said(b, context) == expected
    c = any_team.open("c")
    assert said(c, context) == expected
    b.close()
    c.close()
    any_team.agree("a", "b", "c")


def test_all_at_once(any_team: Team) -> None:
    stores = [any_team.open("a"), any_team.open("b"), any_team.open("c")]
    context = stores[0].contexts.create().context
    for store in stores:
        until(lambda store=store: store.contexts.exists(context))

    def work(store: Store, own: str) -> None:
        for number in range(20):
            data = f'"{own} {number}"'.encode()
            store.contexts.append(context, data, "line", idempotency_key=data)
        store.contexts.create(metadata={"project": "shop", "name": own})

    threads = [
        threading.Thread(target=work, args=(store, f"{at} {number}"))
        for at, store in enumerate(stores)
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.writer.catch_up()
    lines = said(stores[0], context)
    assert len(lines) == len(set(lines)) == 180
    for own in (f"{at} {number}" for at in range(3) for number in range(3)):
        # each in the order in which it was said
        mine = [line for line in lines if line.startswith(f'"{own} '.encode())]
        assert mine == [f'"{own} {number}"'.encode() for number in range(20)]
    for store in stores:
        store.close()
    any_team.agree("a", "b", "c")


def test_expectations_hold_for_all_machines(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    for store in (a, b):
        assert store.replica is not None
        # each goes by what it had when it last committed
        store.replica.close()
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    turn = a.contexts.append(context, b"1", "line", idempotency_key=b"key")
    b.writer.catch_up()
    a.contexts.append(context, b"2", "line")
    with pytest.raises(Conflict):
        b.contexts.append(context, b"3", "line", expected_head=turn.turn_id)
    # the key of another machine's append
    assert b.contexts.append(context, b"1", "line", idempotency_key=b"key").turn_id == turn.turn_id
    a.contexts.append(context, b"4", "line")
    # a context that this one has not seen yet
    other = a.contexts.create().context
    b.contexts.append(other, b"5", "line")
    assert said(b, context) == [b"1", b"2", b"4"]


def session(directory: Path, text: str) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / ".aider.chat.history.md"
    path.write_text(f"\n# aider chat started at 2026-03-05 12:00:00\n\n#### {text}\n\nYes.\n")
    return path


def test_files_at_the_same_path_on_two_machines_are_two(any_team: Team, tmp_path: Path) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    path = session(tmp_path / "shop", "What is on the desktop?")
    assert Importer(a).run([path]).imported == 1
    b.writer.catch_up()
    path.write_text(path.read_text().replace("desktop", "laptop"))
    assert Importer(b).run([path]).imported == 1
    assert Importer(b).run([path]).unchanged >= 1
    with path.open("a") as file:
        file.write("\n#### And now?\n\nNothing.\n")
    report = Importer(b).run([path])
    assert (report.imported, report.grown) == (0, 1)
    a.writer.catch_up()
    machines = [entry.metadata["machine"] for entry in a.catalogue.every()]
    assert sorted(machines) == ["a", "b"]


def test_labels_that_machines_give_at_once_are_all_there(any_team: Team) -> None:
    stores = [any_team.open(name) for name in "abc"]
    contexts = [
        stores[0].contexts.create(metadata={"project": "shop", "name": f"c{number}"}).context for number in range(3)
    ]
    for store in stores:
        store.writer.catch_up()

    def label(number: int, store: Store) -> None:
        keeper = Keeper(store)
        for count in range(5):
            keeper.relabel(contexts[0], add=[f"one-{number}-{count}"])
            keeper.relabel_all(contexts, add=[f"all-{number}-{count}"])

    threads = [threading.Thread(target=label, args=one) for one in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {f"all-{number}-{count}" for number in range(3) for count in range(5)}
    single = {f"one-{number}-{count}" for number in range(3) for count in range(5)}
    for store in stores:
        store.writer.catch_up()
        for context in contexts:
            labels = store.catalogue.entry(context).metadata["labels"]
            assert set(labels) == (wanted | single if context == contexts[0] else wanted)
            assert len(labels) == len(set(labels))


def test_who_waits_for_a_number_holds_up_no_other_conversation(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    a = team.open("a")
    far, near = (a.contexts.create(metadata={"project": "p", "name": name}).context for name in "xy")
    asked, comes = threading.Event(), threading.Event()
    exchange = Contexts.exchange_metadata

    def asking(contexts: Contexts, context: int, *given: Any) -> object:  # noqa: ANN401  (those of the method)
        if context == far:
            asked.set()
            assert comes.wait(60)
        return exchange(contexts, context, *given)

    monkeypatch.setattr(Contexts, "exchange_metadata", asking)
    begun: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: begun.append(a.artifacts.begin(one, ARTIFACTS, "make")), daemon=True)
        for one in (far, near)
    ]
    threads[0].start()
    assert asked.wait(60)
    threads[1].start()
    threads[1].join(30)
    try:
        assert begun == ["0.make.log"]
        # who is not to wait is told
        with patience.at_most(0.1), pytest.raises(Unreachable):
            a.artifacts.begin(far, ARTIFACTS, "make")
    finally:
        comes.set()
        for thread in threads:
            thread.join()
    assert len(begun) == 2


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_output_takes_no_name_that_another_machine_has_taken(team: Team, elsewhere: bool) -> None:
    a, b = team.open("a"), team.open("b")
    context, other = (a.contexts.create(metadata={"project": "p", "name": name}).context for name in "xy")
    target = other if elsewhere else context

    def write(store: Store, context: int, name: str, data: bytes) -> None:
        assert store.artifacts.begin(context, ARTIFACTS, name) == name
        store.artifacts.add(context, ARTIFACTS, name, data)
        store.artifacts.end(context, ARTIFACTS, name)

    def kept(store: Store, context: int) -> dict[str, bytes]:
        store.writer.catch_up()
        listed = store.artifacts.listed(context, ARTIFACTS)
        return {
            name: store.artifacts.reader(context, ARTIFACTS, output).read(0, 1 << 10) for name, output in listed.items()
        }

    write(a, context, "0.make.log", b"of a")
    chosen = a.artifacts.numbers(target, ARTIFACTS)
    b.writer.catch_up()
    write(b, target, "5.make.log", b"of b")
    with pytest.raises(Conflict):
        a.artifacts.move(context, ARTIFACTS, "0.make.log", "5.make.log", target=target, since=chosen)
    before = [{"0.make.log": b"of a"}, {"5.make.log": b"of b"}]
    for store in (a, b):
        assert [kept(store, one) for one in (context, target)] == (before if elsewhere else [before[0] | before[1]] * 2)
    # whoever has seen it replaces it
    a.artifacts.move(context, ARTIFACTS, "0.make.log", "5.make.log", target=target)
    for store in (a, b):
        assert kept(store, target) == {"5.make.log": b"of a"}
    a.close()
    b.close()
    team.agree("a", "b")


def test_a_store_of_one_machine_says_nothing_of_machines(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        assert Importer(store).run([session(tmp_path / "shop", "Hello?")]).imported == 1
        assert [entry for entry in store.catalogue.every() if "machine" in entry.metadata] == []


@pytest.mark.logs(r"since \d\d:\d\d .*(cannot be reached|there is no space)")
def test_a_space_that_is_away(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    a.contexts.append(context, b"1", "line")
    b.writer.catch_up()
    away = team.space.rename(team.space.with_name("away"))
    with pytest.raises(Unreachable, match=r"since \d\d:\d\d the space .* cannot be reached"):
        a.contexts.append(context, b"2", "line")
    with pytest.raises(Unreachable):
        a.intake.put(os.urandom(40_000))
    with pytest.raises(Unreachable):
        # perhaps that is the head by now
        a.contexts.append(context, b"2", "line", expected_head=0)
    assert said(a, context) == [b"1"]
    b.close()
    b = team.open("b")
    assert said(b, context) == [b"1"]
    away.rename(team.space)
    a.contexts.append(context, b"2", "line")
    until(lambda: b.writer.head(context).depth == 1)
    b.contexts.append(context, b"3", "line")
    a.close()
    b.close()
    team.agree("a", "b")


def kept(team: Team) -> Callable[[], None]:
    """Return a function that puts a space back as it is now."""
    if team.place.directory:
        earlier = team.directory / "earlier"
        shutil.copytree(team.space, earlier)

        def put_back() -> None:
            shutil.rmtree(team.space)
            shutil.copytree(earlier, team.space)

        return put_back
    with psycopg.connect(team.place.postgres) as connection:
        which = f"space = (SELECT id FROM convfs.space WHERE name = '{team.name}')"
        rows = {
            table: connection.execute(f"SELECT * FROM convfs.{table} WHERE {which}").fetchall()
            for table in ("entry", "record")
        }
        seq = connection.execute("SELECT seq FROM convfs.space WHERE name = %s", [team.name]).fetchone()
    assert seq is not None

    def put_rows_back() -> None:
        with psycopg.connect(team.place.postgres) as connection:
            for table, found in rows.items():
                connection.execute(f"DELETE FROM convfs.{table} WHERE {which}")
                for row in found:
                    connection.execute(f"INSERT INTO convfs.{table} VALUES ({', '.join(['%s'] * len(row))})", row)
            connection.execute("UPDATE convfs.space SET seq = %s WHERE name = %s", [seq[0], team.name])

    return put_rows_back


@pytest.mark.logs("does not have commit|does not have the last commits", sometimes=True)
def test_a_space_that_has_lost_commits_is_repaired(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    a.contexts.append(context, b"1", "line")
    b = any_team.open("b")
    a.close()
    b.close()
    put_back = kept(any_team)
    a, b = any_team.open("a"), any_team.open("b")
    data = [b"2", b"small and inline", os.urandom(LARGE)]
    for one in data:
        a.contexts.append(context, one, "line")
    b.writer.catch_up()
    a.close()
    b.close()
    put_back()
    a = any_team.open("a")
    with pytest.raises(Unreachable, match="convfs remote repair"):
        a.contexts.append(context, b"no", "line")
    assert said(a, context) == [b"1", *data]
    assert a.replica is not None
    assert a.replica.repair() == 3
    assert a.replica.repair() == 0
    # it goes on by itself, and so does who knew the same
    a.contexts.append(context, b"3", "line")
    b = any_team.open("b")
    b.contexts.append(context, b"4", "line")
    c = any_team.open("c")
    c.writer.catch_up()
    assert said(c, context) == [b"1", *data, b"3", b"4"]
    for store in (a, b, c):
        store.close()
    any_team.agree("a", "b", "c")


@pytest.mark.logs("went on without them")
def test_a_space_that_went_on_without_commits_is_not_written_to(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    a.close()
    put_back = kept(any_team)
    a = any_team.open("a")
    a.contexts.append(context, b"1", "line")
    a.close()
    put_back()
    b = any_team.open("b")
    b.contexts.append(context, b"another", "line")
    b.close()
    a = any_team.open("a")
    with pytest.raises(StoreFailed, match="convfs push"):
        a.contexts.append(context, b"2", "line")
    assert said(a, context) == [b"1"]
    assert a.replica is not None
    with pytest.raises(UsageError, match="went on without them"):
        a.replica.repair()


@pytest.mark.logs("a copy of this replica")
def test_of_a_replica_and_its_copy_one_goes_on(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    a.close()
    shutil.copytree(any_team.root("a"), any_team.root("copy"))
    copy = any_team.open("copy")
    assert f"this is a copy of the replica at {any_team.root('a')}: only the one" in "".join(copy.files.notes)
    copy.contexts.append(context, b"1", "line")
    a = any_team.open("a")
    # what goes to other stores from either is the same there
    assert copy.store_id == a.store_id == a.files.files_id
    with pytest.raises(StoreFailed, match="convfs remote adopt"):
        a.contexts.append(context, b"2", "line")
    assert a.contexts.exists(context)
    with pytest.raises(StoreBusy):
        remote.adopt(any_team.root("a"), "another")
    a.close()
    adopted = remote.adopt(any_team.root("a"), "another")
    assert (adopted.number, adopted.machine) == (2, "another")
    a = any_team.open("a")
    a.contexts.append(context, b"2", "line")
    copy.contexts.append(context, b"3", "line")
    a.writer.catch_up()
    assert said(a, context) == [b"1", b"2", b"3"]
    a.close()
    copy.close()
    any_team.agree("a", "copy")


@pytest.mark.logs("a copy of this replica", sometimes=True)
def test_whose_copy_is_opened_meanwhile_does_not_go_on(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    shutil.copytree(any_team.root("a"), any_team.root("copy"))
    any_team.open("copy")
    until(lambda: a.writer.read_only)
    with pytest.raises(StoreFailed, match="convfs remote adopt"):
        a.contexts.append(context, b"1", "line")


def test_who_dies_while_it_takes_its_session_is_no_copy(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    a.close()
    path = any_team.root("a") / "published"
    for step in ("noted", "taken"):
        published = json.loads(path.read_bytes())
        if step == "taken":
            space = connect(any_team.place, any_team.name)
            record = sessions.of(space.records, 1)
            assert space.records.swap(record.key, record.version, b"new")
            space.close()
        path.write_text(json.dumps(published | {"sessions": [*published["sessions"], "new"]}))
        a = any_team.open("a")
        a.contexts.append(context, b"1", "line")
        a.close()


@pytest.mark.logs("is another one than")
def test_another_space_of_the_same_name(team: Team) -> None:
    a = team.open("a")
    a.contexts.create()
    a.close()
    shutil.rmtree(team.space)
    remote.init(team.place, NAME)
    a = team.open("a")
    with pytest.raises(StoreFailed, match="another one than"):
        a.contexts.create()


@pytest.mark.logs("entry of the space is damaged")
def test_a_damaged_entry_is_not_applied(team: Team) -> None:
    a = team.open("a")
    context = a.contexts.create().context
    a.contexts.append(context, b"1", "line")
    a.close()
    entries = sorted((team.space / "log").iterdir())
    data = bytearray(entries[-1].read_bytes())
    data[-10] ^= 1
    entries[-1].write_bytes(data)
    b = team.open("b")
    assert b.contexts.exists(context)
    with pytest.raises(StoreFailed, match="damaged"):
        b.contexts.append(context, b"2", "line")


def test_names_and_places_are_checked(team: Team) -> None:
    with pytest.raises(UsageError, match="there is a space"):
        remote.init(team.place, NAME)
    for name in ("", "a/b", "..", "a b"):
        with pytest.raises(UsageError, match="is called by"):
            remote.init(team.place, name)
    with pytest.raises(NotFound, match="there is no space"):
        remote.join(team.place, "other", team.root("a"))
    with pytest.raises(Unreachable, match="is not there"):
        remote.join(Place(str(team.directory / "nowhere")), NAME, team.root("a"))
    remote.join(team.place, NAME, team.root("a"))
    with pytest.raises(UsageError, match="already"):
        remote.join(team.place, NAME, team.root("a"))
    Store.open(team.root("own")).close()
    with pytest.raises(UsageError, match="there is a store already"):
        remote.join(team.place, NAME, team.root("own"))
    with pytest.raises(UsageError, match="of no space"):
        remote.status(team.root("own"))
    described = team.space / "space.json"
    described.write_text(described.read_text().replace('"format":3', '"format":4'))
    with pytest.raises(FormatTooNew):
        connect(team.place, NAME)


def test_the_status_says_how_far_a_replica_is(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    a.contexts.create()
    b.writer.catch_up()
    b.close()
    a.contexts.create()
    a.contexts.create()
    found = remote.status(any_team.root("b"))
    assert (found.space, found.machine, found.number, found.behind) == (any_team.name, "b", 2, 2)
    assert [(one.machine, one.own) for one in found.members] == [("a", False), ("b", True)]
    assert remote.status(any_team.root("a")).commit == a.writer.seq


def test_a_space_of_format_1_is_brought_up_to_date(team: Team) -> None:
    shutil.rmtree(team.space)
    with tarfile.open(FROZEN) as archive:
        archive.extractall(team.directory, filter="data")
    path = team.root("a") / "space"
    path.write_text(re.sub(r'"directory": "[^"]*"', f'"directory": "{team.place.directory}"', path.read_text()))
    a, b = team.open("a"), team.open("b")
    found = a.catalogue.by_name("shop", "first")
    assert found is not None
    assert [one[:3] for one in said(a, found.id)] == [b'"0"', b'"1"', b'"2"', hashlib.shake_128(b"y").digest(3), b'"b"']
    assert said(b, found.id) == said(a, found.id)
    assert b.blobs.blob(hash_bytes(b"of b" * 1000)) == b"of b" * 1000
    a.contexts.append(found.id, b"6", "line")
    a.intake.put(b"more" * 1000)
    b.writer.catch_up()
    assert said(b, found.id)[-1] == b"6"
    members = remote.status(team.root("a")).members
    assert [(one.number, one.machine) for one in members] == [(1, "a"), (2, "b"), (3, "b")]
    assert sorted(os.listdir(team.space)) == ["log", "new", "objects", "records", "space.json", "turn"]
    a.close()
    b.close()
    team.agree("a", "b")


def entry(prev: int, seq: int) -> Entry:
    return Entry(prev, seq, new_token(), 1, 0, 0, bytes(32), b"a body")


def test_who_has_the_turn_is_not_overtaken(team: Team) -> None:
    first, second = connect(team.place, NAME), connect(team.place, NAME)
    ends: list[float] = []
    with first.log.turn():
        thread = threading.Thread(target=lambda: (second.log.append(entry(7, 9)), ends.append(time.monotonic())))
        thread.start()
        assert first.log.append(entry(5, 6)) == ()
        time.sleep(0.1)
        assert not ends
        over = time.monotonic()
    thread.join()
    assert ends[0] >= over
    assert second.log.append(entry(7, 10))
    first.close()
    second.close()


def test_what_is_asked_of_a_space_does_not_wait_for_a_turn_of_the_same_replica(any_team: Team) -> None:
    """Whoever has the turn may wait for a thread that publishes packs."""
    space, other = connect(any_team.place, any_team.name), connect(any_team.place, any_team.name)
    told: list[object] = []

    def publish() -> None:
        told.append(space.records.swap("pack/00000000000000000007", 0, b"{}"))
        told.append([record.key for record in space.records.records("pack/")])

    with space.log.turn():
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        thread.join(20)
        assert told == [True, ["pack/00000000000000000007"]]
        assert not space.log.entries(0)
    # it is no part of the turn, which has come to nothing
    assert other.records.record("pack/00000000000000000007").value == b"{}"
    with space.log.turn():
        assert not space.log.append(entry(0, 1))
    assert not other.log.append(entry(1, 2))
    space.close()
    other.close()


def test_damaged_files_of_a_replica_are_told_or_made_anew(team: Team) -> None:
    a = team.open("a")
    context = a.contexts.create().context
    a.close()
    published = team.root("a") / paths.PUBLISHED
    known = json.loads(published.read_text())
    known["reached"]["chain"] = "x" * 64
    published.write_text(json.dumps(known))
    with team.open("a") as a:
        a.contexts.append(context, b"more", "line")
        assert said(a, context) == [b"more"]
    space = team.root("a") / paths.SPACE
    known = json.loads(space.read_text())
    space.write_text(json.dumps(known | {"id": "x" * 32}))
    with pytest.raises(DamageError, match="which space this store is of"):
        Store.open(team.root("a"))


@pytest.mark.parametrize("left", ["all", paths.PUBLISHED, paths.KEYS])
def test_a_replica_that_does_not_know_its_space_is_not_opened(team: Team, left: str) -> None:
    a = team.open("a")
    context = a.contexts.create().context
    a.close()
    space = team.root("a") / paths.SPACE
    known = space.read_bytes()
    space.unlink()
    aside = {name: (team.root("a") / name).read_bytes() for name in (paths.PUBLISHED, paths.KEYS)}
    for name in aside.keys() - {left} if left != "all" else ():
        (team.root("a") / name).unlink()
    shutil.rmtree(team.root("a") / paths.CACHE, ignore_errors=True)
    for only_read in (False, True):
        with pytest.raises(DamageError, match=r"space is gone, .*put it back from a backup, or .* remote join"):
            Store.open(team.root("a"), only_read=only_read)
    with pytest.raises(UsageError, match="there is a store already"):
        remote.join(team.place, NAME, team.root("a"))
    for name, data in aside.items():
        (team.root("a") / name).write_bytes(data)
    space.write_bytes(known)
    with team.open("a") as a:
        a.contexts.append(context, b"more", "line")


@pytest.mark.logs("heads.log is damaged", sometimes=True)
@pytest.mark.parametrize("index", ["as it was", "gone"])
def test_whose_log_is_damaged_commits_nothing_of_its_own(any_team: Team, index: str) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    first, second = (a.contexts.create(metadata={"project": "p", "name": name}).context for name in "xy")
    a.contexts.append(first, b"1", "line")
    b.writer.catch_up()
    b.close()
    frames = [frame for frame in a.files.heads.frames() if isinstance(frame, HeadFrame)]
    [made] = [frame for frame in frames if isinstance(frame.body, ContextCreated) and frame.context == second]
    a.close()
    path = any_team.root("a") / paths.HEAD_LOG
    data = bytearray(path.read_bytes())
    data[made.offset + 23] ^= 0x10
    path.write_bytes(data)
    if index == "gone":
        remove_database(any_team.root("a") / paths.INDEX)
    for reindex in (True, False):
        with Store.open(any_team.root("a"), reindex=reindex) as a:
            assert any("convfs remote repair" in line for line in a.recovered)
            with pytest.raises(StoreFailed, match=r"heads\.log is damaged.*convfs remote repair"):
                a.contexts.append(first, b"never", "line")
            assert said(a, first) == [b"1"]
        assert path.read_bytes() == data
    b = any_team.open("b")
    b.contexts.append(second, b"2", "line")
    # whose log is whole again goes on
    data[made.offset + 23] ^= 0x10
    path.write_bytes(data)
    a = any_team.open("a")
    a.writer.catch_up()
    a.contexts.append(second, b"3", "line")
    assert said(a, second) == [b"2", b"3"]
    a.close()
    b.writer.catch_up()
    b.close()
    any_team.agree("a", "b")
    assert not list(any_team.root("a").glob("index.[ok]*"))
