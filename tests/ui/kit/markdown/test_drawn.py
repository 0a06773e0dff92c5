"""Formulas stand on the base line, sharp on any screen; code is numbered, wrapped and colored."""

from PySide6.QtWidgets import QApplication

from tests.ui.kit.markdown.views import shown, sideways_bars
from ui.kit.theme import Theme


def test_code_wraps_and_has_numbers_where_a_person_wants_that(
    theme: Theme, qapp: QApplication
) -> None:
    text = "```\n" + "word " * 60 + "\nsecond\n```\n"
    view = shown(theme, qapp, text, width=400)
    assert len(sideways_bars(view)) == 1
    chosen: list[tuple[bool, bool]] = []
    theme.code_look_chosen.connect(lambda *look: chosen.append(look))
    switches = [b for b in view.viewport().children() if getattr(b, "isCheckable", bool)()]
    names = [switch.accessibleName() for switch in switches]
    assert names == ["Number the lines of code", "Wrap long lines of code"]
    try:
        for switch in switches:
            switch.click()
        assert chosen[-1] == (theme.code_wraps, theme.code_has_numbers) == (True, True)
        again = shown(theme, qapp, text, width=400)
        assert not sideways_bars(again)
        assert again.document().begin().next().layout().lineCount() > 2
        assert again.shown_text() == view.shown_text()
        plain, numbered = view.grab().toImage(), again.grab().toImage()
        assert plain != numbered
    finally:
        theme.set_code_look(code_wraps=False, code_has_numbers=False)
