"""Who may: keys, invitations, revocation and rotation of an encrypted space."""

import json
import os
import re
import shutil
import stat
import tarfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import structs

from fusefs.text.render import FileRenderer
from store import paths
from store.errors import DamageError, NotFound, StoreFailed, Unreachable, UsageError
from store.ids import hash_bytes
from store.shared import access as access_module
from store.shared import entry as entries
from store.shared import invitation, keys, remote
from store.shared.ciphertext import seal_entry
from store.shared.connect import connect, enter
from store.shared.entry import Entry, new_token
from store.shared.space import Membership, Outdated, Place, Space, membership
from store.store import Store
from tests.spaces import let_in

NAME = "team"
FROZEN = Path(__file__).parents[2] / "frozen" / "space-2.tar.gz"
"""A directory ``server`` with the space, and the replica ``a``; keys of two generations."""


class Team:
    """An encrypted space of which ``a`` is the first replica."""

    def __init__(self, directory: Path, held: ExitStack) -> None:
        self.directory = directory
        self.place = Place(str(directory / "server"))
        self.held = held
        remote.init(self.place, NAME)
        remote.join(self.place, NAME, self.root("a"), "a")

    def root(self, name: str) -> Path:
        return self.directory / name

    def add(self, name: str) -> Path:
        let_in(self.root("a"), self.root(name), name)
        return self.root(name)

    def open(self, name: str) -> Store:
        return self.held.enter_context(Store.open(self.root(name), renderer=FileRenderer()))

    def raw(self) -> Space:
        space = connect(self.place, NAME)
        self.held.callback(space.close)
        return space

    def change(self, key: str, old: str, new: str) -> None:
        """Change a record as somebody would who has the server."""
        records = self.raw().records
        record = records.record(key)
        text = record.value.decode()
        assert old in text
        assert records.swap(key, record.version, text.replace(old, new).encode())


@pytest.fixture
def team(memory_path: Path) -> Iterator[Team]:
    with ExitStack() as held:
        yield Team(memory_path, held)


def said(store: Store, context: int) -> list[bytes]:
    turns = store.contexts.last(context, 1000, latest=True)
    return [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns]


