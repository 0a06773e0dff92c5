"""What belongs to the program and not to a conversation. Main thread."""

from typing import cast

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QVBoxLayout,
    QWidget,
)

from ui.theme import Theme, ThemeMode
from ui.widgets.labels import label

MODES: tuple[tuple[ThemeMode, str], ...] = (
    ("system", "As the system"),
    ("light", "Light"),
    ("dark", "Dark"),
)


class PreferencesDialog(QDialog):
    """Appearance; changes act at once."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.appearance = QComboBox()
        self.appearance.setAccessibleName("Appearance")
        for mode, words in MODES:
            self.appearance.addItem(words, mode)
        self.appearance.setCurrentIndex([mode for mode, _ in MODES].index(theme.mode))
        self.appearance.currentIndexChanged.connect(
            lambda row: theme.set_mode(cast(ThemeMode, self.appearance.itemData(row)))
        )
        form = QFormLayout()
        form.setHorizontalSpacing(16)
        form.addRow(label("Appearance"), self.appearance)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(22, 20, 22, 16)
        layout.setSpacing(18)
        layout.addLayout(form)
        layout.addWidget(buttons)
        self.setMinimumWidth(340)
