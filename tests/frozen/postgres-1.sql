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

-- Entries that follow one, in order: at least the next, and no more than some 4 MiB.
CREATE OR REPLACE FUNCTION convfs.entries(of_space bytea, after bigint) RETURNS SETOF convfs.entry
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    SELECT space, prev, seq, token, machine, generation, packs, chain, body, at
    FROM (
        SELECT *, sum(octet_length(body)) OVER (ORDER BY prev) - octet_length(body) AS bytes_before
        FROM (SELECT * FROM entry WHERE space = of_space AND prev >= after ORDER BY prev LIMIT 1000) AS following
    ) AS counted
    WHERE bytes_before < 4 << 20 ORDER BY prev
$$;

-- The compare-and-append. Returns nothing if the entry is in place, else entries that follow `new_prev`.
CREATE OR REPLACE FUNCTION convfs.append(
    of_space bytea, new_prev bigint, new_seq bigint, new_token uuid, new_machine int, new_generation int,
    new_packs bigint, new_chain bytea, new_body bytea
) RETURNS SETOF convfs.entry
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
    UPDATE space SET seq = new_seq WHERE id = of_space AND seq = new_prev;
    IF FOUND THEN
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
LANGUAGE sql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    UPDATE entry
    SET token = new_token, machine = new_machine, generation = new_generation, packs = new_packs, chain = new_chain,
        body = new_body
    WHERE space = of_space AND prev = old_prev AND seq = old_seq
$$;

-- Held until the end of the transaction: nobody else appends.
CREATE OR REPLACE FUNCTION convfs.take_turn(of_space bytea) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    SELECT FROM space WHERE id = of_space FOR UPDATE
$$;

CREATE OR REPLACE FUNCTION convfs.records(of_space bytea, first text, behind text)
RETURNS TABLE (key text, version bigint, value bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
    SELECT key, version, value FROM record
    WHERE space = of_space AND starts_with(key, first) AND key > behind ORDER BY key
$$;

CREATE OR REPLACE FUNCTION convfs.swap(of_space bytea, of_key text, old_version bigint, new_value bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = convfs, pg_temp AS $$
BEGIN
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
    SELECT id, format FROM space WHERE name = of_name
$$;
