"""Finds models: a search field, its results, and the chosen one beside it. Main thread."""

from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QSignalBlocker,
    Qt,
    QTimer,
    QUrl,
    Signal,
    SignalInstance,
)
from PySide6.QtGui import QDesktopServices, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QFrame,
    QListView,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from engine.library.hub import Hub
from engine.library.memory_need import Fit
from engine.wording import format_size
from ui.kit.buttons import Choice, push_button
from ui.kit.dialogs import confirm_link
from ui.kit.fields import ListSearchField
from ui.kit.labels import label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.markdown.document_page import DocumentPage
from ui.kit.rows import CONTENT, DISPLAY, NO_PARENT, Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme, restyle
from ui.models.downloads import Download, DownloadRow
from ui.models.finder import (
    ORDERS,
    Finder,
    HubResult,
    SortAndFilter,
    fit_sentence,
    fit_state,
    list_summary,
)
from ui.models.model_library import ModelLibrary

_RESULT = int(Qt.ItemDataRole.UserRole) + 1
_GATED = (
    "Gated: open its page, accept its terms there, then sign in with “hf auth login” in a terminal "
    "(or set HF_TOKEN)."
)
_READING = "Reading the model card…"
_THEN = "After downloading, the model is verified and opens in a new chat."
_ROLES = {Fit.TIGHT: "notice", Fit.TOO_LARGE: "fault"}


