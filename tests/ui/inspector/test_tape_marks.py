"""Marks of guessed and forced tokens: lines above the letters that differ in shape."""

from collections import deque
from dataclasses import replace

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.recording.run_trace import RunTrace
from engine.values.tokens import TokenOrigin
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.reading import trace_of
from ui.inspector.tape_view import MarkKind, TapeLegend, TapeView, draw_mark
from ui.kit.theme import Theme

LEFT, TOP, WIDTH, HEIGHT = 10, 20, 120, 18


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> TapeView:
    made = TapeView()
    qtbot.addWidget(made)
    made.resize(500, 200)
    made.show()
    return made


@pytest.fixture
def legend(theme: Theme, qtbot: QtBot) -> TapeLegend:
    made = TapeLegend()
    qtbot.addWidget(made)
    return made


def drawn(kind: MarkKind, theme: Theme) -> set[tuple[int, int]]:
    """Return the points that a mark colors on an empty ground."""
    picture = QImage(LEFT * 2 + WIDTH, TOP * 2 + HEIGHT, QImage.Format.Format_RGB32)
    ground = QColor("#ffffff")
    picture.fill(ground)
    painter = QPainter(picture)
    draw_mark(painter, QRectF(LEFT, TOP, WIDTH, HEIGHT), kind, theme.colors)
    painter.end()
    return {
        (x, y)
        for x in range(picture.width())
        for y in range(picture.height())
        if picture.pixel(x, y) != ground.rgb()
    }


def with_origins(trace: RunTrace, *origins: TokenOrigin) -> RunTrace:
    """Give the first tokens of a run other origins."""
    tokens = list(trace.tokens)
    for place, origin in enumerate(origins):
        tokens[place] = replace(tokens[place], origin=origin)
    trace.tokens = deque(tokens)
    return trace


@pytest.mark.parametrize("kind", [MarkKind.GUESSED, MarkKind.FORCED])
def test_a_mark_of_an_origin_lies_above_the_letters(kind: MarkKind, theme: Theme) -> None:
    points = drawn(kind, theme)
    assert points
    assert {y for _, y in points} <= set(range(TOP - 4, TOP))


def test_guessed_and_forced_differ_without_colors(theme: Theme) -> None:
    guessed, forced = ({x for x, _ in drawn(kind, theme)} for kind in list(MarkKind)[:2])
    middle = range(LEFT + 3, LEFT + WIDTH - 3)
    assert all(x in forced for x in middle)
    assert 10 < sum(x not in guessed for x in middle) < len(middle) - 10


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", ["done", "tool"])
def test_the_lines_stand_out_from_the_ground(theme: Theme, mode: str, name: str) -> None:
    theme.set_mode(mode)
    ground, line = (
        _luminance(QColor(color)) for color in (theme.colors.raised, getattr(theme.colors, name))
    )
    assert (max(ground, line) + 0.05) / (min(ground, line) + 0.05) >= 3


def _luminance(color: QColor) -> float:
    parts = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4
        for one in (color.redF(), color.greenF(), color.blueF())
    )
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def test_the_tape_marks_what_was_guessed_in_a_real_run(view: TapeView, record: Record) -> None:
    view.show_trace(record([f"w{number} " for number in range(12)]).trace)
    assert view.mark_kinds == []
    view.show_trace(record([f"w{number} " for number in range(12)], guesses=True).trace)
    assert view.mark_kinds == [MarkKind.GUESSED]


