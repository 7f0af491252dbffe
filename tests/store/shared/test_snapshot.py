"""Snapshots: replicas that begin with the files of another."""

import filecmp
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store import paths
from store.errors import Conflict, DamageError, Unreachable
from store.importing.importer import Importer
from store.shared import remote, snapshot
from store.shared.connect import enter
from store.shared.space import Space, membership
from store.store import Store
from store.upkeep.fsck import fsck
from tests.spaces import MAKERS, Spaces, let_in, spaces

LARGE = 3 << 20


class Team:
    """A space, and replicas of it by name."""

    def __init__(self, directory: Path, made: Spaces) -> None:
        self.directory = directory
        self.place, self.name = made.make()

    def join(self, name: str) -> Path:
        root = self.directory / name
        if (self.directory / "a").exists():
            let_in(self.directory / "a", root, name)
        else:
            remote.join(self.place, self.name, root, name)
        return root

    def open(self, name: str) -> Store:
        return Store.open(self.directory / name, renderer=FileRenderer())

    def space(self) -> Space:
        root = self.directory / "a"
        member = membership(root)
        assert member is not None
        return enter(root, member)[0]

    def take(self, name: str) -> str:
        command = [sys.executable, "-m", "fusefs.cli", "--store", self.directory / name, "remote", "snapshot"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=MAKERS)
def team(request: pytest.FixtureRequest, memory_path: Path) -> Team:
    return Team(memory_path, spaces(request, request.param, memory_path / "server"))


@pytest.fixture
def filled(team: Team, tmp_path: Path) -> Team:
    """A space with an imported conversation, one that was appended to, a large content, and a snapshot of these."""
    session = tmp_path / "session.jsonl"
    line = {"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "of an import"}}
    session.write_bytes(msgspec.json.encode(line) + b"\n")
    team.join("a")
    with team.open("a") as store:
        Importer(store).run([session])
        context = store.contexts.create(metadata={"project": "shop", "name": "first"}).context
        store.contexts.append(context, b'"one"', "line")
        store.contexts.append(context, b"2" * LARGE, "line")
    assert "2 conversations" in team.take("a")
    return team


def said(store: Store, name: str) -> list[bytes]:
    [entry] = [one for one in store.catalogue.every() if one.name and one.name.endswith(name)]
    turns = store.contexts.last(entry.id, 1000, latest=True)
    return [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns]


def test_who_joins_begins_with_it_and_goes_on(filled: Team) -> None:
    with filled.open("a") as store:
        [entry] = [one for one in store.catalogue.every() if one.name == "first"]
        store.contexts.append(entry.id, b'"three"', "line")
    root = filled.join("b")
    # before anything was applied
    assert (root / paths.INDEX).exists()
    with filled.open("b") as store:
        assert store.recovered == []
        assert said(store, "first") == [b'"one"', b"2" * LARGE, b'"three"']
        assert b"of an import" in said(store, "import")[0]
        store.contexts.append(entry.id, b'"four"', "line")
        assert [finding for finding in fsck(store) if finding.severity == "error"] == []
    with filled.open("a") as store:
        assert said(store, "first")[-1] == b'"four"'
    for log in (paths.TURN_LOG, paths.HEAD_LOG):
        assert filecmp.cmp(filled.directory / "a" / log, root / log, shallow=False)


def test_another_takes_its_place_and_none_is_known_to_the_roster(filled: Team) -> None:
    space = filled.space()
    before = {key for key, _length in space.bucket.list("snapshot/")}
    filled.take("a")
    after = {key for key, _length in space.bucket.list("snapshot/")}
    assert before
    assert after
    assert not before & after
    space.close()
    assert [member.machine for member in remote.status(filled.directory / "a").members] == ["a"]


def test_one_that_was_dropped_meanwhile_is_not_published(filled: Team) -> None:
    space = filled.space()
    with remote.observing(filled.directory / "a", filled.directory / "aside") as publish:
        with filled.open("aside") as store:
            seq = store.writer.seq
        snapshot.drop(space)
        with pytest.raises(Conflict, match="try again"):
            publish(seq)
    assert snapshot.latest(space)[0] is None
    assert [*space.bucket.list("snapshot/")] == []
    space.close()
    with filled.open("a"):
        filled.join("b")
    with filled.open("b") as store:
        assert said(store, "first")[0] == b'"one"'


def test_a_damaged_one_leaves_nothing(filled: Team) -> None:
    space = filled.space()
    [key] = [key for key, _length in space.bucket.list("snapshot/") if key.endswith("/000000")]
    data = bytearray(space.bucket.get(key))
    data[len(data) // 2] ^= 1
    space.bucket.put(key, bytes(data))
    with pytest.raises(DamageError, match="damaged"):
        filled.join("b")
    # with its keys it can join once more
    assert [path.name for path in (filled.directory / "b").rglob("*") if path.is_file()] == [paths.KEYS]
    space.close()


def test_a_file_that_is_none_of_a_replica_is_refused(filled: Team) -> None:
    space = filled.space()
    [key] = [key for key, _length in space.bucket.list("snapshot/") if key.endswith("/files")]
    listed = msgspec.json.decode(space.bucket.get(key))
    listed["files"][0][0] = "../elsewhere"
    space.bucket.put(key, msgspec.json.encode(listed))
    with pytest.raises(DamageError, match="none of a replica"):
        filled.join("b")
    assert not (filled.directory / "elsewhere").exists()
    space.close()


def test_an_observer_says_nothing_of_the_replica_that_it_was_made_beside(filled: Team) -> None:
    space = filled.space()
    before = space.records.records("seen/")
    filled.take("a")
    assert before
    assert space.records.records("seen/") == before
    space.close()


def test_an_observer_commits_nothing(filled: Team) -> None:
    with (
        remote.observing(filled.directory / "a", filled.directory / "aside"),
        filled.open("aside") as store,
        pytest.raises(Unreachable, match="only follows"),
    ):
        store.contexts.create()
    with filled.open("a") as store:
        assert len(list(store.catalogue.every())) == 2
