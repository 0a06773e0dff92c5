"""Code is wrapped where the user wants that."""

from PySide6.QtWidgets import QApplication

from tests.ui.kit.markdown.views import shown, sideways_bars
from ui.kit.theme import Theme


def test_wide_code_wraps_after_a_click_on_its_switch(theme: Theme, qapp: QApplication) -> None:
    text = "```\n" + "word " * 60 + "\nsecond\n```\n"
    view = shown(theme, qapp, text, width=400)
    assert len(sideways_bars(view)) == 1
    (switch,) = (b for b in view.viewport().children() if getattr(b, "isCheckable", bool)())
    try:
        switch.click()
        assert theme.code_wraps
        again = shown(theme, qapp, text, width=400)
        assert not sideways_bars(again)
        assert again.document().begin().next().layout().lineCount() > 2
        assert again.shown_text() == view.shown_text()
    finally:
        theme.wrap_code(False)
