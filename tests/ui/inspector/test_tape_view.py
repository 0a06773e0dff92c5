"""How the tape draws text that was held back."""

from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from tests.ui.inspector.conftest import Record
from ui.inspector.tape_view import TapeView
from ui.kit.theme import Theme


def test_hatching_lies_below_the_letters_of_what_was_held(
    theme: Theme, record: Record, qtbot: QtBot
) -> None:
    shown_run = record(["one", " EN", "x"], "END")
    view = TapeView()
    qtbot.addWidget(view)
    view.resize(500, 200)
    view.show()
    view.show_trace(shown_run.trace)
    plain = TapeView()
    qtbot.addWidget(plain)
    plain.resize(500, 200)
    plain.show()
    bare = record(["one", " EN", "x"]).trace
    plain.show_trace(bare)
    marked, unmarked = (_picture(one) for one in (view, plain))
    cursor = view.textCursor()
    cursor.setPosition(view.toPlainText().index("EN"))
    box = view.cursorRect(cursor)
    line = cursor.block().layout().lineAt(0)
    above = view.document().documentLayout().blockBoundingRect(cursor.block()).top() + line.y()
    letters = range(round(above), round(above + line.ascent() + line.descent()))
    columns = range(box.left() + 1, box.left() + 2 * view.fontMetrics().averageCharWidth())
    changed = [
        (x, y)
        for x in columns
        for y in range(marked.height())
        if marked.pixel(x, y) != unmarked.pixel(x, y)
    ]
    assert changed
    assert not [place for place in changed if place[1] in letters]
    assert min(y for _, y in changed) >= letters.stop


def _picture(view: TapeView) -> QImage:
    return view.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
