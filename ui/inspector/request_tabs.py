"""The tab of the request as each API sends it. Main thread; it renders only while it is visible."""

import re

from PySide6.QtWidgets import (
    QPlainTextEdit,
)

from engine.wording import counted
from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, align
from ui.inspector.shown_run import InspectorTools, ShownRun, WireView
from ui.kit.buttons import Choice, push_button
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.menus import copy_from
from ui.kit.tasks import start_task
from ui.kit.theme import fixed_font
from ui.kit.wire_text import WireHighlighter
from ui.words import describe_error

_NOTE = "API keys are left out. Ids differ each time a server answers."
_CUT = "{} more are not shown here; the copy has them."
# A picture in base64, of which the page shows the beginning; the copy has it whole.
_PICTURE_DATA = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")
PARTS = (
    ("Streamed Answer", "stream"),
    ("Whole Answer", "whole"),
    ("Request", "request"),
    ("curl", "curl"),
    ("Python", "python"),
)


def _shorten_data(match: re.Match[str]) -> str:
    data = match[0]
    return f"{data[:40]}… {counted(len(data) - 40, 'more character')}"


class ApiTab(InspectorTab):
    """Which API, which part of the request or answer, and its text."""

    title = "API"

    def __init__(self, inspector: Inspector, tools: InspectorTools) -> None:
        super().__init__()
        self._inspector = inspector
        self._tools = tools
        self._views: list[WireView] = []
        self._rendered: ShownRun | None = None
        self._chosen = ""  # the API chosen last, for runs that no API asked for
        self.api = Choice("API")
        self.part = Choice("Part of the request or answer")
        self.part.addItems([text for text, _ in PARTS])
        for choice in (self.api, self.part):
            choice.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToContents)
        self.api.setMinimumWidth(210)
        self.copy = push_button("Copy", "Copy the shown text")
        self.note = label("", "muted", 0.95, is_wrapped=True)
        self.page = QPlainTextEdit()
        self.page.setReadOnly(True)
        align(self.page)
        self.page.setFont(fixed_font(self.page.font(), 1.0))
        self.page.setAccessibleName("What is sent")
        self._highlighter = WireHighlighter(self.page.document())
        column(
            row(self.api, self.part, (self.note, 1), self.copy, spacing=8),
            (self.page, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self._refresh()
        self.api.currentIndexChanged.connect(lambda _: self._refresh())
        self.api.activated.connect(self._choose)
        self.part.currentIndexChanged.connect(lambda _: self._refresh())
        self.copy.clicked.connect(lambda: copy_from(self.copy, self._text()))

    def show_run(self, shown: ShownRun | None) -> None:
        if shown is not self._rendered:
            self._views, self._rendered = [], None
            self._refresh()
        super().show_run(shown)

    def refresh(self) -> None:
        shown = self._inspector.shown
        if shown is None:
            self.note.setText("No answer selected.")
        elif not shown.run.is_over:
            self.note.setText("This appears when the answer has ended.")
        elif shown is not self._rendered:
            self._rendered = shown
            self.note.setText("Asking the server…")
            start_task(self, self._render(shown), "render a run for the APIs")

    async def _render(self, shown: ShownRun) -> None:
        try:
            views = list(await self._tools.wire_views(shown))
        except ValueError as error:
            views, problem = [], str(error)  # our own words
        except OSError as error:
            views, problem = [], describe_error(error)
        else:
            problem = _NOTE
        if self._rendered is not shown:
            return
        self._views = views
        self.note.setText(problem)
        names = [view.name for view in views]
        own = next((view.name for view in views if view.path == shown.api_path), self._chosen)
        self.api.blockSignals(True)
        self.api.clear()
        self.api.addItems(names)
        self.api.setCurrentIndex(names.index(own) if own in names else min(0, len(views) - 1))
        self.api.blockSignals(False)
        self._refresh()

    def _choose(self) -> None:
        self._chosen = self.api.currentText()

    def _refresh(self) -> None:
        row = self.api.currentIndex()
        has_view = 0 <= row < len(self._views)
        problem = self._views[row].problem if has_view else ""
        self.api.setVisible(has_view)
        self.part.setVisible(has_view and not problem)
        self.copy.setEnabled(has_view and not problem)
        if problem:
            self.note.setText(problem)
        if not has_view or problem:
            self.page.clear()
            return
        text = _PICTURE_DATA.sub(_shorten_data, self._text())
        shown = text[:300_000]  # a text view lays this much out within a frame
        cut = len(text) - len(shown)
        self.page.setPlainText(shown)
        self.note.setText(_CUT.format(counted(cut, "character")) if cut > 0 else _NOTE)

    def _text(self) -> str:
        """Return the shown part of the request or answer, whole."""
        row = self.api.currentIndex()
        if not 0 <= row < len(self._views):
            return ""
        return str(getattr(self._views[row], PARTS[self.part.currentIndex()][1]))
