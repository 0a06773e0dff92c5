"""The bar at the foot of the window that shows the progress of an export or import. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QProgressBar, QPushButton, QStatusBar

from ui.chat.storage.transfers import Transfers
from ui.kit.text.labels import ElidedLabel

# A shorter transfer shows no bar, which would only flicker.
_SHOWN_AFTER_MS = 400


class TransferBar(QStatusBar):
    """What is running, its progress, and a Cancel button; hidden while nothing runs."""

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self._transfers = transfers
        self.words = ElidedLabel()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the export or import")
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName("Cancel the export or import")
        self._delay = QTimer(self, singleShot=True, interval=_SHOWN_AFTER_MS)
        self._delay.timeout.connect(self._appear)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(14, 4, 10, 4)
        self.addWidget(self.words, 2)
        self.addWidget(self.progress, 1)
        self.addPermanentWidget(self.cancel)
        self.cancel.clicked.connect(transfers.cancel)
        transfers.changed.connect(self._refresh)
        self.hide()

    def _appear(self) -> None:
        self.setVisible(self._transfers.now is not None)

    def _refresh(self) -> None:
        now = self._transfers.now
        if now is None:
            self._delay.stop()
            self.hide()
            return
        if not self.isVisible() and not self._delay.isActive():
            self._delay.start()
        place = f": {now.done:,} of {now.total:,}" if now.total > 1 else "…"
        self.words.setText(f"{now.words}{place}")
        self.progress.setRange(0, now.total if now.total > 1 else 0)
        self.progress.setValue(now.done)
