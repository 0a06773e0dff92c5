"""Says in plain words why the database could not be used. Pure; any thread."""

import sqlite3

from engine.files.causes import os_cause

_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_BUSY: "another program has locked the file",
    sqlite3.SQLITE_LOCKED: "another program has locked the file",
    sqlite3.SQLITE_IOERR: "the disk reported an error",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "you have no permission to write the file",
    sqlite3.SQLITE_AUTH: "you have no permission to write the file",
    sqlite3.SQLITE_NOMEM: "there is too little memory",
    sqlite3.SQLITE_TOOBIG: "a text is too long for the file",
}


def store_cause(error: sqlite3.Error | OSError) -> str:
    """Return why the database could not be used, as the end of a sentence without its stop."""
    if isinstance(error, OSError):
        return os_cause(error)
    if isinstance(error, sqlite3.NotSupportedError):
        return str(error)  # our own words
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return _WORDS.get(code, "the database reported an error, which the log names")
