"""Every pair of text and ground, and of shape and ground, that the windows draw can be told apart.

The pairs of the style sheet are read from it; those of code that paints or writes markup stand here
with the place that draws them.
"""

import re

import pytest

from tests.support.looks.contrast import SHAPE, TEXT, contrast
from ui.kit.colors import DARK, LIGHT, Colors, strengthened
from ui.kit.theme import _SHEET

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
    *[("match", ground) for ground in GROUNDS],
    # Badges, pills and findings: a tone's ink on its soft ground.
    *[(tone, f"{tone}_soft") for tone in TONES],
    *[(tone, ground) for tone in TONES for ground in ("canvas", "raised")],
    ("on_accent", "accent"),
    # Code, and the lines of a change.
    *[(ink, "code") for ink in (*TONES, "faint")],
    *[("text", ground) for ground in ("done_soft", "fault_soft")],
    # ui/kit/wire_text.py: bodies of requests and answers.
    *[(ink, "sunken") for ink in ("tool", "done", "limit")],
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
