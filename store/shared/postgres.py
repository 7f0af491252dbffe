"""The log and the records of a space in PostgreSQL.

A server has one schema, ``convfs``, for any number of spaces. Clients call its functions: an append is one statement,
one round trip and one commit, whatever comes of it. The tables and functions are in :data:`SCHEMA`. Each machine has a
login, and the functions ask what that may; the tables are closed to it. So who has a machine can write as it, and take
nothing away.

The schema has a version, the comment on it. Who connects with a login that owns it, which no machine should have,
brings an older one up to date; others go on with what there is, and are told.

A lost connection is made anew at once, and what was asked is asked once more: every function may be, as an append has
its token and a swap its version. Only the answer to an append is waited for longer, since nobody should be told that
the space is away who has been served. A new connection may lead to another server, that took over and has lost the
last commits: so it is asked for the last entry that this process knows first.

Machines tell each other of entries by NOTIFY, in a statement of its own: in the transaction of an append it would take
a lock of the whole server. The thread that waits for others' entries also sends these, some times a second at most; a
machine that is told of nothing looks once a second.
"""

import logging
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from struct import Struct as Layout
from typing import Any, LiteralString, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import Connection, generators, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus, Format, TransactionStatus

from store.commit import patience
from store.errors import FormatTooNew, NotFound, Unreachable, UsageError
from store.ids import new_store_id
from store.shared.entry import Entry
from store.shared.space import FORMAT, Behind, Outdated, Record

_LOG = logging.getLogger(__name__)
# what it warns of are lost connections, and who loses one is told by an error
logging.getLogger("psycopg").setLevel(logging.ERROR)

