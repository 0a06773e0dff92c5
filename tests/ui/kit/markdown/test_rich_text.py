"""What is drawn of a document that has everything: cells, frames, rectangles; live and reloaded."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import (
    RICH,
)
from tests.support.random_cases import cases
from tests.ui.driving import found_texts
from tests.ui.kit.markdown.views import shown, streamed
from ui.kit.flow_text import Highlight
from ui.kit.theme import Theme


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 7, 50])
def test_a_streamed_document_is_the_one_that_is_reloaded(
    theme: Theme, qapp: QApplication, step: int
) -> None:
    live, reloaded = streamed(theme, qapp, RICH, step), shown(theme, qapp, RICH)
    assert live.document().toHtml() == reloaded.document().toHtml()
    assert live.decorations == reloaded.decorations


PIECES = st.sampled_from(
    [
        "# Head\n", "- a\n", "- [x] done\n", "- [ ] open\n", "  - nested\n", "    1. deep\n",
        "9. n\n", "10. m\n", "1) x\n", "> q\n", "> > r\n", "> - s\n", "```\n", "~~~py\n",
        "def f(): # long\n", "|a|b|\n", "|-|:-:|\n", "| 1 | 2 | 3 |\n", "| `x` |\n",
        "> |a|\n> |-|\n> |1|\n", "---\n", "**bold**", "*", "`c`", "~~s~~", "\n", "\n\n", "    ",
        "text ", "https://a.bc/d ", "www.a.bc ", "me@a.bc ", "[^1]", "[^1]: note\n", "[^n]",
        "[^n]: other\n\n    more\n", "$x$", "$$\ny\n$$\n", "\\|", "語", "مرحبا", "  ", "\t",
        "[l](http://b.c)", "\r\n", "- \n", "===\n", "#", "-", "***", "_", "~~", "<b>", "</b>",
        "&amp;", "</s>", "<think>", "![i](x.png)", "[r]: http://x\n", "\\(", "\x00", "😀",
        "<!-- c -->", "<details>\n", "<details open><summary>S</summary>\n",
        "<summary>*s*</summary>\n", "</details>\n", "<kbd>", "</kbd>", "<br>", "<sub>2</sub>",
    ]
)  # fmt: skip


@example(text="para\n#foo", cuts=[6])
@example(text="para\n***bold***", cuts=[8])
@example(text="- a\n```code```", cuts=[7])
@settings(
    max_examples=cases(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    text=st.lists(PIECES, max_size=30).map("".join),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_text_in_any_pieces_ends_in_the_same_document(
    theme: Theme, qapp: QApplication, text: str, cuts: list[int]
) -> None:
    live, reloaded = shown(theme, qapp, ""), shown(theme, qapp, text)
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for begin, end in pairwise(edges):
        live.append_markdown(text[begin:end])
        live._render()
    live.finish()
    assert live.document().toHtml() == reloaded.document().toHtml()
    assert live.decorations == reloaded.decorations
    assert live.height() == reloaded.height()


def test_found_words_are_marked_where_they_stand(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "A 😀 **Stop** sequence.\n\n|stop|\n|-|\n|none|\n\n`STOP`")
    place = view.highlight(Highlight(("stop", "two words")))
    assert found_texts(view) == ["Stop", "stop", "STOP"]
    assert place is not None
    picture = view.grab().toImage()
    corner = place.topLeft().toPoint()
    marked = {picture.pixelColor(corner + QPoint(x, 2)).name() for x in range(2)}
    assert theme.colors.found in marked
    assert picture.pixelColor(corner - QPoint(3, -2)).name() != theme.colors.found
    view.append_markdown(" and one more: stop")
    view.finish()
    assert found_texts(view) == ["Stop", "stop", "STOP", "stop"]
    assert view.highlight(Highlight()) is None
    assert found_texts(view) == []
