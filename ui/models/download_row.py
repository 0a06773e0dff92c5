"""The line of running downloads at the foot of the sidebar. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QSizePolicy

from engine.wording import counted
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedButton, thin_bar
from ui.kit.layouts import column
from ui.models.downloads import Downloads
from ui.models.model_words import percent
from ui.words import display_name


class DownloadRow(QFrame):
    """Shows how far the downloads of models are; hidden while none runs."""

    requested = Signal(str)  # the repository to show

    def __init__(self, downloads: Downloads) -> None:
        super().__init__()
        self.setObjectName("download_row")
        self._downloads = downloads
        self.state = ElidedButton()
        self.state.setProperty("kind", "row")
        self.state.setIcon(themed_icon("download", "muted"))
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.state.clicked.connect(lambda: self.requested.emit(downloads.running[0].repository))
        self.bar = thin_bar("Downloads")
        column(self.state, self.bar, spacing=2, margins=(8, 6, 8, 8), on=self)
        downloads.changed.connect(self._refresh)
        downloads.progressed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        running = self._downloads.running
        self.setVisible(bool(running))
        if not running:
            return
        done = sum(item.progress.done_bytes for item in running)
        total = sum(item.progress.total_bytes for item in running)
        is_verifying = all(item.progress.phase == "verifying" for item in running)
        text = display_name(running[0].repository)
        if len(running) > 1:
            text = counted(len(running), "download")
        if total:
            text += " · Verifying…" if is_verifying else f" · {percent(done, total)}%"
        self.state.setText(text)
        self.state.setAccessibleName(f"Downloading {text}. Show in Models")
        self.state.setToolTip(
            "\n".join(f"{display_name(i.repository)}: {i.rate.text(i.progress)}" for i in running)
        )
        self.bar.setRange(0, total and 100)  # without a total, the bar moves
        self.bar.setValue(percent(done, total))
