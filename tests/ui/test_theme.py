from dataclasses import fields

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from ui import icons
from ui.colors import DARK, LIGHT, Colors
from ui.stylesheet import stylesheet
from ui.theme import Theme
from ui.wording import Tone


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2: 1 to 21."""

    def luminance(name: str) -> float:
        color = QColor(name)
        parts = (color.redF(), color.greenF(), color.blueF())
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ink", ["text", "muted"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised", "sunken", "bubble", "code"])
def test_text_is_readable_on_every_ground(colors: Colors, ink: str, ground: str) -> None:
    assert contrast(getattr(colors, ink), getattr(colors, ground)) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("tone", Tone)
def test_every_reason_is_readable_in_its_colour(colors: Colors, tone: Tone) -> None:
    assert contrast(*colors.tone(tone)) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["canvas", "sidebar", "raised"])
def test_hints_are_readable(colors: Colors, ground: str) -> None:
    assert contrast(colors.faint, getattr(colors, ground)) >= 4.5


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_the_words_of_a_main_button_are_readable(colors: Colors) -> None:
    assert contrast(colors.on_accent, colors.accent) >= 4.5


def test_both_palettes_name_every_colour() -> None:
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
