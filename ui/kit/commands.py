"""Commands as data, and the menus made of them. Main thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence, QUndoCommand
from PySide6.QtWidgets import QMenu, QStyleOptionMenuItem, QWidget

from ui.kit.windows import round_corners

Keys = QKeySequence.StandardKey | str


@dataclass(frozen=True, slots=True)
class Command:
    """An entry of a menu, or a button.

    The functions are called when the menu opens; ``enabled`` also when the entry is chosen, since
    its shortcuts work while the menu is closed.
    """

    label: str
    run: Callable[[], object]
    keys: tuple[Keys, ...] = ()
    enabled: Callable[[], bool] | bool = True
    title: Callable[[], str] | None = None
    checked: Callable[[], bool] | bool | None = None  # None for an entry without one
    visible: Callable[[], bool] | None = None  # None for always
    works_everywhere: bool = False
    is_destructive: bool = False
    role: QAction.MenuRole = QAction.MenuRole.TextHeuristicRole
    tool_tip: str = ""

    @property
    def is_enabled(self) -> bool:
        return self.enabled() if callable(self.enabled) else self.enabled

    def trigger(self) -> None:
        """Run it, if it can be used now."""
        if self.is_enabled:
            self.run()


@dataclass(frozen=True, slots=True)
class Submenu:
    """A menu inside a menu; entries that a function returns are made when it opens."""

    label: str
    entries: "Sequence[Entry] | Callable[[], Sequence[Entry]]"


Entry = Command | Submenu | None
"""An entry of a menu; None is a separator."""


class Menu(QMenu):
    """A menu that aligns its shortcuts at the right."""

    def initStyleOption(self, option: QStyleOptionMenuItem, action: QAction) -> None:  # noqa: N802
        super().initStyleOption(option, action)
        if keys := option.text.partition("\t")[2]:
            # Styles begin a shortcut this far from the right edge; Qt reserves the widest of all.
            option.reservedShortcutWidth = option.fontMetrics.horizontalAdvance(keys)


def fill_menu(
    menu: QMenu,
    entries: Sequence[Entry],
    when_opened: Callable[[], Sequence[Entry]] | None = None,
) -> None:
    """Add entries to a menu and keep them up to date; ``when_opened`` makes the last ones anew."""
    fixed = _add_entries(menu, entries)
    made: list[QAction] = []

    def remake(make: Callable[[], Sequence[Entry]]) -> None:
        for action in made:
            menu.removeAction(action)
            (action.menu() or action).deleteLater()
        before = len(menu.actions())
        for command, action in _add_entries(menu, make()):
            _update(command, action)
        made[:] = menu.actions()[before:]

    def refresh() -> None:
        for command, action in fixed:
            _update(command, action)
        if when_opened is not None:
            remake(when_opened)

    def release() -> None:
        """Enable and show all: the shortcut of a disabled or hidden action does not work."""
        for command, action in fixed:
            action.setEnabled(command.enabled is not False)
            action.setVisible(True)
            action.setText(command.label)

    round_corners(menu)
    menu.aboutToShow.connect(refresh)
    menu.aboutToHide.connect(release)
    if when_opened is not None:
        remake(when_opened)


def context_menu(parent: QWidget, name: str, entries: Sequence[Entry]) -> QMenu:
    """Return a menu with an accessible name, which is deleted when it is closed."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.setAccessibleName(name)
    fill_menu(menu, entries)
    return menu


def popup_below(widget: QWidget, menu: QMenu) -> None:
    """Open a menu of a button that has no arrow, below the button and within the screen."""
    menu.popup(widget.mapToGlobal(widget.rect().bottomLeft()))
    excess_px = menu.geometry().right() + 8 - widget.screen().availableGeometry().right()
    if excess_px > 0:
        menu.move(menu.x() - excess_px, menu.y())


def _add_entries(menu: QMenu, entries: Sequence[Entry]) -> list[tuple[Command, QAction]]:
    commands: list[tuple[Command, QAction]] = []
    for entry in entries:
        if entry is None:
            menu.addSeparator()
        elif isinstance(entry, Command):
            commands.append((entry, _action(menu, entry)))
        else:
            inner = Menu(entry.label, menu)
            menu.addMenu(inner)
            if callable(entry.entries):
                fill_menu(inner, (), entry.entries)
            else:
                fill_menu(inner, entry.entries)
                inner.setEnabled(bool(entry.entries))
    return commands


def _action(menu: QMenu, command: Command) -> QAction:
    action = menu.addAction(command.label)
    action.setShortcuts([QKeySequence(key) for key in command.keys])
    if command.works_everywhere:
        action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    if command.checked is not None:
        action.setCheckable(True)
        action.setChecked(command.checked() if callable(command.checked) else command.checked)
    action.setEnabled(command.enabled is not False)
    action.setMenuRole(command.role)
    if command.tool_tip:
        action.setToolTip(command.tool_tip)
        menu.setToolTipsVisible(True)
    action.triggered.connect(lambda: command.trigger())
    return action


def _update(command: Command, action: QAction) -> None:
    action.setEnabled(command.is_enabled)
    if command.title is not None:
        action.setText(command.title())
    if command.checked is not None:
        action.setChecked(command.checked() if callable(command.checked) else command.checked)
    if command.visible is not None:
        action.setVisible(command.visible())


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
        self._show, self._before, self.after = show, before, after

    def redo(self) -> None:
        self._show(*self.after)

    def undo(self) -> None:
        self._show(*self._before)
