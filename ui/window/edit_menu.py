"""The Edit menu: undo, clipboard and find, for the widget with the focus. Main thread.

While a text field has the focus, it handles the keys of these entries itself. The entries are for
the mouse, for the Mac's menu bar, and for keys that no field handles.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence, QUndoGroup
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QWidget,
)

from ui.chat.reading.finding_text import FindingText
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.kit.system.clipboard import copied_text, copy_text
from ui.kit.system.menus import add_entry
from ui.kit.text.editing import (
    TextWidget,
    can_redo,
    can_undo,
    can_write,
    delete_selected,
    insert_plain,
    selected_text,
    text_widget_of,
)

_KEYS = QKeySequence.StandardKey
_IN_LIST = "in the List of Conversations"


class EditMenu(QObject):
    """Fills the menu, and adapts its entries to the widget that has the focus."""

    def __init__(
        self,
        menu: QMenu,
        workspace: Workspace,
        finding: FindingText,
        write_in: QPlainTextEdit,
    ) -> None:
        super().__init__(menu)
        self._group = QUndoGroup(self)
        self._finding = finding
        self._write_in = write_in
        self._focused: QWidget | None = None
        self.undo = self._add(menu, "&Undo", self._undo, "Ctrl+Z")
        self.redo = self._add(menu, "&Redo", self._redo, _KEYS.Redo)
        menu.addSeparator()
        self.cut = self._add(menu, "Cu&t", lambda: self._on_text("cut"), _KEYS.Cut)
        self.copy = self._add(menu, "&Copy", self._copy, _KEYS.Copy)
        self.paste = self._add(menu, "&Paste", self._paste, _KEYS.Paste)
        self.paste_plain = self._add(
            menu, "Paste and &Match Style", self._paste_plain, "Ctrl+Shift+V"
        )
        self.delete = add_entry(menu, "&Delete", self._delete)
        self.select_all = self._add(menu, "Select &All", self._select_all, _KEYS.SelectAll)
        menu.addSeparator()
        find = menu.addMenu("&Find")
        bar = finding.bar
        self.find = add_entry(find, "&Find…", bar.begin, _KEYS.Find)
        add_entry(find, "Find &Next", lambda: bar.step(1), "Ctrl+G", "F3")
        add_entry(find, "Find &Previous", lambda: bar.step(-1), "Ctrl+Shift+G", "Shift+F3")
        self.find_selection = add_entry(find, "Use &Selection for Find", self._find_selection)
        menu.aboutToShow.connect(self.refresh)
        menu.aboutToHide.connect(self._enable_all)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._note_focus)
        # Whether the list of conversations was changed after the stop list and the messages.
        self._is_list_latest = False
        self._list = workspace.conversations
        self._list.undoable.connect(lambda _: self._note_change(in_list=True))
        self._list.undone.connect(lambda: self._note_change(in_list=self._list.can_undo))
        self._group.indexChanged.connect(lambda _: self._note_change(in_list=False))
        workspace.opened.connect(self._follow_undo)
        self._follow_undo(workspace.current)

    def _note_change(self, *, in_list: bool) -> None:
        self._is_list_latest = in_list

    def _follow_undo(self, opened: OpenConversation) -> None:
        stack = opened.stops.undo_stack
        in_list = self._is_list_latest
        self._group.addStack(stack)
        self._group.setActiveStack(stack)  # this is reported as a change
        self._is_list_latest = in_list

    def refresh(self) -> None:
        """Enable the entries that can be used now, and name the action that would be undone."""
        text, group = self._text, self._group
        writes = text is not None and can_write(text)
        has_selection = text is not None and bool(selected_text(text))
        is_list = isinstance(self._focused, QAbstractItemView)
        types = text is not None and can_undo(text)
        retypes = text is not None and can_redo(text)
        done = _IN_LIST if self._undoes_list else group.undoText()
        self.undo.setText("&Undo Typing" if types else f"&Undo {done}".rstrip())
        self.redo.setText("&Redo Typing" if retypes else f"&Redo {group.redoText()}".rstrip())
        self.undo.setEnabled(types or self._undoes_list or group.canUndo())
        self.redo.setEnabled(retypes or group.canRedo())
        self.cut.setEnabled(writes and has_selection)
        self.copy.setEnabled(has_selection or is_list)
        self.paste.setEnabled(self._takes_copied)
        self.paste_plain.setEnabled(bool(copied_text()))
        self.delete.setEnabled(writes and has_selection)
        self.select_all.setEnabled(text is not None or is_list)
        self.find_selection.setEnabled(has_selection)

    def _enable_all(self) -> None:
        """Enable all entries: their keys work while the menu is closed."""
        for entry in (
            self.undo, self.redo, self.cut, self.copy, self.paste, self.paste_plain, self.delete,
            self.select_all, self.find_selection,
        ):  # fmt: skip
            entry.setEnabled(True)
        self.undo.setText("&Undo")
        self.redo.setText("&Redo")

    @property
    def _text(self) -> TextWidget | None:
        return text_widget_of(self._focused)

    @property
    def _undoes_list(self) -> bool:
        """Whether the change to undo is one of the list of conversations."""
        return self._list.can_undo and (self._is_list_latest or not self._group.canUndo())

    @property
    def _takes_copied(self) -> bool:
        """Whether the field that would get it can take what is on the clipboard."""
        text = self._text
        field = text if text is not None and can_write(text) else self._write_in
        return field.canPaste() if isinstance(field, QPlainTextEdit) else bool(copied_text())

    @staticmethod
    def _add(
        menu: QMenu, words: str, intent: Callable[[], object], keys: QKeySequence.StandardKey | str
    ) -> QAction:
        """Add an entry with the shortcut that is usual on this system."""
        entry = add_entry(menu, words, intent)
        entry.setShortcut(QKeySequence(keys))
        return entry

    def _note_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        # Opening a menu with the keyboard takes the focus; the entry acts on the widget before.
        if now is None or isinstance(now, QMenu | QMenuBar):
            return
        if self._focused is not None:
            self._focused.destroyed.disconnect(self._forget_focus)
        self._focused = now
        now.destroyed.connect(self._forget_focus)

    def _forget_focus(self) -> None:
        self._focused = None

    # -- intents ---------------------------------------------------------------------------

    def _undo(self) -> None:
        text = self._text
        if text is not None and can_undo(text):
            text.undo()
        elif self._undoes_list:
            self._list.undo_last()
        else:
            self._group.undo()

    def _redo(self) -> None:
        text = self._text
        if text is not None and can_redo(text):
            text.redo()
        else:
            self._group.redo()

    def _on_text(self, name: str) -> None:
        if self._text is not None:
            getattr(self._text, name)()

    def _copy(self) -> None:
        if self._text is not None:
            self._text.copy()
        elif isinstance(self._focused, QAbstractItemView):
            words = self._focused.currentIndex().data()
            if words:
                copy_text(str(words))

    def _paste(self) -> None:
        self._field.paste()

    def _paste_plain(self) -> None:
        insert_plain(self._field, copied_text())

    def _delete(self) -> None:
        if self._text is not None and can_write(self._text):
            delete_selected(self._text)

    def _select_all(self) -> None:
        if isinstance(self._focused, QAbstractItemView):
            self._focused.selectAll()
        else:
            self._on_text("selectAll")

    def _find_selection(self) -> None:
        if self._text is not None:
            self._finding.bar.begin(selected_text(self._text))

    @property
    def _field(self) -> TextWidget:
        """The field that text is pasted into."""
        text = self._text
        if text is not None and can_write(text):
            return text
        self._write_in.setFocus()
        return self._write_in
