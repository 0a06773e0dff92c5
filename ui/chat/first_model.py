"""Recommends a first model to download. Main thread."""

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QMenu

from engine.library.local_models import Origin
from engine.library.suggestions import SuggestedModel, first_models
from engine.wording import as_sentence, format_size
from ui.kit.buttons import push_button
from ui.kit.commands import Command, Entry, fill_menu, popup_below
from ui.kit.labels import label, show_text, thin_bar
from ui.kit.layouts import column, row
from ui.kit.theme import CHAT_PX, restyle
from ui.models.loading_after import LoadingAfter
from ui.models.model_library import ModelLibrary
from ui.models.model_words import duration, percent
from ui.words import THIS_COMPUTER, display_name


def _figures(suggestion: SuggestedModel) -> tuple[str, str]:
    """Return its size, and how long it takes to download."""
    size = suggestion.size_mb * 1_000_000
    return format_size(size), f"about {duration(size / (50_000_000 / 8))}"


class FirstModel(QFrame):
    """Recommends one model or a smaller or larger one, and downloads it."""

    ready = Signal()
    find_requested = Signal()

    def __init__(self, library: ModelLibrary) -> None:
        super().__init__()
        self.setObjectName("suggestion_card")
        self._library = library
        self._offered: tuple[SuggestedModel, ...] = ()
        self._suggestion: SuggestedModel | None = None
        self.name = label("", "title", 1.2, is_wrapped=True)
        self.description = label("", "", is_wrapped=True)
        self.figures = label("", "muted", 0.95, is_wrapped=True)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.bar = thin_bar("Download of the model")
        self.download = push_button("Download", kind="primary")
        self.download.clicked.connect(self._act)
        self.others = push_button("Smaller or Larger…", "Choose a smaller or larger model", "link")
        menu = self.menu = QMenu(self.others)
        fill_menu(menu, (), self._alternatives)
        # A button with a menu of its own would have no room between its words and its edge.
        self.others.clicked.connect(lambda: popup_below(self.others, menu))
        texts = column(self.name, self.description, self.figures, self.problem, self.bar, spacing=4)
        buttons = row(self.others, self.download, spacing=8)
        self._line = row((texts, 1), buttons, spacing=16, margins=(16, 12, 16, 12), on=self)
        self._loading = LoadingAfter(library, self)
        self._loading.ready.connect(lambda _: self.ready.emit())
        self._loading.not_loaded.connect(lambda _, why: show_text(self.problem, why))
        library.changed.connect(self.refresh)
        library.downloads.changed.connect(self.refresh)
        library.downloads.progressed.connect(self.refresh)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the buttons below the text where the card is narrow."""
        super().resizeEvent(event)
        is_narrow = self.width() < CHAT_PX * 2 // 3
        sides = QBoxLayout.Direction
        self._line.setDirection(sides.TopToBottom if is_narrow else sides.LeftToRight)

    @property
    def is_recommended(self) -> bool:
        """Whether to recommend a model: there is only the bundled one."""
        return self._suggestion is not None and not any(
            model.found.origin is not Origin.BUNDLED and not model.found.is_partial
            for model in self._library.local
        )

    def offers(self, repository: str) -> bool:
        """Return whether the visible card is that of a repository."""
        return (
            self.isVisible()
            and self._suggestion is not None
            and (self._suggestion.name == repository)
        )

    def refresh(self) -> None:
        library = self._library
        begun = {m.found.name: m.found.arrived for m in library.local if m.found.arrived}
        if library.has_looked:
            self._offered = first_models(library.memory)
            if self._suggestion not in self._offered:
                unfinished = [model for model in self._offered if model.name in begun]
                self._suggestion = next(iter((*unfinished, *self._offered)), None)
        suggestion = self._suggestion
        if suggestion is None:
            return
        title = display_name(suggestion.name)
        self.name.setText(title)
        self.description.setText(suggestion.summary)
        size, took = _figures(suggestion)
        arrived = begun.get(suggestion.name, "")
        fits = arrived or f"runs well on {THIS_COMPUTER}"
        text = f"{size} · {fits} · {took} at 50 Mbit/s"
        verb = "Resume" if arrived else "Download"
        download = library.downloads.unfinished(suggestion.name)
        if download is not None:
            progress = download.progress
            verbs = {"running": "Pause", "cancelled": "Resume", "failed": "Try Again"}
            verb = verbs.get(download.stage, verb)
            is_running, message = download.stage == "running", as_sentence(download.message)
            text = download.rate.text(progress) if is_running else message
            show_text(self.problem, message if download.stage == "failed" else "")
            # A bar without a maximum moves: it shows that the hub has not answered yet.
            self.bar.setRange(0, 0 if is_running and not progress.total_bytes else 100)
            self.bar.setValue(percent(progress.done_bytes, progress.total_bytes))
        self.bar.setVisible(download is not None and download.stage != "failed")
        show_text(self.figures, "" if text == self.problem.text() else text)
        self.download.setText(verb)
        restyle(self.download, "kind", "" if verb == "Pause" else "primary")
        self.download.setAccessibleName(f"{verb} {title}")
        self.others.setVisible(download is None or download.stage != "running")

    async def finish(self) -> None:
        await self._loading.finish()

    def _alternatives(self) -> list[Entry]:
        others: list[Entry] = [
            Command(
                " · ".join((display_name(model.name), model.purpose, *_figures(model))),
                partial(self._suggest, model),
                checked=model is self._suggestion,
            )
            for model in sorted(self._offered, key=lambda model: model.size_mb)
        ]
        return [*others, None, Command("All Models…", self.find_requested.emit)]

    def _suggest(self, model: SuggestedModel) -> None:
        self._suggestion = model
        self.problem.hide()
        self.refresh()

    def _act(self) -> None:
        """Start, pause or resume the download."""
        if self._suggestion is None:
            return
        download = self._library.downloads.unfinished(self._suggestion.name)
        if download is not None and download.stage == "running":
            download.cancel()
            return
        self._loading.want(self._suggestion.name)
        problem = self._library.downloads.start(self._suggestion.name)
        show_text(self.problem, as_sentence(problem))
