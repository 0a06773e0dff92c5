"""The model that is chosen in the models window: facts, actions, download and card. Main thread."""

from dataclasses import replace

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QMenu,
    QPushButton,
    QToolButton,
    QWidget,
)

from engine.library.hub import Hub
from engine.library.local_models import Origin
from engine.library.memory_need import Fit
from engine.library.model_info import ModelInfo
from engine.wording import as_sentence
from ui.kit.buttons import IconButton, push_button
from ui.kit.dialogs import confirm_link
from ui.kit.labels import FactTable, label, show_text
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.markdown.style import MarkdownStyle, markdown_style
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import current_theme, fixed_font, restyle
from ui.models.downloads import Download
from ui.models.finder import Finder, HubResult, ModelCard, fit_sentence
from ui.models.model_entries import ACTION_LABELS, Entry, EntryState, state_of
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import BUNDLED_PURPOSES, FACT_TIPS, facts, fit_text, newer_text
from ui.models.upkeep import Upkeep

GATED = (
    "Gated: accept its terms on its page, then run “hf auth login” in a terminal with a token of "
    "huggingface.co/settings/tokens."
)
_THEN = "It is verified after the download, and then loaded."
_FITS = {Fit.TIGHT: "notice", Fit.TOO_LARGE: "fault"}
_ROLES = {"fault": "fault", "limit": "notice"}


