"""Downloads of models: progress, rate, time left. Main thread; each has its own thread."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from engine.library.downloads import HubDownload, disk_shortage, repository_of
from engine.library.hub import DownloadProgress, HubCancelled, HubFailed
from engine.values.verdict import UNEXPECTED
from engine.wording import as_sentence
from ui.models.model_words import TransferRate

DownloadStage = Literal["running", "cancelled", "failed", "done"]

_log = logging.getLogger(__name__)


class Download(QObject):
    """The download of one repository."""

    changed = Signal()

    def __init__(self, repository: str, cache: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.repository = repository
        self.stage: DownloadStage = "running"
        self.message = ""
        self.folder: Path | None = None
        self._cache = cache
        self._transfer = HubDownload(repository, cache)
        self.rate = TransferRate()

    def start(self) -> None:
        """Start, or resume a partial download. Needs the running loop."""
        self.stage, self.message = "running", ""
        self.rate = TransferRate()
        self._transfer = HubDownload(self.repository, self._cache)
        threading.Thread(
            target=self._work,
            args=(asyncio.get_running_loop(), self._transfer),
            name=f"download {self.repository}",
            daemon=True,
        ).start()
        self.changed.emit()

    @property
    def progress(self) -> DownloadProgress:
        return self._transfer.progress

    def cancel(self) -> None:
        """Cancel the download at once; the partial files are kept."""
        if self.stage == "running":
            self._transfer.gives_up.set()
            self._end("cancelled", "Paused. Downloaded data is kept.")

    def _work(self, loop: asyncio.AbstractEventLoop, transfer: HubDownload) -> None:
        """Download; runs on a thread of its own."""
        try:
            folder = transfer.run()
        except HubCancelled:
            return
        except HubFailed as error:
            outcome: tuple[DownloadStage, str, Path | None] = ("failed", str(error), None)
        except Exception:  # a bug must not leave the bar standing
            _log.exception("a download failed unexpectedly")
            outcome = ("failed", UNEXPECTED, None)
        else:
            outcome = ("done", "", folder)
        if not loop.is_closed() and not transfer.gives_up.is_set():
            loop.call_soon_threadsafe(self._finished, transfer, *outcome)

    def _finished(
        self, transfer: HubDownload, stage: DownloadStage, message: str, folder: Path | None
    ) -> None:
        if transfer is self._transfer and not transfer.gives_up.is_set():
            self.folder = folder
            self._end(stage, message)

    def _end(self, stage: DownloadStage, message: str) -> None:
        self.stage, self.message = stage, message
        self.changed.emit()


class Downloads(QObject):
    """The downloads of this session."""

    changed = Signal()
    progressed = Signal()
    arrived = Signal(object)

    def __init__(self, cache: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cache = cache
        self.items: list[Download] = []
        self._timer = QTimer(self, interval=120)
        self._timer.timeout.connect(self._tick)

    def start(self, text: str) -> str:
        """Download a repository, given its name or page address; return the problem with it."""
        try:
            repository = repository_of(text)
        except HubFailed as error:
            return str(error)
        for item in self.items:
            if item.repository == repository:
                if item.stage != "running":
                    self.resume(item)
                return ""
        made = Download(repository, self._cache, self)
        made.changed.connect(self._follow)
        self.items.insert(0, made)
        self.resume(made)
        return ""

    def disk_shortage(self, repository: str, size_bytes: int | None) -> str:
        try:
            why = "" if size_bytes is None else disk_shortage(repository, self._cache, size_bytes)
        except OSError:
            return ""  # the download reports a problem of the folder
        return as_sentence(why) if why else ""

    @property
    def running(self) -> list[Download]:
        return [item for item in self.items if item.stage == "running"]

    def resume(self, download: Download) -> None:
        download.start()
        self._timer.start()

    def forget(self, download: Download) -> None:
        """Remove a finished download from the list; its files stay."""
        if download.stage != "running" and download in self.items:
            self.items.remove(download)
            self.changed.emit()

    def unfinished(self, repository: str) -> Download | None:
        """Return the download of a repository that is running, or that ended without success."""
        items = (item for item in self.items if item.repository == repository)
        return next((item for item in items if item.stage != "done"), None)

    def is_running(self, repository: str) -> bool:
        return any(item.repository == repository for item in self.running)

    def is_done(self, repository: str) -> bool:
        return any(one.repository == repository and one.stage == "done" for one in self.items)

    def forget_all(self, repository: str) -> None:
        for item in [item for item in self.items if item.repository == repository]:
            self.forget(item)

    def cancel_all(self) -> None:
        for item in self.items:
            item.cancel()

    def _follow(self) -> None:
        download = self.sender()
        self.changed.emit()
        if isinstance(download, Download) and download.stage == "done":
            self.arrived.emit(download.folder)

    def _tick(self) -> None:
        if not self.running:
            self._timer.stop()
        self.progressed.emit()
