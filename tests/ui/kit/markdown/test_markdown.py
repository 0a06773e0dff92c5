"""What a model says is shown whole, and streamed rendering ends like a rendering at once."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication

from tests.support.random_cases import cases
from tests.ui.kit.markdown.views import shown
from ui.kit.theme import Theme


@pytest.mark.parametrize(
    "text",
    [
        "</s>", "<think>deep</think> answer", "<|im_end|>", "a <b class=x>b</b> tag", "<!-- n -->",
        "&amp; &lt;", "[ref]: http://example.org", "![alt](http://example.org/a.png)",
        r"\(x^2\) and \[y\]", "C:\\new\\table", "<div>\nblock\n</div>", "#hashtag", "2 * 3 * 4",
        "1\n2\n3", "3. three\n4. four", "a | b", "snake_case_name", "<s>[INST] hi [/INST]</s>",
        "{{ template }}", "$x_1$", "#", "line one  \nline two", "a\u2028b", "\ufffc",
    ],
)  # fmt: skip
def test_no_character_of_a_model_is_lost(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, text)
    signs = {"\u2028": "\n", "\ufffc": "\ufffd", "\t": ""}
    wanted = "".join(signs.get(char, char) for char in text.replace("  \n", "\n"))
    assert view.shown_text().replace("\t", " ").replace("\u00a0", " ") == wanted


LETTERS = st.text(st.sampled_from("abc <>/|&;[]()!#-_`*\\\n0"), max_size=60)


@settings(
    max_examples=cases(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# The number of a list item is shown without leading zeros, and a formula as a picture.
@given(text=LETTERS.filter(lambda text: not re.search(r"</b>|<br|00\)|\\[(\[]", text)))
@example(text="[](0<)")
def test_every_letter_and_digit_is_shown(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, text)
    labels = "".join(d.label for d in view.decorations if d.kind == "code")
    # Addresses are shown as a browser would send them: with "%3C" for "<".
    seen = unquote(view.toPlainText() + labels + "".join(view.link_targets()))
    for char in "abc0<&;":
        assert seen.count(char) >= text.count(char)


def test_code_keeps_its_characters_and_offers_a_copy(theme: Theme, qapp: QApplication) -> None:
    code = 'def f():\n\treturn "a  b"  # -> x'
    view = shown(theme, qapp, f"Look:\n\n```python\n{code}\n```\n")
    view.copy_buttons[0].click()
    assert qapp.clipboard().text() == code
    assert code in view.toPlainText()


QUADRATIC = r"\frac{-b \pm \sqrt{b^2-4ac}}{2a}"


@pytest.mark.parametrize(
    "text",
    ["$a^2$", r"\(a^2\)", f"$${QUADRATIC}$$", f"$$\n{QUADRATIC}\n$$", f"\\[\n{QUADRATIC}\n\\]"],
)
def test_a_formula_is_a_picture_and_is_copied_as_its_source(
    theme: Theme, qapp: QApplication, text: str
) -> None:
    view = shown(theme, qapp, f"So {text} it is" if "\n" not in text else text)
    assert view.toPlainText().count("\ufffc") == 1
    view.selectAll()
    assert text in view.createMimeDataFromSelection().text()


@pytest.mark.parametrize(
    "text",
    ["It costs $5 or $6, and `$x$` is code.", "`$a$` is code", "$ a $", "a $b", r"$\frac{1}{$"],
)
def test_text_that_is_not_a_formula_stays_text(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, text)
    assert view.toPlainText().replace("\u00a0", " ") == text.replace("`", "")


def test_escaped_dollar_is_a_dollar(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "It costs \\$5, or \\$6 with $x^2$.")
    assert view.shown_text() == "It costs $5, or $6 with $x^2$."


def test_a_formula_that_streams_in_becomes_a_picture_when_it_is_whole(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "")
    for piece in ("Area: $", r"\pi ", "r^2", "$", " done\n\n", "next"):
        view.append_markdown(piece)
    view.finish()
    assert view.shown_text() == "Area: $\\pi r^2$ done\nnext"
    assert view.toPlainText() == "Area: \ufffc done\nnext"


@pytest.mark.parametrize("first", [72, 98, 996])
def test_long_list_number_is_whole(theme: Theme, qapp: QApplication, first: int) -> None:
    view = shown(theme, qapp, "\n".join(f"{first + n}. item" for n in range(9)))
    block = view.document().begin()
    while block.isValid():
        form = block.blockFormat()
        assert form.leftMargin() + form.textIndent() >= 0
        block = block.next()
