"""Which of a hub's models are on this computer: on the disk, loaded, or being downloaded.

Main thread.
"""

from PySide6.QtCore import QObject, Signal

from ui.models.downloads import Download
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import percent


class Possession(QObject):
    """The state of a model on this computer, by its name; follows the library and the downloads.

    Signals:
        changed: The state of some model may have changed.
    """

    changed = Signal()

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._by_name: dict[str, LibraryModel] = {}
        library.changed.connect(self._read)
        library.model.changed.connect(self.changed)
        library.downloads.changed.connect(self.changed)
        library.downloads.progressed.connect(self.changed)
        self._read()

    def model(self, name: str) -> LibraryModel | None:
        """Return the complete model of a name; None if it is not on this computer."""
        return self._by_name.get(name)

    def is_loaded(self, model: LibraryModel) -> bool:
        """Whether a model is loaded."""
        return self._library.is_loaded(model.found)

    def is_loading(self, model: LibraryModel) -> bool:
        """Whether a model is being loaded."""
        return self._library.is_loading(model.found)

    def no_room_for(self, name: str, size_bytes: int | None) -> str:
        """Return why a model does not fit on the disk; empty if it fits."""
        return self._library.downloads.no_room_for(name, size_bytes)

    def download(self, name: str) -> Download | None:
        """Return the download of a name that is running, or that ended without success."""
        return next(
            (
                one
                for one in self._library.downloads.items
                if one.repository == name and one.stage != "done"
            ),
            None,
        )

    def words(self, name: str) -> str:
        """Return the state of a model in a few words; empty if it is not on this computer."""
        download = self.download(name)
        if download is not None:
            progress = download.progress
            return {
                "running": f"Downloading {percent(progress.done_bytes, progress.total_bytes)} %",
                "cancelled": "Download cancelled",
                "failed": "Download failed",
                "done": "",
            }[download.stage]
        here = self.model(name)
        if here is None:
            return ""
        if self.is_loading(here):
            return "Loading…"
        return "Loaded" if self.is_loaded(here) else "On this computer"

    def _read(self) -> None:
        self._by_name = {
            one.found.name: one
            for one in reversed(self._library.models)
            if not one.found.is_partial
        }
        self.changed.emit()
