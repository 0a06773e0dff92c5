"""Views of Markdown that the tests of its drawing share."""

from PySide6.QtWidgets import QApplication, QScrollBar

from ui.kit.markdown.style import markdown_style
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme


def shown(theme: Theme, app: QApplication, text: str, width: int = 500) -> MarkdownView:
    made = MarkdownView(markdown_style())
    made.resize(width, 300)
    made.show()
    made.set_markdown(text)
    return made


def streamed(
    theme: Theme, app: QApplication, text: str, step: int, width: int = 500
) -> MarkdownView:
    made = shown(theme, app, "", width)
    for at in range(0, len(text), step):
        made.append_markdown(text[at : at + step])
        made._render()
    made.finish()
    return made


GRID = "|a|b|\n|:-|-:|\n|1|22|\n|3|4|\n"


def sideways_bars(view: MarkdownView) -> list[QScrollBar]:
    """Return the scroll bars of the parts that are wider than the text."""
    return [bar for bar in view.viewport().findChildren(QScrollBar) if not bar.isHidden()]
