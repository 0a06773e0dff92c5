"""Commands as data, and the menus made of them. Main thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence, QUndoCommand
from PySide6.QtWidgets import QMenu

from ui.kit.menus import Keys, empty_menu


@dataclass(frozen=True, slots=True)
class Command:
    """An entry of a menu, or a button that answers a question.

    The functions are called when the menu opens; ``enabled`` also when the entry is chosen, since
    its shortcuts work while the menu is closed.
    """

    label: str
    run: Callable[[], object]
    keys: tuple[Keys, ...] = ()
    enabled: Callable[[], bool] | None = None  # None for always
    title: Callable[[], str] | None = None
    checked: Callable[[], bool] | None = None  # None for an entry without one
    visible: Callable[[], bool] | None = None  # None for always
    works_everywhere: bool = False
    is_destructive: bool = False
    role: QAction.MenuRole = QAction.MenuRole.TextHeuristicRole

    def trigger(self) -> None:
        """Run it, if it can be used now."""
        if self.enabled is None or self.enabled():
            self.run()


@dataclass(frozen=True, slots=True)
class Submenu:
    """A menu inside a menu; entries that a function returns are made when it opens."""

    label: str
    entries: "Sequence[Entry] | Callable[[], Sequence[Entry]]"


Entry = Command | Submenu | None
"""An entry of a menu; None is a separator."""


def fill_menu(menu: QMenu, entries: Sequence[Entry]) -> list[QAction]:
    """Add entries to a menu and keep them up to date; return their actions."""
    commands: list[tuple[Command, QAction]] = []
    actions: list[QAction] = []
    for entry in entries:
        if entry is None:
            actions.append(menu.addSeparator())
        elif isinstance(entry, Submenu):
            inner = menu.addMenu(entry.label)
            actions.append(inner.menuAction())
            if callable(entry.entries):
                _fill_when_opened(inner, entry.entries)
            else:
                fill_menu(inner, entry.entries)
        else:
            action = _action(menu, entry)
            actions.append(action)
            commands.append((entry, action))

    def refresh() -> None:
        for command, action in commands:
            action.setEnabled(command.enabled is None or command.enabled())
            if command.title is not None:
                action.setText(command.title())
            if command.checked is not None:
                action.setChecked(command.checked())
            if command.visible is not None:
                action.setVisible(command.visible())

    def release() -> None:
        """Enable and show all: the shortcut of a disabled or hidden action does not work."""
        for command, action in commands:
            action.setEnabled(True)
            action.setVisible(True)
            action.setText(command.label)

    menu.aboutToShow.connect(refresh)
    menu.aboutToHide.connect(release)
    return actions


def _fill_when_opened(menu: QMenu, entries: Callable[[], Sequence[Entry]]) -> None:
    def fill() -> None:
        empty_menu(menu)
        for entry in entries():
            if entry is None:
                menu.addSeparator()
            elif isinstance(entry, Submenu):
                assert not callable(entry.entries)
                fill_menu(menu.addMenu(entry.label), entry.entries)
            else:
                action = _action(menu, entry)
                action.setEnabled(entry.enabled is None or entry.enabled())

    menu.aboutToShow.connect(fill)
    fill()


def _action(menu: QMenu, command: Command) -> QAction:
    action = menu.addAction(command.label)
    action.setShortcuts([QKeySequence(key) for key in command.keys])
    if command.works_everywhere:
        action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    if command.checked is not None:
        action.setCheckable(True)
        action.setChecked(command.checked())
    if command.role is not QAction.MenuRole.TextHeuristicRole:
        action.setMenuRole(command.role)
    action.triggered.connect(lambda: command.trigger())
    return action


class ValueChange(QUndoCommand):
    """Replaces values as a whole: ``show`` gets the later or, to undo, the earlier ones."""

    def __init__(
        self,
        show: Callable[..., object],
        before: tuple[object, ...],
        after: tuple[object, ...],
        text: str = "",
    ) -> None:
        super().__init__(text)
        self._show, self._before, self._after = show, before, after

    def redo(self) -> None:
        self._show(*self._after)

    def undo(self) -> None:
        self._show(*self._before)