VERSION = 4
"""The version of :data:`SCHEMA`: it rises with each change. Earlier ones did not say theirs."""
SCHEMA: LiteralString = """
CREATE SCHEMA IF NOT EXISTS convfs;

CREATE TABLE IF NOT EXISTS convfs.space (
    id bytea PRIMARY KEY,
    name text UNIQUE NOT NULL,
    format int NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    made timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS convfs.entry (
    space bytea NOT NULL,
    prev bigint NOT NULL,
    seq bigint NOT NULL,
    token uuid NOT NULL,
    machine int NOT NULL,
    generation int NOT NULL,
    packs bigint NOT NULL,
    chain bytea NOT NULL,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (space, prev)
);
-- what is encrypted does not compress
ALTER TABLE convfs.entry ALTER body SET STORAGE EXTERNAL;
-- an append has the row of its space anyway, and would look at it a second time
ALTER TABLE convfs.entry DROP CONSTRAINT IF EXISTS entry_space_fkey;
CREATE TABLE IF NOT EXISTS convfs.record (
    space bytea NOT NULL REFERENCES convfs.space,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
);
-- Who may what: the logins of machines. The tables are for nobody but their owner.
CREATE TABLE IF NOT EXISTS convfs.login (
    space bytea NOT NULL REFERENCES convfs.space,
    login name NOT NULL,
    role text NOT NULL CHECK (role IN ('reader', 'writer', 'admin')),
    PRIMARY KEY (space, login)
);
ALTER TABLE convfs.space ENABLE ROW LEVEL SECURITY;
ALTER TABLE convfs.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE convfs.record ENABLE ROW LEVEL SECURITY;
ALTER TABLE convfs.login ENABLE ROW LEVEL SECURITY;

-- An error unless the login of this session has a role in a space, or a higher one.
CREATE OR REPLACE FUNCTION convfs.require(of_space bytea, least_role text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
DECLARE
    roles CONSTANT text[] := ARRAY['reader', 'writer', 'admin'];
BEGIN
    IF NOT EXISTS (
        SELECT FROM login AS one
        WHERE one.space = of_space AND one.login = session_user
            AND array_position(roles, one.role) >= array_position(roles, least_role)
    ) THEN
        RAISE EXCEPTION 'the login % has not the role %', session_user, least_role
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

-- Entries that follow one, in order: at least the next, and no more than some 4 MiB.
CREATE OR REPLACE FUNCTION convfs.entries(of_space bytea, after bigint) RETURNS SETOF convfs.entry
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'reader');
    RETURN QUERY
    SELECT counted.space, counted.prev, counted.seq, counted.token, counted.machine, counted.generation,
        counted.packs, counted.chain, counted.body, counted.at
    FROM (
        SELECT *, sum(octet_length(following.body)) OVER (ORDER BY following.prev) - octet_length(following.body)
            AS bytes_before
        FROM (
            SELECT * FROM entry AS one WHERE one.space = of_space AND one.prev >= after ORDER BY one.prev LIMIT 1000
        ) AS following
    ) AS counted
    WHERE bytes_before < 4 << 20 ORDER BY counted.prev;
END
$$;

DROP FUNCTION IF EXISTS convfs.generation;

-- The compare-and-append. Returns nothing if the entry is in place, else entries that follow `new_prev`.
-- It looks at the role and at the key itself: to call a function for each takes longer than the commit can spare.
CREATE OR REPLACE FUNCTION convfs.append(
    of_space bytea, new_prev bigint, new_seq bigint, new_token uuid, new_machine int, new_generation int,
    new_packs bigint, new_chain bytea, new_body bytea
) RETURNS SETOF convfs.entry
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    UPDATE space SET seq = new_seq
    WHERE id = of_space AND seq = new_prev AND EXISTS (
        SELECT FROM login AS one
        WHERE one.space = of_space AND one.login = session_user AND one.role IN ('writer', 'admin')
    );
    IF FOUND THEN
        -- the key is looked at behind the lock on the space, for which who changes it has waited
        INSERT INTO entry
        SELECT of_space, new_prev, new_seq, new_token, new_machine, new_generation, new_packs, new_chain, new_body
        WHERE new_generation >= coalesce(
            (SELECT (convert_from(value, 'UTF8')::json ->> 'generation')::int
             FROM record WHERE space = of_space AND key = 'generation'),
            0
        );
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the space has a newer key' USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN;
    END IF;
    PERFORM require(of_space, 'writer');
    IF NOT EXISTS (SELECT FROM entry WHERE space = of_space AND prev = new_prev AND token = new_token) THEN
        RETURN QUERY SELECT * FROM entries(of_space, new_prev);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the space does not have commit %', new_prev USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION convfs.replace_entry(
    of_space bytea, old_prev bigint, old_seq bigint, new_token uuid, new_machine int, new_generation int,
    new_packs bigint, new_chain bytea, new_body bytea
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'admin');
    UPDATE entry
    SET token = new_token, machine = new_machine, generation = new_generation, packs = new_packs, chain = new_chain,
        body = new_body
    WHERE space = of_space AND prev = old_prev AND seq = old_seq;
END
$$;

-- How many entries are neither among the last `keep` nor younger, and the last of them. Never the last of all.
CREATE OR REPLACE FUNCTION convfs.old_entries(of_space bytea, keep bigint, seconds float8)
RETURNS TABLE (entries bigint, last bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'admin');
    RETURN QUERY
    SELECT count(*), coalesce(max(one.seq), 0) FROM entry AS one
    WHERE one.space = of_space AND one.at <= clock_timestamp() - make_interval(secs => seconds)
        AND one.prev < (
            SELECT kept.prev FROM entry AS kept WHERE kept.space = of_space
            ORDER BY kept.prev DESC OFFSET greatest(keep, 1) - 1 LIMIT 1
        );
END
$$;

-- Removes entries of which the record `archive` says that they are in objects, some at a time; returns whether there
-- may be more. The last of all stays.
CREATE OR REPLACE FUNCTION convfs.trim(of_space bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
DECLARE
    archived bigint;
BEGIN
    PERFORM require(of_space, 'admin');
    SELECT (convert_from(value, 'UTF8')::json ->> 'seq')::bigint INTO archived
    FROM record WHERE space = of_space AND key = 'archive' AND value <> '' FOR SHARE;
    IF archived > 0 THEN
        -- earlier versions know no archive: they are told to be updated
        UPDATE space SET format = 3 WHERE id = of_space AND format < 3;
        DELETE FROM entry WHERE space = of_space AND prev IN (
            SELECT old.prev FROM entry AS old
            WHERE old.space = of_space AND old.prev < archived
                AND old.prev < (SELECT max(last.prev) FROM entry AS last WHERE last.space = of_space)
            ORDER BY old.prev LIMIT 2000
        );
        RETURN FOUND;
    END IF;
    RETURN false;
END
$$;

-- Held until the end of the transaction: nobody else appends. Records may be added meanwhile, as those of packs.
CREATE OR REPLACE FUNCTION convfs.take_turn(of_space bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'writer');
    PERFORM FROM space WHERE id = of_space FOR NO KEY UPDATE;
END
$$;

CREATE OR REPLACE FUNCTION convfs.records(of_space bytea, first text, behind text)
RETURNS TABLE (key text, version bigint, value bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'reader');
    RETURN QUERY
    SELECT one.key, one.version, one.value FROM record AS one
    WHERE one.space = of_space AND starts_with(one.key, first) AND one.key > behind ORDER BY one.key;
END
$$;

-- Whose keys a record has.
CREATE OR REPLACE FUNCTION convfs.login_of(value bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value <> '' THEN convert_from(value, 'UTF8')::json ->> 'login' END
$$;

CREATE OR REPLACE FUNCTION convfs.swap(of_space bytea, of_key text, old_version bigint, new_value bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, CASE
        -- its own keys
        WHEN CASE WHEN of_key ~ '^key/' THEN login_of(new_value) = session_user AND EXISTS (
            SELECT FROM record WHERE space = of_space AND key = of_key AND login_of(value) = session_user
        ) END THEN 'reader'
        -- who is in and who is not, and what would take away what others have
        WHEN of_key IN ('generation', 'redaction', 'archive') OR of_key ~ '^(key|invite)/'
            OR of_key ~ '^pack/' AND old_version > 0 THEN 'admin'
        -- what each machine says of itself
        WHEN of_key ~ '^(request|seen|session)/' OR of_key ~ '^machine/' AND old_version = 0 THEN 'reader'
        ELSE 'writer'
    END);
    IF of_key = 'generation' THEN
        -- no append is under way that goes by the earlier one
        PERFORM FROM space WHERE id = of_space FOR UPDATE;
    END IF;
    IF old_version = 0 THEN
        INSERT INTO record VALUES (of_space, of_key, 1, new_value) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE record SET version = version + 1, value = new_value
        WHERE space = of_space AND key = of_key AND version = old_version;
    END IF;
    RETURN FOUND;
END
$$;

CREATE OR REPLACE FUNCTION convfs.find_space(of_name text) RETURNS TABLE (id bytea, format int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    SELECT one.id, one.format FROM space AS one JOIN login ON login.space = one.id
    WHERE one.name = of_name AND login.login = session_user
$$;

-- A login for a machine; its password comes as SCRAM keeps it.
CREATE OR REPLACE FUNCTION convfs.make_login(of_space bytea, new_login name, verifier text, new_role text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'admin');
    IF new_login !~ '^convfs_[0-9a-f]{16}$' OR verifier !~ '^SCRAM-SHA-256[$]' THEN
        RAISE EXCEPTION 'this is no login of a machine' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L IN ROLE convfs_member', new_login, verifier);
    INSERT INTO login VALUES (of_space, new_login, new_role);
END
$$;

CREATE OR REPLACE FUNCTION convfs.lock_login(of_space bytea, old_login name) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'admin');
    DELETE FROM login AS one WHERE one.space = of_space AND one.login = old_login;
    IF FOUND AND old_login ~ '^convfs_' THEN
        EXECUTE format('ALTER ROLE %I NOLOGIN', old_login);
    END IF;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'convfs_member') THEN
        CREATE ROLE convfs_member NOLOGIN;
    END IF;
END
$$;
REVOKE ALL ON SCHEMA convfs FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA convfs FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA convfs FROM PUBLIC;
GRANT USAGE ON SCHEMA convfs TO convfs_member;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA convfs TO convfs_member;

-- Spaces of before there were logins: who could reach them could do all.
INSERT INTO convfs.login
SELECT one.id, who, 'admin' FROM convfs.space AS one, unnest(ARRAY[current_user, session_user]) AS who
WHERE NOT EXISTS (SELECT FROM convfs.login WHERE login.space = one.id)
ON CONFLICT DO NOTHING;
"""
_SAYS: LiteralString = "convfs {}"

