"""The model's name in the header, and the list below it. Main thread."""

from pathlib import Path

from PySide6.QtCore import QModelIndex, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QHideEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QListView, QSizePolicy, QWidget

from engine.library.memory_need import Fit
from engine.wording import counted, format_size
from ui.chat.session.model_selection import ModelSelection
from ui.kit.buttons import IconButton, push_button
from ui.kit.fields import ListSearchField
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedButton, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.rows import CONTENT, DISPLAY, Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme
from ui.kit.windows import Popover, move_within_screen
from ui.models.finder import FITS
from ui.models.model_entries import Entry, state_of
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import (
    choice_facts,
    fit_text,
    loading_text,
    matches,
    passed,
    percent,
)
from ui.models.models import LoadStage, ShownModel
from ui.words import THIS_COMPUTER, Tone, display_name

_MODEL = int(Qt.ItemDataRole.UserRole) + 1
_TONES: dict[LoadStage, Tone] = {
    "none": "quiet",
    "unloaded": "quiet",
    "loading": "limit",
    "ready": "done",
    "failed": "fault",
    "missing": "fault",
}


class ModelBadge(QWidget):
    """Shows which model answers; loading can be cancelled, and retried after a failure."""

    switch_requested = Signal()
    menu_requested = Signal(QPoint)  # position on the screen

    def __init__(self, model: ModelSelection) -> None:
        super().__init__()
        self._model = model
        self._light = label("●", "", 0.7)
        self.name = ElidedButton()
        self.name.setProperty("kind", "fold")
        self.name.clicked.connect(self.switch_requested)
        self._open = IconButton("chevron-down", "Switch models", size=14, keys="Ctrl+K")
        self._open.clicked.connect(self.switch_requested)
        self.cancel = IconButton("close", "Cancel loading", size=14)
        self.cancel.clicked.connect(model.models.cancel_load)
        self.again = push_button("Try Again", "Load the model again")
        self.again.clicked.connect(model.load_again)
        row(
            self._light,
            self.name,
            self.cancel,
            self._open,
            self.again,
            spacing=5,
            margins=(0, 0, 4, 0),
            on=self,
        )
        self._is_compact = False
        model.changed.connect(self._refresh)
        current_theme().changed.connect(self._refresh)
        self._refresh()

    def show_compact(self, is_compact: bool) -> None:
        """Show the light alone while the model is ready, so that a title has room."""
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            self._refresh()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_requested.emit(event.globalPos())
        event.accept()

    def _refresh(self) -> None:
        model, name = self._model.state, self._model.state.title
        progress = _progress(model) if model.is_loading else ""
        text = {
            "none": "Choose Model",
            "unloaded": f"{name}, not loaded",
            "loading": f"Loading {name}…{progress}",
            "ready": f"{name} (unloaded)" if model.is_idle else name,
            "failed": f"{name} {'is not responding' if model.is_stuck else 'failed to load'}",
            "missing": f"{name} is gone",
        }["loading" if model.is_loading else model.stage]
        tone = _TONES["loading" if model.is_loading else model.stage]
        self._light.setStyleSheet(f"color: {current_theme().colors.tone(tone)[0]}")
        self.name.setText(text)
        self.name.setVisible(not self._is_compact or model.stage != "ready" or model.is_loading)
        for part in (self.name, self._light):
            part.setToolTip(self._details())
        self.name.setAccessibleName(f"Model: {text}. Switch models")
        self.cancel.setVisible(model.stage == "loading")
        self.again.setText("Restart" if model.is_stuck else "Try Again")
        self.again.setVisible(model.stage == "failed" and self._model.models.path is not None)

    def _details(self) -> str:
        model, models = self._model.state, self._model.models
        info = model.info
        if model.is_loading:
            waits_for = models.answers_under_way()
            return loading_text(model.progress, model.loading_s, waits_for)
        if model.stage == "unloaded":
            return "The next message loads it."
        if model.stage == "missing":
            return f"It is not on {THIS_COMPUTER}. Choose another one."
        if info is None:
            return model.message
        return (
            f"{info.architecture}, {format_size(info.size_bytes)}, context of "
            f"{counted(info.context_length, 'token')}\n{info.path}"
        )


