"""Roles on a PostgreSQL server: what the login of a machine may do, and that it takes nothing away."""

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from msgspec import structs
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fusefs.text.render import FileRenderer
from store.errors import NotFound, StoreFailed, Unreachable, UsageError
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.shared import remote
from store.shared.connect import connect
from store.shared.entry import Entry, new_token
from store.shared.space import Membership, Place, membership
from store.store import Store
from tests.servers import Postgres
from tests.spaces import until

TABLES = {"space": "seq", "entry": "body", "record": "value", "login": "role"}


class Team:
    """A space on a server, with an admin, a writer and a reader, each with some of a conversation."""

    def __init__(self, server: Postgres, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.name = f"team-{directory.name}"
        self.place = Place(postgres=server.url(), objects=f"file://{directory}/objects")
        remote.init(self.place, self.name)
        remote.join(self.place, self.name, directory / "admin", "admin")
        for role in ("writer", "reader"):
            invited = remote.invite(directory / "admin", role)
            assert remote.accept(invited, directory / role, role) is None
            assert remote.approve(directory / "admin") == [role]
            assert remote.accept(invited, directory / role, role) is not None
        with self.open("admin") as store:
            self.context = store.contexts.create().context
            store.contexts.append(self.context, b"1", "line")

    def open(self, name: str) -> Store:
        return Store.open(self.directory / name, renderer=FileRenderer())

    def member(self, name: str) -> Membership:
        found = membership(self.directory / name)
        assert found is not None
        return found

    def login(self, name: str) -> str:
        return str(conninfo_to_dict(self.member(name).place.postgres)["user"])

    def connection(self, name: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.member(name).place.postgres, autocommit=True)


@pytest.fixture
def team(postgres: Postgres, memory_path: Path) -> Iterator[Team]:
    made = Team(postgres, memory_path)
    yield made
    for name in ("admin", "writer", "reader"):
        with suppress(StoreFailed):
            made.open(name).close()


def test_each_machine_has_a_login_of_its_own(team: Team) -> None:
    logins = {team.login(name) for name in ("admin", "writer", "reader")}
    assert len(logins) == 3
    assert "postgres" not in logins
    for name in ("admin", "writer", "reader"):
        assert (team.directory / name / "space").stat().st_mode & 0o777 == 0o600
        assert conninfo_to_dict(team.member(name).place.postgres)["password"]
    rights = team.server.execute(
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication FROM pg_roles"
        f" WHERE rolname IN {tuple(logins)}"
    )
    assert rights == [(False,) * 5] * 3
    # the server has passwords as SCRAM keeps them
    kept = team.server.execute(f"SELECT rolpassword FROM pg_authid WHERE rolname IN {tuple(logins)}")
    assert all(str(one[0]).startswith("SCRAM-SHA-256$") for one in kept)


@pytest.mark.parametrize("name", ["admin", "writer", "reader"])
def test_no_login_reads_or_changes_a_table(team: Team, name: str) -> None:
    statements = [
        "SELECT * FROM convfs.{}",
        "SELECT count(*) FROM convfs.{}",
        "COPY convfs.{} TO STDOUT",
        "DELETE FROM convfs.{}",
        "TRUNCATE convfs.{} CASCADE",
        "DROP TABLE convfs.{} CASCADE",
        "ALTER TABLE convfs.{} DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE convfs.{} OWNER TO CURRENT_USER",
        "UPDATE convfs.{} SET ctid = ctid",
        "INSERT INTO convfs.{} SELECT * FROM convfs.{}",
        "GRANT ALL ON convfs.{} TO CURRENT_USER",
        "CREATE TRIGGER gone BEFORE INSERT ON convfs.{} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ]
    with team.connection(name) as connection:
        for table, column in TABLES.items():
            for statement in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.replace("{}", table).replace("ctid", column))
    for table in TABLES:
        assert team.server.execute(f"SELECT count(*) > 0 FROM convfs.{table}") == [(True,)]


@pytest.mark.parametrize("name", ["admin", "writer", "reader"])
def test_no_login_changes_the_schema(team: Team, name: str) -> None:
    with team.connection(name) as connection:
        for statement in (
            "DROP SCHEMA convfs CASCADE",
            "DROP FUNCTION convfs.require",
            "CREATE TABLE convfs.mine (a int)",
            "CREATE OR REPLACE FUNCTION convfs.require(s bytea, least_role text) RETURNS void LANGUAGE sql AS ''",
            "ALTER FUNCTION convfs.require SECURITY INVOKER",
            "CREATE ROLE another LOGIN",
            "SET ROLE postgres",
            "SET SESSION AUTHORIZATION postgres",
            "DROP DATABASE postgres",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse)):
                connection.execute(statement)


def test_a_reader_reads_and_appends_nothing(team: Team) -> None:
    with team.open("reader") as store:
        assert bytes(store.blobs.blob(store.contexts.last(team.context, 1)[0].payload_hash)) == b"1"
        with pytest.raises(StoreFailed, match="may read the space"):
            store.contexts.append(team.context, b"2", "line")
    # neither does one that was changed to try
    member = team.member("reader")
    with closing(connect(member.place, member.space)) as space:
        after = space.log.entries(0)[-1].seq
        entry = Entry(after, after + 2, new_token(), 3, 1, 0, bytes(32), bytes(100))
        with pytest.raises(Unreachable, match="has not the role writer"):
            space.log.append(entry)
        with pytest.raises(Unreachable, match="has not the role writer"):
            space.records.swap("pack/000000000009", 0, b"{}")
        assert space.log.entries(after) == []


