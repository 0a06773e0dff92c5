"""The presets: saved settings and stop lists. Main thread."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.files.json_fields import DamagedFile
from ui.kit.tasks import finish_tasks, read_text, start_task, write_file
from ui.records.codec import Preset, presets_from_json, presets_json
from ui.records.store import ConversationStore
from ui.words import FileRefused


class PresetList(QObject):
    """All presets, by name."""

    changed = Signal()
    refused = Signal(str)

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._presets = {preset.name: preset for preset in store.presets()}

    def all(self) -> list[Preset]:
        return sorted(self._presets.values(), key=lambda preset: preset.name.casefold())

    def get(self, name: str) -> Preset | None:
        return self._presets.get(name)

    def take_found(self, presets: Iterable[Preset]) -> None:
        """Add presets that the store found later; newer ones of the same name stay."""
        for preset in presets:
            self._presets.setdefault(preset.name, preset)
        self.changed.emit()

    def take_new(self, presets: Iterable[Preset]) -> None:
        """Save presets of a file, except those whose names exist here."""
        if new := [preset for preset in presets if preset.name not in self._presets]:
            self._keep_all(new)

    def keep(self, preset: Preset) -> None:
        """Save a preset; one of the same name is replaced."""
        self._keep_all([preset])

    def delete(self, name: str) -> None:
        if self._presets.pop(name, None) is not None:
            self._store.delete_preset(name)
            self.changed.emit()

    def export_to(self, path: Path) -> None:
        start_task(self, self._export(path, self.all()), "export presets")

    def import_from(self, path: Path) -> None:
        """Import the presets of a JSON file; those of the same name are replaced."""
        start_task(self, self._import(path), "import presets")

    async def finish(self) -> None:
        await finish_tasks(self)

    async def _export(self, path: Path, presets: list[Preset]) -> None:
        try:
            await write_file(path, lambda: presets_json(presets))
        except FileRefused as refusal:
            self.refused.emit(str(refusal))

    async def _import(self, path: Path) -> None:
        try:
            text = await read_text(path, 16_000_000)
            presets = await asyncio.to_thread(presets_from_json, text)
        except FileRefused as refusal:
            self.refused.emit(str(refusal))
        except DamagedFile as error:
            self.refused.emit(f"{path.name} is not a file of presets: {error}.")
        else:
            self._keep_all(presets)

    def _keep_all(self, presets: Iterable[Preset]) -> None:
        for preset in presets:
            self._presets[preset.name] = preset
            self._store.save_preset(preset)
        self.changed.emit()
