"""Every pair of text and ground, and of shape and ground, that the windows draw can be told apart.

The pairs of the style sheet are read from it; those of code that paints or writes markup stand here
with the place that draws them.
"""

import re
from dataclasses import fields

import pytest
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot

from tests.support.looks.contrast import SHAPE, TEXT, contrast
from ui.kit.buttons import ToggleSwitch
from ui.kit.colors import DARK, LIGHT, Colors, ThemeMode, strengthened
from ui.kit.theme import _SHEET, Theme, stylesheet

PALETTES = {
    "light": LIGHT,
    "dark": DARK,
    "light, strong": strengthened(LIGHT),
    "dark, strong": strengthened(DARK),
}
GROUNDS = ("canvas", "sidebar", "raised", "sunken", "bubble", "code")
BANDS = ("raised", "quiet_soft", "tool_soft")  # of the tape: answer, thinking, tool call
TONES = ("match", "done", "limit", "tool", "quiet", "fault")

TEXTS = [
    *[(ink, ground) for ink in ("text", "muted") for ground in GROUNDS],
    *[("faint", ground) for ground in ("canvas", "sidebar", "raised", "sunken")],
    *[("hint", ground) for ground in ("canvas", "raised")],
    # Links: the palette's, in answers, questions and notes.
    *[("link", ground) for ground in GROUNDS],
    # Badges, pills and findings: a tone's ink on its soft ground.
    *[(tone, f"{tone}_soft") for tone in TONES],
    *[(tone, ground) for tone in TONES for ground in ("canvas", "raised")],
    ("on_accent", "accent"),
    # ui/inspector/tape_view.py: letters, what was cut, chips, in each band.
    *[(ink, band) for ink in ("text", "fault") for band in BANDS],
    *[(ink, "match_soft") for ink in ("text", "fault")],
    *[(ink, "bubble") for ink in ("muted", "fault")],
    # ui/inspector/servers/capture_window.py: a row of an event that is wrong.
    *[(ink, "fault_soft") for ink in ("text", "muted")],
    # ui/inspector/request/prompt_tab.py: special tokens, and what the cache gave.
    ("tool", "tool_soft"),
    ("faint", "raised"),
    # Rows that are chosen, in tables and in lists.
    ("text", "accent_soft"),
    ("text", "hover"),
    ("muted", "hover"),
]
SHAPES = [
    ("knob", "control"),
    ("on_accent", "accent"),
    # ui/inspector/tape_view.py: bars, hatching and outlines, in each band.
    *[(ink, band) for ink in ("token", "match", "text") for band in BANDS],
    ("limit", "limit_soft"),
    *[("limit", band) for band in BANDS],
    # ui/inspector/stop_tabs.py and run_tabs.py: curves and bars.
    *[(ink, "canvas") for ink in ("match", "limit", "done")],
    *[(ink, "bubble") for ink in ("quiet", "tool", "match", "done")],
]


def _sheet_pairs() -> set[tuple[str, str]]:
    """Return ink and ground of each rule of the style sheet that names both."""
    found = set()
    for rule in re.findall(r"\{([^{}]*)\}", _SHEET):
        ink = re.search(r"(?<![-\w])color:\s*\$(\w+)", rule)
        ground = re.search(r"background:\s*\$(\w+)", rule)
        if ink and ground:
            found.add((ink.group(1), ground.group(1)))
    return found


@pytest.mark.parametrize("colors", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize(("ink", "ground"), sorted({*TEXTS, *_sheet_pairs()}))
def test_text_can_be_read_on_its_ground(colors: Colors, ink: str, ground: str) -> None:
    assert contrast(getattr(colors, ink), getattr(colors, ground)) >= TEXT


@pytest.mark.parametrize("colors", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize(("shape", "ground"), sorted(set(SHAPES)))
def test_shapes_that_mean_something_stand_out_from_their_ground(
    colors: Colors, shape: str, ground: str
) -> None:
    assert contrast(getattr(colors, shape), getattr(colors, ground)) >= SHAPE


def test_the_pairs_name_colors_of_the_palette() -> None:
    names = {field.name for field in fields(Colors)}
    assert {name for pair in (*TEXTS, *SHAPES, *_sheet_pairs()) for name in pair} <= names
    assert len(_sheet_pairs()) > 4


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("kind", [QLineEdit, QPlainTextEdit])
def test_hints_in_empty_fields_are_drawn_in_their_color(
    theme: Theme, qtbot: QtBot, mode: ThemeMode, kind: type[QLineEdit | QPlainTextEdit]
) -> None:
    theme.set_mode(mode)
    field = kind()
    qtbot.addWidget(field)
    field.setPlaceholderText("█" * 8)
    field.resize(300, 60)
    field.show()
    field.clearFocus()
    image = field.grab().toImage()
    colors = {image.pixelColor(x, y).name() for x in range(300) for y in range(60)}
    assert theme.colors.hint in colors


def test_with_more_contrast_nothing_empty_or_off_looks_like_text_and_the_focus_is_strong() -> None:
    for name in ("light, strong", "dark, strong"):
        palette = PALETTES[name]
        for color in (palette.hint, palette.disabled):
            assert contrast(color, palette.text) >= 2
        assert f"border: 2px solid {palette.link};" in stylesheet(palette)


@pytest.mark.parametrize("name", ["light, strong", "dark, strong"])
def test_with_more_contrast_what_is_chosen_and_what_is_off_is_seen(name: str) -> None:
    palette = PALETTES[name]
    for ground in ("canvas", "raised", "sidebar"):  # tables and lists, cards, the conversations
        assert contrast(palette.accent_soft, getattr(palette, ground)) >= SHAPE
    for ink in ("text", "muted", "faint", "link", *TONES):
        assert contrast(getattr(palette, ink), palette.accent_soft) >= TEXT
    rail = stylesheet(palette).partition("QSlider::groove:horizontal { background: ")[2][:7]
    assert contrast(rail, palette.control) >= SHAPE, "how far a slider reaches"
    assert contrast(rail, palette.raised) >= SHAPE
    assert contrast(palette.checked, palette.accent_soft) >= SHAPE, "a box in a chosen row"
    # A switch is filled when it is on, and an outline when it is off.
    assert contrast(palette.accent, palette.raised) >= SHAPE
    assert contrast(palette.control, palette.raised) >= SHAPE
    assert contrast(palette.hint, palette.text) >= 2, "a stop that is off"


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_switch_that_is_off_is_an_outline_with_more_contrast(
    theme: Theme, qtbot: QtBot, mode: ThemeMode
) -> None:
    theme.set_mode(mode)
    theme.set_high_contrast(True)
    try:
        switch = ToggleSwitch("Server")
        qtbot.addWidget(switch)
        seen = []
        for is_on in (False, True):
            switch.setChecked(is_on)
            image = switch.grab().toImage()
            beside_knob = image.width() * (1 if is_on else 3) // 4
            seen.append(image.pixelColor(beside_knob, image.height() // 2).name())
        assert seen == [theme.colors.raised, theme.colors.accent]
        assert contrast(*seen) >= SHAPE
    finally:
        theme.set_high_contrast(False)
