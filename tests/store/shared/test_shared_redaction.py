"""Redaction in a space: nothing of a secret is left on any machine, nor in the space, and all logs are the same."""

import json
import os
import shutil
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from store import paths
from store.commit.intake import Load
from store.commit.request import NewTurn, Request
from store.content import zstd
from store.content.compression import MAX_BODY_BYTES
from store.disk.turn_format import Encoding
from store.errors import DamageError
from store.ids import Hash, type_tag
from store.redaction.proof import prove
from store.redaction.redaction import Redacted, Redaction
from store.redaction.secrets import Secrets
from store.retention.pruner import delete
from store.shared import generations, keys, packs, remote
from store.shared.ciphertext import open_entry, open_object
from store.shared.connect import connect
from store.shared.space import Place
from store.store import Store
from store.upkeep.fsck import fsck
from store.upkeep.purging import SharedRedaction
from tests.store.shared.redacting import SECRET, SECRETS
from tests.store.shared.test_collecting import collect
from tests.store.shared.test_spaces import NAME, Team, any_team, said, team, until
from tests.waiting import PATIENCE

__all__ = ["any_team", "team"]

@pytest.fixture(params=("whole", "by names"), autouse=True)
def taking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How machines take the packs of others: as they do with small ones, and with all others."""
    if request.param == "by names":
        monkeypatch.setattr(packs, "WHOLE_BYTES", 0)


def payload(number: int, text: bytes = SECRET) -> bytes:
    lines = b"\\n".join(b"line %d of %d" % (line, number) for line in range(400))
    return b'{"type":"user","number":%d,"text":"%b","said":"the password is %b"}' % (number, lines, text)


def imported(store: Store, payloads: list[bytes]) -> int:
    """Bring payloads through the packs, and have a conversation of them."""
    load = store.intake.load()
    digests = load.payloads(payloads)
    load.sync()
    turns = [NewTurn(digest, type_tag("test"), Encoding.JSON, 0, 1) for digest in digests]
    return store.writer.submit(Request(None, turns=turns, types=store.writer.types_for(["test"]))).head.context


def filled(a: Store, b: Store, *, collecting: bool = True) -> dict[int, list[bytes]]:
    """Have two machines say a secret in every way in which it may get into a space; return what is to be left."""
    kept: dict[int, list[bytes]] = {}
    kept[imported(a, [payload(1), payload(2, b"none")])] = [payload(1, b"[redacted]"), payload(2, b"none")]
    b.writer.catch_up()
    riding = b.contexts.create(metadata={"project": "shop", "name": "riding", "note": SECRET.decode()}).context
    for number in (3, 4):
        b.contexts.append(riding, payload(number), "test")
    kept[riding] = [payload(3, b"[redacted]"), payload(4, b"[redacted]")]
    first = b.contexts.last(riding, 10)[0].turn_id
    b.contexts.patch(riding, {first: payload(5)})
    kept[riding][0] = payload(5, b"[redacted]")
    a.writer.catch_up()
    # garbage, which only entries have
    gone = a.contexts.create().context
    a.contexts.append(gone, payload(6), "test")
    delete(a, gone, a.writer.head(gone).tip)
    for _pause in a.collector.steps(grace_seconds=0, least_part=0, dry_run=False) if collecting else ():
        pass
    open_turn = a.contexts.create().context
    a.open_turns.open(open_turn, "test").add(b"it is " + SECRET)
    kept[imported(a, [os.urandom(400_000) + SECRET])] = []
    b.writer.catch_up()
    return kept


def redact(store: Store) -> Redacted:
    return Redaction(store, SECRETS).run()


def files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


def nothing_in_files(directory: Path, gone: frozenset[Hash]) -> None:
    for path in files(directory):
        data = path.read_bytes()
        assert not SECRETS.hold(data), path
        for name in gone:
            assert name not in data, path


def nothing_in_space(store: Store, gone: frozenset[Hash]) -> None:
    """Look through all that the space has, decompressed as well."""
    assert store.replica is not None
    space, brought = store.replica.connected()

    def named(key: str) -> bool:
        there = any(key == one for one, _size in space.bucket.list(""))
        return there and key not in {*brought.orphans(), *generations.orphans(space)}

    after = 0
    while entries := space.log.entries(after):
        for entry in entries:
            assert not SECRETS.hold(entry.body)
            assert not any(name in entry.body for name in gone)
        after = entries[-1].seq
    for key, _size in space.bucket.list(""):
        try:
            data = space.bucket.get(key)
        except DamageError:
            # of a machine that was killed, or about to go, sealed with a key that is gone
            until(lambda key=key: not named(key))  # type: ignore[misc]
            continue
        assert not SECRETS.hold(data), key
        at = -1
        while (at := data.find(zstd.MAGIC, at + 1)) >= 0:
            try:
                inside = zstd.decompress(data[at:], MAX_BODY_BYTES)
            except DamageError:
                continue
            assert not SECRETS.hold(inside), key
            assert not any(name in inside for name in gone), key


def proved(store: Store, gone: frozenset[Hash]) -> None:
    proof = prove(store, SECRETS, gone)
    assert (proof.found, proof.unread) == ([], [])


def left(store: Store, kept: dict[int, list[bytes]]) -> None:
    for context, payloads in kept.items():
        if payloads:
            assert said(store, context) == payloads
        else:
            assert SECRET not in said(store, context)[0]


def test_a_redaction_is_one_on_all_machines(any_team: Team) -> None:
    team = any_team
    a, b, c = (team.open(name) for name in "abc")
    kept = filled(a, b)
    until(lambda: c.writer.seq == b.writer.seq)
    c.close()
    done = redact(a)
    assert len(done.turns) >= 5
    proved(a, done.gone)
    nothing_in_space(a, done.gone)
    assert a.replica is not None
    until(lambda: b.replica is not None and b.replica.generation == 1)
    b.writer.catch_up()
    proved(b, done.gone)
    left(a, kept)
    left(b, kept)
    # both go on
    context = b.contexts.create().context
    b.contexts.append(context, payload(7, b"none"), "test")
    a.writer.catch_up()
    assert said(a, context) == [payload(7, b"none")]
    records = a.replica.connected()[0].records
    until(lambda: a.replica is not None and [machine for machine, _ms in a.replica.behind()] == ["c"])
    assert [one.machine for one in remote.status(team.root("a")).members if not one.redactions] == ["c"]
    # the one that was away has the secret, and nothing newer
    held = Store.open(team.root("c"), only_read=True)
    assert not held.contexts.exists(context)
    held.close()
    c = team.open("c")
    proved(c, done.gone)
    left(c, kept)
    assert said(c, context) == [payload(7, b"none")]
    assert generations.behind(records) == []
    until(lambda: not generations.current(records).key)
    d = team.open("d")
    left(d, kept)
    proved(d, done.gone)
    for store in (a, b, c, d):
        store.close()
        nothing_in_files(store.root, done.gone)
    if team.space.exists():
        nothing_in_files(team.space, done.gone)
    team.agree("a", "b", "c", "d")


def test_what_waits_to_be_committed_names_what_took_the_place(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    imported(a, [payload(1)])
    b.writer.catch_up()
    load = b.intake.load()
    digests = load.payloads([payload(1)])
    load.sync()
    redact(a)
    turns = [NewTurn(digest, type_tag("test"), Encoding.JSON, 0, 1) for digest in digests]
    context = b.writer.submit(Request(None, turns=turns)).head.context
    del load
    a.writer.catch_up()
    assert said(a, context) == said(b, context) == [payload(1, b"[redacted]")]
    a.close()
    b.close()
    team.agree("a", "b")


@pytest.mark.parametrize("names_it", [True, False], ids=["named", "not named yet"])
def test_what_comes_in_meanwhile_is_in_the_proof(
    team: Team, monkeypatch: pytest.MonkeyPatch, *, names_it: bool
) -> None:
    a, b = team.open("a"), team.open("b")
    imported(a, [payload(1)])
    b.writer.catch_up()
    purge = SharedRedaction.purge
    held: list[Load] = []

    def purged(self: SharedRedaction) -> None:
        purge(self)
        if held:
            return
        until(lambda: b.replica is not None and b.replica.generation == 1)
        if names_it:
            imported(b, [payload(9)])
        held.append(b.intake.load())
        held[0].payloads([payload(10)])
        held[0].sync()

    monkeypatch.setattr(SharedRedaction, "purge", purged)
    done = redact(a)
    assert len(prove(a, SECRETS, done.gone).found) > names_it
    again = redact(a)
    proved(a, again.gone)
    nothing_in_space(a, again.gone)
    held.clear()
    a.close()
    b.close()
    team.agree("a", "b")


def test_nothing_to_redact_changes_nothing(team: Team) -> None:
    a = team.open("a")
    imported(a, [payload(1, b"none")])
    redact(a)
    assert a.replica is not None
    assert a.replica.generation == 0


def test_what_servers_have_kept_is_opened_by_no_machine(team: Team) -> None:
    a, b, c = (team.open(name) for name in "abc")
    kept = filled(a, b)
    until(lambda: c.writer.seq == b.writer.seq)
    c.close()
    before = {name: keys.read(team.root(name)) for name in "abc"}
    backup = team.directory / "backup" / "server"
    shutil.copytree(team.space.parent, backup)
    redact(a)
    # nobody but the one that is away has the key from before
    until(lambda: a.replica is not None and [machine for machine, _ms in a.replica.behind()] == ["c"])
    assert [opened(backup, team.root(name)) for name in "abc"] == [0, 0, opened(backup, team.root("c"))]
    assert opened(backup, team.root("c")) > 10
    c = team.open("c")
    left(c, kept)
    until(lambda: a.replica is not None and a.replica.behind() == [])
    # who joins gets what is used now
    d = team.open("d")
    left(d, kept)
    for store in (a, b, c, d):
        store.close()
        assert opened(backup, store.root) == 0
        old = before.get(store.root.name)
        for secret in [old.private, *old.generations.values()] if old is not None else []:
            assert not any(secret.hex().encode() in path.read_bytes() for path in files(store.root))
    team.agree("a", "b", "c", "d")


def opened(server: Path, root: Path) -> int:
    """Return how much of a copy of a space a machine can open: entries, objects and wrapped keys."""
    space, keyring = connect(Place(str(server)), NAME), keys.read(root)
    assert keyring is not None
    count, after = 0, 0
    publics = set()
    for record in space.records.records("key/"):
        publics.add(json.loads(record.value)["public"])
    while entries := space.log.entries(after):
        after = entries[-1].seq
        count += sum(opens(partial(open_entry, keyring.generations, space.id, entry)) for entry in entries)
    for key, _size in space.bucket.list(""):
        count += opens(partial(open_object, keyring.generations, space.id, key, space.bucket.get(key)))
    for record in space.records.records("key/"):
        for generation, wrapped in json.loads(record.value)["wrapped"].items():
            for public in publics:
                args = (b64decode(wrapped["key"]), int(generation), space.id, keyring, b64decode(public))
                count += opens(partial(keys.unwrap, *args))
    space.close()
    return count


def opens(sealed: Callable[[], object]) -> bool:
    try:
        sealed()
    except DamageError:
        return False
    return True


def test_a_machine_that_was_away_applies_one_redaction_after_another(any_team: Team) -> None:
    team = any_team
    a, b = team.open("a"), team.open("b")
    context = imported(a, [payload(1)])
    a.contexts.append(context, payload(2), "test")
    until(lambda: b.writer.seq == a.writer.seq)
    b.close()
    redact(a)
    a.contexts.append(context, payload(3), "test")
    again = Secrets([b"the password is", SECRET])
    done = Redaction(a, again).run()
    assert len(done.turns) == 3
    b = team.open("b")
    assert b.replica is not None
    assert b.replica.generation == 2
    assert said(b, context) == said(a, context)
    until(lambda: a.replica is not None and a.replica.behind() == [])
    for store in (a, b):
        assert prove(store, again, done.gone).found == []
        store.close()
        assert not any(SECRETS.hold(path.read_bytes()) for path in files(store.root))
    team.agree("a", "b")


def test_a_pack_that_was_about_to_get_a_number_is_sealed_with_the_new_key(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine stands still between its look at the key and the number: no other could open its pack."""
    a, b = team.open("a"), team.open("b")
    imported(a, [payload(1)])
    until(lambda: b.writer.seq == a.writer.seq)
    assert a.replica is not None
    assert a.replica.access is not None
    assert b.replica is not None
    space, brought = b.replica.connected()
    swap, publish, rotate = space.records.swap, packs.Packs.publish, a.replica.access.rotate
    stands, goes_on, has_gone_on = threading.Event(), threading.Event(), threading.Event()

    def swapped(key: str, version: int, value: bytes) -> bool:
        if not key.startswith(packs.PREFIX) or stands.is_set():
            return swap(key, version, value)
        stands.set()
        assert goes_on.wait(PATIENCE)
        done = swap(key, version, value)
        has_gone_on.set()
        return done

    def published(self: packs.Packs, records: Sequence[bytes], *, again: bool = False) -> int:
        if again and not goes_on.is_set():
            # the packs that take the places of others have been chosen
            goes_on.set()
            assert has_gone_on.wait(PATIENCE)
        return publish(self, records, again=again)

    def rotated() -> int:
        late.start()
        assert stands.wait(PATIENCE)
        return rotate()

    monkeypatch.setattr(space.records, "swap", swapped)
    monkeypatch.setattr(packs.Packs, "publish", published)
    monkeypatch.setattr(a.replica.access, "rotate", rotated)
    contexts: list[int] = []
    late = threading.Thread(target=lambda: contexts.append(imported(b, [payload(9, b"none")])))
    redact(a)
    late.join()
    until(lambda: a.replica is not None and a.replica.behind() == [])
    notes = [note for _number, note in brought.notes() if not note.doomed_ms]
    assert {space.sealed_with(note.key) for note in notes} == {space.key_in_use()}
    c = team.open("c")
    assert said(c, contexts[0]) == [payload(9, b"none")]
    for store in (a, b, c):
        store.close()
    team.agree("a", "b", "c")