def test_a_replica_begins_in_a_directory_of_its_own(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    for other in (Path(team.place.directory), team.root("a")):
        with pytest.raises(UsageError, match=r"not empty|a replica of the space"):
            remote.accept(invited, other, "b")
    assert remote.accept(invited, team.root("b"), "b") is None
    remote.approve(team.root("a"))
    assert remote.accept(invited, team.root("b"), "b") is not None


@pytest.mark.logs("encrypted spaces need another library")
def test_without_the_library_a_replica_is_read_and_says_what_is_missing(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = team.open("a")
    context = a.contexts.create().context
    a.contexts.append(context, b"known text", "line")
    a.close()
    monkeypatch.setattr("store.shared.connect.find_spec", lambda _name: None)
    a = team.open("a")
    assert said(a, context) == [b"known text"]
    with pytest.raises(Unreachable, match="encrypted spaces need another library: pip install"):
        a.contexts.append(context, b"more", "line")


def test_the_first_makes_the_key_and_lets_others_in(team: Team) -> None:
    with pytest.raises(UsageError, match="convfs remote invite"):
        remote.join(team.place, NAME, team.root("b"), "b")
    a = team.open("a")
    context = a.contexts.create().context
    a.contexts.append(context, b"known text", "line")
    member = let_in(team.root("a"), team.root("b"), "b")
    assert (member.number, member.machine, member.space) == (2, "b", NAME)
    b = team.open("b")
    assert said(b, context) == [b"known text"]
    for name in ("a", "b"):
        assert stat.S_IMODE((team.root(name) / paths.KEYS).stat().st_mode) == 0o600
    of_a, of_b = keys.read(team.root("a")), keys.read(team.root("b"))
    assert of_a is not None
    assert of_b is not None
    assert of_a.generations == of_b.generations
    assert of_a.private != of_b.private
    found = remote.status(team.root("a"))
    assert [(one.number, one.machine, one.role, one.key) for one in found.members] == [
        (1, "a", "admin", 1),
        (2, "b", "admin", 1),
    ]
    assert found.key == 1


def test_a_mount_lets_in_by_itself_who_has_an_invitation(team: Team) -> None:
    team.open("a")
    member = remote.accept(remote.invite(team.root("a")), team.root("b"), "b", seconds=30)
    assert member is not None
    assert member.number == 2


def test_an_invitation_serves_one_machine(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    assert remote.accept(invited, team.root("b"), "b") is None
    # another one with the same line, before and after the first was let in
    with pytest.raises(UsageError, match="has been used"):
        remote.accept(invited, team.root("thief"), "thief")
    assert remote.approve(team.root("a")) == ["b"]
    with pytest.raises(UsageError, match="has been used"):
        remote.accept(invited, team.root("thief"), "thief")
    assert remote.accept(invited, team.root("b"), "b") is not None
    with pytest.raises(UsageError, match="has been used"):
        remote.accept(invited, team.root("thief"), "thief")
    assert [one.machine for one in remote.status(team.root("a")).members] == ["a", "b"]
    with pytest.raises(UsageError, match="already"):
        remote.accept(invited, team.root("b"), "b")


def test_who_waits_to_be_let_in_is_told_that(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    assert remote.accept(invited, team.root("b"), "b") is None
    with pytest.raises(NotFound, match=r"b is no replica yet: .*run it again"):
        Store.open(team.root("b"))
    assert remote.approve(team.root("a")) == ["b"]
    assert remote.accept(invited, team.root("b"), "b") is not None
    team.open("b")


def test_an_invitation_is_good_for_a_day(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = remote.invite(team.root("a")), remote.invite(team.root("a"))
    assert remote.accept(early, team.root("b"), "b") is None
    now = access_module.now_ms()
    monkeypatch.setattr(access_module, "now_ms", lambda: now + access_module.INVITED_MS + 1)
    with pytest.raises(UsageError, match=r"older than a day, if the clock here is right \(20\d\d-"):
        remote.accept(late, team.root("c"), "c")
    assert remote.approve(team.root("a")) == []
    assert remote.accept(early, team.root("b"), "b") is None


def test_an_invitation_is_one_line(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    assert invitation.parse(invited.line) == invited
    assert invitation.parse(f" {invited.line}\n") == invited
    assert invitation.is_invitation(invited.line)
    assert not invitation.is_invitation(NAME)
    assert not set(invited.line) & set(" \n'\"$")
    for wrong in (invited.line[:-5], "convfs-invitation:", "convfs-invitation:////", "convfs-invitation:e30"):
        with pytest.raises(UsageError, match="no invitation"):
            invitation.parse(wrong)


def test_a_wrong_code_is_one_line(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    other = invitation.Invitation(invited.place, invited.space, invited.id, os.urandom(16).hex())
    with pytest.raises(UsageError, match="no such invitation"):
        remote.accept(other, team.root("b"), "b")
    elsewhere = invitation.Invitation(invited.place, invited.space, bytes(16).hex(), invited.code)
    with pytest.raises(DamageError, match="another one than that of the invitation"):
        remote.accept(elsewhere, team.root("b"), "b")


def test_a_request_that_was_not_made_with_the_code_is_not_approved(team: Team) -> None:
    remote.accept(remote.invite(team.root("a")), team.root("b"), "b")
    request = team.raw().records.records("request/")[0]
    public = json.loads(request.value)["public"]
    # the server puts a key of its own in the place of the joiner's
    team.change(request.key, public, b64encode(keys.Keyring.new().public).decode())
    with pytest.raises(DamageError, match=r"request/.*public key of this request was changed"):
        remote.approve(team.root("a"))
    assert [one.machine for one in remote.status(team.root("a")).members] == ["a"]


def test_a_key_that_a_server_made_is_not_taken(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    remote.accept(invited, team.root("b"), "b")
    remote.approve(team.root("a"))
    # the server answers with keys of its own, wrapped for the one who asks
    records = team.raw().records
    record = records.record("key/000002")
    value = json.loads(record.value)
    own = keys.Keyring.new({1: keys.new_space_key()})
    wrapped = keys.wrap(own.generations[1], 1, team.raw().id, own, b64decode(value["public"]))
    value["wrapped"]["1"]["key"] = b64encode(wrapped).decode()
    records.swap(record.key, record.version, json.dumps(value).encode())
    team.change("key/000001", json.loads(records.record("key/000001").value)["public"], b64encode(own.public).decode())
    with pytest.raises(DamageError, match="not wrapped for this machine, or changed"):
        remote.accept(invited, team.root("b"), "b")


@pytest.mark.logs("was revoked", sometimes=True)
def test_who_was_revoked_gets_nothing_new(team: Team) -> None:
    team.add("b")
    team.add("c")
    a, b, c = team.open("a"), team.open("b"), team.open("c")
    context = a.contexts.create().context
    for store in (b, c):
        store.writer.catch_up()
    assert remote.revoke(team.root("a"), "b") == 2
    # whoever is in goes on with the new key, also those that were not asked
    a.contexts.append(context, b"after", "line")
    c.writer.catch_up()
    assert said(c, context) == [b"after"]
    with pytest.raises(StoreFailed, match="was revoked from the space team: what it has can still be read"):
        b.contexts.append(context, b"mine", "line")
    assert said(b, context) == []
    assert b.contexts.exists(context)
    c.contexts.append(context, b"c", "line")
    a.writer.catch_up()
    assert said(a, context) == [b"after", b"c"]
    of_b = keys.read(team.root("b"))
    assert of_b is not None
    assert list(of_b.generations) == [1]
    members = remote.status(team.root("a")).members
    assert [(one.machine, one.key, bool(one.revoked_ms)) for one in members] == [
        ("a", 2, False),
        ("b", 1, True),
        ("c", 2, False),
    ]
    with pytest.raises(DamageError, match="revoked"):
        remote.status(team.root("b"))


@pytest.mark.logs("given up")
def test_what_is_sealed_with_a_key_that_was_given_up_is_not_applied(team: Team) -> None:
    team.add("b")
    with Store.open(team.root("a"), renderer=FileRenderer()) as a:
        context = a.contexts.create().context
        a.contexts.append(context, b"1", "line")
    kept = keys.read(team.root("b"))
    remote.revoke(team.root("a"), "b")
    with Store.open(team.root("a"), renderer=FileRenderer()) as a:
        a.contexts.append(context, b"2", "line")
    assert kept is not None
    space, _access = enter(team.root("a"), _member(team, "a"))
    after = 0
    while found := space.log.entries(after):
        last, after = found[-1], found[-1].seq
    space.close()
    # all that the revoked machine needs to write with its old key, past a server that lets it
    entry = Entry(after, after + 2, new_token(), 2, 0, 0, last.chain, last.body)
    forged = entries.encode(seal_entry(kept.generations[1], 1, space.id, entry), space.id)
    (team.directory / "server" / NAME / "log" / f"{after:016x}").write_bytes(forged)
    with pytest.raises(Outdated):
        team.raw().log.append(structs.replace(entry, generation=1))
    a = team.open("a")
    with pytest.raises(StoreFailed, match="sealed with key 1, which was given up"):
        a.contexts.append(context, b"3", "line")
    assert said(a, context) == [b"1", b"2"]


def _member(team: Team, name: str) -> Membership:
    found = membership(team.root(name))
    assert found is not None
    return found


def test_a_machine_is_revoked_by_name_or_number(team: Team) -> None:
    team.add("b")
    with pytest.raises(UsageError, match="no machine x"):
        remote.revoke(team.root("a"), "x")
    with pytest.raises(UsageError, match="this machine"):
        remote.revoke(team.root("a"), "a")
    let_in(team.root("a"), team.root("b2"), "b")
    with pytest.raises(UsageError, match="replicas 2, 3"):
        remote.revoke(team.root("a"), "b")
    assert remote.revoke(team.root("a"), "3") == 2
    assert remote.revoke(team.root("a"), "b") == 3
    with pytest.raises(UsageError, match="no machine b"):
        remote.revoke(team.root("a"), "b")


def test_keys_rotate_and_everything_can_be_read(team: Team) -> None:
    team.add("b")
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    contents = []
    for number in range(4):
        contents.append(os.urandom(40_000))
        a.intake.put(contents[-1])
        a.contexts.append(context, contents[-1], "file")
        assert remote.rotate(team.root("ab"[number % 2])) == number + 2
    b.writer.catch_up()
    assert said(b, context) == contents
    team.add("c")
    assert said(team.open("c"), context) == contents


def test_of_keys_that_are_made_at_once_one_is_used(team: Team) -> None:
    names = ["a", "b", "c"]
    for name in names[1:]:
        team.add(name)
    errors: list[Exception] = []

    def rotate(root: Path) -> None:
        try:
            for _ in range(5):
                remote.rotate(root)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=rotate, args=(team.root(name),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    used = {remote.status(team.root(name)).key for name in names}
    assert len(used) == 1
    stores = [team.open(name) for name in names]
    context = stores[0].contexts.create().context
    for store in stores:
        store.writer.catch_up()
        store.contexts.append(context, b"1", "line")


def test_who_joins_while_a_key_is_made_gets_it(team: Team) -> None:
    invited = remote.invite(team.root("a"))
    assert remote.accept(invited, team.root("b"), "b") is None
    assert remote.approve(team.root("a")) == ["b"]
    # before it has taken what it was given
    assert remote.rotate(team.root("a")) == 2
    assert remote.accept(invited, team.root("b"), "b") is not None
    assert remote.status(team.root("b")).key == 2


@pytest.mark.logs("do not open the space")
def test_a_wrong_key_is_one_line(team: Team) -> None:
    team.add("b")
    own = keys.read(team.root("b"))
    assert own is not None
    path = team.root("b") / paths.KEYS
    path.write_text(path.read_text().replace(own.generations[1].hex(), bytes(32).hex()))
    with pytest.raises(DamageError, match="the keys of this replica do not open the space team: join it anew"):
        remote.status(team.root("b"))
    b = team.open("b")
    with pytest.raises(StoreFailed, match="do not open the space team"):
        b.contexts.create()


@pytest.mark.logs("keys is missing")
def test_missing_keys_are_one_line_and_nothing_is_written_plainly(team: Team) -> None:
    team.add("b")
    (team.root("b") / paths.KEYS).unlink()
    with pytest.raises(DamageError, match="keys is missing, and the space team is encrypted"):
        remote.status(team.root("b"))
    b = team.open("b")
    with pytest.raises(StoreFailed, match="keys is missing"):
        b.contexts.create()


def test_a_space_that_says_it_is_plain_is_not_written_to(team: Team) -> None:
    shutil.rmtree(team.directory / "server" / NAME / "records" / "generation")
    with pytest.raises(DamageError, match="record generation of the space makes no sense, or is gone"):
        remote.status(team.root("a"))


def test_a_space_with_an_earlier_key_was_put_back(team: Team) -> None:
    record = team.raw().records.record("generation")
    remote.rotate(team.root("a"))
    records = team.raw().records
    now = records.record("generation")
    assert records.swap("generation", now.version, record.value)
    with pytest.raises(DamageError, match="is back at key 1, and this replica has key 2"):
        remote.status(team.root("a"))


def test_a_machine_that_nobody_vouches_for_gets_no_key(team: Team) -> None:
    records = team.raw().records
    public = b64encode(keys.Keyring.new().public).decode()
    forged = json.dumps({"public": public, "cards": {"1": b64encode(bytes(90)).decode()}, "wrapped": {}})
    assert records.swap("key/000002", 0, forged.encode())
    assert remote.rotate(team.root("a")) == 2
    assert json.loads(records.record("key/000002").value)["wrapped"] == {}
    # nor does one that has another's card
    theirs = json.loads(records.record("key/000001").value)["cards"]
    forged = json.dumps({"public": public, "cards": {"2": theirs["2"]}, "wrapped": {}})
    assert records.swap("key/000002", 1, forged.encode())
    assert remote.rotate(team.root("a")) == 3
    assert json.loads(records.record("key/000002").value)["wrapped"] == {}


def test_keys_are_given_up(team: Team) -> None:
    remote.rotate(team.root("a"))
    space, access = enter(team.root("a"), _member(team, "a"))
    team.held.callback(space.close)
    assert access is not None
    old = access.keys[1]
    access.give_up(2)
    assert list(access.keys) == [2]
    assert old.hex().encode() not in (team.root("a") / paths.KEYS).read_bytes()
    team.add("b")
    of_b = keys.read(team.root("b"))
    assert of_b is not None
    assert list(of_b.generations) == [2]


def test_a_space_that_was_encrypted_before_is_opened(memory_path: Path) -> None:
    with tarfile.open(FROZEN) as archive:
        archive.extractall(memory_path, filter="data")
    path = memory_path / "a" / "space"
    place = memory_path / "server"
    path.write_text(re.sub(r'"directory": "[^"]*"', f'"directory": "{place}"', path.read_text()))
    let_in(memory_path / "a", memory_path / "b", "b")
    for name in ("a", "b"):
        with Store.open(memory_path / name, renderer=FileRenderer()) as store:
            found = store.catalogue.by_name("shop", "first")
            assert found is not None
            assert said(store, found.id)[:2] == [b'"0"', b'"1"']
            assert store.blobs.blob(hash_bytes(b"of a" * 1000)) == b"of a" * 1000
            store.contexts.append(found.id, name.encode(), "line")
            assert len(said(store, found.id)) == (3 if name == "a" else 4)
    assert remote.status(memory_path / "b").key == 2


def test_a_plain_space_is_joined_by_name(memory_path: Path) -> None:
    place = Place(str(memory_path / "server"))
    remote.init(place, NAME, plain=True)
    for name in ("a", "b"):
        remote.join(place, NAME, memory_path / name, name)
    assert [(one.machine, one.key) for one in remote.status(memory_path / "a").members] == [("a", 0), ("b", 0)]
    assert not (memory_path / "a" / paths.KEYS).exists()
    with pytest.raises(UsageError, match="is not encrypted"):
        remote.invite(memory_path / "a")


def test_who_is_no_admin_lets_nobody_in(team: Team) -> None:
    invited = remote.invite(team.root("a"), "writer")
    remote.accept(invited, team.root("b"), "b")
    remote.approve(team.root("a"))
    remote.accept(invited, team.root("b"), "b")
    for forbidden in (remote.invite, remote.approve, remote.rotate):
        with pytest.raises(UsageError, match="this machine is a writer of the space team: an admin"):
            forbidden(team.root("b"))
    with pytest.raises(UsageError, match="is a writer"):
        remote.revoke(team.root("b"), "a")


def test_a_reader_does_not_write(team: Team) -> None:
    invited = remote.invite(team.root("a"), "reader")
    remote.accept(invited, team.root("b"), "b")
    remote.approve(team.root("a"))
    remote.accept(invited, team.root("b"), "b")
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    a.contexts.append(context, b"1", "line")
    b.writer.catch_up()
    assert said(b, context) == [b"1"]
    with pytest.raises(StoreFailed, match="may read the space team, and not write to it"):
        b.contexts.append(context, b"2", "line")
    a.contexts.append(context, b"3", "line")
    b.writer.catch_up()
    assert said(b, context) == [b"1", b"3"]