def _progress(model: ShownModel) -> str:
    """Return how far a load is; the words change at least every second."""
    progress, loading_s = model.progress, model.loading_s
    text = []
    if progress is not None and progress.phase == "weights":
        text.append(f" {percent(progress.done_bytes, progress.total_bytes)}%")
    if loading_s >= 1:
        text.append(f" {passed(loading_s)}")
    return ",".join(text)


class ModelRows(QStandardItemModel):
    """The models that match the typed words: the chosen and the loaded one, then by last use."""

    def __init__(self, library: ModelLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self._library = library
        self._chosen: Path | None = None
        self._used: frozenset[Path] = frozenset()
        self._terms: tuple[str, ...] = ()

    def show(self, chosen: Path | None) -> None:
        """List the models again; the chosen one answers the open conversation."""
        self._chosen = chosen
        models = self._library.models
        used = [model.folder for model in models.in_memory]
        if models.stage == "loading" and models.path is not None:
            used.append(models.path.resolve())
        self._used = frozenset(used)
        self._fill()

    def look_for(self, text: str) -> None:
        """Show only the models whose name or architecture contains all of these words."""
        self._terms = tuple(text.casefold().split())
        self._fill()

    def at(self, row: int) -> LibraryModel:
        model = self.index(row, 0).data(_MODEL)
        assert isinstance(model, LibraryModel)
        return model

    def is_used(self, model: LibraryModel) -> bool:
        """Return whether a model is in memory or being loaded."""
        return model.folder in self._used

    def row_of(self, model: LibraryModel) -> int:
        """Return the row of a model; -1 if it is not shown."""
        folders = [self.at(n).found.folder for n in range(self.rowCount())]
        return folders.index(model.found.folder) if model.found.folder in folders else -1

    def data(self, index: Index, role: int = DISPLAY) -> object:
        # Colors are those of the present theme, and most rows are not visible.
        if role not in (CONTENT, Qt.ItemDataRole.AccessibleTextRole) or not index.isValid():
            return super().data(index, role)
        model = self.at(index.row())
        content = self._content(model)
        if role == CONTENT:
            return content
        chosen = "answers this conversation" if self._is_chosen(model) else ""
        names = content.title.text, model.found.name
        return ", ".join(filter(None, (*names, content.right.text, content.subtitle.text, chosen)))

    def _fill(self) -> None:
        self.clear()
        for model in sorted(self._library.every(), key=self._order):
            found, terms = model.found, self._terms
            name = display_name(found.name)
            if matches(found.name, terms) or all(word in found.architecture for word in terms):
                item = QStandardItem(name)
                item.setData(model, _MODEL)
                reason = state_of(Entry(found.name, model), self._library).reason or found.trouble
                item.setToolTip("\n".join(filter(None, (reason, str(found.folder)))))
                item.setEnabled(found.can_be_loaded)
                self.appendRow(item)

    def _is_chosen(self, model: LibraryModel) -> bool:
        return self._chosen is not None and model.folder == self._chosen

    def _order(self, model: LibraryModel) -> tuple[bool, bool, bool, bool, float, str]:
        found = model.found
        is_used, name = self.is_used(model), found.name.casefold()
        return (
            not matches(found.name, self._terms),
            not self._is_chosen(model),
            not is_used,
            not found.can_be_loaded,
            -model.used_at,
            name,
        )

    def _content(self, model: LibraryModel) -> RowContent:
        """Return its two lines; the model of the open conversation has a tick."""
        colors, found = current_theme().colors, model.found
        state = state_of(Entry(found.name, model), self._library)
        word, tone = "", state.tone
        if state.percent is not None:
            word, tone = f"Loading {state.percent}%", "limit"
        elif self.is_used(model):
            word, tone = "Loaded", "done"
        elif state.reason and state.tone == "fault":
            word = "Failed" if found.can_be_loaded else "Damaged"
        elif found.can_be_loaded and model.need is not None and model.fit is not Fit.FITS:
            word, _, tone = FITS[model.fit]
        is_plain = found.can_be_loaded and state.tone in ("quiet", "done")
        text = choice_facts(found) if is_plain else state.text
        ink = colors.text if found.can_be_loaded else colors.muted
        below = colors.muted if is_plain else colors.tone(state.tone)[0]
        # A tick that cannot be seen keeps its room, so that all names begin below each other.
        mark = colors.match if self._is_chosen(model) else "transparent"
        return RowContent(
            RowPart(display_name(found.name), ink, "tick", mark),
            right=RowPart(word, colors.tone(tone)[0]),
            subtitle=RowPart(text, below, "tick", "transparent"),
        )


class ModelSwitcher(Popover):
    """Chooses the model of the open conversation."""

    more_requested = Signal()
    search_requested = Signal(str)
    closed = Signal()

    def __init__(self, model: ModelSelection, library: ModelLibrary, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Switch models")
        self._model = model
        self._library = library
        self._pending: LibraryModel | None = None
        self.rows = ModelRows(library, self)
        self.field = ListSearchField("Find a model", "Clear Text")
        self.field.setPlaceholderText("Find a model")
        self.list = QListView()
        self.list.setObjectName("conversation_list")
        self.list.setAccessibleName(f"Models on {THIS_COMPUTER}")
        self.list.setModel(self.rows)
        self.list.setItemDelegate(RowDelegate(self.list, self.field))
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        # The row below the pointer is the current one, so that Return chooses what looks chosen.
        self.list.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover, False)
        self.list.entered.connect(self.list.setCurrentIndex)
        self.list.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the focus in the field
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.empty = QWidget()
        self.hub_search = ElidedButton()
        self.hub_search.setProperty("kind", "row")
        self.hub_search.setProperty("is_current", True)  # Return in the field runs it
        self.hub_search.setIcon(themed_icon("search", "muted"))
        self.hub_search.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.hub_search.setMinimumHeight(36)
        self.hub_search.clicked.connect(self._find)
        column(self.hub_search, STRETCH, margins=(8, 0, 8, 0), on=self.empty)
        self.note = label("", "faint", 0.92, is_wrapped=True)
        self.warning = label("", "muted", 0.95, is_wrapped=True)
        self.anyway = push_button("Load Anyway", "Load the model although it may not fit")
        self.more = push_button("Models…", "Show the window of models")
        self._lay_out()
        self._fit()
        self.field.textChanged.connect(self._look_for)
        self.field.step_requested.connect(self._step)
        self.field.chosen.connect(self._choose_current)
        self.field.left.connect(self.close)
        self.list.clicked.connect(self._choose)
        self.list.activated.connect(self._choose)
        self.anyway.clicked.connect(self._load_pending)
        self.more.clicked.connect(self._show_more)
        library.changed.connect(self._refill)
        model.changed.connect(self._refill)

    def pop_up(self, anchor: QWidget) -> None:
        self.field.clear()
        self._ask(None)
        self._fill()
        self._select(0)
        self._fit()
        corner = anchor.mapToGlobal(QPoint(anchor.width() - self.width(), anchor.height() + 6))
        move_within_screen(self, corner, self.size(), anchor)
        self.show()
        self.field.setFocus()
        self._library.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()

    def _lay_out(self) -> None:
        field = row(self.field, margins=(8, 0, 8, 0))
        question = row((self.warning, 1), self.anyway, spacing=8, margins=(18, 0, 8, 0))
        foot = row((self.note, 1), self.more, spacing=8, margins=(18, 0, 8, 0))
        lines = (field, self.list, self.empty, question, foot)
        self._lines = column(*lines, spacing=8, margins=(0, 8, 0, 8), on=self)

    def _fit(self) -> None:
        screen = self.screen().availableGeometry()
        self.setFixedWidth(min(430, screen.width()))
        row_px = self.list.sizeHintForRow(0) if self.rows.rowCount() else 50
        rows = max(2, min(8, len(self._library.every())))
        for shown in (self.list, self.empty):
            shown.setFixedHeight(min(rows * max(1, row_px) + 4, round(screen.height() * 0.6)))
        self._fit_height()

    def _fit_height(self) -> None:
        """Take the height of the wrapped lines at this width, which sizeHint does not know."""
        self._lines.activate()
        self.resize(self.width(), self._lines.totalHeightForWidth(self.width()))

    # -- rows ------------------------------------------------------------------------------

    def _refill(self) -> None:
        """Show the models that were found meanwhile, and keep the selection."""
        if not self.isVisible():
            return
        before = self._current()
        self._fill()
        row = -1 if before is None else self.rows.row_of(before)
        self._select(max(row, 0))
        self._fit()

    def _fill(self) -> None:
        choice = self._model.choice
        folder = choice.folder if choice is not None else None
        if choice is None and (info := self._model.models.status().info) is not None:
            folder = info.path
        self.rows.show(folder)
        self._show_count()

    def _look_for(self, text: str) -> None:
        self.rows.look_for(text)
        self._show_count()
        self._ask(None)
        self._select(0)

    def _show_count(self) -> None:
        shown, total = self.rows.rowCount(), len(self._library.every())
        has_none = bool(total) and not shown
        views: list[QWidget] = [self.empty, self.list]
        hidden, visible = reversed(views) if has_none else views
        hidden.hide()  # before the other is shown, so that the view does not grow
        visible.show()
        if not total:
            text = "Searching…" if self._library.is_looking else "No models yet."
        elif shown < total:
            text = f"{shown} of {counted(total, 'model')}"
        else:
            text = counted(total, "model")
        self.note.setText(text)
        self.hub_search.setText(f"Search Hugging Face for “{self.field.text().strip()}”")

    def _current(self) -> LibraryModel | None:
        index = self.list.currentIndex()
        return self.rows.at(index.row()) if index.isValid() else None

    def _select(self, row: int, step: int = 1) -> None:
        """Select a row, or the next one in this direction that can be chosen."""
        while 0 <= row < self.rows.rowCount():
            index = self.rows.index(row, 0)
            if self.rows.flags(index) & Qt.ItemFlag.ItemIsEnabled:
                self.list.setCurrentIndex(index)
                self.list.scrollTo(index)
                return
            row += step

    def _step(self, step: int) -> None:
        self._ask(None)
        self._select(self.list.currentIndex().row() + step, step)

    # -- intents ---------------------------------------------------------------------------

    def _choose_current(self) -> None:
        if self.empty.isVisible():
            self._find()
        else:
            self._choose(self.list.currentIndex())

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        model = self.rows.at(index.row())
        if not model.found.can_be_loaded:
            self._ask(None)
            self.note.setText(model.found.trouble)
        elif model.fit is Fit.TOO_LARGE and not self.rows.is_used(model):
            self._ask(model)
        else:
            self._load(model)

    def _ask(self, model: LibraryModel | None) -> None:
        """Ask before a model is loaded that may not fit."""
        self._pending = model
        self.warning.setVisible(model is not None)
        self.anyway.setVisible(model is not None)
        if model is not None:
            text = fit_text(model.need, model.fit, self._library.memory)
            self.warning.setText(f"{display_name(model.found.name)} is too large. {text}")
            self.anyway.setFocus()
        self._fit_height()

    def _load_pending(self) -> None:
        if self._pending is not None:
            self._load(self._pending)

    def _load(self, model: LibraryModel) -> None:
        self.close()
        self._model.choose(model.found.folder)

    def _find(self) -> None:
        text = self.field.text().strip()
        self.close()
        self.search_requested.emit(text)

    def _show_more(self) -> None:
        self.close()
        self.more_requested.emit()
