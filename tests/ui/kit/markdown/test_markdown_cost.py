"""What a piece of a growing text costs: only what is new is parsed, colored and painted."""

import subprocess
import sys

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


_FIRST_SIGN = """
import sys, threading
from PySide6.QtWidgets import QApplication
from ui.kit.markdown.style import markdown_style
from ui.kit.theme import Theme
from ui.kit.markdown.view import MarkdownView
app = QApplication([])
Theme(app, "light")
view = MarkdownView(markdown_style(app.font()))

begun = []
start = threading.Thread.start

def count(thread):  # a short import may have ended before its thread could be listed
    if thread.name == "fullstop-warm-up":
        begun.append(thread)
    start(thread)

threading.Thread.start = count

def imports_begun_by(piece):
    begun.clear()
    view.append_markdown(piece)
    for thread in begun:
        thread.join(60)
    return len(begun)

assert imports_begun_by("Words alone, ") == 0
assert "ziamath" not in sys.modules and "pygments" not in sys.modules
assert imports_begun_by("a formula: $x") == 1
assert "ziamath" in sys.modules and "pygments" not in sys.modules
assert imports_begun_by("^2$ and code:\\n\\n```") == 1
assert "pygments.lexers.python" in sys.modules
assert imports_begun_by("python\\nprint('$')") == 0
"""


def test_what_formulas_and_code_need_is_imported_at_their_first_sign() -> None:
    subprocess.run([sys.executable, "-c", _FIRST_SIGN], check=True, timeout=120)