def test_the_chip_of_a_stop_and_of_an_end_token_have_round_corners(
    view: TapeView, record: Record, theme: Theme
) -> None:
    stopped, ended = record(["1 ", "6"], "6").trace, record(["1 "]).trace
    for trace, color in ((stopped, theme.colors.accent), (ended, theme.colors.bubble)):
        view.show_trace(trace)
        QApplication.processEvents()
        drawn, chip = view.viewport().grab().toImage(), QColor(color).rgb()
        points = [
            (x, y)
            for x in range(drawn.width())
            for y in range(drawn.height())
            if drawn.pixel(x, y) == chip
        ]
        left, right = min(x for x, _ in points), max(x for x, _ in points)
        top, bottom = min(y for _, y in points), max(y for _, y in points)
        assert right - left > 20
        for corner in ((right, top), (right, bottom)):  # beside the others is the match's outline
            assert drawn.pixel(*corner) != chip, corner
        assert drawn.pixel((left + right) // 2, top) == chip


def test_tokens_of_every_origin_but_the_models_own_are_marked(
    view: TapeView, record: Record
) -> None:
    trace = trace_of(record(["a", "b", "c"]))
    marked = {}
    for origin in TokenOrigin:
        view.show_trace(with_origins(trace, origin))
        marked[origin] = view.mark_kinds
    assert marked == {
        TokenOrigin.SAMPLED: [],
        TokenOrigin.LOOKUP: [MarkKind.GUESSED],
        TokenOrigin.PREDICTION: [MarkKind.GUESSED],
        TokenOrigin.DRAFT: [MarkKind.GUESSED],
        TokenOrigin.HEAD: [MarkKind.GUESSED],
        TokenOrigin.FORCED: [MarkKind.FORCED],
        TokenOrigin.BUDGET: [MarkKind.FORCED],
    }


def test_a_token_without_text_is_marked_too(view: TapeView, record: Record) -> None:
    trace = trace_of(record(["\U0001f680"], pieces=["a"]))
    assert trace.tokens[0].piece == ""
    view.show_trace(with_origins(trace, TokenOrigin.FORCED))
    assert view.mark_kinds == [MarkKind.FORCED]


def test_the_tool_tip_says_how_the_token_at_the_mouse_came_to_be(
    view: TapeView, record: Record
) -> None:
    trace = with_origins(trace_of(record(["a", "b", "c"])), TokenOrigin.FORCED, TokenOrigin.DRAFT)
    view.show_trace(trace)
    said = []
    for place in range(3):
        view.choose(place)
        said.append(view.viewport().toolTip())
    assert said == [
        "Forced: the schema or the call allowed no other token.",
        "Guessed by the draft model, and confirmed by the model.",
        "",
    ]


def test_the_legend_explains_only_the_shown_marks(legend: TapeLegend) -> None:
    assert legend.isHidden()
    legend.show_kinds([MarkKind.GUESSED, MarkKind.HELD])
    assert not legend.isHidden()
    said = legend.accessibleName()
    assert "accepted draft token" in said
    assert "held back, hatching below" in said
    assert "forced" not in said
    legend.show_kinds([])
    assert legend.isHidden()


def test_every_kind_of_mark_has_an_entry_at_the_left_edge(legend: TapeLegend) -> None:
    legend.show()
    said = set()
    for kind in MarkKind:
        legend.show_kinds([kind])
        [entry] = [one for one in legend.findChildren(QWidget) if not one.isHidden()]
        legend.resize(legend.sizeHint())
        legend.layout().activate()  # type: ignore[union-attr]
        assert entry.x() == 0
        assert legend.width() == entry.sizeHint().width()
        said.add((entry.accessibleName(), entry.toolTip()))
    assert len(said) == len(MarkKind)
    assert all(name and tip for name, tip in said)


def test_the_legend_has_room_for_its_words_at_any_size(legend: TapeLegend) -> None:
    legend.show_kinds(list(MarkKind))
    legend.resize(legend.sizeHint())
    before = legend.sizeHint()
    font = legend.font()
    font.setPointSizeF(font.pointSizeF() * 2)
    for one in legend.findChildren(QWidget):
        one.setFont(font)
    after = legend.sizeHint()
    assert after.width() > 1.7 * before.width()
    assert after.height() > 1.7 * before.height()
    layout = legend.layout()
    assert layout is not None
    assert layout.heightForWidth(after.width() // 2) > after.height()
