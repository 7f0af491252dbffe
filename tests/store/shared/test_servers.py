"""Spaces on servers: where these may be, and who sees their secrets."""

import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fusefs.cli.main import main
from store.errors import NotFound, Unreachable, UsageError
from store.shared import bucket, postgres, remote, replica
from store.shared import postgres as client
from store.shared.space import Place
from store.store import Store
from tests.servers import S3, Postgres, free_ports
from tests.spaces import let_in


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PG", "AWS_")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada@db.example.com/team",
        "postgresql://ada@db.example.com/team?sslmode=require",
        "postgresql://ada@127.0.0.1,db.example.com/team?sslmode=verify-ca",
        "host=db.example.com dbname=team",
        "hostaddr=192.0.2.7 host=localhost",
    ],
)
def test_a_server_elsewhere_is_only_spoken_to_over_tls(url: str) -> None:
    with pytest.raises(UsageError, match="verify-full"):
        postgres.check(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada@db.example.com/team?sslmode=verify-full",
        "postgresql://localhost/team",
        "postgresql:///team?host=/run/postgresql",
        "postgresql://[::1]:5432/team",
        "dbname=team",
    ],
)
def test_servers_that_may_be_spoken_to(url: str) -> None:
    postgres.check(url)


def test_who_opens_a_replica_for_a_moment_asks_its_server_little(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    place = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    remote.init(place, "brief")
    remote.join(place, "brief", memory_path / "a")
    Store.open(memory_path / "a").close()
    asked: list[str] = []
    connected: list[str] = []
    execute, connect = psycopg.Connection.execute, psycopg.connect

    def asking(connection: psycopg.Connection[Any], query: Any, *given: Any, **more: Any) -> Any:  # noqa: ANN401  (those of psycopg)
        asked.append(f"{query} {given}")
        return execute(connection, query, *given, **more)

    def connecting(url: str, **more: Any) -> Any:  # noqa: ANN401  (those of psycopg)
        connected.append(url)
        return connect(url, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", asking)
        patch.setattr(psycopg, "connect", connecting)
        # on a busy machine it is more than a moment
        patch.setattr(replica, "_LOOK_SECONDS", 60.0)
        Store.open(memory_path / "a").close()
    assert len(connected) == 1, asked
    assert len(asked) <= 11, asked
    assert sum("'redaction'" in one for one in asked) == 1


def test_an_append_in_its_place_is_asked_for_once(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    place = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    remote.init(place, "once")
    remote.join(place, "once", memory_path / "a")
    asked: list[str] = []
    execute = psycopg.Connection.execute

    def asking(connection: psycopg.Connection[Any], query: Any, *given: Any, **more: Any) -> Any:  # noqa: ANN401  (those of psycopg)
        asked.append(str(query))
        return execute(connection, query, *given, **more)

    with Store.open(memory_path / "a") as store, monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", asking)
        store.contexts.create()
        assert not any("append" in one for one in asked), asked


def test_who_is_shown_what_comes_need_not_wait_for_the_next_look(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    place = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    remote.init(place, "shown")
    remote.join(place, "shown", memory_path / "a", "a")
    let_in(memory_path / "a", memory_path / "b", "b")
    # what is not told of is not seen before the test gives up
    monkeypatch.setattr(replica, "_LOOK_SECONDS", 600.0)
    with Store.open(memory_path / "a") as a, Store.open(memory_path / "b") as b:
        shown = threading.Event()
        b.observers.add(lambda _change: shown.set())
        a.contexts.create()
        assert shown.wait(60)


def test_who_has_begun_to_listen_looks_at_what_came_before(memory_path: Path, postgres: Postgres) -> None:
    place = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    remote.init(place, "before")
    server = client.Postgres(postgres.url(), "before")
    server.listen()
    waiting = threading.Thread(target=server.wait, args=(600.0,))
    waiting.start()
    waiting.join(60)
    looks = not waiting.is_alive()
    server.wake()
    waiting.join()
    server.close()
    assert looks


def test_a_connection_that_is_lost_in_the_middle_of_a_pipeline_is_made_anew(
    memory_path: Path, postgres: Postgres
) -> None:
    place = Place(postgres=postgres.url(), objects=f"file://{memory_path}/objects")
    remote.init(place, "lost")
    server = client.Postgres(postgres.url(), "lost")
    connections: list[object] = []

    def ask(connection: psycopg.Connection[Any]) -> None:
        connections.append(connection)
        connection.execute("BEGIN")
        connection.pgconn.enter_pipeline_mode()
        raise psycopg.OperationalError("the server has gone")

    with pytest.raises(Unreachable, match="has gone"):
        server._ask(ask)
    assert len(connections) == 2
    assert not server.entries(0)
    server.close()


def test_the_environment_may_name_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    with pytest.raises(UsageError, match="verify-full"):
        postgres.check("dbname=team")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    postgres.check("dbname=team")


def test_a_service_file_may_not_lead_elsewhere_unprotected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    services = tmp_path / "services"
    services.write_text(f"[near]\nhost=127.0.0.1\nport={postgres.port}\nuser=postgres\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    place = Place(postgres="service=near", objects=f"file://{tmp_path}/objects")
    remote.init(place, "by-service")
    assert remote.join(place, "by-service", tmp_path / "a").number == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://s3.example.com/team", "unprotected"),
        ("ftp://s3.example.com/team", "is given as"),
        ("https://s3.example.com", "names no bucket"),
        ("s3://", "names no bucket"),
        ("team", "is given as"),
    ],
)
def test_buckets_that_are_refused(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bucket.Objects(url, bytes(16))


def test_a_bucket_elsewhere_is_not_reached_unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://s3.example.com")
    with pytest.raises(UsageError, match="unprotected"):
        bucket.Objects("s3://team", bytes(16))


def test_a_bucket_that_keeps_versions_is_refused(s3: S3) -> None:
    s3.shell("s3.bucket.create -name versions\ns3.bucket.versioning -name versions -enable\n")
    with pytest.raises(UsageError, match="keeps what is removed"):
        bucket.check(s3.url.removesuffix(S3.BUCKET) + "versions")
    bucket.check(s3.url)


def test_secrets_are_not_shown_and_nobody_else_reads_them(postgres: Postgres, s3: S3, tmp_path: Path) -> None:
    place = Place(postgres=postgres.url().replace("postgres@", "postgres:hidden@"), objects=s3.url)
    remote.init(place, "secrets")
    root = tmp_path / "a"
    remote.join(place, "secrets", root)
    assert stat.S_IMODE((root / "space").stat().st_mode) == 0o600
    with Store.open(root) as store:
        store.contexts.create()
        store.intake.put(os.urandom(40_000))
        where = remote.status(root).where
    assert "hidden" not in where
    assert S3.SECRET not in where
    assert f"127.0.0.1:{s3.port}" in where
    wrong = Place(postgres=place.postgres, objects=s3.url.replace(S3.SECRET, "another-secret"))
    with pytest.raises(Unreachable) as raised:
        remote.init(wrong, "wrong")
    assert "another-secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_servers_that_are_not_there(tmp_path: Path, postgres: Postgres) -> None:
    away = f"postgresql://postgres@127.0.0.1:{free_ports(1)[0]}/postgres"
    objects = f"file://{tmp_path}/objects"
    with pytest.raises(Unreachable, match="refused") as raised:
        remote.init(Place(postgres=away, objects=objects), "team")
    assert "\n" not in str(raised.value)
    with pytest.raises(NotFound, match="there is no space"):
        remote.join(Place(postgres=postgres.url(), objects=objects), "nowhere", tmp_path / "a")
    postgres.execute("CREATE DATABASE empty")
    with pytest.raises(NotFound, match="there are no spaces"):
        remote.join(Place(postgres=postgres.url("empty"), objects=objects), "team", tmp_path / "a")
    remote.init(Place(postgres=postgres.url(), objects=objects), "twice")
    with pytest.raises(UsageError, match="there is a space"):
        remote.init(Place(postgres=postgres.url(), objects=objects), "twice")


def test_without_the_packages_it_is_said_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None; from fusefs.cli.main import main;"
        "sys.argv[1:] = ['remote', 'init', 'team', '--pg', 'dbname=x', '--s3', 's3://x']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "pip install 'convfs[shared]'" in done.stderr


def test_a_space_in_a_directory_needs_none_of_them(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = sys.modules['obstore'] = None;"
        "from pathlib import Path; from store.shared import remote; from store.shared.space import Place;"
        "from store.store import Store; place = Place(sys.argv[1]); remote.init(place, 'team');"
        "root = Path(sys.argv[1]) / 'a'; remote.join(place, 'team', root); store = Store.open(root);"
        "store.contexts.create(); store.close()"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=60)


def test_doctor_says_what_is_wrong_with_the_space(
    postgres: Postgres, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(root: Path) -> list[str]:
        with suppress(SystemExit):
            main(["--store", str(root), "doctor"])
        return [line for line in capsys.readouterr().out.splitlines() if "space" in line or "doctored" in line]

    server = Place(postgres=postgres.url(), objects=f"file://{tmp_path}/objects")
    remote.init(server, "doctored")
    remote.join(server, "doctored", tmp_path / "a")
    # the servers of tests do not sync
    sound, wrong = said(tmp_path / "a")
    assert sound.startswith("ok    replica 1 of the space doctored, in 127.0.0.1/postgres and ")
    assert wrong == "wrong fsync = off on the server of the space doctored: a power failure there loses commits"
    directory = Place(str(tmp_path / "spaces"))
    remote.init(directory, "doctored")
    remote.join(directory, "doctored", tmp_path / "b")
    assert [line[:5] for line in said(tmp_path / "b")] == ["ok   "]
    (tmp_path / "spaces").rename(tmp_path / "away")
    assert [line[:5] for line in said(tmp_path / "b")] == ["note "]
