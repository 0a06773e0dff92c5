"""Formulas stand on the base line, sharp on any screen; code is numbered, wrapped and colored."""

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from tests.ui.kit.markdown.views import shown, streamed
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import CodeLook, Theme

DIFF = "```diff\n@@ -1 +1 @@\n-old line\n+new line\n same\n```\n"


def drawn(view: MarkdownView, ratio: float) -> QImage:
    image = QImage(view.size() * ratio, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(QColor("#ffffff"))
    painter = QPainter(image)
    view.viewport().render(painter, QPoint())
    painter.end()
    return image


def ink_rows(image: QImage, left: float, right: float, ratio: float) -> list[int]:
    """Return the rows of a part of a picture that have dark pixels."""
    columns = range(round(left * ratio), round(right * ratio))
    return [
        y
        for y in range(image.height())
        if any(image.pixelColor(x, y).lightness() < 110 for x in columns)
    ]


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("tex", ["x", "x^2", r"\mathrm{n}"])
def test_a_formula_stands_on_the_base_line_at_any_ratio(
    theme: Theme, qapp: QApplication, tex: str, ratio: float
) -> None:
    view = shown(theme, qapp, f"H ${tex}$")
    image = drawn(view, ratio)
    block = view.document().firstBlock()
    line = block.layout().lineAt(0)
    middle = line.cursorToX(2)[0]
    letters = ink_rows(image, 0, line.cursorToX(1)[0], ratio)
    formula = ink_rows(image, middle, middle + line.naturalTextWidth(), ratio)
    assert abs(letters[-1] - formula[-1]) <= 1


def test_what_reaches_below_the_line_reaches_below_it_in_a_formula(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, r"H $\frac{a}{b}$ H")
    image = drawn(view, 2.0)
    line = view.document().firstBlock().layout().lineAt(0)
    letters = ink_rows(image, 0, line.cursorToX(1)[0], 2.0)
    fraction = ink_rows(image, line.cursorToX(2)[0], line.cursorToX(3)[0], 2.0)
    assert fraction[0] < letters[0]
    assert fraction[-1] > letters[-1]


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_a_formula_has_the_pixels_of_the_screen(
    theme: Theme, qapp: QApplication, ratio: float
) -> None:
    """A picture that is made larger or smaller has no vertical edge that is one pixel sharp."""
    view = shown(theme, qapp, "$|$", width=60)
    image = drawn(view, ratio)
    rows = ink_rows(image, 0, 60, ratio)
    row = rows[len(rows) // 2]
    dark = [x for x in range(image.width()) if image.pixelColor(x, row).lightness() < 160]
    assert 1 <= len(dark) <= 3 * ratio


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


def test_lines_of_a_change_have_colors_and_grounds(theme: Theme, qapp: QApplication) -> None:
    for view in (shown(theme, qapp, DIFF), streamed(theme, qapp, DIFF, 3)):
        block, grounds = view.document().begin(), {}
        while block.isValid():
            grounds[block.text()[:4]] = block.blockFormat().background().color().name()
            block = block.next()
        assert grounds["+new"] != grounds["-old"]
        assert grounds[" sam"] == grounds["@@ -"] == "#000000"  # none


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
