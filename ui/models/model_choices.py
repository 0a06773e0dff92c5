"""The choices for each model, as preferences by its resolved folder. Any thread may read."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.files.json_fields import DamagedFile, Fields
from ui.preferences import ModelChoices
from ui.preferences_state import PreferencesState
from ui.records.codec import settings_from, settings_values
from ui.records.conversations import ConversationSettings


class ChoicesState:
    """Reads and changes the choices; those of the command line count for this session."""

    def __init__(self, preferences: PreferencesState) -> None:
        self._preferences = preferences
        # Fields of ``ModelChoices`` by the folder.
        self._session: dict[str, dict[str, Any]] = {}

    def of(self, folder: Path) -> ModelChoices:
        resolved = str(folder.resolve())
        kept = self._preferences.now.models.choices
        choices = next((c for c in kept if c.folder == resolved), ModelChoices(resolved))
        return replace(choices, **self._session.get(resolved, {}))

    def change(self, folder: Path, **fields: Any) -> None:
        """Change fields of the ``ModelChoices`` of a folder."""
        resolved = str(folder.resolve())
        session = self._session.get(resolved, {})
        self._session[resolved] = {name: session[name] for name in session.keys() - fields}
        kept = {c.folder: c for c in self._preferences.now.models.choices}
        changed = replace(kept.pop(resolved, ModelChoices(resolved)), **fields)
        self._keep((*kept.values(), changed))

    def move(self, old: Path, new: Path) -> None:
        """Keep the choices for a model, and as a draft model, when its folder has changed."""
        moved = {str(old.resolve()): str(new.resolve())}
        self._session = {
            moved.get(folder, folder): {
                name: moved.get(value, value) for name, value in fields.items()
            }
            for folder, fields in self._session.items()
        }
        kept = {
            moved.get(c.folder, c.folder): replace(
                c,
                folder=moved.get(c.folder, c.folder),
                draft=moved.get(c.draft, c.draft),
                base=moved.get(c.base, c.base),
            )
            for c in self._preferences.now.models.choices
        }
        self._keep(tuple(kept.values()))

    def draft_of(self, folder: Path) -> Path | None:
        """Return the draft model that is loaded beside the model of a folder; None for none."""
        draft = self.of(folder).draft
        return Path(draft) if draft else None

    def base_of(self, folder: Path) -> Path | None:
        """Return the base that the user chose for the adapter of a folder; None for its own."""
        base = self.of(folder).base
        return Path(base) if base and os.path.isdir(base) else None

    def template_of(self, folder: Path) -> str | None:
        """Return the user's chat template for the model of a folder; None for the model's own."""
        return self.of(folder).template or None

    def use(
        self, folder: Path, draft: Path | None, template: str | None, base: Path | None
    ) -> None:
        """Load a model with these in place of the kept choices, in this session only."""
        given = {
            "draft": draft and str(draft.resolve()),
            "template": template,
            "base": base and str(base.resolve()),
        }
        resolved = str(folder.resolve())
        self._session[resolved] = {name: value for name, value in given.items() if value}

    def settings_of(self, folder: Path) -> ConversationSettings | None:
        """Return the settings that new conversations with a model begin with; None for none."""
        kept = self.of(folder).settings
        try:
            return settings_from(Fields(json.loads(kept))) if kept else None
        except (ValueError, DamagedFile):
            return None  # written by hand, or by another version

    def keep_settings(self, folder: Path, settings: ConversationSettings | None) -> None:
        """Let new conversations with a model begin with these settings; None for no own ones."""
        kept = "" if settings is None else json.dumps(settings_values(settings))
        self.change(folder, settings=kept)

    def _keep(self, choices: tuple[ModelChoices, ...]) -> None:
        kept = tuple(c for c in choices if c != ModelChoices(c.folder))
        self._preferences.change_value("models.choices", kept)
