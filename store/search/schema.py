"""The schema of ``search.db``, which follows from the logs, the payloads and the renderer: deleted, it is made anew.

A *document* is what one payload shows: however many turns carry that payload, its text is indexed once. Texts are
indexed in *blocks* of some documents that came together: which of them it is, looking tells, and small texts cost
little. The numbers of documents (``store.search.documents``) say which block each is of, and rise with how much a
reader is likely to care.

A *line* is a branch as it grew: a turn that follows the last of a line goes on with it, one that branches off from
further up begins a line of its own. A conversation's head is a place on a line, and so is every turn; so which
conversations hold a turn follows from few rows, however many forks share it. See ``store.search.lines``.
"""

from store.index.database import Schema

TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- payload: the key of its hash (store.ids); sight: what else decides on how it is seen, as a checksum.
CREATE TABLE documents (
    payload INTEGER NOT NULL, sight INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (payload, sight)
) WITHOUT ROWID;

-- The document of every turn; of one that is seen through a patch, under the id that it has then.
CREATE TABLE turns (turn INTEGER PRIMARY KEY, document INTEGER NOT NULL);
CREATE INDEX turns_by_document ON turns (document);

-- Turns that have no document yet though those after them do; or get none (tried): they could not be read.
CREATE TABLE waiting (turn INTEGER PRIMARY KEY, tried INTEGER NOT NULL);

-- Which documents' payloads a content was cut out of, or show it; and under which URIs.
CREATE TABLE contents (
    content INTEGER NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (content, document)
) WITHOUT ROWID;
CREATE TABLE resources (
    uri TEXT NOT NULL, document INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (uri, document, content)
) WITHOUT ROWID;

-- A line's number is its first turn, depth is that one's; it branched off the line parent (0: none).
CREATE TABLE lines (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, depth INTEGER NOT NULL, tip INTEGER NOT NULL
);
CREATE INDEX lines_by_parent ON lines (parent, depth);
-- Turns that follow each other in the log and on a line; depth is that of the first.
CREATE TABLE runs (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, line INTEGER NOT NULL, depth INTEGER NOT NULL);
CREATE TABLE heads (
    context INTEGER PRIMARY KEY, tip INTEGER NOT NULL, line INTEGER NOT NULL, depth INTEGER NOT NULL
);
CREATE INDEX heads_by_line ON heads (line, depth);

-- By the number of the block.
CREATE VIRTUAL TABLE texts USING fts5 (
    text, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1'
);
-- What is filed at once makes one segment; any two that are alike in size may be merged.
INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);
INSERT INTO texts (texts, rank) VALUES ('usermerge', 2);
"""

SEARCH = Schema(1, TABLES, ("auto_vacuum = INCREMENTAL",))
