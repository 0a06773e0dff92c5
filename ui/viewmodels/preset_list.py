"""The presets of this person: kept by name, in files for others. Main thread."""

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.causes import os_cause
from engine.fields import DamagedFile
from ui.viewmodels.presets import Preset, presets_from_json, presets_json
from ui.viewmodels.storing import ConversationStore


class PresetList(QObject):
    """All presets, by name.

    Signals:
        changed: There are other presets now.
        refused: A file could not be read or written; carries why, in words.
    """

    changed = Signal()
    refused = Signal(str)

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._presets = {preset.name: preset for preset in store.load_presets()}

    def all(self) -> list[Preset]:
        """Return the presets in the order of their names."""
        return sorted(self._presets.values(), key=lambda preset: preset.name.casefold())

    def get(self, name: str) -> Preset | None:
        """Return a preset by its name."""
        return self._presets.get(name)

    def keep(self, preset: Preset) -> None:
        """Keep a preset; one of the same name is replaced."""
        self._keep_all([preset])

    def delete(self, name: str) -> None:
        """Forget a preset."""
        if self._presets.pop(name, None) is not None:
            self._store.delete_preset(name)
            self.changed.emit()

    def export_to(self, path: Path) -> None:
        """Write all presets to a JSON file."""
        try:
            path.write_text(presets_json(self.all()), encoding="utf-8")
        except OSError as error:
            self.refused.emit(f"The presets could not be written: {os_cause(error)}.")

    def import_from(self, path: Path) -> None:
        """Take over the presets of a JSON file; those of the same name are replaced."""
        try:
            presets = presets_from_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            self.refused.emit(f"{path.name} could not be read: {os_cause(error)}.")
        except UnicodeDecodeError:
            self.refused.emit(f"{path.name} holds no presets: it is not text.")
        except DamagedFile as error:
            self.refused.emit(f"{path.name} holds no presets: {error}.")
        else:
            self._keep_all(presets)

    def _keep_all(self, presets: Iterable[Preset]) -> None:
        for preset in presets:
            self._presets[preset.name] = preset
            self._store.save_preset(preset)
        self.changed.emit()
