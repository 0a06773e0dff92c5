"""Formulas stand on the base line, sharp on any screen; code is numbered, wrapped and colored."""

from typing import Any

from PySide6.QtWidgets import QApplication, QMenu, QScrollArea, QToolButton

from tests.support.looks.rich_text import block_of
from tests.ui.kit.markdown.views import shown, sideways_bars
from ui.kit.menus import copied_text
from ui.kit.theme import Theme


def test_code_wraps_and_has_numbers_where_a_person_wants_that(
    theme: Theme, qapp: QApplication
) -> None:
    text = "```\n" + "word " * 60 + "\nsecond\n```\n"
    view = shown(theme, qapp, text, width=400)
    assert len(sideways_bars(view)) == 1
    chosen: list[tuple[bool, bool]] = []
    theme.code_look_chosen.connect(lambda *look: chosen.append(look))
    [more] = [b for b in view.viewport().findChildren(QToolButton) if b not in view.copy_buttons]
    try:
        for label in ("Number Lines in All Code", "Wrap Lines in All Code"):
            more.click()
            menu = more.findChildren(QMenu)[-1]
            next(action for action in menu.actions() if action.text() == label).trigger()
            menu.close()
            [more] = [
                button
                for button in view.viewport().findChildren(QToolButton)
                if button not in view.copy_buttons and button.isVisible()
            ][-1:]
        assert chosen[-1] == (theme.code_wraps, theme.code_has_numbers) == (True, True)
        again = shown(theme, qapp, text, width=400)
        assert not sideways_bars(again)
        assert again.document().begin().next().layout().lineCount() > 2
        assert again.shown_text() == view.shown_text()
        plain, numbered = view.grab().toImage(), again.grab().toImage()
        assert plain != numbered
    finally:
        theme.set_code_look(code_wraps=False, code_has_numbers=False)


def test_code_of_one_short_line_has_no_menu_and_only_long_lines_can_be_wrapped(
    theme: Theme, qapp: QApplication
) -> None:
    for code, labels in (
        ("x", []),
        ("x\ny", ["Number Lines in All Code"]),
        ("x" * 300, ["Number Lines in All Code", "Wrap Lines in All Code"]),
    ):
        view = shown(theme, qapp, f"```\n{code}\n```\n", width=400)
        others = view.viewport().findChildren(QToolButton)
        assert view.copy_buttons[0].geometry().right() == max(b.geometry().right() for b in others)
        found: list[str] = []
        for more in others:
            if more not in view.copy_buttons:
                more.click()
                [menu] = more.findChildren(QMenu)
                found = [action.text() for action in menu.actions()]
                menu.close()
        assert found == labels


def test_code_in_line_has_rounded_ground(theme: Theme, qapp: QApplication) -> None:
    for text in ("text `iiiiii` text", "|a|b|\n|-|-|\n|x|text `iiiiii` text|\n"):
        view = shown(theme, qapp, text)
        block = block_of(view.document(), "iiiiii")
        corner = view.document().documentLayout().blockBoundingRect(block).topLeft()
        line = block.layout().lineAt(0)
        places: Any = [line.cursorToX(at)[0] for at in (5, 11)]  # type: ignore[index]
        middle = round(corner.y() + line.y() + line.height() / 2)
        left, right = (round(corner.x() + place) for place in places)
        image = view.grab().toImage()
        inks = [image.pixelColor(x, middle).name() for x in (left - 1, right)]
        assert inks == [theme.colors.code] * 2
        top = round(corner.y() + line.y())
        assert theme.colors.code not in [
            image.pixelColor(x, y).name() for x in range(left - 12, left - 4) for y in (top, middle)
        ]


def test_cut_text_keeps_distance_to_card(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "```\ncode\n```\n")
    view.show_cut("cut")
    assert view._cut_area.top() - view.area(view.decorations[-1]).bottom() >= 6


def test_changed_lines_are_colored_from_edge_to_edge(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "```diff\n- old\n+ new\n same\n```\n", width=400)
    [card] = view.decorations
    area, image = view.area(card), view.grab().toImage()
    for x in (round(area.left()) + 3, round(area.right()) - 4):
        column = [image.pixelColor(x, y).name() for y in range(image.height())]
        old, new = theme.colors.fault_soft, theme.colors.done_soft
        begin, end = column.index(old), len(column) - column[::-1].index(new)
        assert set(column[begin:end]) == {old, new}


def test_copy_of_code_answers_with_check_mark(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "```\ncode\n```\n")
    [copy] = view.copy_buttons
    width = copy.width()
    copy.click()
    assert not copy.icon().isNull()
    assert copy.width() == width
    assert copied_text() == "code"


def test_head_of_long_code_stays_in_sight(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "```\none\n```\n\n```python\n" + "x = 1\n" * 60 + "```\n")
    area = QScrollArea()
    area.setWidget(view)
    area.resize(view.width() + 20, 300)
    area.show()
    cards = [view.area(card) for card in view.decorations]
    for value, is_pinned in ((0, False), (round(cards[1].top()) + 200, True), (0, False)):
        area.verticalScrollBar().setValue(value)
        view.follow_scrolling()
        at = [copy.y() for copy in view.copy_buttons]
        assert round(cards[0].top()) <= at[0] < cards[0].bottom()
        assert (at[1] >= value > cards[1].top()) == is_pinned
    view.copy_buttons[0].move(0, 0)
    area.verticalScrollBar().setValue(round(cards[1].top()) + 100)
    view.follow_scrolling()
    assert view.copy_buttons[0].y() == 0  # a step of scrolling leaves cards out of sight alone


def test_environment_of_formulas_needs_no_delimiters(theme: Theme, qapp: QApplication) -> None:
    text = "Therefore\n\\begin{align}\na &= b \\\\\n&= c\n\\end{align}\nholds."
    view = shown(theme, qapp, text)
    assert [part.kind for part in view.decorations] == ["formula"]
    assert "begin" not in view.document().toPlainText()
    view.selectAll()
    view.copy()
    assert "\\begin{align}\na &= b" in qapp.clipboard().mimeData().text()


def test_open_environment_of_formulas_is_text(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "\\begin{align}\na &= b")
    assert "begin{align}" in view.document().toPlainText()
