"""What references speak of, and what one is. Pure values; any thread."""

from dataclasses import dataclass
from enum import StrEnum


class Topic(StrEnum):
    """What a reference speaks of."""

    STOPS = "stops"
    MATCHED = "the stop that matched"
    REASON = "the reason"
    LIMIT = "the limit"
    USAGE = "usage"
    STREAM = "streams"
    FORM = "the fields of an answer"
    ERRORS = "errors"
    THINKING = "thinking"
    TOKEN_IDS = "stop token ids"
    CHOICES = "several choices"
    TOOLS = "tool calls"
    STRUCTURED = "structured output"
    LOGPROBS = "logprobs"


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a vendor's documentation.

    Attributes:
        address: Where it stands.
        sentence: What it says, in our words.
    """

    address: str
    sentence: str
