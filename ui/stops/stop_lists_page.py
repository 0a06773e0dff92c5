"""The page of Settings that edits saved stop lists. Main thread."""

from functools import partial

from PySide6.QtCore import QSignalBlocker
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QWidget

from ui.kit.buttons import Choice, push_button
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor
from ui.stops.stop_lists import DEFAULT_LIST, StopLists, list_name, list_title

_HINT = (
    "A new chat begins with the list of its folder, else of its model, else New Chats. Existing "
    "chats do not change. To set a model’s list, open the menu of the Stops tab in a chat with "
    "that model."
)


class StopListsPage(QWidget):
    """Edits the default list, those of models and those saved by name; changes act at once."""

    def __init__(self, lists: StopLists) -> None:
        super().__init__()
        self._lists = lists
        self._models: dict[str, StopListModel] = {}
        self.choice = Choice("Stop list")
        self.editor = StopListEditor(lists)
        menu = self.editor.menu
        self.new = push_button("New List…", "Save an empty stop list under a name")
        self.rename = push_button("Rename…", "Rename the stop list")
        self.delete = push_button("Delete", "Delete the stop list")
        self.new.clicked.connect(lambda: menu.save_list(()))
        self.rename.clicked.connect(lambda: menu.rename_list(self.key))
        self.delete.clicked.connect(lambda: menu.delete_list(self.key))
        menu.list_named.connect(self.show_list)
        self.choice.currentIndexChanged.connect(self._show_chosen)
        lists.changed.connect(self._refresh)
        column(
            row((self.choice, 1), self.new, self.rename, self.delete, spacing=6),
            self.editor,
            label(_HINT, "faint", 0.92, is_wrapped=True),
            spacing=12,
            on=self,
        )
        self._refresh()

    @property
    def key(self) -> str:
        """The key of the shown list."""
        return str(self.choice.currentData() or DEFAULT_LIST)

    def show_list(self, key: str) -> None:
        self.choice.choose(key)

    def hideEvent(self, event: QHideEvent) -> None:
        """Take a sequence that was typed but not added yet: the page may be deleted now."""
        super().hideEvent(event)
        if self.editor.input.text() and not event.spontaneous():  # as when it is minimized
            self.editor.add_typed()

    def _refresh(self) -> None:
        """Update the choice of lists, and the rows of lists that were changed elsewhere."""
        shown, keys = self.key, self._lists.all()
        if keys != [self.choice.itemData(row) for row in range(self.choice.count())]:
            with QSignalBlocker(self.choice):
                self.choice.clear()
                for key in keys:
                    self.choice.addItem(list_title(key), key)
                self.choice.choose(shown if shown in keys else DEFAULT_LIST)
        for key in set(self._models) - set(keys):
            self._models.pop(key).deleteLater()
        for key, model in self._models.items():
            if (rows := self._lists.get(key) or ()) != tuple(model.entries()):
                model.undo_stack.clear()
                model.show_entries(rows, -1)
        self._show_chosen()

    def _show_chosen(self) -> None:
        key = self.key
        self.rename.setEnabled(bool(list_name(key)))
        self.delete.setEnabled(key != DEFAULT_LIST)
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = StopListModel(self._lists.get(key) or (), self)
            model.edited.connect(partial(self._keep, key, model))
        if self.editor.table.model() is not model:
            self.editor.show_model(model)

    def _keep(self, key: str, model: StopListModel) -> None:
        self._lists.keep(key, model.entries())
