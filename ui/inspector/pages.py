"""Pages of text and tables in the inspector, with one left edge. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QPalette, QShowEvent
from PySide6.QtWidgets import QPlainTextEdit, QTextBrowser, QTextEdit, QWidget

from ui.inspector.shown_run import ShownRun
from ui.kit.tasks import finish_tasks
from ui.kit.theme import current_theme, fixed_font, turn_off_ligatures

TEXT_MARGIN_PX = 12
RECORD_ALL = "Record All and Regenerate"


class InspectorTab(QWidget):
    """A tab of the inspector; it works only while it can be seen."""

    title = ""
    without_trace = ""  # shown for a run whose tokens were not recorded; empty if it needs none
    has_odds = False  # whether it needs the probabilities of tokens

    def __init__(self) -> None:
        super().__init__()
        self.shown: ShownRun | None = None
        current_theme().changed.connect(self._refresh_visible)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run, or the same one with its end; None if there is none."""
        self.shown = shown
        self._refresh_visible()

    def refresh(self) -> None:
        """Show the run again; called only while the tab can be seen."""

    def catch_up(self) -> None:
        """Show the new tokens of a running answer; most tabs wait for its end."""

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _refresh_visible(self) -> None:
        if self.isVisible():
            self.refresh()

    async def finish(self) -> None:
        await finish_tasks(self)


class ReadingPage(QTextBrowser):
    """A page that is filled with markup, and opens no links by itself."""

    def __init__(self, accessible_name: str, hint: str = "") -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setAccessibleName(accessible_name)
        self.hint = hint  # shown while it is empty
        self.setAccessibleDescription(hint)
        align(self)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.hint and self.document().isEmpty():
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            area = (
                self.viewport().rect().adjusted(TEXT_MARGIN_PX, TEXT_MARGIN_PX, -TEXT_MARGIN_PX, 0)
            )
            painter.drawText(area, Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap, self.hint)
            painter.end()


def align(page: QTextEdit | QPlainTextEdit) -> None:
    """Give a page the same left edge for its text as every other page."""
    if isinstance(page, QTextEdit):
        page.setProperty("kind", "page")
        font, fixed = QFont(page.font()), fixed_font(page.font())
        style = f"code {{ font-family: '{fixed.family()}'; font-size: {fixed.pointSizeF()}pt; }}"
        turn_off_ligatures(font)
        page.setFont(font)  # its spans of code have the features of the page's font
        page.document().setDefaultStyleSheet(style)
        page.document().setDocumentMargin(TEXT_MARGIN_PX)
    else:
        # Without the padding of a plain text's frame in the style sheet.
        page.document().setDocumentMargin(TEXT_MARGIN_PX - 6)