def test_what_a_reader_may_not_bring_does_not_hold_it_up(team: Team) -> None:
    brought = random.Random(0).randbytes(2 << 20)
    with team.open("reader") as reader:
        with pytest.raises(StoreFailed, match="may read the space"):
            reader.intake.put(b"from a reader" * 10_000)
        reader.intake.sync()
        with team.open("admin") as admin:
            admin.contexts.append(team.context, brought, "line")
        until(lambda: len(reader.contexts.last(team.context, 9, latest=True)) == 2)
        [last] = reader.contexts.last(team.context, 1)
        assert reader.blobs.blob(last.payload_hash) == brought


def test_a_writer_takes_nothing_away(team: Team) -> None:
    with team.open("writer") as store:
        store.intake.put(b"from a writer" * 10_000)
        store.contexts.append(team.context, b"2", "line")
    member = team.member("writer")
    with closing(connect(member.place, member.space)) as space:
        entry = space.log.entries(0)[0]
        with pytest.raises(Unreachable, match="has not the role admin"):
            space.log.replace(structs.replace(entry, body=bytes(10)))
        for key in ("generation", "redaction", "key/000001", "invite/00", "pack/000000000001"):
            record = space.records.record(key)
            with pytest.raises(Unreachable, match="has not the role admin"):
                space.records.swap(key, record.version or 1, b"")
        assert space.logins is not None
        with pytest.raises(Unreachable, match="has not the role admin"):
            space.logins.make_login("admin")
        with pytest.raises(Unreachable, match="has not the role admin"):
            space.logins.lock_login(team.login("admin"))
    with team.open("admin") as store:
        turns = store.contexts.last(team.context, 10, latest=True)
        assert [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns] == [b"1", b"2"]


@pytest.mark.parametrize("name", ["writer", "reader"])
def test_who_lets_nobody_in_does_not_adopt_a_copy(team: Team, name: str) -> None:
    logins = team.server.execute("SELECT count(*) FROM convfs.login")
    with pytest.raises(UsageError, match=f"a {name} of the space .*remote invite"):
        remote.adopt(team.directory / name)
    assert team.server.execute("SELECT count(*) FROM convfs.login") == logins
    team.open(name).close()


def test_a_writer_collects_and_redacts_nothing_for_others(team: Team) -> None:
    with team.open("writer") as store:
        store.intake.put(b"from a writer" * 10_000)
        store.contexts.append(team.context, b'"a secret"', "line")
        list(store.collector.steps(grace_seconds=0, dry_run=False))
        with pytest.raises(UsageError, match="no admin of the space"):
            Redaction(store, Secrets([b"secret"])).run()
        store.contexts.append(team.context, b"2", "line")
    with team.open("admin") as store:
        turns = store.contexts.last(team.context, 10, latest=True)
        assert [bytes(store.blobs.blob(turn.payload_hash)) for turn in turns] == [b"1", b'"a secret"', b"2"]
        Redaction(store, Secrets([b"secret"])).run()
    with team.open("writer") as store:
        store.contexts.append(team.context, b"3", "line")
        turns = store.contexts.last(team.context, 10, latest=True)
        assert b"secret" not in b"".join(bytes(store.blobs.blob(turn.payload_hash)) for turn in turns)
        assert len(turns) == 4


def test_a_login_is_one_of_its_space_alone(team: Team) -> None:
    other = f"other-{team.directory.name}"
    remote.init(team.place, other)
    member = team.member("writer")
    with pytest.raises(NotFound, match="there is no space"):
        connect(member.place, other)
    theirs = team.server.execute(f"SELECT id FROM convfs.space WHERE name = '{other}'")[0][0]
    with team.connection("admin") as connection:
        for call in (
            "convfs.entries(%s, 0)",
            "convfs.records(%s, '', '')",
            "convfs.take_turn(%s)",
            "convfs.swap(%s, 'pack/1', 0, '')",
            "convfs.append(%s, 0, 1, gen_random_uuid(), 1, 1, 0, '', '')",
            "convfs.replace_entry(%s, 0, 1, gen_random_uuid(), 1, 1, 0, '', '')",
            "convfs.make_login(%s, 'convfs_0123456789abcdef', 'SCRAM-SHA-256$', 'admin')",
            "convfs.lock_login(%s, 'postgres')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {call}", (theirs,))


def test_an_admin_makes_no_login_but_of_machines(team: Team) -> None:
    space = team.server.execute(f"SELECT id FROM convfs.space WHERE name = '{team.name}'")[0][0]
    with team.connection("admin") as connection:
        for login, verifier in (("postgres", "SCRAM-SHA-256$"), ("convfs_member", "SCRAM-SHA-256$"), ("ada", "md5")):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute("SELECT convfs.make_login(%s, %s, %s, 'admin')", (space, login, verifier))


@pytest.mark.logs("permitted to log in", "refuses it", "cannot be reached", sometimes=True)
def test_the_login_of_who_was_revoked_is_locked(team: Team) -> None:
    member = team.member("writer")
    with closing(connect(member.place, member.space)) as space:
        remote.revoke(team.directory / "admin", "writer")
        # also of who is connected already
        with pytest.raises(Unreachable, match="has not the role reader"):
            space.log.entries(0)
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        psycopg.connect(make_conninfo(member.place.postgres))
    with team.open("writer") as store, pytest.raises(StoreFailed, match="not permitted to log in"):
        store.contexts.create()


def test_a_login_that_cannot_make_others_makes_no_space(team: Team) -> None:
    with pytest.raises(UsageError, match="CREATEROLE"):
        remote.init(team.member("writer").place, "another")


def test_a_space_on_servers_is_not_plain(team: Team) -> None:
    with pytest.raises(UsageError, match="always encrypted"):
        remote.init(team.place, "another", plain=True)