@pytest.mark.parametrize("how", ["lost", "damaged"])
def test_a_replica_goes_on_that_has_lost_how_far_it_was(any_team: Team, how: str) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    kept = filled(a, b)
    b.writer.catch_up()
    redact(a)
    until(lambda: b.replica is not None and b.replica.generation == 1)
    own = a.contexts.create().context
    a.contexts.append(own, payload(8, b"none"), "test")
    large = imported(a, [payload(9, b"none").ljust(1_200_000, b" ")])
    assert a.replica is not None
    records = a.replica.connected()[0].records
    # the patch is gone: nobody can apply it once more
    until(lambda: not generations.current(records).key)
    for store in (a, b):
        store.close()
    for name in "ab":
        published = any_team.root(name) / paths.PUBLISHED
        if how == "lost":
            published.unlink()
        else:
            published.write_bytes(b"{")
    a, b = any_team.open("a"), any_team.open("b")
    a.contexts.append(own, b"more", "test")
    b.writer.catch_up()
    b.contexts.append(own, b"and more", "test")
    a.writer.catch_up()
    for store in (a, b):
        assert said(store, own) == [payload(8, b"none"), b"more", b"and more"]
        assert len(said(store, large)[0]) == 1_200_000
        assert store.replica is not None
        assert store.replica.generation == 1
        left(store, kept)
        collect(store)
        store.writer.catch_up()
        assert said(store, own) == [payload(8, b"none"), b"more", b"and more"]
        left(store, kept)
        assert [one for one in fsck(store, remote=True) if one.severity == "error"] == []
    for store in (a, b):
        store.close()
    any_team.agree("a", "b")
