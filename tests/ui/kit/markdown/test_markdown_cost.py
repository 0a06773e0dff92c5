"""What a piece of a growing text costs: only what is new is parsed, colored and painted."""

from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import RICH
from ui.kit.flow_text import Highlight
from ui.kit.markdown.style import (
    markdown_style,
)
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme


def test_a_long_text_is_rendered_in_pieces_and_ends_like_one_rendered_whole(
    theme: Theme, qapp: QApplication
) -> None:
    text = f"needle\n\n{RICH}\n\n" * (60_000 // len(RICH)) + "the end"
    sliced, whole = (MarkdownView(markdown_style(qapp.font())) for _ in range(2))
    lengths: list[int] = []
    sliced.document().contentsChange.connect(lambda _, __, added: lengths.append(added))
    for view in (sliced, whole):
        view.resize(500, 20)
        view.set_markdown(text)
        view.finish()
    assert sliced.markdown == text
    assert max(lengths) < len(text) / 3
    assert "the end" not in sliced.toPlainText()
    whole.highlight(Highlight(("needle",)))  # looking for words needs all of them
    assert whole.toPlainText().endswith("the end")
    while not sliced.toPlainText().endswith("the end"):
        qapp.processEvents()
    assert sliced.toPlainText() == whole.toPlainText()
    assert sliced.height() == whole.height()
    assert len(sliced.copy_buttons) == len(whole.copy_buttons)
