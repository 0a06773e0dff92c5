"""What is drawn of a document that has everything: cells, frames, rectangles; live and reloaded."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import (
    RICH,
    area_of,
    block_of,
    described,
)
from tests.support.random_cases import cases
from tests.ui.kit.markdown.views import GRID, shown, streamed
from ui.kit.theme import Theme


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 7, 50])
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
    max_examples=cases(30),
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
        live.render_now()
    live.finish()
    assert described(live.document()) == described(reloaded.document())
    assert live.decorations == reloaded.decorations
    assert live.height() == reloaded.height()


def test_a_rule_is_above_the_table_that_follows_it(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"text\n\n---\n\n{GRID}")
    rule, table = (view.area(one) for one in view.decorations)
    assert rule.center().y() > area_of(view.document(), "text").bottom() + 4
    assert table.top() > rule.center().y() + 6


def test_text_from_the_right_has_its_list_marks_at_the_right(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "- قائمة\n- left\n")
    document = view.document()
    form = block_of(document, "قائمة").blockFormat()
    assert form.rightMargin() == block_of(document, "left").blockFormat().leftMargin() > 0
    assert form.leftMargin() == 0
    cursor = QTextCursor(block_of(document, "قائمة"))
    at_mark = view.cursorRect(cursor).x()
    cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock)
    assert view.cursorRect(cursor).x() < at_mark <= view.width()


def test_the_mark_of_an_item_that_is_a_quote_is_left_of_its_bar(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "- > quoted\n")
    block = block_of(view.document(), "quoted")
    bar = view.area(view.decorations[0])
    cursor = QTextCursor(block)
    assert view.cursorRect(cursor).x() < bar.left()
    cursor.setPosition(block.position() + 2)
    assert view.cursorRect(cursor).x() > bar.left() + 3


@pytest.mark.parametrize("inner", ["text", "```\n> code\n> ```", "|a|\n> |-|\n> |b|"])
def test_the_bar_of_a_quote_reaches_around_what_it_holds_and_no_further(
    theme: Theme, qapp: QApplication, inner: str
) -> None:
    view = shown(theme, qapp, f"before\n\n> {inner}\n\nafter")
    bar = next(view.area(one) for one in view.decorations if one.kind == "quote")
    for one in view.decorations:
        assert bar.top() <= view.area(one).top()
        assert view.area(one).bottom() <= bar.bottom()
    assert area_of(view.document(), "before").bottom() < bar.top()
    assert bar.bottom() < area_of(view.document(), "after").top()


def test_found_words_are_marked_where_they_stand(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "A 😀 **Stop** sequence.\n\n|stop|\n|-|\n|none|\n\n`STOP`")
    place = view.show_found(("stop", "two words"), theme.colors.found, theme.colors.text)
    assert view.found_texts == ["Stop", "stop", "STOP"]
    assert place is not None
    picture = view.grab().toImage()
    corner = place.topLeft().toPoint()
    marked = {picture.pixelColor(corner + QPoint(x, 2)).name() for x in range(int(place.width()))}
    assert theme.colors.found in marked
    assert picture.pixelColor(corner - QPoint(3, -2)).name() != theme.colors.found
    view.append_markdown(" and one more: stop")
    view.finish()
    assert view.found_texts == ["Stop", "stop", "STOP", "stop"]
    assert view.show_found((), "", "") is None
    assert view.found_texts == []
