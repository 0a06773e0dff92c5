"""The model folders that a person added in the window, for commands without a window.

The window reads them with all other settings. A command reads only these, without checking the rest
of the file: completion in a shell must be fast, and the window reports a damaged file. Any thread.
"""

import json
from pathlib import Path

from engine.files.bounded import read_bounded


def added_folders(settings_file: Path) -> tuple[Path, ...]:
    """Return the folders that a settings file lists; none if it cannot be read."""
    try:
        values = json.loads(read_bounded(settings_file))
        listed = values["models"]["folders"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return ()
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return ()  # the settings accept or refuse a list as a whole
    return tuple(Path(one) for one in listed)
