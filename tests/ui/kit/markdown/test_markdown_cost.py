"""What a piece of a growing text costs: only what is new is parsed, colored and painted."""

import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.token import Token
from PySide6.QtGui import QImage, QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from tests.support.looks.rich_text import RICH
from tests.support.random_cases import cases
from ui.kit.flow_text import Highlight
from ui.kit.markdown.parser import OpenBlock, parse, prepared
from ui.kit.markdown.style import (
    LIGHT_CODE,
    CodeColors,
    OpenCode,
    Runs,
    _lexed,
    highlighted_lines,
    markdown_style,
)
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme

TABLE = "| Name | Value |\n|:--|--:|\n" + "".join(f"| **row** `{n}` | {n} |\n" for n in range(60))
CODE = "```python\n" + "".join(f"    value_{n} = 'text {n}'  # why\n" for n in range(60))
PIECES = st.sampled_from(
    ["| a | b |\n", "|:-|-:|\n", "| c", " | d |", "\n", "|", "| **b** | `x` | more |\n", "```py\n",
     "~~~\n", "```\n", "````\n", "x = 1\n", "    deep\n", "- item\n", "  - [x] in\n", "> ", "# h",
     "text ", "www.example.org", "[^n]", "[^n]: note\n", "\\|", "1. | a |\n", "\t", "---\n", "  "]
)  # fmt: skip


def told(tokens: list[Token]) -> list[object]:
    return [(t.as_dict(children=False), told(t.children or [])) for t in tokens]


@settings(max_examples=cases(50), deadline=None)
@given(st.sampled_from(["", "| a | b |\n|:-|-:|\n| c | d |\n", "```py\nx\n"]), st.lists(PIECES))
def test_a_text_parsed_as_it_grows_has_the_tokens_of_the_whole(
    text: str, pieces: list[str]
) -> None:
    growing = OpenBlock()
    for piece in pieces:
        text += piece
        assert told(growing.parse(prepared(text), ())) == told(parse(prepared(text)))


@pytest.mark.parametrize("text", [TABLE, CODE], ids=["table", "code"])
def test_of_a_long_block_only_the_newest_lines_are_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing, parsed = OpenBlock(), list[int]()

    def counted(text: str, notes: Iterable[str] = ()) -> list[Token]:
        parsed.append(len(text))
        return parse(text, notes)

    monkeypatch.setattr("ui.kit.markdown.parser.parse", counted)
    for end in range(0, len(text), 5):
        growing.parse(text[:end], ())
    assert max(parsed[-100:]) < 200
    assert len(parsed) < len(text) / 5 * 1.2


@pytest.mark.parametrize(
    "code",
    [
        'def stop(text):\n    """Return\n\nwhat = 3 is\n    left."""\n    return text[3:]  # all\n'
        * 12,
        "a = 1\n\n\nb = '''\nclass B\n'''\nif b:\n    print(b)\n" * 12,
    ],
)
def test_complete_lines_of_growing_code_have_their_colors(code: str) -> None:
    growing = OpenCode()
    for end in range(1, len(code)):
        lines = growing.lines(code[:end], "python", LIGHT_CODE)
        assert ["".join(text for text, _ in line) for line in lines] == code[:end].split("\n")
        if code[end - 1] == "\n":
            assert lines == highlighted_lines(code[:end], "python", LIGHT_CODE)


def test_a_piece_of_code_costs_no_colors_of_the_lines_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "".join(f"    value_{n} = 'text {n}'  # why\n" for n in range(39))
    growing, lexed = OpenCode(), list[int]()
    growing.lines(code, "python", LIGHT_CODE)
    lex = _lexed

    def counted(code: str, language: str, colors: CodeColors) -> tuple[Runs, ...]:
        lexed.append(len(code))
        return lex(code, language, colors)

    monkeypatch.setattr("ui.kit.markdown.style._lexed", counted)
    for end in range(1, 30):
        growing.lines(code + "    another = call(1, 2, 'word')"[:end], "python", LIGHT_CODE)
    assert max(lexed) < 100


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


@pytest.mark.parametrize("text", [RICH, TABLE, CODE], ids=["rich", "table", "code"])
def test_what_is_painted_piece_by_piece_is_what_is_painted_at_once(
    theme: Theme, qapp: QApplication, text: str
) -> None:
    around = QWidget()
    around.setAutoFillBackground(True)
    around.resize(500, 6000)
    view = MarkdownView(markdown_style(qapp.font()), around)
    view.resize(500, 20)
    around.show()
    for number, at in enumerate(range(0, len(text), 23)):
        view.append_markdown(text[at : at + 23])
        view.render_now()
        qapp.processEvents()
        if number % 16 == 0:
            assert on_screen(around) == at_once(around)
    around.close()


def on_screen(window: QWidget) -> QImage:
    picture = window.screen().grabWindow(window.winId()).toImage()
    return picture.convertToFormat(QImage.Format.Format_RGB32)


def at_once(window: QWidget) -> QImage:
    return window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def test_one_more_word_repaints_none_of_the_text_above(theme: Theme, qapp: QApplication) -> None:
    painted: list[int] = []

    class Watched(MarkdownView):
        def paintEvent(self, event: QPaintEvent) -> None:
            painted.append(event.rect().top())
            super().paintEvent(event)

    view = Watched(markdown_style(qapp.font()))
    view.resize(500, 300)
    view.show()
    view.append_markdown("A paragraph.\n\n" * 40 + "The last one")
    qapp.processEvents()
    painted.clear()
    view.append_markdown(" grows")
    view.render_now()
    qapp.processEvents()
    assert painted
    assert min(painted) > view.height() - 200


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
