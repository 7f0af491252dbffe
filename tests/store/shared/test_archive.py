"""The archive of a space: old entries go into objects, who asks for them gets them, and nothing is lost or twice."""

import json
import os
import re
import shutil
import threading
from contextlib import closing

import psycopg
import pytest
from msgspec import structs
from psycopg.conninfo import conninfo_to_dict

from fusefs.cli.main import main
from store import paths
from store.errors import DamageError, Unreachable
from store.retention.pruner import delete
from store.service.jobs import ArchivingJob
from store.settings import Remote
from store.shared import archive as module
from store.shared import packs, remote
from store.shared.archive import Archive
from store.shared.connect import connect, enter
from store.shared.entry import Entry, new_token
from store.shared.space import ARCHIVE, Behind, Space, membership
from store.store import Store
from store.upkeep.archiving import Archived, Archiving
from store.upkeep.fsck import fsck
from tests.store.shared.archiving import ALL, SEGMENT_BYTES
from tests.store.shared.test_collecting import collect
from tests.store.shared.test_shared_redaction import filled, left, nothing_in_files, nothing_in_space, proved, redact
from tests.store.shared.test_spaces import Team, any_team, said, team, until

__all__ = ["any_team", "team"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", SEGMENT_BYTES)


def space_of(store: Store) -> Space:
    assert store.replica is not None
    return store.replica.connected()[0]


def segments(store: Store) -> tuple[module.Segment, ...]:
    return Archive(space_of(store)).now().segments


def archive(store: Store, settings: Remote = ALL) -> int:
    """Archive what is old; return how many entries went."""
    assert store.replica is not None
    steps = Archiving(store.replica, settings).steps(least=1)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Archived = end.value
            return found.entries


def kept_by_log(team: Team, store: Store) -> int:
    """Return how many entries the log itself has."""
    if team.place.directory:
        return len(os.listdir(team.space / "log"))
    with psycopg.connect(team.place.postgres) as connection:
        row = connection.execute("SELECT count(*) FROM convfs.entry WHERE space = %s", (space_of(store).id,)).fetchone()
    assert row is not None
    return int(row[0])


def appended(store: Store, context: int, count: int) -> None:
    for number in range(count):
        store.contexts.append(context, json.dumps({"number": number, "text": "x" * 200}).encode(), "line")


def sound(store: Store) -> None:
    assert [finding for finding in fsck(store, remote=True) if finding.severity == "error"] == []


def test_a_join_and_a_machine_left_behind_read_through_the_archive(any_team: Team) -> None:
    team = any_team
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create(metadata={"project": "shop", "name": "first"}).context
    appended(a, context, 10)
    until(lambda: b.writer.seq == a.writer.seq)
    b.close()
    appended(a, context, 40)
    before = kept_by_log(team, a)
    assert archive(a) == before - 1
    assert kept_by_log(team, a) == 1
    assert len(segments(a)) > 3
    assert archive(a) == 0
    # the log goes on
    appended(a, context, 30)
    assert archive(a) == 30
    expected = said(a, context)
    assert len(expected) == 80
    sound(a)
    b, c = team.open("b"), team.open("c")
    for store in (b, c):
        store.writer.catch_up()
        assert said(store, context) == expected
        store.contexts.append(context, b'"more"', "line")
        expected.append(b'"more"')
        sound(store)
    status = remote.status(team.root("a"))
    assert status.archived == segments(a)[-1].last
    assert status.archived_bytes == sum(one.length for one in segments(a))
    for store in (a, b, c):
        store.close()
    team.agree("a", "b", "c")


def test_the_status_says_how_far_the_archive_has_come(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    a = team.open("a")
    appended(a, a.contexts.create().context, 20)
    archive(a)
    last = segments(a)[-1].last
    a.close()
    with pytest.raises(SystemExit) as ended:
        main(["--store", str(team.root("a")), "remote", "status"])
    assert ended.value.code == 0
    assert re.search(rf"^archive  [0-9.]+ KB, up to commit {last}$", capsys.readouterr().out, re.MULTILINE)


def test_small_segments_become_larger_ones(team: Team) -> None:
    a = team.open("a")
    context = a.contexts.create().context
    for _ in range(20):
        appended(a, context, 1)
        archive(a)
    found = segments(a)
    assert sum(one.entries for one in found) == 20
    assert all(one.size >= module.SEGMENT_BYTES // 2 for one in found[:-1])
    assert [one.after for one in found[1:]] == [one.last for one in found[:-1]]
    assert found[0].after == 0
    a.close()
    team.agree("a")


def test_the_last_entries_and_those_of_the_last_hour_stay(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    appended(a, context, 30)
    count = kept_by_log(any_team, a)
    assert archive(a, Remote()) == 0
    assert archive(a, Remote(keep_entries=1)) == 0
    assert archive(a, Remote(keep_entries=10, keep_hours=0)) == count - 10
    assert kept_by_log(any_team, a) == 10
    assert archive(a, Remote(keep_entries=0, keep_hours=0)) == 9
    assert kept_by_log(any_team, a) == 1
    a.close()
    any_team.agree("a")


def test_who_was_asleep_appends_behind_what_there_is(any_team: Team) -> None:
    """An append behind a commit whose place is free again is refused, with what the archive has."""
    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    until(lambda: b.writer.seq == a.writer.seq)
    assert b.replica is not None
    b.replica.close()
    seq = b.writer.seq
    appended(a, context, 20)
    archive(a)
    asleep = Entry(seq, seq + 2, new_token(), 2, 9, 0, bytes(32), bytes(100))
    own = space_of(b).log
    refused = own.append(structs.replace(asleep, generation=0))
    assert refused[0].prev == seq
    # an answer that was lost
    assert list(own.append(refused[0])) == []
    # the name that was tried is still of nobody
    raw = connect(any_team.place, any_team.name)
    for ask in (lambda: raw.log.entries(seq), lambda: raw.log.append(asleep)):
        with pytest.raises(Behind):
            ask()
    raw.close()
    b.contexts.append(context, b'"late"', "line")
    a.writer.catch_up()
    assert said(a, context)[-1] == b'"late"'
    assert len(said(a, context)) == len(said(b, context)) == 21
    b.close()
    a.close()
    any_team.agree("a", "b")


def test_who_was_asleep_connects_anew_without_an_error(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    until(lambda: b.writer.seq == a.writer.seq)
    assert b.replica is not None
    b.replica.close()
    b.contexts.append(context, b'"own"', "line")
    a.writer.catch_up()
    appended(a, context, 20)
    archive(a)
    if any_team.place.postgres:
        with psycopg.connect(any_team.place.postgres, autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s"
            assert b.replica.member.place.postgres
            connection.execute(ended, (conninfo_to_dict(b.replica.member.place.postgres)["user"],))
    b.contexts.append(context, b'"late"', "line")
    a.writer.catch_up()
    assert said(a, context) == said(b, context)
    assert len(said(a, context)) == 22
    b.close()
    a.close()
    any_team.agree("a", "b")


def test_a_file_that_was_linked_too_late_counts_for_nothing(team: Team) -> None:
    a, b = team.open("a"), team.open("b")
    context = a.contexts.create().context
    until(lambda: b.writer.seq == a.writer.seq)
    b.close()
    seq = a.writer.seq
    appended(a, context, 10)
    first = (team.space / "log" / f"{seq:016x}").read_bytes()
    archive(a)
    # of a machine that was killed before it looked whether its append was in place
    (team.space / "log" / f"{seq:016x}").write_bytes(first[:-1] + bytes([first[-1] ^ 1]))
    b = team.open("b")
    assert said(b, context) == said(a, context)
    assert archive(a) == 0
    assert len(os.listdir(team.space / "log")) == 1
    a.close()
    b.close()
    team.agree("a", "b")


def test_machines_that_archive_at_once_do_it_once(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    appended(a, context, 60)
    until(lambda: b.writer.seq == a.writer.seq)
    upto = space_of(a).log.old(1, 0)[1]

    def grow(store: Store) -> None:
        # without the lease
        while Archive(space_of(store)).now().seq < upto:
            Archive(space_of(store)).grow(upto)
            space_of(store).log.trim()

    threads = [threading.Thread(target=grow, args=(store,)) for store in (a, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sound(a)
    assert sum(one.entries for one in segments(a)) == 60
    c = any_team.open("c")
    assert said(c, context) == said(a, context)
    for store in (a, b, c):
        store.close()
    any_team.agree("a", "b", "c")


def test_objects_that_nobody_names_go_and_those_about_to_be_named_are_not(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    appended(a, context, 20)
    own = Archive(space_of(a))
    before = space_of(a).records.record(ARCHIVE)
    made = own._put(0, list(space_of(a).log.entries(0))[:3])
    assert own.orphans() == [made.key]
    own.remove(own.orphans())
    assert own.objects() == []
    # whoever was about to name it is too late
    assert not own._swap(before, module.Segments(made.last, (made,)))
    archive(a)
    own.remove(own.objects())
    assert sorted(own.objects()) == sorted(one.key for one in segments(a))
    sound(a)
    a.close()
    any_team.agree("a")


@pytest.mark.logs("gone", "entries of the space", sometimes=True)
def test_what_was_changed_cut_or_removed_is_found(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    appended(a, context, 60)
    archive(a)
    first, second, *_others = segments(a)
    raw = connect(any_team.place, any_team.name)
    kept = {one.key: raw.bucket.get(one.key) for one in (first, second)}

    def swapped() -> None:
        raw.bucket.put(first.key, kept[second.key])

    def flipped() -> None:
        raw.bucket.put(first.key, kept[first.key][:-30] + bytes([kept[first.key][-30] ^ 1]) + kept[first.key][-29:])

    def removed() -> None:
        raw.bucket.delete(first.key)

    for harm in (swapped, flipped, removed):
        harm()
        (finding, *_more) = [one for one in fsck(a, remote=True) if one.severity == "error"]
        assert finding.check == "archive"
        assert "\n" not in finding.message
        with pytest.raises(DamageError):
            Archive(space_of(a)).entries(0)
    # who has everything puts it back
    assert a.replica is not None
    assert a.replica.repair() == first.entries
    sound(a)
    assert a.replica.repair() == 0
    expected = said(a, context)
    raw.close()
    b = any_team.open("b")
    assert said(b, context) == expected
    a.close()
    b.close()
    any_team.agree("a", "b")


@pytest.mark.logs("remote repair puts back")
def test_a_repair_after_the_log_went_back_behind_and_before_the_archive(any_team: Team) -> None:
    """A space that was put back from a backup from before, and from after, it was archived."""
    from tests.store.shared.test_remote_packs import log_kept

    a, b = any_team.open("a"), any_team.open("b")
    context = a.contexts.create().context
    appended(a, context, 20)
    until(lambda: b.writer.seq == a.writer.seq)
    put_back = log_kept(any_team)
    appended(a, context, 20)
    archive(a)
    appended(a, context, 5)
    expected = said(a, context)
    until(lambda: b.writer.seq == a.writer.seq)
    a.close()
    b.close()
    put_back()
    with Store.open(any_team.root("a")) as a:
        assert a.replica is not None
        assert a.replica.repair() == 25
    with Store.open(any_team.root("a")) as a:
        assert archive(a) > 30
        sound(a)
    shutil.rmtree(any_team.directory / "earlier", ignore_errors=True)
    put_back = log_kept(any_team)
    with Store.open(any_team.root("a")) as a:
        # segments of the backup have been replaced since, and removed
        appended(a, context, 3)
        archive(a)
        own = Archive(space_of(a))
        own.remove(own.objects())
        expected = said(a, context)
    put_back()
    with Store.open(any_team.root("a")) as a:
        assert a.replica is not None
        assert a.replica.repair() >= 3
    c = any_team.open("c")
    b = any_team.open("b")
    assert said(b, context) == said(c, context) == expected
    for store in (b, c):
        store.close()
    any_team.agree("a", "b", "c")


def test_contents_that_were_dropped_go_from_the_archive(any_team: Team) -> None:
    a, b = any_team.open("a"), any_team.open("b")
    keep, gone = (a.contexts.create().context for _ in range(2))
    word = os.urandom(600).hex().encode()
    for number in range(5):
        a.contexts.append(gone, b'{"secret":"%s","number":%d}' % (word, number), "line")
        a.contexts.append(keep, b'{"kept":"%s","number":%d}' % (os.urandom(30).hex().encode(), number), "line")
    archive(a)
    expected = said(a, keep)
    before = segments(a)

    def held() -> bool:
        own = Archive(space_of(a))
        return any(word in entry.body for one in own.now().segments for entry in own.read(one))

    assert held()
    until(lambda: b.writer.seq == a.writer.seq)
    delete(b, gone, b.writer.head(gone).tip)
    # what a process has brought last may be about to be named once more
    a.close()
    a = any_team.open("a")
    done = collect(a)
    assert done.space_bytes > 0
    assert not held()
    assert sum(one.size for one in segments(a)) < sum(one.size for one in before) - 5 * len(word)
    # what nothing was dropped of is not read once more
    looked = segments(a)
    assert collect(a).space_bytes == 0
    assert segments(a) == looked
    # what is brought again is there
    context = b.contexts.create().context
    b.contexts.append(context, b'{"secret":"%s","number":%d}' % (word, 0), "line")
    a.writer.catch_up()
    archive(a)
    collect(a)
    sound(a)
    c = any_team.open("c")
    for store in (a, b, c):
        store.writer.catch_up()
        assert said(store, keep) == expected
        assert said(store, context) == [b'{"secret":"%s","number":0}' % word]
    for store in (a, b, c):
        store.close()
    any_team.agree("a", "b", "c")


def test_gc_archives_and_so_does_the_background_once_there_is_enough(team: Team) -> None:
    team.open("a").close()
    (team.root("a") / paths.SETTINGS).write_text("[remote]\nkeep_entries = 15\nkeep_hours = 0\n")
    a = team.open("a")
    context = a.contexts.create().context
    count = kept_by_log(team, a)
    job = ArchivingJob(a)
    appended(a, context, 29 - count)
    assert not job.step()
    assert kept_by_log(team, a) == 29
    appended(a, context, 1)
    while job.step():
        pass
    assert kept_by_log(team, a) == 15
    appended(a, context, 3)
    assert not job.step()
    assert kept_by_log(team, a) == 18
    done = collect(a)
    assert done.archived >= 3
    assert kept_by_log(team, a) == 15
    a.close()
    team.agree("a")


@pytest.mark.parametrize("by_names", [True, False])
def test_a_redaction_takes_the_secret_out_of_the_archive(
    any_team: Team, by_names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_names:
        monkeypatch.setattr(packs, "WHOLE_BYTES", 0)
    team = any_team
    a, b, c = (team.open(name) for name in "abc")
    kept = filled(a, b)
    until(lambda: c.writer.seq == b.writer.seq == a.writer.seq)
    c.close()
    archive(a)
    # one of a machine that was killed before it named it
    Archive(space_of(a))._put(0, Archive(space_of(a)).entries(0))
    assert len(segments(a)) > 1
    before = {one.key for one in segments(a)}
    done = redact(a)
    assert before.isdisjoint(Archive(space_of(a)).objects())
    assert not Archive(space_of(a)).orphans()
    nothing_in_space(a, done.gone)
    until(lambda: b.replica is not None and b.replica.generation == 1)
    b.writer.catch_up()
    c, d = team.open("c"), team.open("d")
    for store in (a, b, c, d):
        store.writer.catch_up()
        left(store, kept)
        proved(store, done.gone)
        assert list(Archive(space_of(store)).problems()) == []
    archive(a)
    assert list(Archive(space_of(a)).problems()) == []
    for store in (a, b, c, d):
        store.close()
        nothing_in_files(store.root, done.gone)
    if team.space.exists():
        nothing_in_files(team.space, done.gone)
    team.agree("a", "b", "c", "d")


def test_what_is_in_both_log_and_archive_is_there_once_and_is_redacted(any_team: Team) -> None:
    """As a machine leaves it that is killed before it removes from the log what is in the archive."""
    team = any_team
    a, b = team.open("a"), team.open("b")
    kept = filled(a, b)
    a.writer.catch_up()
    own = Archive(space_of(a))
    before = kept_by_log(team, a)
    upto = space_of(a).log.old(1, 0)[1]
    while own.grow(upto):
        pass
    assert kept_by_log(team, a) == before
    c = team.open("c")
    assert c.writer.seq == a.writer.seq
    c.close()
    done = redact(a)
    assert kept_by_log(team, a) < before
    nothing_in_space(a, done.gone)
    c = team.open("c")
    until(lambda: b.replica is not None and b.replica.generation == 1)
    for store in (a, b, c):
        store.writer.catch_up()
        left(store, kept)
        proved(store, done.gone)
        assert list(Archive(space_of(store)).problems()) == []
    for store in (a, b, c):
        store.close()
    team.agree("a", "b", "c")


def test_readers_and_writers_archive_nothing(any_team: Team) -> None:
    a = any_team.open("a")
    context = a.contexts.create().context
    appended(a, context, 10)
    for role in ("writer", "reader"):
        invited = remote.invite(any_team.root("a"), role)
        if remote.accept(invited, any_team.root(role), role) is None:
            remote.approve(any_team.root("a"))
            assert remote.accept(invited, any_team.root(role), role) is not None
        with Store.open(any_team.root(role)) as store:
            assert archive(store) == 0
            store.writer.catch_up()
        member = membership(any_team.root(role))
        assert member is not None
        if any_team.place.directory:
            continue
        # neither does one that was changed to try
        with closing(enter(any_team.root(role), member)[0]) as space:
            with pytest.raises(Unreachable, match="has not the role admin"):
                space.log.trim()
            with pytest.raises(Unreachable, match="has not the role admin"):
                space.log.old(1, 0)
            with pytest.raises(Unreachable, match="has not the role admin"):
                space.records.swap(ARCHIVE, 0, b'{"seq":1000,"segments":[]}')
    assert len(said(a, context)) == 10
    assert archive(a) > 0
    for role in ("writer", "reader"):
        with Store.open(any_team.root(role)) as store:
            assert said(store, context) == said(a, context)
    a.close()