_ENTRY: LiteralString = "prev, seq, token, machine, generation, packs, chain, body"
_APPEND = b"convfs_append"
_APPEND_SQL = (
    b"SELECT prev, seq, machine::bigint, generation::bigint, packs, token, chain, body FROM convfs.append("
    b"$1::bytea, $2::bigint, $3::bigint, $7::uuid, $4::bigint::int, $5::bigint::int, $6::bigint, $8::bytea, $9::bytea)"
)
_BIGINT = Layout(">q")
_BINARY = [Format.BINARY] * 9
_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 10.0
"""For how long an answer is waited for, and for how long an append whose answer was lost is tried again."""
_WATCH_SECONDS = 0.2
_PAUSE_SECONDS = 0.1
_TURN_MS = 2000
_NOTIFY_SECONDS = 0.05
_PLACE = ("host", "hostaddr", "port", "dbname", "sslmode", "sslrootcert")
"""As much of how one machine connects as another can use."""
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")

T = TypeVar("T")


def check(url: str) -> None:
    """Raise UsageError unless a URL is that of a server on this machine, or one whose certificate is looked at."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise UsageError(f"this is not the URL of a PostgreSQL server: {_line(error)}") from None
    _check_safe({key: str(value) for key, value in given.items()})


def _check_safe(given: dict[str, str]) -> None:
    hosts = (given.get("hostaddr") or given.get("host") or os.environ.get("PGHOST", "")).split(",")
    near = all(host in _LOOPBACK or host.startswith(("/", "@")) for host in hosts)
    mode = given.get("sslmode") or os.environ.get("PGSSLMODE", "")
    if not near and mode != "verify-full" and "service" not in given:
        raise UsageError(
            f"{','.join(hosts)}: everything would go there unprotected: add sslmode=verify-full to the URL of the"
            " server"
        )


def create(url: str, name: str, records: Mapping[str, bytes]) -> bytes:
    """Make a space with some records, and the schema if it is missing; return its id. Raises UsageError, Unreachable.

    The login must be able to make others (CREATEROLE), and is an admin of the space.
    """
    check(url)
    space = new_store_id()
    try:
        with _connection(url) as connection:
            with connection.transaction():
                _bring_up(connection)
            with connection.transaction():
                made = connection.execute(
                    "INSERT INTO convfs.space (id, name, format) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (space, name, FORMAT),
                )
                if not made.rowcount:
                    raise UsageError(f"there is a space {name}: convfs remote join makes a replica of it")
                connection.execute("INSERT INTO convfs.login VALUES (%s, session_user, 'admin')", (space,))
                for key, value in records.items():
                    connection.execute("INSERT INTO convfs.record VALUES (%s, %s, 1, %s)", (space, key, value))
    except psycopg.errors.InsufficientPrivilege as error:
        why = "this login cannot make a space, since it may not make logins for machines (CREATEROLE)"
        raise UsageError(f"{why}: {_line(error)}") from None
    except psycopg.Error as error:
        raise Unreachable(f"the space cannot be made: {_line(error)}") from error
    return space


def upgrade(url: str) -> bool:
    """Bring the schema of a server up to date; return whether it was not. Raises UsageError, NotFound, Unreachable.

    The login must own the schema, or be a superuser.
    """
    check(url)
    try:
        with _connection(url) as connection:
            known = _schema(connection)
            if known is None:
                raise NotFound("there are no spaces on this server: convfs remote init makes one")
            if known.version < VERSION and not known.owned:
                raise UsageError(f"only the login {known.owner}, which made the spaces of this server, can do that")
            with connection.transaction():
                _bring_up(connection)
            return known.version < VERSION
    except psycopg.Error as error:
        raise Unreachable(f"the server cannot be brought up to date: {_line(error)}") from error


def risks(url: str) -> list[str]:
    """Return the settings of a server by which it may lose commits at a power failure. Raises UsageError, Unreachable.

    What a client sets for itself is not among them.
    """
    check(url)
    try:
        with _connection(url) as connection:
            found = connection.execute(
                "SELECT name FROM pg_settings"
                " WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
            ).fetchall()
    except psycopg.Error as error:
        raise Unreachable(f"the server cannot be asked: {_line(error)}") from error
    return [f"{name} = off" for (name,) in found]


_ABOUT_SCHEMA: LiteralString = (
    "obj_description(pg_namespace.oid, 'pg_namespace'), pg_get_userbyid(nspowner),"
    " pg_has_role(session_user, nspowner, 'MEMBER')"
)


class _Schema(NamedTuple):
    """The schema of a server: its version, the login that owns it, and whether this one can do what that can."""

    version: int
    owner: str
    owned: bool


def _schema(connection: Connection[tuple[Any, ...]]) -> _Schema | None:
    found = connection.execute(f"SELECT {_ABOUT_SCHEMA} FROM pg_namespace WHERE nspname = 'convfs'").fetchone()
    return None if found is None else _read_schema(found)


def _read_schema(row: tuple[Any, ...]) -> _Schema:
    said, owner, owned = row
    number = (said or "").removeprefix(_SAYS.format(""))
    return _Schema(int(number) if number.isdecimal() else 0, owner, owned)


def _bring_up(connection: Connection[tuple[Any, ...]]) -> None:
    """Make the schema, or bring an older one up to date, within a transaction."""
    # two that do so at once are in each other's way
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('convfs'))")
    known = _schema(connection)
    if known is not None and known.version >= VERSION:
        return
    if known is not None and known.owned:
        # what is made anew belongs to the same one: the functions read the tables as their owner
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(known.owner)))
    connection.execute(SCHEMA)
    connection.execute(sql.SQL("COMMENT ON SCHEMA convfs IS {}").format(sql.Literal(_SAYS.format(VERSION))))
    connection.execute("RESET ROLE")


def _connection(url: str) -> Connection[tuple[Any, ...]]:
    """Connect to a server that takes writes. Raises psycopg.Error, UsageError."""
    given = {
        "connect_timeout": str(_CONNECT_SECONDS),
        "target_session_attrs": "read-write",
        "application_name": "convfs",
        "tcp_user_timeout": f"{_ANSWER_SECONDS * 1000:.0f}",
        "keepalives_idle": "30",
    }
    given |= {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    connection = psycopg.connect(make_conninfo("", **given), autocommit=True)
    try:
        # by now it is known what the environment and service files add
        _check_safe(connection.info.get_parameters())
        if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
            connection.execute("SET synchronous_commit = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _roll_back(connection: Connection[tuple[Any, ...]]) -> bool:
    """End the transaction of a connection after an error; return whether it can be used: if not, it is closed."""
    if not (connection.closed or connection.broken):
        # one that is lost in the middle of a pipeline cannot even end that
        with suppress(psycopg.Error):
            connection.rollback()
            return True
    connection.close()
    return False


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


class Postgres:
    """The log and the records of one space; see :class:`store.shared.space.Log` and :class:`Records`."""

    def __init__(self, url: str, name: str) -> None:
        """Raises NotFound, Unreachable, FormatTooNew, UsageError."""
        check(url)
        self._url = url
        self._name = name
        self._lock = threading.RLock()
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._prepared: Connection[tuple[Any, ...]] | None = None
        """The connection that knows the statement which appends."""
        self._until = 0.0
        """The monotonic time until which an answer is waited for; 0: none is."""
        self._asking = threading.Event()
        """Wakes who watches that answers come; set as well once it is closed."""
        self._last: Entry | None = None
        """The last entry that is known to be there."""
        self._listening: Connection[tuple[Any, ...]] | None = None
        self._turns: Postgres | None = None
        """Takes this replica's turns, by a connection of its own: once it has had one, it may soon need others."""
        self._has_turn = False
        self._stays = False
        """True once entries of others are listened for: somebody is shown them, or has waited for some."""
        self._told = 0.0
        """When others were told last."""
        self._woken, self._placed = os.eventfd(0, os.EFD_CLOEXEC), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = threading.Event()
        try:
            found = self._ask(self._find)
        except Unreachable as error:
            self._let_go()
            if isinstance(error.__cause__, psycopg.errors.UndefinedFunction | psycopg.errors.InvalidSchemaName):
                raise NotFound(f"{self.where}: there are no spaces: convfs remote init makes one") from None
            raise
        if found is None:
            self._let_go()
            raise NotFound(f"{self.where}: there is no space {name}: convfs remote init makes one")
        self.id = bytes(found[0])
        if found[1] > FORMAT:
            self._let_go()
            raise FormatTooNew(f"the space {name} has format {found[1]}; this convfs knows {FORMAT}: update it")
        self._channel = sql.Identifier(f"convfs_{self.id.hex()}")
        threading.Thread(target=self._watch, name="convfs-watching", daemon=True).start()

    def _find(self, connection: Connection[tuple[Any, ...]]) -> tuple[Any, ...] | None:
        """Return the id and the format of the space, None if there is none; bring older functions up to date.

        In one round trip, unless they are older.
        """
        with suppress(psycopg.errors.UndefinedFunction):
            found = connection.execute(
                f"SELECT one.id, one.format, {_ABOUT_SCHEMA} FROM pg_namespace"
                " LEFT JOIN convfs.find_space(%s) AS one ON true WHERE nspname = 'convfs'",
                (self._name,),
            ).fetchone()
            if found is None or _read_schema(found[2:]).version >= VERSION:
                return found if found and found[0] else None
        self._look_at_schema(connection)
        return connection.execute("SELECT * FROM convfs.find_space(%s)", (self._name,)).fetchone()

    def _look_at_schema(self, connection: Connection[tuple[Any, ...]]) -> None:
        known = _schema(connection)
        if known is None or known.version >= VERSION:
            return
        if known.owned:
            with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                _bring_up(connection)
                return
        _LOG.warning(
            "the functions on the server of the space %s are of an earlier convfs, and may refuse some of what this"
            " one does: convfs remote upgrade, with the login %s, replaces them",
            self._name,
            known.owner,
        )

    # -- entries ---------------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> Sequence[Entry]:
        others = self._turns._append(entry) if self._turns is not None and self._has_turn else self._append(entry)
        if not others:
            self._last = entry
            os.eventfd_write(self._placed, 1)
        return self._following(entry.prev, others)

    def _append(self, entry: Entry) -> Sequence[Entry]:
        def ask(connection: Connection[tuple[Any, ...]]) -> Sequence[Entry]:
            in_turn = connection.info.transaction_status == TransactionStatus.INTRANS
            if not in_turn and (others := self._put(connection, entry)) is not None:
                return others
            # who has the turn knows all that is there, and is not refused: it ends in the same round trip
            with connection.pipeline() if in_turn else nullcontext():
                placed = connection.execute(
                    f"SELECT {_ENTRY} FROM convfs.append(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    (self.id, *_columns(entry)),
                    prepare=True,
                    binary=True,
                )
                if in_turn:
                    connection.execute("COMMIT")
            return _entries(placed)

        return self._ask(ask, _ANSWER_SECONDS)

    def _put(self, connection: Connection[tuple[Any, ...]], entry: Entry) -> list[Entry] | None:
        """Append an entry, and return what comes of it; None for an error, which asking once more raises.

        As a cursor does it, but for what that does around it, which takes longer than the server needs.
        """
        pgconn = connection.pgconn
        if self._prepared is not connection:
            # where that fails, so does what is sent next
            pgconn.prepare(_APPEND, _APPEND_SQL)
            self._prepared = connection
        numbers = map(_BIGINT.pack, (entry.prev, entry.seq, entry.machine, entry.generation, entry.packs))
        given = (self.id, *numbers, entry.token, entry.chain, entry.body)
        pgconn.send_query_prepared(_APPEND, given, _BINARY, result_format=Format.BINARY)
        (result,) = connection.wait(generators.execute(pgconn))
        if result.status != ExecStatus.TUPLES_OK:
            return None
        found = []
        for row in range(result.ntuples):
            values = [result.get_value(row, column) or b"" for column in range(result.nfields)]
            prev, seq, machine, generation, packs = (_BIGINT.unpack(value)[0] for value in values[:5])
            found.append(Entry(prev, seq, values[5], machine, generation, packs, *values[6:]))
        return found

    def entries(self, after: int) -> Sequence[Entry]:
        found = self._ask(
            lambda connection: _entries(
                connection.execute(
                    f"SELECT {_ENTRY} FROM convfs.entries(%s, %s)", (self.id, after), prepare=True, binary=True
                )
            )
        )
        return self._following(after, found)

    def _following(self, after: int, found: Sequence[Entry]) -> Sequence[Entry]:
        for entry in found:
            if entry.prev != after:
                raise Behind(f"the space {self._name} does not have commit {after}, which this replica has")
            after = entry.seq
        if found:
            self._last = found[-1]
        return found

    def old(self, keep: int, seconds: float) -> tuple[int, int]:
        try:
            rows = self._ask(
                lambda connection: connection.execute(
                    "SELECT entries, last FROM convfs.old_entries(%s, %s, %s)", (self.id, keep, seconds)
                ).fetchall()
            )
        except Unreachable as error:
            if not isinstance(error.__cause__, psycopg.errors.UndefinedFunction):
                raise
            # the functions of an earlier version, as was told when this connected: the server keeps all entries
            return 0, 0
        (count, last), *_none = rows
        return count, last

    def trim(self) -> None:
        def ask(connection: Connection[tuple[Any, ...]]) -> bool:
            return connection.execute("SELECT convfs.trim(%s)", (self.id,)).fetchone() == (True,)

        try:
            while self._ask(ask):
                continue
        except Unreachable as error:
            # where there is none, nothing is in the archive
            if not isinstance(error.__cause__, psycopg.errors.UndefinedFunction):
                raise

    def replace(self, entry: Entry) -> None:
        self._ask(
            lambda connection: connection.execute(
                "SELECT convfs.replace_entry(%s, %s, %s, %s, %s, %s, %s, %s, %s)", (self.id, *_columns(entry))
            )
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        # Whoever has it may wait for a thread of its machine that publishes. That goes on asking meanwhile, and what it
        # publishes stays if the turn does not end well.
        if self._turns is None:
            self._turns = Postgres(self._url, self._name)
        turns = self._turns
        turns._last = self._last
        turns._ask(self._begin_turn)
        self._has_turn = True
        try:
            yield
        finally:
            self._has_turn = False
            connection = turns._connection
            if connection is not None and connection.info.transaction_status != TransactionStatus.IDLE:
                with suppress(Unreachable):
                    turns._ask(lambda connection: connection.execute("ROLLBACK"))

    def _begin_turn(self, connection: Connection[tuple[Any, ...]]) -> None:
        # In one round trip. Should this machine stop here, the server ends its turn.
        connection.execute(
            sql.SQL("BEGIN; SET LOCAL idle_in_transaction_session_timeout = {}; SELECT convfs.take_turn({})").format(
                sql.Literal(_TURN_MS), sql.Literal(self.id)
            )
        )

    # -- records ---------------------------------------------------------------------------------------------------

    def record(self, key: str) -> Record:
        found = self._records(key, "")
        return found[0] if found and found[0].key == key else Record(key, 0, b"")

    def records(self, prefix: str, after: str = "") -> list[Record]:
        return [record for record in self._records(prefix, after) if record.value]

    def _records(self, prefix: str, after: str) -> list[Record]:
        rows = self._ask(
            lambda connection: connection.execute(
                "SELECT * FROM convfs.records(%s, %s, %s)", (self.id, prefix, after), prepare=True, binary=True
            ).fetchall()
        )
        return [Record(key, version, bytes(value)) for key, version, value in rows]

    def swap(self, key: str, version: int, value: bytes) -> bool:
        rows = self._ask(
            lambda connection: connection.execute(
                "SELECT convfs.swap(%s, %s, %s, %s)", (self.id, key, version, value), prepare=True
            ).fetchall()
        )
        return rows == [(True,)]

    # -- logins ----------------------------------------------------------------------------------------------------

    def make_login(self, role: str) -> tuple[str, str]:
        """Make a login for a machine; return its name, and how it connects. Raises UsageError, Unreachable."""
        login, password = f"convfs_{secrets.token_hex(8)}", secrets.token_hex(16)

        def ask(connection: Connection[tuple[Any, ...]]) -> str:
            pgconn = connection.pgconn
            verifier = pgconn.encrypt_password(password.encode(), login.encode(), b"scram-sha-256").decode()
            connection.execute("SELECT convfs.make_login(%s, %s, %s, %s)", (self.id, login, verifier, role))
            given = connection.info.get_parameters()
            place = {key: given[key] for key in _PLACE if key in given}
            return make_conninfo("", **place, user=login, password=password)

        return login, self._ask(ask)

    def lock_login(self, login: str) -> None:
        """Have a login of a machine serve no more. Raises UsageError, Unreachable."""
        self._ask(lambda connection: connection.execute("SELECT convfs.lock_login(%s, %s)", (self.id, login)))

    # -- followers -------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if not self._stays:
            # a command is done before anything comes: it needs no connection to listen on
            ready, _, _ = select.select([self._woken, self._placed], [], [], seconds)
            self._stays = True
            if ready != [self._placed]:
                return
        before, listening = self._listening, self._listen()
        if listening is not None and listening is not before:
            # nobody has told of what came before it listened
            return
        told = [listening.fileno()] if listening is not None else []
        while (rest := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._woken, self._placed, *told], [], [], rest)
            if self._woken in ready or listening is None:
                return
            try:
                if self._placed in ready:
                    # those that come in the meantime are told of in one
                    self._closed.wait(self._told + _NOTIFY_SECONDS - time.monotonic())
                    with suppress(BlockingIOError):
                        os.eventfd_read(self._placed)
                    listening.execute(sql.SQL("NOTIFY {}").format(self._channel))
                    self._told = time.monotonic()
                if any(one.pid != listening.info.backend_pid for one in listening.notifies(timeout=0)):
                    return
            except psycopg.Error:
                listening.close()
                self._listening = None
                return

    def _listen(self) -> Connection[tuple[Any, ...]] | None:
        if self._listening is None or self._listening.closed:
            try:
                self._listening = _connection(self._url)
                self._listening.execute(sql.SQL("LISTEN {}").format(self._channel))
            except psycopg.Error:
                self._closed.wait(_PAUSE_SECONDS)
                return None
        return self._listening

    def listen(self) -> None:
        if not self._stays:
            self._stays = True
            # who waits without listening goes on to do so
            os.eventfd_write(self._placed, 1)

    def wake(self) -> None:
        if self._turns is not None:
            self._turns.wake()
        self._closed.set()
        self._asking.set()
        os.eventfd_write(self._woken, 1)

    # -- the server ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the server."""
        if self._turns is not None:
            self._turns.close()
        self._closed.set()
        self._asking.set()
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        for connection in (self._connection, self._listening):
            if connection is not None:
                connection.close()
        self._connection = self._listening = None
        os.close(self._woken)
        os.close(self._placed)

    def _ask(self, ask: Callable[[Connection[tuple[Any, ...]]], T], seconds: float = 0.0) -> T:
        """Return what ``ask`` does of a connection. Where one is lost, try again: once, or for ``seconds``.

        Not where the thread has waited as long as it may.
        """
        limit, began = patience.limit(), time.monotonic()
        with patience.held(self._lock, ""):
            until = time.monotonic() + seconds
            lost = False
            while True:
                connection = self._connection
                try:
                    if connection is None:
                        connection = self._connect()
                    self._until = time.monotonic() + (_ANSWER_SECONDS if limit is None else limit)
                    if not self._asking.is_set():
                        self._asking.set()
                    return ask(connection)
                except psycopg.errors.NoDataFound as error:
                    raise Unreachable(f"{error.diag.message_primary}, which this replica has") from None
                except psycopg.errors.InsufficientPrivilege as error:
                    if connection is not None:
                        _roll_back(connection)
                    raise Unreachable(f"the space {self._name} refuses it: {error.diag.message_primary}") from None
                except psycopg.errors.ObjectNotInPrerequisiteState as error:
                    if connection is not None:
                        _roll_back(connection)
                    raise Outdated(f"the space {self._name}: {error.diag.message_primary}") from None
                except psycopg.Error as error:
                    was_connected = connection is not None
                    if connection is not None and _roll_back(connection):
                        # the server has refused: asking once more changes nothing
                        raise self._unreachable(error) from error
                    self._connection = None
                    now = time.monotonic()
                    is_late = limit is not None and now > began + limit
                    again = now < until if lost else was_connected
                    if is_late or not again:
                        raise self._unreachable(error) from error
                    if lost:
                        self._closed.wait(_PAUSE_SECONDS)
                    lost = True
                finally:
                    self._until = 0.0

    def _connect(self) -> Connection[tuple[Any, ...]]:
        connection = _connection(self._url)
        last = self._last
        if last is not None:
            there = _entries(
                connection.execute(f"SELECT {_ENTRY} FROM convfs.entries(%s, %s) LIMIT 1", (self.id, last.prev))
            )
            if there and there[0].prev > last.prev:
                # it went into the archive: whoever asks sees by the chain whether what follows is of the same history
                self._last = None
            elif [one.chain for one in there] != [last.chain]:
                connection.close()
                self._last = None
                # who asks sees what there is then
                raise Unreachable(f"the space {self._name} does not have commit {last.seq}, which was there before")
        self._connection = connection
        return connection

    def _watch(self) -> None:
        """End connections that do not answer. Sleeps while nothing is asked."""
        while self._asking.wait() and not self._closed.wait(_WATCH_SECONDS):
            until, connection = self._until, self._connection
            if not until:
                self._asking.clear()
                if self._until:
                    # asked just now
                    self._asking.set()
            if until and connection is not None and time.monotonic() > until:
                with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)

    @property
    def where(self) -> str:
        """The server and its database, for people."""
        given = conninfo_to_dict(self._url)
        return f"{given.get('host') or os.environ.get('PGHOST') or 'localhost'}/{given.get('dbname') or ''}"

    def _unreachable(self, error: psycopg.Error) -> Unreachable:
        return Unreachable(f"the space {self._name} cannot be reached: {_line(error)}")


def _columns(entry: Entry) -> tuple[int, int, UUID, int, int, int, bytes, bytes]:
    token = UUID(bytes=entry.token)
    return entry.prev, entry.seq, token, entry.machine, entry.generation, entry.packs, entry.chain, entry.body


def _entries(rows: "psycopg.Cursor[tuple[Any, ...]]") -> list[Entry]:
    return [
        Entry(prev, seq, token.bytes, machine, generation, packs, bytes(chain), bytes(body))
        for prev, seq, token, machine, generation, packs, chain, body in rows.fetchall()
    ]
