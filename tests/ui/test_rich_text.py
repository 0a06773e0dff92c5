"""What is drawn of a document that has everything: cells, frames, rectangles; live and reloaded."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication

from tests.support.rich_text import RICH, area_of, described, tables
from ui.panels.style import markdown_style
from ui.theme import Theme
from ui.widgets.markdown_view import MarkdownView

CELLS = [
    ["Left", "Center", "Right", "Mixed"],
    ["code", "bold", "1.50", "link"],
    ["a | b", "漢字かな", "1,234.00", "\ufffc"],
    ["", "gone", "-3", "مرحبا"],
]


def shown(theme: Theme, app: QApplication, text: str, width: int = 500) -> MarkdownView:
    made = MarkdownView(markdown_style(theme, app.font()))
    made.resize(width, 300)
    made.show()
    made.set_markdown(text)
    return made


def streamed(
    theme: Theme, app: QApplication, text: str, step: int, width: int = 500
) -> MarkdownView:
    made = MarkdownView(markdown_style(theme, app.font()))
    made.resize(width, 300)
    made.show()
    for at in range(0, len(text), step):
        made.append_markdown(text[at : at + step])
        made.render_now()
    made.finish()
    return made


@pytest.mark.parametrize("step", [0, 1, 7, 400])
def test_every_cell_holds_its_own_text(theme: Theme, qapp: QApplication, step: int) -> None:
    view = streamed(theme, qapp, RICH, step) if step else shown(theme, qapp, RICH)
    assert tables(view.document())[0] == CELLS
    assert tables(view.document())[-1] == [["in", "list"], ["1", "2"]]


@pytest.mark.parametrize("step", [1, 3, 50])
def test_a_streamed_document_is_the_one_that_is_reloaded(
    theme: Theme, qapp: QApplication, step: int
) -> None:
    live, reloaded = streamed(theme, qapp, RICH, step), shown(theme, qapp, RICH)
    assert described(live.document()) == described(reloaded.document())
    assert live.decorations == reloaded.decorations


def test_list_items_stand_as_far_apart_live_as_reloaded(theme: Theme, qapp: QApplication) -> None:
    text = "1. one\n2. two\n3. three\n\nend\n"
    live, reloaded = streamed(theme, qapp, text, 1), shown(theme, qapp, text)
    for name in ("one", "two", "three", "end"):
        assert area_of(live.document(), name) == area_of(reloaded.document(), name)


def test_the_last_card_keeps_its_bottom(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "Look:\n\n```\nlast\n```\n")
    card = view.area(view.decorations[-1])
    assert card.bottom() <= view.height()


def test_cards_have_air_between_them(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "```\na\n```\n```\nb\n```\n\ntext\n\n```\nc\n```\n- d\n")
    first, second, third = (view.area(one) for one in view.decorations)
    assert second.top() - first.bottom() >= 6
    assert area_of(view.document(), "text").top() - second.bottom() >= 6
    assert third.top() - area_of(view.document(), "text").bottom() >= 6
    assert area_of(view.document(), "d").top() - third.bottom() >= 6


PIECES = st.sampled_from(
    [
        "# Head\n", "- a\n", "- [x] done\n", "- [ ] open\n", "  - nested\n", "    1. deep\n",
        "9. n\n", "10. m\n", "1) x\n", "> q\n", "> > r\n", "> - s\n", "```\n", "~~~py\n",
        "def f(): # long\n", "|a|b|\n", "|-|:-:|\n", "| 1 | 2 | 3 |\n", "| `x` |\n",
        "> |a|\n> |-|\n> |1|\n", "---\n", "**bold**", "*", "`c`", "~~s~~", "\n", "\n\n", "    ",
        "text ", "https://a.bc/d ", "www.a.bc ", "me@a.bc ", "[^1]", "[^1]: note\n", "[^n]",
        "[^n]: other\n\n    more\n", "$x$", "$$\ny\n$$\n", "\\|", "語", "مرحبا", "  ", "\t",
        "[l](http://b.c)", "\r\n", "- \n", "===\n",
    ]
)  # fmt: skip


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
        live.render_now()
    live.finish()
    assert described(live.document()) == described(reloaded.document())
    assert live.decorations == reloaded.decorations
    assert live.height() == reloaded.height()
