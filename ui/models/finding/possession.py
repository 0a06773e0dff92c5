"""What is here of the models that a hub offers: on the disk, loaded, or being downloaded.

Main thread.
"""

from PySide6.QtCore import QObject, Signal

from ui.models.downloads import Download
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import percent


class Possession(QObject):
    """Answers for a name; follows the library and its downloads.

    Signals:
        changed: An answer may be another now.
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
        """Return the model of a name that is here, and complete."""
        return self._by_name.get(name)

    def is_loaded(self, model: LibraryModel) -> bool:
        """Whether a model is the one that answers."""
        return self._library.is_loaded(model.found)

    def download(self, name: str) -> Download | None:
        """Return the download of a name that is under way or ended without success."""
        return next(
            (
                one
                for one in self._library.downloads.items
                if one.repository == name and one.stage != "done"
            ),
            None,
        )

    def words(self, name: str) -> str:
        """Return what is here of a model, in a few words; empty if nothing is."""
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
        return "Loaded" if self.is_loaded(here) else "On this computer"

    def _read(self) -> None:
        self._by_name = {
            one.found.name: one
            for one in reversed(self._library.models)
            if not one.found.is_partial
        }
        self.changed.emit()
