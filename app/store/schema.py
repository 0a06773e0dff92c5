"""The tables, and the steps from one version of them to the next.

=============  ====================================================================================
conversations  ``settings``: JSON of the settings, and beside them model, tools, ``when_full``,
               ``shown_at`` and the reading position (``place``); ``stops``: JSON of the stop list;
               ``stops_from``: the preset or folder that the stops are from; ``origin``: the
               conversation of another app that was imported; ``deleted_at``: set until the next
               start, for undo; ``tags``: unused since an earlier version
messages       ``run``: JSON, of an answer its run (``run_values``), of a question where its files
               end in its text; ``number``: the order; ``shown_rank``: which version is shown
presets        ``content``: JSON of one preset
folders        ``content``: JSON of a folder: name, system prompt, stops, memory
facts          the facts that are kept; a deleted conversation leaves its facts
attached       JSON of what waits to be sent: the files of a draft, and queued messages
said           full-text index of the texts of messages, but for running answers
works          view of the reasoning, and of the tool calls with their results, within ``run``
worked         full-text index of ``works``
documents      texts that are searched: of a conversation (derived from its messages) or of a
               folder; ``passages``: their number, negative in a removed one until the next start,
               for undo, and 0 while it is being added
passages       their passages; ``vector``: that of the model ``embedded_by``
passage_words  full-text index of the passages
imports        unused since an earlier version
=============  ====================================================================================

A released step is never edited: files made by it exist. The version of a file is its
``user_version``, the number of steps that it has had.
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

# The reasoning, the calls and their results are searched as well. They stay where they are, in the
# runs: the view reads them there, for whole answers alone, so that nothing is stored twice.
_WORKED = """
CREATE VIEW works AS
SELECT number,
    coalesce(json_extract(run, '$.thinking'), '') AS thinking,
    coalesce((SELECT group_concat(
        json_extract(value, '$.name') || ' ' || json_extract(value, '$.arguments'), char(10)
    ) FROM json_each(run, '$.tool_calls')), '') || char(10) ||
    coalesce((SELECT group_concat(json_extract(value, '$.text'), char(10))
        FROM json_each(run, '$.results')), '') AS tools
FROM messages
WHERE CASE WHEN is_running OR role <> 'assistant' OR NOT json_valid(run) THEN 0
    ELSE json_type(run, '$.thinking') = 'text' OR json_type(run, '$.tool_calls') = 'array' END;
CREATE VIRTUAL TABLE worked USING fts5(
    thinking, tools, content='works', content_rowid='number', tokenize='trigram'
);
INSERT INTO worked(rowid, thinking, tools) SELECT number, thinking, tools FROM works;
CREATE TRIGGER worked_insert AFTER INSERT ON messages BEGIN
    INSERT INTO worked(rowid, thinking, tools)
        SELECT number, thinking, tools FROM works WHERE number = new.number;
END;
CREATE TRIGGER worked_delete BEFORE DELETE ON messages BEGIN
    INSERT INTO worked(worked, rowid, thinking, tools)
        SELECT 'delete', number, thinking, tools FROM works WHERE number = old.number;
END;
CREATE TRIGGER worked_update_old BEFORE UPDATE OF run, is_running ON messages
WHEN old.run IS NOT new.run OR old.is_running <> new.is_running BEGIN
    INSERT INTO worked(worked, rowid, thinking, tools)
        SELECT 'delete', number, thinking, tools FROM works WHERE number = old.number;
END;
CREATE TRIGGER worked_update_new AFTER UPDATE OF run, is_running ON messages
WHEN old.run IS NOT new.run OR old.is_running <> new.is_running BEGIN
    INSERT INTO worked(rowid, thinking, tools)
        SELECT number, thinking, tools FROM works WHERE number = new.number;
END;
"""

# Reports of imports, which earlier versions kept; nothing reads or writes them now.
_IMPORTS = """
CREATE TABLE imports (
    id TEXT PRIMARY KEY,
    imported_at REAL NOT NULL,
    content TEXT NOT NULL
) STRICT;
"""

_FACTS = """
CREATE TABLE facts (
    id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    created_at REAL NOT NULL,
    conversation_id TEXT REFERENCES conversations(id) ON DELETE SET NULL
) STRICT;
"""

PASSAGE_BITS = 20
"""Passages of a document have the numbers from its own on, shifted left: a range."""

# The text is prepared for the index: app/store/passages.py.
_DOCUMENTS = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    passages INTEGER NOT NULL,
    remark TEXT NOT NULL DEFAULT '',
    UNIQUE (owner, id)
) STRICT;
CREATE TABLE passages (
    number INTEGER PRIMARY KEY,
    page INTEGER NOT NULL,
    last_page INTEGER NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    embedded_by TEXT NOT NULL DEFAULT '',
    vector BLOB
) STRICT;
CREATE VIRTUAL TABLE passage_words USING fts5(
    heading, text, content='passages', content_rowid='number',
    tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE passage_vocabulary USING fts5vocab(passage_words, row);
CREATE TRIGGER passages_insert AFTER INSERT ON passages BEGIN
    INSERT INTO passage_words(rowid, heading, text) VALUES (new.number, new.heading, new.text);
END;
CREATE TRIGGER passages_delete AFTER DELETE ON passages BEGIN
    INSERT INTO passage_words(passage_words, rowid, heading, text)
        VALUES ('delete', old.number, old.heading, old.text);
END;
CREATE TRIGGER documents_delete AFTER DELETE ON documents BEGIN
    DELETE FROM passages
        WHERE number BETWEEN old.number << 20 AND (old.number + 1 << 20) - 1;
END;
CREATE TRIGGER documents_of_message AFTER DELETE ON messages BEGIN
    DELETE FROM documents WHERE owner = old.conversation_id;
END;
CREATE TRIGGER documents_of_draft AFTER DELETE ON attached BEGIN
    DELETE FROM documents WHERE owner = old.conversation_id;
END;
"""

STEPS = (_TABLES, _SEARCH, _FOLDERS, _ATTACHED, _WORKED, _IMPORTS, _FACTS, _DOCUMENTS)
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
