"""What is drawn of a document that has everything: cells, frames, rectangles; live and reloaded."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QColor, QTextCursor, QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea

from tests.support.looks.rich_text import (
    LONG,
    RICH,
    area_of,
    block_of,
    described,
    table_frames,
    tables,
)
from ui.kit.look.colors import DARK, LIGHT
from ui.kit.look.theme import Theme
from ui.kit.markdown.view.markdown_view import MarkdownView
from ui.kit.markdown.view.themed_style import markdown_style

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
    max_examples=200,
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


def test_a_quote_that_turns_out_to_be_a_table_follows_the_table_above_it_closely(
    theme: Theme, qapp: QApplication
) -> None:
    live = shown(theme, qapp, "")
    pieces = ("|a|\n|-|\n> |b|", "\n> |-|\n# c\n")
    for piece in pieces:
        live.append_markdown(piece)
        live.render_now()
    live.finish()
    whole = shown(theme, qapp, "".join(pieces))
    assert described(live.document()) == described(whole.document())


def test_a_table_that_turns_out_to_be_text_joins_the_paragraph_above(
    theme: Theme, qapp: QApplication
) -> None:
    live = shown(theme, qapp, "")
    for piece in ("text\n| a |\n|-", "|-|\n"):
        live.append_markdown(piece)
        live.render_now()
    live.finish()
    assert described(live.document()) == described(
        shown(theme, qapp, "text\n| a |\n|-|-|\n").document()
    )


# -- tables ----------------------------------------------------------------------------------

GRID = "|a|b|\n|:-|-:|\n|1|22|\n|3|4|\n"


def test_the_lines_of_a_table_are_closed_at_their_corners(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"text\n\n{GRID}\nmore")
    area = view.area(view.decorations[0]).toAlignedRect()
    picture = view.grab().toImage()
    line = QColor(theme.colors.line)
    left, top, right, bottom = area.left(), area.top(), area.right(), area.bottom()
    inset = 10  # beyond the rounded corner
    for y in range(top + inset, bottom - inset):
        assert picture.pixelColor(left, y) == line, y
        assert picture.pixelColor(right, y) == line, y
    for x in range(left + inset, right - inset):
        assert picture.pixelColor(x, top) == line, x
        assert picture.pixelColor(x, bottom) == line, x
    for corner in ((left, top), (right, top), (left, bottom), (right, bottom)):
        x, y = corner
        across, along = (1 if x == left else -1), (1 if y == top else -1)
        seen = [picture.pixelColor(x + n * across, y + n * along) for n in range(8)]
        # The round corner is drawn smoothly: its darkest pixel is nearly the line's.
        between = (line.lightness() + QColor(theme.colors.canvas).lightness()) / 2
        assert min(one.lightness() for one in seen) <= between, corner


def test_cells_are_where_their_column_and_row_are(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"{GRID}\nmore")
    table = table_frames(view.document())[0]
    layout = view.document().documentLayout()
    rects = [
        [layout.blockBoundingRect(table.cellAt(r, c).firstCursorPosition().block()) for c in (0, 1)]
        for r in range(3)
    ]
    for row in rects:
        assert row[0].top() == row[1].top()
        assert row[0].right() < row[1].left()
    for above, below in pairwise(rects):
        assert above[0].left() == below[0].left()
        assert above[0].bottom() < below[0].top()
    area = view.area(view.decorations[0])
    assert all(area.contains(rect) for row in rects for rect in row)
    assert area_of(view.document(), "more").top() >= area.bottom() + 6
    right = Qt.AlignmentFlag.AlignRight
    assert table.cellAt(1, 1).firstCursorPosition().blockFormat().alignment() & right


def test_rows_with_fewer_or_more_cells_than_the_head_lose_nothing(
    theme: Theme, qapp: QApplication
) -> None:
    for before, after in (("", ""), ("> ", "> "), ("- ", "  ")):
        text = f"{before}|a|b|\n{after}|-|-|\n{after}|1|\n{after}|1|2|surplus|\n"
        cells = tables(shown(theme, qapp, text).document())
        assert cells == [[["a", "b", ""], ["1", "", ""], ["1", "2", "surplus"]]]


def test_code_bold_links_and_formulas_in_cells_keep_their_look(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "|`c`|**b**|[l](http://x.y)|$x$|\n|-|-|-|-|\n|a|b|c|d|\n")
    table = table_frames(view.document())[0]
    forms = [
        table.cellAt(0, column).firstCursorPosition().block().begin().fragment().charFormat()
        for column in range(4)
    ]
    assert forms[0].font().family() == view_fixed(theme, qapp)
    assert forms[1].font().bold()
    assert forms[2].anchorHref() == "http://x.y"
    assert forms[3].isImageFormat()


def view_fixed(theme: Theme, app: QApplication) -> str:
    return markdown_style(theme, app.font()).fixed.family()


def test_a_table_is_copied_as_lines_with_tabs_and_as_a_real_table(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, f"before\n\n{GRID}\nafter $x$\n")
    view.selectAll()
    view.copy()
    copied = qapp.clipboard().mimeData()
    assert copied.text() == "before\na\tb\n1\t22\n3\t4\nafter $x$"
    assert copied.html().count("<td") + copied.html().count("<th ") == 6
    assert "<table" in copied.html()
    assert "formula:" not in copied.html()
    assert "$x$" in copied.html()


def test_chosen_cells_alone_are_copied(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4|5|6|\n")
    table = table_frames(view.document())[0]
    cursor = table.cellAt(1, 1).firstCursorPosition()
    there = table.cellAt(2, 2).lastCursorPosition().position()
    cursor.setPosition(there, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    copied = view.createMimeDataFromSelection()
    assert copied.text() == "2\t3\n5\t6"
    assert "<table" in copied.html()


# -- what is wider than the view -------------------------------------------------------------

WIDE_TABLE = "|" + "unbreakable_heading|" * 9 + "\n|" + "-|" * 9 + "\n|" + "cell|" * 9 + "\n"
TALL_FORMULA = "$$\n" + " + ".join(f"x_{{{n}}}" for n in range(60)) + "\n$$\n"


@pytest.mark.parametrize("text", [f"```\n{LONG}\n```\n", WIDE_TABLE, TALL_FORMULA])
def test_what_is_too_wide_scrolls_in_its_place(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, f"before\n\n{text}\nafter")
    (bar,) = view.sideways_bars
    assert bar.isVisibleTo(view)
    assert bar.maximum() > 100
    assert bar.accessibleName()
    before, after = area_of(view.document(), "before"), area_of(view.document(), "after")
    picture = view.grab().toImage()
    bar.setValue(bar.maximum())
    assert view.grab().toImage() != picture
    assert view.horizontalScrollBar().maximum() == 0
    assert area_of(view.document(), "before") == before
    assert area_of(view.document(), "after") == after


def test_a_scrolled_line_is_drawn_and_found_where_it_is(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"```\n{LONG}\nshort\n```\n")
    (bar,) = view.sideways_bars
    cursor = QTextCursor(view.document())
    cursor.setPosition(block_of(view.document(), LONG[:9]).position() + 60)
    before = view.cursorRect(cursor)
    bar.setValue(120)
    assert view.cursorRect(cursor).x() == before.x() - 120
    assert view.cursorForPosition(view.cursorRect(cursor).center()).position() in (
        cursor.position(),
        cursor.position() + 1,
    )
    # More text lays the lines out again; they stay where they were scrolled to.
    view.append_markdown("\nmore\n")
    view.finish()
    view.grab()
    cursor.setPosition(block_of(view.document(), LONG[:9]).position() + 60)
    assert view.cursorRect(cursor).x() == before.x() - 120


def test_the_end_of_a_wide_line_can_be_reached(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"```\n{LONG}\n```\n")
    (bar,) = view.sideways_bars
    cursor = QTextCursor(view.document())
    block = block_of(view.document(), LONG[:9])
    cursor.setPosition(block.position() + len(LONG))
    assert view.cursorRect(cursor).x() > view.width()
    bar.setValue(bar.maximum())
    assert view.width() / 2 < view.cursorRect(cursor).x() < view.width()


def test_a_sideways_wheel_scrolls_what_is_under_it_and_nothing_else(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, f"text\n\n```\n{LONG}\n```\n")
    (bar,) = view.sideways_bars

    def turn(place: QPointF, across: int, along: int) -> bool:
        none = QPoint(0, 0)
        event = QWheelEvent(
            place, place, QPoint(across, along), none, Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        view.wheelEvent(event)
        return event.isAccepted()

    on_card = view.area(view.decorations[-1]).center()
    assert turn(on_card, -90, 0)
    assert bar.value() == 90
    assert not turn(on_card, 0, -120)
    assert not turn(QPointF(5, 5), -90, 0)
    assert bar.value() == 90


def test_long_words_wrap(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "x" * 900 + "\n\nhttps://example.org/" + "y" * 900, width=300)
    assert not view.sideways_bars
    assert block_of(view.document(), "xxx").layout().lineCount() > 10
    assert block_of(view.document(), "yyy").layout().lineCount() > 10
    assert view.horizontalScrollBar().maximum() == 0


# -- as GitHub renders it --------------------------------------------------------------------


def lines(view: MarkdownView) -> list[str]:
    return [line.replace("\t", " ") for line in view.shown_text().split("\n")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3. a\n3. b\n9. c", ["3. a", "4. b", "5. c"]),
        ("0. a\n1. b", ["0. a", "1. b"]),
        ("- a\n  - b\n    - c\n      - d", ["• a", "◦ b", "▪ c", "▪ d"]),
        ("1. a\n   1. b\n   2. c\n      1. d", ["1. a", "i. b", "ii. c", "a. d"]),
        ("- a\n\n  4. b", ["• a", "iv. b"]),
        ("- [x] a\n- [ ] b\n- [X] c\n- [y] d", ["[x] a", "[ ] b", "[x] c", "• [y] d"]),
        ("1. [ ] a", ["[ ] a"]),
        ("- [ ](http://a.b)", ["•  "]),
        ("- a\n\n      code", ["• a", "code"]),
    ],
)
def test_lists_have_the_marks_that_github_gives_them(
    theme: Theme, qapp: QApplication, text: str, wanted: list[str]
) -> None:
    at_once, live = shown(theme, qapp, text), streamed(theme, qapp, text, 1)
    assert lines(at_once) == lines(live)
    if "http" not in text:
        assert lines(at_once) == wanted


def test_the_boxes_of_tasks_are_drawn(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "- [x] done\n- [ ] open\n")
    picture = view.grab().toImage()

    def inks(name: str) -> set[str]:
        area = area_of(view.document(), name)
        place = area.toRect().adjusted(0, 0, -round(area.width()) + 25, 0)
        return {
            picture.pixelColor(x, y).name()
            for x in range(place.left(), place.right())
            for y in range(place.top(), place.bottom())
        }

    assert theme.colors.link in inks("done")
    assert theme.colors.link not in inks("open")
    assert len(inks("open")) > 3


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see https://a.bc/d_(e)?f=1.", ["https://a.bc/d_(e)?f=1"]),
        ("(http://a.bc/d)", ["http://a.bc/d"]),
        ("www.a.bc/x, and", ["http://www.a.bc/x"]),
        ("me.too@a-b.cd!", ["mailto:me.too@a-b.cd"]),
        ("**https://a.bc**", ["https://a.bc"]),
        ("| https://a.bc |\n|-|\n| www.d.ef |", ["https://a.bc", "http://www.d.ef"]),
        ("`https://a.bc` and a.bc and ftp://a.bc", []),
        ("[https://a.bc](https://d.ef)", ["https://d.ef"]),
        ("https://a.bc/%20x", ["https://a.bc/%20x"]),
    ],
)
def test_bare_links_are_links(
    theme: Theme, qapp: QApplication, text: str, targets: list[str]
) -> None:
    view = shown(theme, qapp, text)
    assert view.link_targets() == targets
    assert "%20" in view.toPlainText() or "%20" not in text


def test_tool_tips_show_what_was_written_and_never_its_markup(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, "[l](http://a.b/?x=1&y) and $x <b>y</b>$")
    pieces = block_of(view.document(), "l").begin()
    tips = []
    while not pieces.atEnd():
        tips.append(pieces.fragment().charFormat().toolTip())
        pieces += 1
    assert "http://a.b/?x=1&amp;y" in tips[0]
    assert "&lt;b&gt;y" in tips[-1]


def test_footnotes_are_numbered_and_linked_both_ways(theme: Theme, qapp: QApplication) -> None:
    text = "One[^b] two[^a] again[^b] none[^c].\n\n[^a]: Note a.\n[^b]: Note b.\n"
    view = shown(theme, qapp, text)
    assert lines(view) == [
        "One1 two2 again1 none[^c].",
        "",
        "2. Note a.\u00a0↩",
        "1. Note b.\u00a0↩",
    ]
    assert view.link_targets()[:3] == ["#note-b", "#note-a", "#note-b"]
    live = streamed(theme, qapp, text, 1)
    assert described(live.document()) == described(view.document())


def test_a_footnote_link_scrolls_to_its_note_and_leads_nowhere_else(
    theme: Theme, qapp: QApplication
) -> None:
    area = QScrollArea()
    view = MarkdownView(markdown_style(theme, qapp.font()))
    area.setWidgetResizable(True)
    area.setWidget(view)
    area.resize(400, 200)
    area.show()
    view.set_markdown("A[^ö]\n\n" + "text\n\n" * 60 + "[^ö]: The note.\n")
    qapp.processEvents()
    chosen: list[QUrl] = []
    view.link_chosen.connect(chosen.append)
    view.anchorClicked.emit(QUrl(view.link_targets()[0]))
    assert area.verticalScrollBar().value() > 500
    view.anchorClicked.emit(QUrl(view.link_targets()[-1]))
    assert area.verticalScrollBar().value() < 200
    assert chosen == []
    view.anchorClicked.emit(QUrl("https://a.bc"))
    assert chosen == [QUrl("https://a.bc")]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_links_reach_four_and_a_half_to_one(shared_theme: Theme, mode: str) -> None:
    colors = {"light": LIGHT, "dark": DARK}[mode]
    for paper in (colors.canvas, colors.code):
        assert contrast(colors.link, paper) >= 4.5
    assert contrast(colors.text, colors.found) >= 4.5


def contrast(ink: str, paper: str) -> float:
    """Return the contrast of two colours, as https://www.w3.org/TR/WCAG22/ reckons it."""
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue, _ = QColor(color).getRgbF()
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


# -- what stands beside what -------------------------------------------------------------------


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


# -- words that were searched for --------------------------------------------------------------


def test_found_words_are_marked_where_they_stand(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "A 😀 **Stop** sequence.\n\n|stop|\n|-|\n|none|\n\n`STOP`")
    place = view.show_found(("stop", "two words"), theme.colors.found, theme.colors.text)
    assert view.found_texts == ["Stop", "stop", "STOP"]
    assert place is not None
    picture = view.grab().toImage()
    seen = picture.pixelColor(place.topLeft().toPoint() + QPoint(1, 2))
    assert seen.name() == theme.colors.found
    view.append_markdown(" and one more: stop")
    view.finish()
    assert view.found_texts == ["Stop", "stop", "STOP", "stop"]
    assert view.show_found((), "", "") is None
    assert view.found_texts == []
