"""The stop lists that new conversations begin with, and those saved by name. Main thread."""

import json
from collections.abc import Sequence
from pathlib import Path

from engine.files.json_fields import DamagedFile, Fields
from engine.library.model_files import model_name
from ui.models.model_choices import ChoicesState
from ui.preferences_state import PreferencesState
from ui.records.codec import stops_from, stops_values
from ui.records.stop_entries import StopEntry

# A list is named as in ``Conversation.stops_from``.
DEFAULT_LIST = "default:"
_MODEL, _NAMED = "model:", "list:"

Stops = tuple[StopEntry, ...]


def model_list(folder: Path) -> str:
    """Return the key of the list that new chats with a model begin with."""
    return f"{_MODEL}{folder.resolve()}"


def named_list(name: str) -> str:
    """Return the key of the list that was saved under a name."""
    return f"{_NAMED}{name}"


def list_name(key: str) -> str:
    """Return the name under which a list was saved; empty for the default one and a model's."""
    return key.removeprefix(_NAMED) if key.startswith(_NAMED) else ""


def list_title(key: str) -> str:
    """Return a list's name in menus."""
    if key.startswith(_MODEL):
        return f"New Chats with {model_name(Path(key.removeprefix(_MODEL)))}"
    return list_name(key) or "New Chats"


def describe_list(key: str) -> str:
    """Return a list's name inside a sentence; empty for another source."""
    if key.startswith(_MODEL):
        return f"the list for {model_name(Path(key.removeprefix(_MODEL)))}"
    if name := list_name(key):
        return f"the list “{name}”"
    return "the default list" if key == DEFAULT_LIST else ""


class StopLists:
    """The default list, those of models and those saved by name; kept in the preferences."""

    def __init__(self, preferences: PreferencesState, choices: ChoicesState) -> None:
        self._preferences, self._choices = preferences, choices
        self.changed = preferences.changed

    def all(self) -> list[str]:
        """Return the default list, the lists of models, and the others by name."""
        now = self._preferences.now
        models = [f"{_MODEL}{choices.folder}" for choices in now.models.choices if choices.stops]
        return [DEFAULT_LIST, *sorted(models), *self.named()]

    def named(self) -> list[str]:
        names = sorted(dict(self._preferences.now.stop_lists), key=str.casefold)
        return [named_list(name) for name in names]

    def get(self, key: str) -> Stops | None:
        """Return the rows of a list; None if there is no such list."""
        if key.startswith(_MODEL):
            kept = self._choices.of(Path(key.removeprefix(_MODEL))).stops
        elif key == DEFAULT_LIST:
            kept = self._preferences.now.default_stops
        else:
            kept = dict(self._preferences.now.stop_lists).get(list_name(key), "")
        try:
            return tuple(stops_from(Fields({"stops": json.loads(kept)}))) if kept else None
        except (ValueError, DamagedFile):
            return None  # written by hand, or by another version

    def keep(self, key: str, stops: Sequence[StopEntry] | None) -> None:
        """Save a list; None deletes it."""
        kept = "" if stops is None else json.dumps(stops_values(list(stops)))
        if key.startswith(_MODEL):
            self._choices.change(Path(key.removeprefix(_MODEL)), stops=kept)
        elif key == DEFAULT_LIST:
            self._preferences.change(default_stops=kept if stops else "")
        else:
            lists = dict(self._preferences.now.stop_lists)
            lists.pop(list_name(key), None)
            if kept:
                lists[list_name(key)] = kept
            self._preferences.change(stop_lists=tuple(lists.items()))

    def rename(self, key: str, name: str) -> None:
        """Save a list under another name; one of that name is replaced."""
        stops = self.get(key)
        self.keep(key, None)
        self.keep(named_list(name), stops)

    def for_new_chats(self, folder: Path | None) -> tuple[Stops, str]:
        """Return the list that a new conversation begins with, and its key; empty for none."""
        own = () if folder is None else (model_list(folder),)
        for key in (*own, DEFAULT_LIST):
            if (stops := self.get(key)) is not None:
                return stops, key
        return (), ""
