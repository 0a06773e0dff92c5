"""What is wider than the text scrolls in its place."""

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QLinearGradient, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import (
    LONG,
    area_of,
    block_of,
)
from tests.ui.kit.markdown.views import shown, sideways_bars
from ui.kit.markdown.wide_parts import PartBar
from ui.kit.theme import Theme

WIDE_TABLE = "|" + "unbreakable_heading|" * 9 + "\n|" + "-|" * 9 + "\n|" + "cell|" * 9 + "\n"


TALL_FORMULA = "$$\n" + " + ".join(f"x_{{{n}}}" for n in range(60)) + "\n$$\n"


@pytest.mark.parametrize("text", [f"```\n{LONG}\n```\n", WIDE_TABLE, TALL_FORMULA])
def test_what_is_too_wide_scrolls_in_its_place(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, f"before\n\n{text}\nafter")
    (bar,) = sideways_bars(view)
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


def test_a_sideways_wheel_scrolls_what_is_under_it_and_nothing_else(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, f"text\n\n```\n{LONG}\n```\n")
    (bar,) = sideways_bars(view)

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


def test_wide_table_breaks_no_word(theme: Theme, qapp: QApplication) -> None:
    heads = (
        "Model",
        "Internationalization",
        "Size on disk",
        "Context",
        "Tokens per second",
        "License",
    )
    cells = ("Qwen3 4B 2507", "4-bit", "2.3 GB", "262,144", "81.4", "Apache 2.0")
    rows = [f"| {' | '.join(row)} |\n" for row in (heads, ("-",) * len(heads), cells)]
    view = shown(theme, qapp, "".join(rows), width=400)
    assert sideways_bars(view)
    for text in (*heads, *cells):
        lines = block_of(view.document(), text).layout()
        begins = [lines.lineAt(number).textStart() for number in range(1, lines.lineCount())]
        assert all(text[begin - 1] == " " for begin in begins), text


def test_long_words_wrap(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "x" * 900 + "\n\nhttps://example.org/" + "y" * 900, width=300)
    assert not sideways_bars(view)
    assert block_of(view.document(), "xxx").layout().lineCount() > 10
    assert block_of(view.document(), "yyy").layout().lineCount() > 10
    assert view.horizontalScrollBar().maximum() == 0


def test_lines_of_text_are_short_where_code_takes_the_width(
    theme: Theme, qapp: QApplication
) -> None:
    text = "word " * 60 + "\n\n- " + "item " * 60 + "\n\n```\ncode\n```\n\nשלום " + "מה " * 90
    wide = theme.text_px() + 150
    whole, view = shown(theme, qapp, text, wide), shown(theme, qapp, "", 400)
    view.append_markdown(text[:350])
    view._render()
    view.resize(wide, 300)  # while it streams
    view.append_markdown(text[350:])
    view.finish()
    for each in (whole, view):
        [card] = each.decorations
        assert each.area(card).width() == each.viewport().width()
        block = each.document().begin()
        while block.isValid():
            lines = block.layout()
            if block.text() != "code":
                for number in range(lines.lineCount()):
                    assert lines.lineAt(number).width() <= theme.text_px()
            block = block.next()
        assert each.document().size() == whole.document().size()


@pytest.mark.parametrize("text", [f"```\n{LONG}\n```\n", WIDE_TABLE, TALL_FORMULA])
def test_cut_edge_fades_until_the_end(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, f"{text}\nafter")
    (bar,) = sideways_bars(view)
    drawn: list[tuple[float, bool]] = []

    class Recorder(QPainter):
        def fillRect(self, area: QRectF, fade: QLinearGradient) -> None:  # type: ignore[override] # noqa: N802
            drawn.append((area.left(), any(color.alpha() for _, color in fade.stops())))

    def fades() -> list[bool]:
        drawn.clear()
        image = QImage(1, 1, QImage.Format.Format_RGB32)
        painter = Recorder(image)
        view._sideways.paint_fades(painter, view._style, QRectF(view.rect()))
        painter.end()
        return [is_visible for _, is_visible in sorted(drawn)]

    assert fades() == [False, True]
    bar.setValue(bar.maximum() // 2)
    assert fades() == [True, True]
    bar.setValue(bar.maximum())
    assert fades() == [True, False]


def test_fade_leaves_head_of_code(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"```python\n{LONG}\n```\n")
    (bar,) = sideways_bars(view)
    head = view.area(view.decorations[-1]).toRect()
    head.setHeight(round(view._style.code_head_px))
    before = view.grab(head).toImage()
    bar.setValue(bar.maximum())
    assert view.grab(head).toImage() == before


def test_bar_is_drawn_while_its_part_is_used(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"text\n\n```\n{LONG}\n```\n")
    (bar,) = sideways_bars(view)
    assert isinstance(bar, PartBar)
    view.setFocus()
    assert not bar.is_drawn
    QTest.mouseMove(view.viewport(), view.area(view.decorations[-1]).center().toPoint())
    assert bar.is_drawn
    qapp.sendEvent(view, QEvent(QEvent.Type.Leave))
    assert not bar.is_drawn
    bar.setValue(40)
    assert bar.is_drawn


@pytest.mark.parametrize("text", [WIDE_TABLE, TALL_FORMULA])
def test_bar_keeps_distance_to_text_below(theme: Theme, qapp: QApplication, text: str) -> None:
    view = shown(theme, qapp, f"{text}\nafter")
    (bar,) = sideways_bars(view)
    assert area_of(view.document(), "after").top() - bar.geometry().bottom() >= 8


def test_wide_table_ends_with_its_border(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, WIDE_TABLE)
    [bar] = sideways_bars(view)
    bar.setValue(bar.maximum())
    image, [table] = view.grab().toImage(), view.decorations
    middle = round(view.area(table).center().y())
    assert image.pixelColor(view.viewport().width() - 1, middle).name() == theme.colors.line