class HubResultModel(QAbstractListModel):
    """The results of a finder, with the state of each on this computer."""

    def __init__(self, finder: Finder, library: ModelLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self._finder = finder
        self._library = library
        finder.changed.connect(self.beginResetModel)
        finder.changed.connect(self.endResetModel)
        finder.result_changed.connect(
            lambda row: self.dataChanged.emit(self.index(row), self.index(row))
        )
        for signal in _availability_signals(library):
            signal.connect(self._all_changed)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._finder.results)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if not index.isValid() or index.row() >= len(self._finder.results):
            return None
        result = self._finder.results[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return result.name
            case Qt.ItemDataRole.AccessibleTextRole:
                return self._spoken(result)
        if role == CONTENT:
            return self._content(result)
        return result if role == _RESULT else None

    def row_of(self, name: str) -> int:
        names = [result.name for result in self._finder.results]
        return names.index(name) if name in names else -1

    def _content(self, result: HubResult) -> RowContent:
        """Return name, purpose and fit above, facts and local state below."""
        label, icon, tone = fit_state(result, self._finder.memory)
        return RowContent(
            RowPart(result.name),
            note=RowPart(result.purpose),
            right=RowPart(label, current_theme().colors.tone(tone)[0], icon),
            subtitle=RowPart(result.model.problem or result.facts),
            badge=RowPart(self._library.availability(result.name)),
            elide=Qt.TextElideMode.ElideMiddle,
        )

    def _spoken(self, result: HubResult) -> str:
        fit = fit_state(result, self._finder.memory)[0]
        available = self._library.availability(result.name)
        text = (result.name, result.spoken, f"fit: {fit}", available)
        return ", ".join(word for word in text if word)

    def _all_changed(self) -> None:
        if self.rowCount():
            self.dataChanged.emit(self.index(0), self.index(self.rowCount() - 1))


class HubResultList(QListView):
    """Shows the results."""

    picked = Signal(str)
    activated_by_key = Signal()

    def __init__(self, finder: Finder, library: ModelLibrary) -> None:
        super().__init__()
        self.picked_name = ""
        self.results = HubResultModel(finder, library, self)
        self.setObjectName("result_list")
        self.setAccessibleName("Models on the hub")
        self.setModel(self.results)
        self.setItemDelegate(RowDelegate(self))
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.results.modelReset.connect(self._pick_again)

    @property
    def current(self) -> HubResult | None:
        result = self.currentIndex().data(_RESULT)
        return result if isinstance(result, HubResult) else None

    def currentChanged(self, now: Index, before: Index) -> None:
        super().currentChanged(now, before)
        result = now.data(_RESULT)
        name = result.name if isinstance(result, HubResult) else ""
        if name != self.picked_name:
            self.picked_name = name
            self.picked.emit(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current is not None:
            self.activated_by_key.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def _pick_again(self) -> None:
        """Keep the current result where the new list has it; otherwise its first one."""
        row = max(self.results.row_of(self.picked_name), 0)
        if self.results.rowCount():
            self.setCurrentIndex(self.results.index(row))
        else:
            self.currentChanged(QModelIndex(), QModelIndex())


class HubResultDetails(QFrame):
    """The chosen result."""

    download_requested = Signal(object)  # HubResult
    load_requested = Signal(object)  # LibraryModel

    def __init__(self, finder: Finder, library: ModelLibrary) -> None:
        super().__init__()
        self._finder = finder
        self._library = library
        self._result: HubResult | None = None
        self.row: DownloadRow | None = None
        self.name = label("", "title", 1.2, is_wrapped=True)
        self.purpose = label("", is_wrapped=True)
        self.facts = label("", "muted", is_wrapped=True)
        self.fit = label("", "muted", is_wrapped=True)
        self.gated = label(_GATED, "notice", is_wrapped=True)
        self.impossible = label("", "fault", is_wrapped=True)
        self.primary = push_button("Download", kind="primary")
        self.page = QPushButton("Open Its Page")
        self.then = label("", "faint", 0.95, is_wrapped=True)
        self.card = DocumentPage("Model card")
        self.card_note = label("", "muted", is_wrapped=True)
        self._download_layout = QVBoxLayout()
        self._lay_out()
        self.primary.clicked.connect(self.act)
        self.page.clicked.connect(lambda: QDesktopServices.openUrl(self._address()))
        self.card.link_chosen.connect(self._follow_link)
        finder.result_changed.connect(self._result_changed)
        finder.cards.changed.connect(self._show_card)
        for signal in _availability_signals(library):
            signal.connect(self._refresh)
        self.show_result(None)

    def show_result(self, result: HubResult | None) -> None:
        self._result = result
        self._inner.setVisible(result is not None)
        self._refresh()

    def act(self) -> None:
        result = self._result
        if result is None or not self.primary.isEnabled() or not self.primary.isVisible():
            return
        here = self._library.named(result.name)
        if here is None:
            self.download_requested.emit(result)
        else:
            self.load_requested.emit(here)

    def set_left_margin(self, margin_px: int) -> None:
        self._outer.setContentsMargins(margin_px, 4, 20, 18)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.setAccessibleName("About the model")
        line = QFrame()
        line.setObjectName("rule")
        line.setFixedHeight(1)
        self._inner = QWidget()
        column(
            self.name,
            self.purpose,
            self.facts,
            self.fit,
            self.gated,
            self.impossible,
            4,
            row(self.primary, self.page, STRETCH, spacing=8),
            self.then,
            self._download_layout,
            4,
            line,
            4,
            (self.card, 1),
            self.card_note,
            (None, 0),
            spacing=8,
            on=self._inner,
        )
        self._outer = column((self._inner, 1), margins=(12, 4, 20, 18), on=self)

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        result = self._result
        if result is None:
            self._show_row(None)
            return
        memory = self._finder.memory
        fit = result.model.fit(memory)
        self.name.setText(result.name)
        show_text(self.facts, result.facts)
        self.purpose.setText(result.purpose[:1].upper() + result.purpose[1:])
        self.purpose.setVisible(bool(result.purpose))
        self.fit.setText(fit_sentence(result, memory))
        restyle(self.fit, "role", _ROLES.get(fit, "muted") if fit is not None else "muted")
        self.page.setToolTip(self._address().toString())
        self.page.setAccessibleName(f"Open the page of {result.name} in the browser")
        # A name without an owner is a folder of this computer; it has no page.
        self.page.setVisible("/" in result.name)
        download = self._library.downloads.unfinished(result.name)
        here = self._library.named(result.name)
        self.gated.setVisible(result.model.is_gated and here is None)
        is_loaded = here is not None and self._library.is_loaded(here.found)
        why_not = "" if is_loaded else result.model.problem
        self.fit.setVisible(not result.model.problem)
        if here is None and download is None and not why_not:
            why_not = self._library.downloads.disk_shortage(result.name, result.model.size_bytes)
        self.impossible.setText(why_not)
        self.impossible.setVisible(bool(why_not) and download is None)
        if here is not None:
            is_loading = self._library.is_loading(here.found)
            text = "Loading…" if is_loading else "Loaded" if is_loaded else "Load"
            self._name_primary(text, result)
            self.primary.setEnabled(not (is_loaded or is_loading or why_not))
        else:
            size = result.model.size_bytes
            text = f"Download {format_size(size)}" if size else "Download"
            self._name_primary(
                "Resume" if self._library.partial_download(result.name) else text, result
            )
            self.primary.setEnabled(not why_not)
        had_focus = self.primary.hasFocus()
        self.primary.setVisible(download is None)
        is_coming = not why_not if download is None else download.stage == "running"
        self.then.setVisible(here is None and is_coming)
        self.then.setText(_THEN)
        self._show_row(download)
        if had_focus and self.row is not None:
            self.row.cancel.setFocus()

    def _name_primary(self, text: str, result: HubResult) -> None:
        self.primary.setText(text)
        self.primary.setAccessibleName(f"{text}: {result.name}")

    def _show_row(self, download: Download | None) -> None:
        if self.row is not None and self.row.download is download:
            self.row.refresh()
            return
        if self.row is not None:
            had_focus = any(child.hasFocus() for child in self.row.findChildren(QPushButton))
            self._download_layout.removeWidget(self.row)
            self.row.hide()
            self.row.deleteLater()
            self.row = None
            if had_focus and self.primary.isVisible():
                self.primary.setFocus()
        if download is not None:
            self.row = DownloadRow(self._library.downloads, download)
            self._download_layout.addWidget(self.row)

    def _show_card(self) -> None:
        card = self._finder.cards.card
        is_shown = card.stage == "shown"
        self.card.setVisible(is_shown)
        self.card.show_markdown(card.text if is_shown else "")
        text = {"reading": _READING, "missing": card.text}.get(card.stage, "")
        if card.is_cut:
            text = "This is the beginning of the card. Its page has all of it."
        show_text(self.card_note, text)

    def _result_changed(self, row: int) -> None:
        result = self._finder.results[row]
        if self._result is not None and result.name == self._result.name:
            self.show_result(result)

    # -- links -----------------------------------------------------------------------------

    def _address(self) -> QUrl:
        return QUrl(Hub().page("" if self._result is None else self._result.name))

    def _follow_link(self, url: QUrl) -> None:
        """Open a link of the card, once the user has seen where it leads."""
        if url.isRelative():
            page = self._address().toString()
            inside = url.toString()
            url = (
                QUrl(page + inside)
                if inside.startswith("#")
                else QUrl(f"{page}/blob/main/").resolved(url)
            )
        confirm_link(self, url)


def _availability_signals(library: ModelLibrary) -> tuple[SignalInstance, ...]:
    """Return the signals after which another model may be on this computer, or be loaded."""
    downloads = library.downloads
    return library.changed, library.models.changed, downloads.changed, downloads.progressed


class FindView(QWidget):
    """Finds models on the hub."""

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self.finder = Finder(library, self)
        self.field = ListSearchField("Search for models", "Clear Search")
        self.field.setMaxLength(200)
        self.field.setPlaceholderText("Search Hugging Face for MLX models, or paste owner/name")
        self.bar = thin_bar("Searching")
        self.bar.setRange(0, 0)
        self.stop = push_button("Cancel", "Cancel the search")
        self.heading = label("", "heading")
        self.note = label("", "muted", 0.95)
        self.problem = label("", "", is_wrapped=True)
        self.again = QPushButton("Retry")
        self.empty = label("", "muted", is_wrapped=True)
        self.order = Choice("Order of the models", list(ORDERS.items()))
        self.bits = Choice("Bits of a weight", [("", "Any Quantization")])
        self.fits_only = QCheckBox("Only models that fit")
        self._narrowing = QWidget()
        row(self.order, self.bits, self.fits_only, STRETCH, spacing=8, on=self._narrowing)
        self.list = HubResultList(self.finder, library)
        self.more = push_button("Show More", "Show more models")
        self.details = HubResultDetails(self.finder, library)
        self._typing = QTimer(self, singleShot=True, interval=200)
        self._walking = QTimer(self, singleShot=True, interval=200)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.finder.stage == "idle":
            self.finder.search("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the chosen model below the list if both would be too narrow side by side."""
        super().resizeEvent(event)
        is_wide = self.width() >= 680
        target = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if self._splitter.orientation() != target:
            self._splitter.setOrientation(target)
            self._splitter.setSizes([1100, 900])
            self._left.setContentsMargins(20, 0, 4 if is_wide else 20, 14 if is_wide else 0)
            self.details.set_left_margin(12 if is_wide else 20)

    def focus_search(self) -> None:
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def clear_search(self) -> bool:
        """Clear the search field if it has the focus; return whether it contained text."""
        if not (self.field.hasFocus() and self.field.text()):
            return False
        self.field.clear()
        return True

    async def finish(self) -> None:
        self._typing.stop()
        self._walking.stop()
        await self.finder.finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self._problem_bar = QFrame()
        self._problem_bar.setObjectName("question_bar")
        row((self.problem, 1), self.again, margins=(14, 8, 10, 8), on=self._problem_bar)
        left = QWidget()
        self._left = column(
            (self.list, 1),
            self.more,
            (None, 0),
            spacing=8,
            margins=(20, 0, 4, 14),
            on=left,
        )
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(left)
        self._splitter.addWidget(self.details)
        self._splitter.setSizes([1100, 900])
        column(
            column(
                self.field,
                row(self.heading, self.note, STRETCH, self.stop, spacing=8),
                self._narrowing,
                self.bar,
                self._problem_bar,
                self.empty,
                spacing=8,
                margins=(20, 14, 20, 4),
            ),
            (self._splitter, 1),
            spacing=4,
            on=self,
        )

    def _connect_signals(self) -> None:
        finder = self.finder
        self.field.textChanged.connect(lambda: self._typing.start())
        self.field.chosen.connect(self._search_now)
        self.field.step_requested.connect(lambda _: self._enter_list())
        self._typing.timeout.connect(self._search)
        self.list.picked.connect(lambda: self.details.show_result(self.list.current))
        self.list.picked.connect(lambda: self._walking.start())
        self.list.activated_by_key.connect(self.details.act)
        self._walking.timeout.connect(lambda: finder.look_at(self.list.picked_name))
        self.more.clicked.connect(finder.show_more)
        self.again.clicked.connect(finder.try_again)
        self.stop.clicked.connect(finder.cancel)
        for choice in (self.order, self.bits):
            choice.currentIndexChanged.connect(self._arrange)
        self.fits_only.toggled.connect(self._arrange)
        finder.changed.connect(self._refresh)

    # -- asking ----------------------------------------------------------------------------

    def _search_now(self) -> None:
        self._typing.stop()
        self._search()
        self._enter_list()

    def _search(self) -> None:
        text = self.field.text().strip()
        if text != self.finder.query or self.finder.stage == "failed":
            self.finder.search(text)

    def _arrange(self) -> None:
        bits = self.bits.currentData()
        self.finder.arrange(
            SortAndFilter(
                self.order.currentData(), int(bits) if bits else None, self.fits_only.isChecked()
            )
        )

    def _fill_bits(self) -> None:
        chosen = self.finder.arrangement.bits
        every = sorted({*self.finder.bits_found, *([] if chosen is None else [chosen])})
        shown = [self.bits.itemData(position) for position in range(1, self.bits.count())]
        if shown == [str(bits) for bits in every]:
            return
        with QSignalBlocker(self.bits):
            while self.bits.count() > 1:
                self.bits.removeItem(1)
            for bits in every:
                self.bits.addItem(f"{bits} Bit" if bits else "Not Quantized", str(bits))
            self.bits.choose("" if chosen is None else str(chosen))

    def _enter_list(self) -> None:
        if self.list.results.rowCount():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        finder = self.finder
        is_asking = finder.stage == "asking"
        self.heading.setText("Search results" if finder.query else "Suggested for this computer")
        if finder.stage == "failed":
            self.heading.setText("Without the hub")
        self.note.setText(list_summary(finder))
        self._narrowing.setVisible(bool(finder.query) and finder.stage == "listed")
        self._fill_bits()
        self.bar.setVisible(is_asking)
        self.stop.setVisible(is_asking)
        self.problem.setText(finder.problem)
        self._problem_bar.setVisible(bool(finder.problem))
        self.more.setVisible(finder.can_show_more)
        self.list.setVisible(bool(finder.results))
        show_text(self.empty, self._empty_text())
        self.details.show_result(self.list.current)

    def _empty_text(self) -> str:
        finder = self.finder
        if finder.results or finder.stage in ("idle", "asking"):
            return ""
        if finder.stage == "failed":
            return "No model on this computer has this in its name."
        if finder.left_out:
            return "No results match the filters."
        if not finder.query:
            return "None of the suggested models fits into this computer’s memory."
        return (
            f"No MLX model on the hub has a name with “{finder.query}”. Try fewer or shorter words."
        )
