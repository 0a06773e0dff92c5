"""One download in the list: progress, rate and time left; cancel and resume. Main thread."""

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout

from engine import as_sentence
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme, restyle
from ui.kit.text.labels import ElidedLabel, label, rescale
from ui.models.downloads import Download, Downloads
from ui.models.model_words import download_words, percent


class DownloadRow(QFrame):
    """One download."""

    def __init__(self, theme: Theme, downloads: Downloads, one: Download) -> None:
        super().__init__()
        self.setObjectName("card")
        self._one = one
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setAccessibleName(f"Download of {one.repository}")
        self.words = label("", "muted", 0.95, is_wrapped=True)
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName(f"Cancel the download of {one.repository}")
        self.cancel.clicked.connect(one.cancel)
        self.resume = QPushButton("Resume")
        self.resume.setAccessibleName(f"Resume the download of {one.repository}")
        self.resume.clicked.connect(lambda: downloads.resume(one))
        self.close_button = IconButton(theme, "close", f"Dismiss {one.repository}", size=16)
        self.close_button.clicked.connect(lambda: downloads.forget(one))
        words = QVBoxLayout()
        words.setSpacing(5)
        name = ElidedLabel(one.repository)
        rescale(name, 1.0, QFont.Weight.DemiBold)
        words.addWidget(name)
        words.addWidget(self.bar)
        words.addWidget(self.words)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 11, 8, 11)
        row.setSpacing(10)
        row.addLayout(words, 1)
        row.addWidget(self.cancel)
        row.addWidget(self.resume)
        row.addWidget(self.close_button)
        self.refresh()

    @property
    def download(self) -> Download:
        """The download that the row shows."""
        return self._one

    def refresh(self) -> None:
        """Show the present progress."""
        one = self._one
        progress = one.progress
        is_running = one.stage == "running"
        # A bar without a maximum moves: it shows that the hub has not answered yet.
        self.bar.setRange(0, 0 if is_running and not progress.total_bytes else 100)
        self.bar.setValue(
            100 if one.stage == "done" else percent(progress.done_bytes, progress.total_bytes)
        )
        self.bar.setVisible(is_running or one.stage == "cancelled")
        if is_running:
            self.words.setText(download_words(progress, one.bytes_per_s, one.left_s))
        elif one.stage == "done":
            self.words.setText("Downloaded and verified.")
        else:
            self.words.setText(as_sentence(one.message))
        restyle(self.words, "role", "fault" if one.stage == "failed" else "muted")
        self.cancel.setVisible(is_running)
        self.resume.setVisible(one.stage in ("cancelled", "failed"))
        self.resume.setText("Try Again" if one.stage == "failed" else "Resume")
        self.close_button.setVisible(not is_running)
