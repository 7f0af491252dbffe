"""The schema of ``index.db``.

The index is derived from the logs and the packs, so SQLite runs without syncs; after a power failure it is rebuilt
(see ``store.upkeep.recovery``). A hash is filed under its first eight bytes only, as a signed integer: half the
size of the whole hash, and the whole one is checked where the location points anyway.

SQLite has no checksums, so rows that nothing else vouches for carry one: see ``store.index.sums``.
"""

SCHEMA_VERSION = 9

TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE blobs (
    key INTEGER NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL, member INTEGER NOT NULL,
    PRIMARY KEY (key, pack, offset, member)
) WITHOUT ROWID;

-- Of which packs, and up to where, all blobs are in that table.
CREATE TABLE packs (number INTEGER PRIMARY KEY, length INTEGER NOT NULL, sum INTEGER NOT NULL);

CREATE TABLE aliases (
    algorithm TEXT NOT NULL, digest BLOB NOT NULL, hash BLOB NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (algorithm, digest)
) WITHOUT ROWID;

CREATE TABLE types (
    tag INTEGER NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (tag, version)
) WITHOUT ROWID;

CREATE TABLE dictionaries (tag INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (tag, hash)) WITHOUT ROWID;

-- head_sum covers what changes with the head (id, head, records, updated_ms, imported: the head that the last import
-- made), sum all the rest with the id. What is in the trash has no project and no name here.
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY,
    head INTEGER NOT NULL, records INTEGER NOT NULL, updated_ms INTEGER NOT NULL, imported INTEGER NOT NULL,
    head_sum INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    project TEXT, name TEXT, title TEXT NOT NULL,
    format TEXT NOT NULL, source TEXT NOT NULL,
    day TEXT NOT NULL,
    trashed_ms INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    described_ms INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    sum INTEGER NOT NULL
);
CREATE UNIQUE INDEX contexts_by_name ON contexts (project, name) WHERE name IS NOT NULL;
CREATE INDEX contexts_by_day ON contexts (day, project, name) WHERE name IS NOT NULL;
CREATE INDEX contexts_by_update ON contexts (updated_ms) WHERE name IS NOT NULL;
CREATE INDEX contexts_pinned ON contexts (updated_ms) WHERE name IS NOT NULL AND rank = 1;
CREATE INDEX contexts_by_source ON contexts (source) WHERE source != '';
CREATE INDEX contexts_in_trash ON contexts (trashed_ms) WHERE trashed_ms != 0;
CREATE INDEX contexts_nameless ON contexts (id) WHERE name IS NULL AND trashed_ms = 0;

-- Only of conversations that have a name.
CREATE TABLE labels (
    name TEXT NOT NULL, context INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (name, context)
) WITHOUT ROWID;

-- What imports find contexts by.
CREATE TABLE origins (
    origin TEXT NOT NULL, context INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (origin, context)
) WITHOUT ROWID;

-- Of contexts that were deleted, what imports would find them by; and each under the name "".
CREATE TABLE pruned (
    origin TEXT NOT NULL, context INTEGER NOT NULL, time_ms INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (origin, context)
) WITHOUT ROWID;

-- How many of a context's versions were pruned, if any were.
CREATE TABLE pruned_versions (context INTEGER PRIMARY KEY, count INTEGER NOT NULL, sum INTEGER NOT NULL);

CREATE TABLE versions (
    context INTEGER NOT NULL, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    head INTEGER NOT NULL, records INTEGER NOT NULL, action TEXT NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, seq)
) WITHOUT ROWID;

-- What became of turns that are no longer in a branch: new and those after it, or 0 for nothing.
CREATE TABLE superseded (
    context INTEGER NOT NULL, seq INTEGER NOT NULL, old INTEGER NOT NULL, new INTEGER NOT NULL,
    count INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, seq, old)
) WITHOUT ROWID;

-- What patches say of turns, each of which has one row or more. A patch that was lost has one, of turn 0.
CREATE TABLE patches (
    number INTEGER NOT NULL, turn INTEGER NOT NULL, context INTEGER NOT NULL, previous INTEGER NOT NULL,
    hash BLOB NOT NULL, flags INTEGER NOT NULL, created_ms INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (number, turn)
) WITHOUT ROWID;

-- Under which keys clients appended turns, for a day.
CREATE TABLE keys (
    context INTEGER NOT NULL, key BLOB NOT NULL, turn INTEGER NOT NULL, time_ms INTEGER NOT NULL,
    sum INTEGER NOT NULL, PRIMARY KEY (context, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_time ON keys (time_ms);

CREATE TABLE fs_roots (turn INTEGER PRIMARY KEY, root BLOB NOT NULL, sum INTEGER NOT NULL);

-- Turns that are being written, by the seq of the frame that opened each, and where that frame lies in heads.log.
CREATE TABLE open_turns (
    number INTEGER PRIMARY KEY, context INTEGER NOT NULL, offset INTEGER NOT NULL, sum INTEGER NOT NULL
);

-- What a renderer measured. Rows of another renderer version are replaced when the conversation is next listed.
CREATE TABLE views (
    turn INTEGER PRIMARY KEY, kind INTEGER NOT NULL, tool TEXT NOT NULL, parent INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, file_size INTEGER NOT NULL, section_size INTEGER NOT NULL,
    json_size INTEGER NOT NULL, payload_size INTEGER NOT NULL, deleted INTEGER NOT NULL, sum INTEGER NOT NULL
);
CREATE TABLE resources (
    turn INTEGER NOT NULL, seq INTEGER NOT NULL, uri TEXT NOT NULL, mime TEXT NOT NULL, size INTEGER NOT NULL,
    hash BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (turn, seq)
) WITHOUT ROWID;
CREATE TABLE measures (
    context INTEGER PRIMARY KEY, head INTEGER NOT NULL, events INTEGER NOT NULL,
    transcript_size INTEGER NOT NULL, json_size INTEGER NOT NULL, sum INTEGER NOT NULL
);
"""

DERIVED_FROM_LOGS = (
    "aliases",
    "types",
    "dictionaries",
    "contexts",
    "labels",
    "origins",
    "pruned",
    "pruned_versions",
    "versions",
    "superseded",
    "patches",
    "keys",
    "fs_roots",
    "open_turns",
)
"""Tables that follow from heads.log alone; with ``blobs`` and ``packs`` (the packs) they are the index proper."""

DERIVED_FROM_RENDERER = ("views", "resources", "measures")
"""Tables that follow from payloads and the renderer's version."""
