"""Servers whose schema an earlier convfs has made: who owns it brings it up to date, machines go on and say so.

``tests/frozen/postgres-1.sql`` is the schema of commit a1da394, without logins, and ``postgres-2.sql`` that of 2da0e8b,
in which writers could not change their own keys.
"""

import hashlib
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from fusefs.cli.main import main
from fusefs.text.render import FileRenderer
from store.errors import NotFound, Unreachable, UsageError
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.shared import connect, postgres, remote
from store.shared.space import Membership, Place
from store.store import Store
from tests.servers import Postgres
from tests.spaces import until
from tests.store.shared.test_archive import archive

FROZEN = Path(__file__).parents[2] / "frozen"
SCHEMAS = {
    3: "500e44ba16b01c41a433ac3f1232b8515bbf18f24d60bf8c83d91be173a03cef",
    4: "d274ba2d5abb291e953e84dbe03aaafd329662f9237571f6ffbe3501d8b51700",
}
"""The SHA-256 of each schema that says its version. A server that has one keeps it until the number rises."""
SECRET = b"sk-live-4f9c2d71aa0e"


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A database of its own, and a login that owns it and can make others."""
    name = f"old_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE ROLE {name} LOGIN CREATEROLE")
    postgres.execute(f"CREATE DATABASE {name} OWNER {name}")
    with suppress(psycopg.errors.DuplicateObject):
        postgres.execute("CREATE ROLE convfs_member NOLOGIN")
    # as it is for who has made it
    postgres.execute(f"GRANT convfs_member TO {name} WITH ADMIN OPTION")
    yield postgres.url(name).replace("//postgres@", f"//{name}@")
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def earlier(url: str, number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((FROZEN / f"postgres-{number}.sql").read_bytes())


def said(url: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT obj_description('convfs'::regnamespace, 'pg_namespace')").fetchone()


@pytest.fixture
def made_earlier(monkeypatch: pytest.MonkeyPatch) -> Callable[[Place, str, int], None]:
    """Makes a space as an earlier version did."""

    def make(place: Place, name: str, number: int) -> None:
        earlier(place.postgres, number)
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "_bring_up", lambda _connection: None)
            remote.init(place, name)

    return make


@pytest.mark.logs("functions on the server of the space team are of an earlier convfs", "the keys from before")
def test_a_machine_goes_on_with_earlier_functions_until_the_owner_replaces_them(
    url: str,
    tmp_path: Path,
    made_earlier: Callable[[Place, str, int], None],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(postgres=url, objects=f"file://{tmp_path}/objects")
    made_earlier(place, "team", 2)
    with monkeypatch.context() as patch:
        # as by an earlier version, too
        patch.setattr(postgres, "_bring_up", lambda _connection: None)
        remote.join(place, "team", tmp_path / "a", "a")
        invited = remote.invite(tmp_path / "a", "writer")
        assert remote.accept(invited, tmp_path / "b", "b") is None
        remote.approve(tmp_path / "a")
        assert remote.accept(invited, tmp_path / "b", "b") is not None
    assert said(url) == (None,)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        a = Store.open(tmp_path / "a", renderer=FileRenderer())
        b = Store.open(tmp_path / "b", renderer=FileRenderer())
    told = [record.message for record in caplog.records]
    assert told
    assert all("convfs remote upgrade" in line for line in told)
    assert said(url) == (None,)
    context = a.contexts.create().context
    a.contexts.append(context, b'"it is %b"' % SECRET, "line")
    b.writer.catch_up()
    b.contexts.append(context, b'"two"', "line")
    a.writer.catch_up()
    # with the earlier ones a writer cannot give up its keys
    Redaction(a, Secrets([SECRET])).run()
    replica = b.replica
    assert replica is not None
    assert archive(a) == 0
    until(lambda: replica.generation == 1)
    until(lambda: any("the keys from before" in line for line in caplog.messages))
    with pytest.raises(UsageError, match="only the login old_"):
        connect.upgrade(replica.member.place.postgres)
    with pytest.raises(SystemExit) as ended:
        main(["remote", "upgrade", "--pg", url])
    assert (ended.value.code, capsys.readouterr().out) == (0, "Replaced the functions of the server.\n")
    assert said(url) == (f"convfs {postgres.VERSION}",)
    for store in (a, b):
        store.close()
    caplog.clear()
    a = Store.open(tmp_path / "a", renderer=FileRenderer())
    b = Store.open(tmp_path / "b", renderer=FileRenderer())
    assert not caplog.records
    for store in (a, b):
        assert store.replica is not None
        store.replica.say()
        assert SECRET not in store.contents.payload(store.contexts.last(context, 2)[0].turn_id)
    assert a.replica is not None
    assert a.replica.behind() == []
    assert archive(a) > 0
    a.close()
    b.close()
    assert not connect.upgrade(url)


def test_a_space_of_before_there_were_logins_is_opened_by_its_owner(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier(url, 1)
    space = uuid.uuid4().bytes
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO convfs.space (id, name, format) VALUES (%s, 'old', 2)", (space,))
    place = Place(postgres=url, objects=f"file://{tmp_path}/objects")
    for number, name in enumerate("ab", 1):
        (tmp_path / name).mkdir()
        Membership("old", space.hex(), name, number, place).write(tmp_path / name)
    with Store.open(tmp_path / "a", renderer=FileRenderer()) as a, Store.open(tmp_path / "b") as b:
        context = a.contexts.create().context
        a.contexts.append(context, b'"one"', "line")
        b.writer.catch_up()
        assert b.contents.payload(b.contexts.last(context, 1)[0].turn_id) == b'"one"'
    assert said(url) == (f"convfs {postgres.VERSION}",)
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT DISTINCT role FROM convfs.login").fetchall()
    assert rows == [("admin",)]


def test_a_schema_that_was_changed_has_a_number_of_its_own() -> None:
    changed = "SCHEMA was changed: raise VERSION, and add the SHA-256 under that number"
    assert hashlib.sha256(postgres.SCHEMA.encode()).hexdigest() == SCHEMAS[postgres.VERSION], changed
    assert max(SCHEMAS) == postgres.VERSION


def test_a_newer_schema_is_left_alone(url: str, tmp_path: Path) -> None:
    place = Place(postgres=url, objects=f"file://{tmp_path}/objects")
    remote.init(place, "team")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("COMMENT ON SCHEMA convfs IS 'convfs 1000'")
        connection.execute("DROP FUNCTION convfs.take_turn")
    remote.init(place, "other")
    assert not connect.upgrade(url)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regproc('convfs.take_turn')").fetchone() == (None,)
    assert said(url) == ("convfs 1000",)


def test_a_server_without_spaces_has_nothing_to_bring_up_to_date(url: str) -> None:
    with pytest.raises(NotFound, match="convfs remote init"):
        connect.upgrade(url)
    with pytest.raises(Unreachable):
        connect.upgrade(url.replace("/old_", "/none_"))
