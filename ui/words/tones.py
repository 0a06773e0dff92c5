"""The tone of a state, such as success or fault. Pure values; knows no Qt. Any thread."""

from enum import StrEnum


class Tone(StrEnum):
    """The tone of a state; the theme has a color for each tone."""

    MATCH = "match"
    DONE = "done"
    LIMIT = "limit"
    TOOL = "tool"
    QUIET = "quiet"
    FAULT = "fault"
    BUSY = "busy"
