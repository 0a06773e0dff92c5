"""Stop lists as JSON, with scopes and disabled rows, and as plain lines. Any thread; no Qt."""

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from engine.errors import InvalidRequest
from engine.files.json_fields import DamagedFile, Fields
from engine.stopping.rules import MAX_STOPS, StopScope, checked_strings
from ui.records.codec import stop_entry_from, stops_values
from ui.records.stop_entries import StopEntry

MAX_BYTES = 1_000_000
_SCOPES = ", ".join(f"“{scope.value}”" for scope in StopScope)


def refusal(entries: Sequence[StopEntry]) -> str:
    """Return why a stop list cannot be used, and the remedy; empty if it can."""
    try:
        checked_strings([entry.stop.text for entry in entries], "stops")
    except InvalidRequest as error:
        reason = f"{error.reason[:1].upper()}{error.reason[1:]}."
        return f"{reason} Remove some first." if error.field == "stops" else reason
    return ""


def stops_to_json(entries: Sequence[StopEntry]) -> str:
    """Return a list that ``stops_from_json`` reads back exactly: texts, and objects for options."""
    listed = [
        entry.stop.text if entry == StopEntry.of(entry.stop.text) else values
        for entry, values in zip(entries, stops_values(list(entries)), strict=True)
    ]
    return json.dumps(listed, ensure_ascii=False, indent=2) + "\n"


def stops_from_json(text: str) -> list[StopEntry]:
    """Return the rows of a JSON list of strings and of objects as ``stops_to_json`` writes them."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            'This is not a JSON list of strings, such as ["END", "\\n\\nUser:"]. '
            "To take every line as one sequence, choose “Paste as Lines”, or save the lines as a "
            ".txt file."
        ) from error
    if isinstance(items, str):
        items = [items]
    if not isinstance(items, list):
        raise ValueError('A stop list is a JSON list of strings, such as ["END", "\\n\\nUser:"].')
    return _checked([_entry_from_json(number, item) for number, item in enumerate(items, 1)])


def stops_from_lines(text: str) -> list[StopEntry]:
    """Return each line as a sequence, with its spaces; empty lines are left out."""
    lines = (line for line in text.replace("\r\n", "\n").split("\n") if line)
    return _checked([StopEntry.of(line) for line in lines])


def stops_to_lines(entries: Sequence[StopEntry]) -> str:
    """Return one sequence per line; raises ``ValueError`` for a row that a line cannot hold."""
    for number, entry in enumerate(entries, 1):
        plain = StopEntry.of(entry.stop.text)
        if "\n" in entry.stop.text or "\r" in entry.stop.text or entry != plain:
            raise ValueError(
                f"Row {number} has a line break, a scope or is disabled, which plain lines cannot "
                "hold. Export the list as a .json file."
            )
    return "".join(f"{entry.stop.text}\n" for entry in entries)


def stops_from_file(name: str, text: str) -> list[StopEntry]:
    """Return the rows of a file: lines of a .txt file, or else JSON."""
    is_lines = PurePath(name).suffix.lower() == ".txt"
    return stops_from_lines(text) if is_lines else stops_from_json(text)


def stops_to_file(name: str, entries: Sequence[StopEntry]) -> str:
    """Return the text of a file: lines for a .txt file, or else JSON."""
    is_lines = PurePath(name).suffix.lower() == ".txt"
    return stops_to_lines(entries) if is_lines else stops_to_json(entries)


def _entry_from_json(number: int, item: object) -> StopEntry:
    if isinstance(item, str):
        return StopEntry.of(item)
    if not isinstance(item, dict) or not isinstance(item.get("sequence"), str):
        raise ValueError(
            f"Entry {number} of the list is not a string; put it in double quotes. "
            "With options it is an object with “sequence”."
        )
    if item.get("scope") not in (None, *(scope.value for scope in StopScope)):
        raise ValueError(f"Entry {number} of the list: “scope” must be one of {_SCOPES}.")
    if not isinstance(item.get("is_enabled", True), bool):
        raise ValueError(f"Entry {number} of the list: “is_enabled” must be true or false.")
    try:
        return stop_entry_from(Fields(item))
    except DamagedFile as error:
        raise ValueError(f"Entry {number} of the list cannot be read: {error}.") from error


def _checked(entries: Iterable[StopEntry]) -> list[StopEntry]:
    """Return the rows, each text once; raises ``ValueError`` that names the entry."""
    rows: dict[str, StopEntry] = {}
    for number, entry in enumerate(entries, 1):
        text = entry.stop.text
        if not text:
            raise ValueError(f"Entry {number} of the list is empty; remove it.")
        try:
            checked_strings([text], "stops")
        except InvalidRequest as error:
            problem = f"Entry {number} of the list: {error.reason}. Shorten or remove it."
            raise ValueError(problem) from error
        rows.setdefault(text, entry)
    if len(rows) > MAX_STOPS:
        raise ValueError(
            f"A stop list has at most {MAX_STOPS} sequences, this one has {len(rows):,}. "
            f"Remove {len(rows) - MAX_STOPS:,}."
        )
    return list(rows.values())
