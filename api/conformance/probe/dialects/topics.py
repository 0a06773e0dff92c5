"""References to vendors' documentation, and their topics. Pure values; any thread."""

from dataclasses import dataclass
from enum import StrEnum


class Topic(StrEnum):
    """The topic of a reference."""

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
        address: Its address.
        sentence: The rule, in our words.
    """

    address: str
    sentence: str
