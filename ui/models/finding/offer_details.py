"""One model of the hub: what it is, whether it fits, its download, and its card. Main thread."""

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFont
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import size_in_words
from engine.library.hub.asking import Hub
from engine.library.memory import Fit
from ui.kit.look.theme import Theme, restyle
from ui.kit.markdown.view.markdown_view import MarkdownView
from ui.kit.markdown.view.themed_style import markdown_style
from ui.kit.system.links import ask_about_link
from ui.kit.text.labels import label
from ui.models.download_row import DownloadRow
from ui.models.downloads import Downloads
from ui.models.finding.finder import Finder
from ui.models.finding.offers import Offer, fit_sentence, offer_facts
from ui.models.finding.possession import Possession

_GATED = (
    "Gated: open its page, accept its terms there, then sign in with “hf auth login” in a terminal "
    "(or set HF_TOKEN)."
)
_READING = "Reading the model card…"
_THEN = "It is verified and loaded when it has arrived, and an empty chat opens."
_PART_CHARS, _PART_EACH_MS = 1_000, 5
_ROLES = {Fit.TIGHT: "notice", Fit.TOO_LARGE: "fault"}


class OfferDetails(QScrollArea):
    """The chosen offer.

    Signals:
        download_wanted: A person wants to download it; carries the ``Offer``.
        load_wanted: A person wants to load it; carries the ``LibraryModel``.
    """

    download_wanted = Signal(object)
    load_wanted = Signal(object)

    def __init__(
        self, theme: Theme, finder: Finder, possession: Possession, downloads: Downloads
    ) -> None:
        super().__init__()
        self._theme = theme
        self._finder = finder
        self._possession = possession
        self._downloads = downloads
        self._offer: Offer | None = None
        self._unshown = ""
        self._next_part = QTimer(self, singleShot=True, interval=_PART_EACH_MS)
        self._next_part.timeout.connect(self._show_part)
        self.row: DownloadRow | None = None
        self.name = label("", "title", 1.2, is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.purpose = label("", is_wrapped=True)
        self.facts = label("", "muted", is_wrapped=True)
        self.fit = label("", "muted", is_wrapped=True)
        self.gated = label(_GATED, "notice", is_wrapped=True)
        self.impossible = label("", "fault", is_wrapped=True)
        self.primary = QPushButton("Download")
        self.primary.setProperty("kind", "primary")
        self.page = QPushButton("Open Its Page")
        self.then = label("", "faint", 0.95, is_wrapped=True)
        self.card = MarkdownView(markdown_style(theme, self.font()))
        self.card.setObjectName("answer_text")
        self.card.setAccessibleName("Model card")
        self.card_note = label("", "muted", is_wrapped=True)
        self._place = QVBoxLayout()
        self._lay_out()
        self.primary.clicked.connect(self.act)
        self.page.clicked.connect(lambda: QDesktopServices.openUrl(self._address()))
        self.card.link_chosen.connect(self._follow_link)
        finder.offer_changed.connect(self._offer_changed)
        finder.cards.changed.connect(self._show_card)
        possession.changed.connect(self._refresh)
        theme.changed.connect(self._restyle)
        self.show_offer(None)

    def show_offer(self, offer: Offer | None) -> None:
        """Show an offer, or nothing."""
        is_other = offer is None or self._offer is None or offer.name != self._offer.name
        self._offer = offer
        self._inner.setVisible(offer is not None)
        self._refresh()
        if is_other:
            self.verticalScrollBar().setValue(0)

    def act(self) -> None:
        """Download the offer, or load it if it is here."""
        offer = self._offer
        if offer is None or not self.primary.isEnabled() or not self.primary.isVisible():
            return
        here = self._possession.model(offer.name)
        if here is None:
            self.download_wanted.emit(offer)
        else:
            self.load_wanted.emit(here)

    def set_left_margin(self, margin_px: int) -> None:
        """Set the left margin, which depends on whether the list is at the left."""
        self._outer.setContentsMargins(margin_px, 4, 20, 18)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.setAccessibleName("About the model")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.primary)
        buttons.addWidget(self.page)
        buttons.addStretch(1)
        line = QFrame()
        line.setObjectName("rule")
        line.setFixedHeight(1)
        self._inner = QWidget()
        column = QVBoxLayout(self._inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.name)
        column.addWidget(self.purpose)
        column.addWidget(self.facts)
        column.addWidget(self.fit)
        column.addWidget(self.gated)
        column.addWidget(self.impossible)
        column.addSpacing(4)
        column.addLayout(buttons)
        column.addWidget(self.then)
        column.addLayout(self._place)
        column.addSpacing(4)
        column.addWidget(line)
        column.addSpacing(4)
        column.addWidget(self.card)
        column.addWidget(self.card_note)
        column.addStretch(1)
        holder = QWidget()
        holder.setObjectName("scrolled")
        outer = self._outer = QVBoxLayout(holder)
        outer.setContentsMargins(12, 4, 20, 18)
        outer.addWidget(self._inner)
        outer.addStretch(1)
        self.setWidget(holder)

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        offer = self._offer
        if offer is None:
            self._show_row(None)
            return
        memory = self._finder.memory
        fit = offer.model.fit(memory)
        self.name.setText(offer.name)
        self.facts.setText(offer_facts(offer))
        self.facts.setVisible(bool(self.facts.text()))
        self.purpose.setText(offer.purpose[:1].upper() + offer.purpose[1:])
        self.purpose.setVisible(bool(offer.purpose))
        self.fit.setText(fit_sentence(offer, memory))
        restyle(self.fit, "role", _ROLES.get(fit, "muted") if fit is not None else "muted")
        self.page.setToolTip(self._address().toString())
        self.page.setAccessibleName(f"Open the page of {offer.name} in the browser")
        # A name without an owner is a folder of this computer; it has no page.
        self.page.setVisible("/" in offer.name)
        download = self._possession.download(offer.name)
        here = self._possession.model(offer.name)
        self.gated.setVisible(offer.model.is_gated and here is None)
        is_loaded = here is not None and self._possession.is_loaded(here)
        why_not = "" if is_loaded else offer.model.problem
        self.fit.setVisible(not offer.model.problem)
        if here is None and download is None and not why_not:
            why_not = self._possession.no_room_for(offer.name, offer.model.size_bytes)
        self.impossible.setText(why_not)
        self.impossible.setVisible(bool(why_not) and download is None)
        if here is not None:
            is_loading = self._possession.is_loading(here)
            words = "Loading…" if is_loading else "Loaded" if is_loaded else "Load"
            self._name_primary(words, offer)
            self.primary.setEnabled(not (is_loaded or is_loading or why_not))
        else:
            size = offer.model.size_bytes
            self._name_primary(f"Download {size_in_words(size)}" if size else "Download", offer)
            self.primary.setEnabled(not why_not)
        had_focus = self.primary.hasFocus()
        self.primary.setVisible(download is None)
        is_coming = not why_not if download is None else download.stage == "running"
        self.then.setVisible(here is None and is_coming)
        self.then.setText(_THEN)
        self._show_row(download)
        if had_focus and self.row is not None:
            self.row.cancel.setFocus()

    def _name_primary(self, words: str, offer: Offer) -> None:
        self.primary.setText(words)
        self.primary.setAccessibleName(f"{words}: {offer.name}")

    def _show_row(self, download: object) -> None:
        if self.row is not None and self.row.download is download:
            self.row.refresh()
            return
        if self.row is not None:
            had_focus = any(child.hasFocus() for child in self.row.findChildren(QPushButton))
            self._place.removeWidget(self.row)
            self.row.hide()
            self.row.deleteLater()
            self.row = None
            if had_focus and self.primary.isVisible():
                self.primary.setFocus()
        one = None if self._offer is None else self._possession.download(self._offer.name)
        if one is not None:
            self.row = DownloadRow(self._theme, self._downloads, one)
            self._place.addWidget(self.row)

    def _show_card(self) -> None:
        card = self._finder.cards.card
        is_shown = card.stage == "shown"
        self.card.setVisible(is_shown)
        self.card.set_markdown("")
        self._unshown = card.text if is_shown else ""
        self._show_part()
        words = {"reading": _READING, "missing": card.text}.get(card.stage, "")
        if card.is_cut:
            words = "This is the beginning of the card. Its page has all of it."
        self.card_note.setText(words)
        self.card_note.setVisible(bool(words))

    def _show_part(self) -> None:
        """Lay out the next part of the card: laying it all out at once would block the window."""
        self._next_part.stop()
        if not self._unshown:
            return
        part, self._unshown = self._unshown[:_PART_CHARS], self._unshown[_PART_CHARS:]
        self.card.append_markdown(part)
        self.card.render_now()
        if self._unshown:
            self._next_part.start()
        else:
            self.card.finish()

    def _offer_changed(self, row: int) -> None:
        offer = self._finder.offers[row]
        if self._offer is not None and offer.name == self._offer.name:
            self.show_offer(offer)

    def _restyle(self) -> None:
        self.card.set_style(markdown_style(self._theme, self.font()))

    # -- links -----------------------------------------------------------------------------

    def _address(self) -> QUrl:
        return QUrl(Hub().page("" if self._offer is None else self._offer.name))

    def _follow_link(self, url: QUrl) -> None:
        """Open a link of the card, once the person has seen where it leads."""
        if url.isRelative():
            page = self._address().toString()
            inside = url.toString()
            url = (
                QUrl(page + inside)
                if inside.startswith("#")
                else QUrl(f"{page}/blob/main/").resolved(url)
            )
        ask_about_link(self, url)
