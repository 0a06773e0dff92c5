"""How a state looks, without saying which color that is. Pure values; knows no Qt. Any thread."""

from enum import StrEnum


class Tone(StrEnum):
    """How a state looks: the theme has a color for each."""

    MATCH = "match"
    DONE = "done"
    LIMIT = "limit"
    TOOL = "tool"
    QUIET = "quiet"
    FAULT = "fault"
    BUSY = "busy"
