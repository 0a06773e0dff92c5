"""The tables, and the steps from one version of them to the next. Pure SQL; store thread.

A step is never edited once it has been released: files made by it exist. The version of a file
is its ``user_version``, the number of steps it has had.
"""

import sqlite3

# "FULS": tells our files from other programs' databases.
APPLICATION_ID = 0x46554C53

_TABLES = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    settings TEXT NOT NULL,
    stops TEXT NOT NULL,
    draft TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    deleted_at REAL
) STRICT;

CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    parent_id TEXT,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    run TEXT,
    is_running INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    shown_rank INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_of_conversation ON messages(conversation_id, number);
CREATE INDEX messages_running ON messages(is_running) WHERE is_running;

CREATE TABLE presets (
    name TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;
"""

# Running answers are left out: their text changes twice a second, and a word of it can be seen
# on the screen anyway.
_SEARCH = """
CREATE VIRTUAL TABLE said USING fts5(
    text, content='messages', content_rowid='number', tokenize='trigram'
);
INSERT INTO said(rowid, text) SELECT number, text FROM messages WHERE NOT is_running;
CREATE TRIGGER said_insert AFTER INSERT ON messages WHEN NOT new.is_running BEGIN
    INSERT INTO said(rowid, text) VALUES (new.number, new.text);
END;
CREATE TRIGGER said_delete AFTER DELETE ON messages WHEN NOT old.is_running BEGIN
    INSERT INTO said(said, rowid, text) VALUES ('delete', old.number, old.text);
END;
CREATE TRIGGER said_update_old BEFORE UPDATE OF text, is_running ON messages
WHEN NOT old.is_running AND (new.is_running OR new.text <> old.text) BEGIN
    INSERT INTO said(said, rowid, text) VALUES ('delete', old.number, old.text);
END;
CREATE TRIGGER said_update_new AFTER UPDATE OF text, is_running ON messages
WHEN NOT new.is_running AND (old.is_running OR new.text <> old.text) BEGIN
    INSERT INTO said(rowid, text) VALUES (new.number, new.text);
END;
"""

_FOLDERS = """
ALTER TABLE conversations ADD COLUMN folder_id TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN is_archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN stops_from TEXT NOT NULL DEFAULT '';
CREATE TABLE folders (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;
"""

# Apart from the conversations, whose rows are written each time something is typed.
_ATTACHED = """
CREATE TABLE attached (
    conversation_id TEXT PRIMARY KEY REFERENCES conversations(id) ON DELETE CASCADE,
    content TEXT NOT NULL
) STRICT;
"""

STEPS = (_TABLES, _SEARCH, _FOLDERS, _ATTACHED)
VERSION = len(STEPS)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the present version: each step is taken whole or not at all."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version, VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{STEPS[number]}\n"
            f"PRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {number + 1};\nCOMMIT;"
        )
