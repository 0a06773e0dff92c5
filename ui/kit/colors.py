"""The two palettes of the window, by role.

Pure values; any thread.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from ui.words import Tone

ThemeMode = Literal["system", "light", "dark"]

_INKS_ON_WHITE: dict[str, Any] = {
    "accent_soft": "#8379ea",
    "match": "#0d0760",
    "done": "#00240f",
    "limit": "#301900",
    "tool": "#001f3f",
    "fault": "#45000c",
}
_INKS_ON_BLACK: dict[str, Any] = {
    "accent_soft": "#5d53cc",
    "match": "#e6e4ff",
    "done": "#c9ffe2",
    "limit": "#ffe9c4",
    "tool": "#d6ecff",
    "fault": "#ffdcdc",
}


@dataclass(frozen=True, slots=True)
class Colors:
    """Every color of the window, as ``#rrggbb``. A ``soft`` color is the background of its tone.

    ``accent`` is for fills and frames, and ``match`` also for words that can be clicked. ``token``
    is for the bars that separate the tokens of a tape. ``hint`` is for examples in empty fields and
    for words that are switched off, ``disabled`` for such icons: they never have the color of plain
    text, which would make an empty field look filled. ``checked`` frames a box that is on.
    """

    canvas: str
    sidebar: str
    raised: str
    sunken: str
    bubble: str
    hover: str
    line: str
    strong_line: str
    control: str
    text: str
    muted: str
    faint: str
    hint: str
    disabled: str
    knob: str
    accent: str
    accent_hover: str
    on_accent: str
    accent_soft: str
    checked: str
    match: str
    match_soft: str
    done: str
    done_soft: str
    limit: str
    limit_soft: str
    tool: str
    tool_soft: str
    quiet: str
    quiet_soft: str
    fault: str
    fault_soft: str
    code: str
    found: str
    token: str
    is_dark: bool

    @property
    def is_strong(self) -> bool:
        """Whether lines contrast as strongly as plain text."""
        return self.control == self.text

    def tone(self, tone: Tone) -> tuple[str, str]:
        """Return the color and the soft background of a tone."""
        name = "match" if tone == "busy" else tone
        return getattr(self, name), getattr(self, f"{name}_soft")


LIGHT = Colors(
    canvas="#fdfcfb",
    sidebar="#f4f2ee",
    raised="#ffffff",
    sunken="#f6f4f1",
    bubble="#efece6",
    hover="#e9e6df",
    line="#e6e2da",
    strong_line="#d3cec4",
    control="#8b8478",
    text="#24211c",
    muted="#686257",
    faint="#70695d",
    hint="#70695d",
    disabled="#d3cec4",
    knob="#ffffff",
    accent="#5a4fcf",
    accent_hover="#4a40b5",
    on_accent="#ffffff",
    accent_soft="#eceafb",
    checked="#5a4fcf",
    match="#5a4fcf",
    match_soft="#eceafb",
    done="#1f7a4f",
    done_soft="#e3f3ea",
    limit="#96590a",
    limit_soft="#fbefd9",
    tool="#1c66a8",
    tool_soft="#e3eff9",
    quiet="#5f594f",
    quiet_soft="#eeebe5",
    fault="#b42a35",
    fault_soft="#fbe7e7",
    code="#f5f3ef",
    found="#ffe08a",
    token="#857d70",
    is_dark=False,
)

DARK = Colors(
    canvas="#1b1a1e",
    sidebar="#161519",
    raised="#242328",
    sunken="#201f24",
    bubble="#2d2b33",
    hover="#2a292f",
    line="#322f38",
    strong_line="#46434e",
    control="#7d7988",
    text="#ece9e4",
    muted="#aaa59f",
    faint="#8f8a86",
    hint="#8f8a86",
    disabled="#46434e",
    knob="#ffffff",
    accent="#6c62e2",
    accent_hover="#7b72ea",
    on_accent="#ffffff",
    accent_soft="#2c2949",
    checked="#6c62e2",
    match="#aaa3fb",
    match_soft="#2c2949",
    done="#6ecb9b",
    done_soft="#1d3428",
    limit="#e8b35c",
    limit_soft="#3a2e19",
    tool="#7fbdf0",
    tool_soft="#1d2f40",
    quiet="#b5b0aa",
    quiet_soft="#2e2c32",
    fault="#f28b8f",
    fault_soft="#412226",
    code="#232227",
    found="#6a5410",
    token="#87838f",
    is_dark=True,
)


def strengthened(colors: Colors) -> Colors:
    """Return a palette whose lines and muted texts contrast as strongly as its plain text."""
    color, paper = ("#ffffff", "#000000") if colors.is_dark else ("#000000", "#ffffff")
    inks = _INKS_ON_BLACK if colors.is_dark else _INKS_ON_WHITE
    return replace(
        colors,
        canvas=paper,
        raised=paper,
        text=color,
        muted=color,
        faint=color,
        hint="#a6a6ae" if colors.is_dark else "#5e5e5e",
        disabled="#8c8c94" if colors.is_dark else "#8c8880",
        knob=paper,
        quiet=color,
        token=color,
        line="#8c8c94" if colors.is_dark else "#75716a",
        control=color,
        checked=color,
        strong_line="#b9b9c2" if colors.is_dark else "#4a4741",
        **inks,
    )
