from dataclasses import fields

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from tests.support.looks.contrast import SHAPE, TEXT, contrast
from ui.kit import icons
from ui.kit.colors import DARK, LIGHT, Colors
from ui.kit.theme import Theme, stylesheet
from ui.words import Tone


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ink", ["text", "muted"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised", "sunken", "bubble", "code"])
def test_text_is_readable_on_every_ground(colors: Colors, ink: str, ground: str) -> None:
    assert contrast(getattr(colors, ink), getattr(colors, ground)) >= TEXT


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("tone", Tone)
def test_every_reason_is_readable_in_its_color(colors: Colors, tone: Tone) -> None:
    assert contrast(*colors.tone(tone)) >= TEXT


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised"])
def test_hints_are_readable(colors: Colors, ground: str) -> None:
    assert contrast(colors.faint, getattr(colors, ground)) >= TEXT


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised", "sunken", "accent_soft"])
def test_links_and_marked_words_are_readable(colors: Colors, ground: str) -> None:
    assert contrast(colors.link, getattr(colors, ground)) >= TEXT


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_links_are_drawn_in_the_color_that_was_measured(colors: Colors) -> None:
    sheet = stylesheet(colors)
    link = sheet[sheet.index('QPushButton[kind="link"] {') :]
    assert f"color: {colors.link};" in link[: link.index("}")]


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised"])
def test_switches_boxes_and_signs_can_be_told_from_their_ground(
    colors: Colors, ground: str
) -> None:
    for ink in ("control", "accent", "limit", "faint", "muted"):
        assert contrast(getattr(colors, ink), getattr(colors, ground)) >= SHAPE, ink


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_the_knob_of_a_switch_can_be_told_from_its_track(colors: Colors) -> None:
    for track in (colors.control, colors.accent):
        assert contrast("#ffffff", track) >= SHAPE


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_the_words_of_a_main_button_are_readable(colors: Colors) -> None:
    assert contrast(colors.on_accent, colors.accent) >= TEXT


def test_both_palettes_name_every_color() -> None:
    for field in fields(Colors):
        for colors in (LIGHT, DARK):
            value = getattr(colors, field.name)
            assert isinstance(value, bool) or QColor(value).isValid()


def test_the_style_sheet_has_no_gap() -> None:
    assert "$" not in stylesheet(LIGHT)


def test_a_forced_mode_is_applied_at_once(qapp: QApplication, theme: Theme) -> None:
    heard: list[bool] = []
    theme.changed.connect(lambda: heard.append(theme.colors.is_dark))
    theme.set_mode("dark")
    window = qapp.palette().color(QPalette.ColorRole.Window)
    assert (heard[-1], window.name()) == (True, DARK.canvas)
    theme.set_mode("light")
    assert not theme.colors.is_dark


@pytest.mark.parametrize("name", icons.names())
def test_every_icon_draws_something(qapp: QApplication, name: str) -> None:
    image = icons.pixmap(name, "#000000").toImage()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    assert any(image.pixelColor(x, y).alpha() > 100 for x, y in points)
