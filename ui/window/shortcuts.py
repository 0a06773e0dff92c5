"""The list of all keyboard shortcuts, read from the menus. Main thread."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QFont, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QMenu,
    QMenuBar,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ui.kit.controls.reading_order import move_focus
from ui.kit.text.labels import label


class ShortcutsDialog(QDialog):
    """Lists each menu with its actions that have a shortcut."""

    def __init__(self, menus: QMenuBar, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard Shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        holder = QWidget()
        holder.setObjectName("scrolled")
        grid = QGridLayout(holder)
        grid.setContentsMargins(4, 2, 14, 6)
        grid.setHorizontalSpacing(36)
        grid.setVerticalSpacing(7)
        grid.setColumnStretch(0, 1)
        for title, actions in shortcuts_of(menus):
            row = grid.rowCount()
            heading = label(title, "title", 1.0, weight=QFont.Weight.DemiBold)
            heading.setContentsMargins(0, 10 if row > 1 else 0, 0, 0)
            grid.addWidget(heading, row, 0)
            for action in actions:
                row = grid.rowCount()
                words = plain(action.text())
                keys = label(keys_of(action), "chip", 0.95)
                keys.setAccessibleName(f"{words}: {keys_of(action)}")
                grid.addWidget(label(words), row, 0)
                grid.addWidget(keys, row, 1, Qt.AlignmentFlag.AlignRight)
        area = QScrollArea()
        area.setAccessibleName("Keyboard shortcuts")
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(holder)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(22, 18, 16, 16)
        layout.setSpacing(14)
        layout.addWidget(area, 1)
        layout.addWidget(buttons)
        area.setMinimumWidth(
            holder.sizeHint().width() + area.verticalScrollBar().sizeHint().width()
        )
        self.resize(430, 560)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus in reading order."""
        return move_focus(self, is_next)


def shortcuts_of(bar: QMenuBar) -> Iterator[tuple[str, list[QAction]]]:
    """Yield each menu's title with its actions that have a shortcut, submenus included."""
    for action in bar.actions():
        menu = action.menu()
        if isinstance(menu, QMenu):
            found = list(_with_shortcut(menu))
            if found:
                yield plain(action.text()), found


def _with_shortcut(menu: QMenu) -> Iterator[QAction]:
    for action in menu.actions():
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _with_shortcut(inner)
        elif action.shortcuts():
            yield action


def keys_of(action: QAction) -> str:
    """Return an action's shortcuts as this system writes them."""
    form = QKeySequence.SequenceFormat.NativeText
    return "  or  ".join(sequence.toString(form) for sequence in action.shortcuts())


def plain(text: str) -> str:
    """Return a menu's words without the access key's ampersand and without an ellipsis."""
    return text.replace("&", "").removesuffix("…")