class ModelDetails(QFrame):
    """Shows one entry of the list."""

    action_requested = Signal(object)  # Entry
    unload_requested = Signal(object)  # folder
    template_requested = Signal(object)  # LibraryModel

    def __init__(self, library: ModelLibrary, finder: Finder, upkeep: Upkeep) -> None:
        super().__init__()
        self._library, self._finder, self._upkeep = library, finder, upkeep
        self.entry: Entry | None = None
        self.name = label("", "title", 1.25, is_wrapped=True)
        self.repository = label("", "faint", 0.9, is_wrapped=True)
        self.purpose = label("", is_wrapped=True)
        self.facts = FactTable(fixed_font(self.font(), 0.92))
        self.shown_facts: list[tuple[str, str]] = []
        self.status = label("", "muted", is_wrapped=True)
        self.newer = label("", "muted", is_wrapped=True)
        self.fit = label("", "muted", is_wrapped=True)
        self.gated = label(GATED, "notice", is_wrapped=True)
        self.problem = label("", "fault", is_wrapped=True)
        self.primary = push_button("Get", kind="primary")
        self.accept = QPushButton("Open Page")
        self.unload = QPushButton("Unload")
        self.update_button = QPushButton("Update")
        self.dismiss = QPushButton("Dismiss")
        self.pin = QCheckBox("Keep in Memory")
        self.pin.setToolTip("Keeps it loaded, idle or not, also if another model needs room")
        self._acting = (
            *(self.primary, self.accept, self.unload),
            *(self.update_button, self.dismiss, self.pin),
        )
        self.page = push_button("Open Model Page", kind="link")
        self.more = IconButton("more", "More actions")
        self.more.setMenu(QMenu(self.more))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.template = push_button("Chat Template…", kind="link")
        for link in (self.template, self.page):
            link.setProperty("is_flush", True)
        self.template.setToolTip("Edit the chat template, and compare it with the model’s own")
        self.then = label(_THEN, "faint", 0.95, is_wrapped=True)
        self.card = MarkdownView(self._card_style())
        self.card.setAccessibleName("Model card")
        self.card_note = label("", "muted", is_wrapped=True)
        self._shown_card: ModelCard | None = None
        self._is_pinned = False  # as the engine reported it last
        self._lay_out()
        self._connect_signals()
        self.show_entry(None)

    def show_entry(self, entry: Entry | None) -> None:
        if entry is None or self.entry is None or entry.key != self.entry.key:
            self._area.verticalScrollBar().setValue(0)
        self.entry = entry
        self._inner.setVisible(entry is not None)
        self.refresh()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.setAccessibleName("About the model")
        self._rule = QFrame()
        self._rule.setObjectName("rule")
        self._rule.setFixedHeight(1)
        self._inner = QWidget()
        column(
            column(self.name, self.repository, spacing=2),
            self.purpose,
            self.status,
            self.newer,
            self.problem,
            self.fit,
            self.gated,
            row(*self._acting, STRETCH, self.more, spacing=8),
            self.then,
            8,
            self.facts,
            row(self.template, self.page, STRETCH, spacing=16),
            8,
            self._rule,
            self.card,
            self.card_note,
            (None, 0),
            spacing=8,
            margins=(16, 8, 16, 16),
            on=self._inner,
        )
        self._area = scrolling(self._inner, "About the model", goes_sideways=False)
        column(self._area, on=self)
        self.setMinimumWidth(280)  # its buttons

    def _connect_signals(self) -> None:
        self.primary.clicked.connect(lambda: self.action_requested.emit(self.entry))
        self.unload.clicked.connect(lambda: self.unload_requested.emit(self._local.found.folder))
        self.update_button.clicked.connect(lambda: self._upkeep.update(self._local.found))
        self.pin.clicked.connect(lambda is_on: self._library.pin(self._local.folder, is_on))
        self.dismiss.clicked.connect(self._dismiss)
        for button in (self.page, self.accept):
            button.clicked.connect(lambda: QDesktopServices.openUrl(self._address()))
        self.template.clicked.connect(lambda: self.template_requested.emit(self._local))
        self.card.link_chosen.connect(self._follow_link)
        self._finder.card_changed.connect(self._show_card)
        current_theme().changed.connect(self._style_card)

    def _card_style(self) -> MarkdownStyle:
        """Return the look of answers, in the size of this window's text."""
        return replace(markdown_style(), font=self.font(), fixed=fixed_font(self.font()))

    def _style_card(self) -> None:
        self.card.set_style(self._card_style())

    def _dismiss(self) -> None:
        """End a download, and remove it from the list; its files stay."""
        assert self.entry is not None
        if (download := self._library.downloads.unfinished(self.entry.name)) is not None:
            download.cancel()
            self._library.downloads.forget(download)

    @property
    def _local(self) -> LibraryModel:
        assert self.entry is not None
        assert self.entry.local is not None
        return self.entry.local

    # -- showing ---------------------------------------------------------------------------

    def refresh(self) -> None:
        entry = self.entry
        if entry is None or entry.note is not None:
            return
        state = state_of(entry, self._library)
        download = self._library.downloads.unfinished(entry.name)
        self.name.setText(entry.title)
        where = str(entry.local.found.folder) if entry.local is not None else ""
        self.repository.setToolTip(where)
        show_text(self.repository, entry.name if entry.name != entry.title else where)
        self._show_facts(entry)
        purpose = BUNDLED_PURPOSES.get(entry.name, "")
        if entry.hub is not None and entry.local is None:
            purpose = entry.hub.purpose
        show_text(self.purpose, purpose[:1].upper() + purpose[1:])
        # The row has room for facts and progress; a paused update is shown nowhere else.
        is_cut = state.tone not in ("quiet", "busy") or (entry.local and not state.action)
        text = state.reason or (state.text if is_cut or entry.folder is not None else "")
        if download is not None and download.message:
            text = as_sentence(download.message)
        if text == self._finder.problem:  # which stands above the list
            text = ""
        show_text(self.status, text if state.action != "loaded" or state.tone != "done" else "")
        restyle(self.status, "role", _ROLES.get(state.tone, "muted"))
        self._show_hub(entry.hub if entry.local is None else None, download)
        self._show_local(entry.local, state)
        self._show_buttons(entry, state, download)
        self._show_card()

    def _show_facts(self, entry: Entry) -> None:
        shown: list[tuple[str, str]] = []
        if entry.local is not None:
            shown = facts(entry.local.found, entry.local.draft)
            info = self._library.models.status(entry.local.folder).info
            shown.append(("Draft Head", "" if info is None else _draft_head_text(info)))
            has_own = entry.local.has_user_template and entry.local.found.can_be_loaded
            shown.append(("Chat Template", "Yours" if has_own else ""))
        elif entry.hub is not None:
            shown = entry.hub.facts
        shown = [fact for fact in shown if fact[1]]
        if shown != self.shown_facts:
            self.shown_facts = shown
            self.facts.clear()
            for name, value in shown:
                self.facts.add(name, value, tip=FACT_TIPS.get(name, ""))
        self.facts.setVisible(bool(shown))

    def _show_hub(self, result: HubResult | None, download: Download | None) -> None:
        """Show the hub's facts about a model that is not on this computer."""
        has_failed = download is not None and download.stage == "failed"
        model = None if result is None else result.model
        # A failure for another reason stands alone.
        is_gated = model is not None and model.is_gated
        if download is not None and has_failed:
            is_gated = is_gated and " is gated" in download.message
        self.gated.setVisible(is_gated)
        self.accept.setVisible(is_gated)
        if is_gated:
            self.status.hide()
        problem = "" if model is None else model.problem
        if model is not None and download is None and not problem:
            problem = self._library.downloads.disk_shortage(model.name, model.size_bytes)
        show_text(self.problem, problem if download is None else "")
        memory = self._finder.memory
        is_known = result is not None and not problem and not has_failed
        show_text(self.fit, fit_sentence(result, memory) if result and is_known else "")
        fit = None if model is None else model.fit(memory)
        restyle(self.fit, "role", "muted" if fit is None else _FITS.get(fit, "muted"))
        is_coming = not problem if download is None else download.stage == "running"
        self.then.setVisible(result is not None and is_coming)

    def _show_local(self, model: LibraryModel | None, state: EntryState) -> None:
        """Show the actions on a model of this computer."""
        folder = None if model is None else model.folder
        in_memory = {m.folder: m for m in self._library.models.in_memory}
        loaded = None if folder is None else in_memory.get(folder)
        self.pin.setVisible(loaded is not None)
        # A status from before a click repeats the old state, and must not undo the click.
        is_pinned = loaded is not None and loaded.is_pinned
        name = f"{self.pin.text()} {self.name.text()}"
        if is_pinned != self._is_pinned or self.pin.accessibleName() != name:
            self._is_pinned = is_pinned
            self.pin.setChecked(is_pinned)
        if model is not None and state.action != "loaded":
            show_text(self.fit, fit_text(model.need, model.fit, self._library.memory))
            restyle(self.fit, "role", _FITS.get(model.fit, "muted"))
        newer = None if model is None else self._upkeep.newer(model.found)
        if state.action == "get_again":  # which brings the newer one
            newer = None
        self.update_button.setVisible(newer is not None)
        show_text(self.newer, "" if newer is None else newer_text(newer))
        self.template.setVisible(model is not None and model.found.can_be_loaded)

    def _show_buttons(self, entry: Entry, state: EntryState, download: Download | None) -> None:
        name, action = entry.title, state.action
        focused = next((button for button in self._acting if button.hasFocus()), None)
        is_impossible = entry.folder is None and not action and state.percent is None
        self.primary.setVisible(is_impossible or action not in ("", "loaded"))
        self.primary.setEnabled(not is_impossible and not self.problem.text())
        text = ACTION_LABELS.get(action) or ("Load" if entry.local is not None else "Get")
        self.primary.setText(text)
        is_too_large = entry.local is not None and entry.local.fit is Fit.TOO_LARGE
        is_plain = action in ("pause", "cancel", "remove") or (action == "load" and is_too_large)
        restyle(self.primary, "kind", "" if is_plain else "primary")
        self.dismiss.setVisible(download is not None)
        is_over = download is not None and download.stage == "failed"
        self.dismiss.setText("Dismiss" if is_over else "Cancel")
        self.unload.setVisible(action == "loaded")
        for button in self._acting:
            button.setAccessibleName(f"{button.text()} {name}")
        if focused is not None and focused.isHidden():  # Qt gave the focus to a control elsewhere
            next((b for b in self._acting if not b.isHidden()), self.more).setFocus()
        self.more.setAccessibleName(f"More about {name}")
        self.more.setVisible(entry.local is not None or entry.folder is not None)
        self.page.setToolTip(self._address().toString())
        self.page.setAccessibleName(f"Open the page of {name} in the browser")
        is_from_hub = entry.local is None or entry.local.found.origin is Origin.HUGGING_FACE
        self.page.setVisible(entry.folder is None and is_from_hub and self.accept.isHidden())

    def _show_card(self) -> None:
        finder, entry, card = self._finder, self.entry, self._finder.card
        is_own = entry is not None and entry.hub is not None and card.name == entry.name
        is_shown = is_own and card.stage == "shown"
        self.card.setVisible(is_shown)
        self._rule.setVisible(is_shown)
        if is_shown and card is not self._shown_card:
            self._shown_card = card
            title, _, rest = card.text.lstrip().partition("\n")
            is_named = title.startswith("#") and card.name.rpartition("/")[2] in title
            self.card.set_markdown(rest if is_named else card.text)
        text = {"reading": "Reading the model card…", "missing": card.text}.get(card.stage, "")
        if card.is_cut:
            text = "This is the beginning of the card. Its page has all of it."
        # Another text says already why there is no card.
        has_reason = bool(finder.problem) or self.status.property("role") == "fault"
        has_reason = has_reason or not self.gated.isHidden()
        show_text(self.card_note, text if is_own and not has_reason else "")

    # -- links -----------------------------------------------------------------------------

    def _address(self) -> QUrl:
        return QUrl(Hub().page("" if self.entry is None else self.entry.name))

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


def _draft_head_text(info: ModelInfo) -> str:
    problem = info.own_head_problem
    if problem is None:
        return ""
    return f"Not used: {problem}" if problem else "Used"
