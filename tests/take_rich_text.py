"""Take pictures of rendered text: a document that has everything, in every look.

    python -m tests.take_rich_text FOLDER [FILE.md]

It needs no screen. Shows real answers in a real column: light and dark, text of 100 and 200 %,
wide and narrow, streamed in small pieces and shown at once.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QButtonGroup, QScrollArea, QVBoxLayout, QWidget

from tests.support.answers.said import finished_run
from tests.support.looks.rich_text import RICH
from tests.take_screenshots import take_all
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.kit.theme import Theme
from ui.records.messages import ConversationMessage

WIDTHS = {"wide": 760, "narrow": 400}
PIECE_CHARS = 9


class Column(QScrollArea):
    """A question and its answer, as high as they need."""

    def __init__(self, theme: Theme, text: str, width: int, *, is_live: bool) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        inner = QWidget()
        inner.setObjectName("scrolled")
        layout = QVBoxLayout(inner)
        layout.setContentsMargins(26, 24, 26, 18)
        question = QuestionView(ConversationMessage("user", "Show me everything"))
        run = finished_run("" if is_live else text, thinking="", tool_calls=[])
        self.answer = AnswerView(ConversationMessage("assistant", run=run), QButtonGroup(self))
        self.answer.text_view.link_chosen.connect(lambda url: print(QUrl.toString(url)))
        layout.addWidget(question)
        layout.addWidget(self.answer)
        layout.addStretch(1)
        self.setWidget(inner)
        self.resize(width + 52, 900)
        self.show()
        if is_live:
            for at in range(0, len(text), PIECE_CHARS):
                run.text += text[at : at + PIECE_CHARS]
                self.answer.append_text(text[at : at + PIECE_CHARS])
                self.answer.text_view.render_now()
            self.answer.refresh()


async def settled(column: Column) -> None:
    """Let layouts settle, and make the column as high as its content."""
    for _ in range(3):
        await asyncio.sleep(0.05)
        inner = column.widget()
        if inner is not None:
            column.resize(column.width(), inner.sizeHint().height() + 4)


def pictured(column: Column, canvas: str) -> QPixmap:
    """Return a picture of a column on the canvas of the chat."""
    seen = column.grab()
    picture = QPixmap(seen.size())
    picture.setDevicePixelRatio(seen.devicePixelRatio())
    picture.fill(QColor(canvas))
    painter = QPainter(picture)
    painter.drawPixmap(0, 0, seen)
    painter.end()
    return picture


async def _take(text: str, application: QApplication, folder: Path) -> None:
    theme = Theme(application, "light")
    for percent in (100, 200):
        theme.set_text_size(percent)
        for mode in ("light", "dark"):
            theme.set_mode(mode)
            for name, width in WIDTHS.items():
                for kind in ("reloaded", "live"):
                    column = Column(theme, text, width, is_live=kind == "live")
                    await settled(column)
                    path = folder / f"{percent}-{mode}-{name}-{kind}.png"
                    if not pictured(column, theme.colors.canvas).save(str(path)):
                        raise OSError(f"{path} could not be written")
                    print(path)
                    column.close()
                    column.deleteLater()


def main() -> None:
    """Take all pictures."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m tests.take_rich_text FOLDER [FILE.md]")
    text = Path(sys.argv[2]).read_text() if len(sys.argv) > 2 else RICH
    take_all(partial(_take, text), Path(sys.argv[1]))


if __name__ == "__main__":
    main()
