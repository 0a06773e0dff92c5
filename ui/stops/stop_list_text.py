"""Stop lists as text: a JSON list of strings, or plain lines if a person chose that.

Pure; knows no Qt. Any thread.
"""

import json
from collections.abc import Sequence

MOST_BYTES = 1_000_000


def to_json(sequences: Sequence[str]) -> str:
    """Return a list that ``from_json`` reads back exactly."""
    return json.dumps(list(sequences), ensure_ascii=False, indent=2) + "\n"


def from_json(text: str) -> list[str]:
    """Return the sequences of a JSON list of strings, unchanged."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            'This is not a JSON list of strings, such as ["END", "\\n\\nUser:"]. '
            "To take every line as one sequence, choose “Paste Lines”."
        ) from error
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list):
        raise ValueError('A stop list is a JSON list of strings, such as ["END", "\\n\\nUser:"].')
    for number, one in enumerate(found, 1):
        if not isinstance(one, str):
            raise ValueError(
                f"Entry {number} of the list is not a string; put it in double quotes."
            )
        if not one:
            raise ValueError(f"Entry {number} of the list is empty; remove it.")
        if any("\ud800" <= char <= "\udfff" for char in one):
            raise ValueError(
                f"Entry {number} of the list contains half of a character (a surrogate); "
                "no text can match it."
            )
    return found


def from_lines(text: str) -> list[str]:
    """Return each line as a sequence, with its spaces; empty lines are left out."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if line]
