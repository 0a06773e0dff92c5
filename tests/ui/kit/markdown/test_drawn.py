"""Formulas stand on the base line, sharp on any screen; code is numbered, wrapped and colored."""

from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from tests.ui.kit.markdown.views import shown
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import CodeLook, Theme


def drawn(view: MarkdownView, ratio: float) -> QImage:
    image = QImage(view.size() * ratio, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(QColor("#ffffff"))
    painter = QPainter(image)
    view.viewport().render(painter, QPoint())
    painter.end()
    return image


def test_display_formulas_are_centered_unless_they_are_too_wide(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "a\n\n$$\nx = 1\n$$\n\nb", width=500)

    def middle() -> float:
        block = view.document().findBlockByNumber(1)
        line = block.layout().lineAt(0)
        return float(line.cursorToX(0)[0] + line.cursorToX(1)[0]) / 2

    assert abs(middle() - view.viewport().width() / 2) < 4
    view.resize(300, 300)
    assert abs(middle() - view.viewport().width() / 2) < 4
    view.resize(12, 300)
    assert len(view.sideways_bars) == 1


def test_a_diagram_is_code_with_its_name(theme: Theme, qapp: QApplication) -> None:
    code = "graph TD\n  A --> B"
    named, other = (shown(theme, qapp, f"```{name}\n{code}\n```\n") for name in ("mermaid", "x"))
    assert named.shown_text() == other.shown_text() == code
    assert named.copy_buttons[0].accessibleName() == "Copy mermaid"
    images = [view.grab().toImage() for view in (named, other)]
    differ = {
        y
        for y in range(images[0].height())
        for x in range(images[0].width())
        if images[0].pixel(x, y) != images[1].pixel(x, y)
    }
    assert differ
    assert max(differ) < named.cursorRect().top(), "only the names above the code differ"


def test_code_wraps_and_has_numbers_where_a_person_wants_that(
    theme: Theme, qapp: QApplication
) -> None:
    text = "```\n" + "word " * 60 + "\nsecond\n```\n"
    view = shown(theme, qapp, text, width=400)
    assert len(view.sideways_bars) == 1
    chosen: list[CodeLook] = []
    theme.code_look_chosen.connect(chosen.append)
    switches = [b for b in view.viewport().children() if getattr(b, "isCheckable", bool)()]
    names = [switch.accessibleName() for switch in switches]
    assert names == ["Number the lines of code", "Wrap long lines of code"]
    try:
        for switch in switches:
            switch.click()
        assert chosen[-1] == theme.code_look == CodeLook(wraps=True, has_numbers=True)
        again = shown(theme, qapp, text, width=400)
        assert again.sideways_bars == ()
        assert again.document().begin().next().layout().lineCount() > 2
        assert again.shown_text() == view.shown_text()
        plain, numbered = view.grab().toImage(), again.grab().toImage()
        assert plain != numbered
    finally:
        theme.set_code_look(CodeLook())
