CREATE SCHEMA IF NOT EXISTS convfs;

CREATE TABLE IF NOT EXISTS convfs.space (
    id bytea PRIMARY KEY,
    name text UNIQUE NOT NULL,
    format int NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    made timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS convfs.entry (
    space bytea NOT NULL REFERENCES convfs.space,
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

-- Which of the space's keys is used now; 0 if it is not encrypted.
CREATE OR REPLACE FUNCTION convfs.generation(of_space bytea) RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    SELECT coalesce(
        (SELECT (convert_from(value, 'UTF8')::json ->> 'generation')::int
         FROM record WHERE space = of_space AND key = 'generation'),
        0
    )
$$;

-- The compare-and-append. Returns nothing if the entry is in place, else entries that follow `new_prev`.
CREATE OR REPLACE FUNCTION convfs.append(
    of_space bytea, new_prev bigint, new_seq bigint, new_token uuid, new_machine int, new_generation int,
    new_packs bigint, new_chain bytea, new_body bytea
) RETURNS SETOF convfs.entry
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'writer');
    UPDATE space SET seq = new_seq WHERE id = of_space AND seq = new_prev;
    IF FOUND THEN
        IF new_generation < generation(of_space) THEN
            RAISE EXCEPTION 'the space has a newer key' USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        INSERT INTO entry VALUES (
            of_space, new_prev, new_seq, new_token, new_machine, new_generation, new_packs, new_chain, new_body
        );
    ELSIF NOT EXISTS (SELECT FROM entry WHERE space = of_space AND prev = new_prev AND token = new_token) THEN
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

-- Held until the end of the transaction: nobody else appends.
CREATE OR REPLACE FUNCTION convfs.take_turn(of_space bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, 'writer');
    PERFORM FROM space WHERE id = of_space FOR UPDATE;
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

CREATE OR REPLACE FUNCTION convfs.swap(of_space bytea, of_key text, old_version bigint, new_value bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    PERFORM require(of_space, CASE
        -- who is in and who is not, and what would take away what others have
        WHEN of_key IN ('generation', 'redaction') OR of_key ~ '^(key|invite)/' OR of_key ~ '^pack/' AND old_version > 0
            THEN 'admin'
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
