"""The schema of ``insight.db``, which follows from logs, payloads and packs: deleted, it is made anew."""

from store.index.database import Schema

_TOKENS = """
    input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
    cache_write_hour INTEGER NOT NULL, reasoning INTEGER NOT NULL"""

TABLES = f"""
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- What answers of models took, each once by the key of its name, and the account that it is part of.
CREATE TABLE answers (
    key INTEGER PRIMARY KEY, account INTEGER NOT NULL, {_TOKENS}, nanodollars INTEGER, sum INTEGER NOT NULL
);
-- Sums of answers; length: of their prompts, told: whether their sessions say what each cost.
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY, context INTEGER NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL, length INTEGER NOT NULL,
    told INTEGER NOT NULL, answers INTEGER NOT NULL, {_TOKENS}, nanodollars INTEGER NOT NULL, sum INTEGER NOT NULL
);
CREATE UNIQUE INDEX accounts_by_name ON accounts (context, day, model, length, told);

CREATE TABLE tool_uses (
    context INTEGER NOT NULL, day TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL,
    call_bytes INTEGER NOT NULL, results INTEGER NOT NULL, result_bytes INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, day, tool)
) WITHOUT ROWID;

-- What goes on to hold behind a turn, for some turns, as JSON.
CREATE TABLE running (turn INTEGER PRIMARY KEY, said TEXT NOT NULL, sum INTEGER NOT NULL);

-- The bytes of a conversation's records, of those that another one had before, and of what its metadata names beside
-- them; own: the first turn that none had.
CREATE TABLE holdings (
    context INTEGER PRIMARY KEY, head INTEGER NOT NULL, own INTEGER NOT NULL, bytes INTEGER NOT NULL,
    shared INTEGER NOT NULL, beside INTEGER NOT NULL, sum INTEGER NOT NULL
);

-- What lies in a pack, by how it is compressed, and up to where that was looked at; body: the bytes when decompressed.
CREATE TABLE pack_sums (
    pack INTEGER NOT NULL, compression INTEGER NOT NULL, records INTEGER NOT NULL, body_bytes INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (pack, compression)
) WITHOUT ROWID;
CREATE TABLE packs (number INTEGER PRIMARY KEY, summed INTEGER NOT NULL, sum INTEGER NOT NULL);
"""

INSIGHT = Schema(2, TABLES)

OF_TURNS = ("answers", "accounts", "tool_uses", "running", "holdings")
"""The tables of what was counted of turns."""
