"""A prompt as the model would read it. Pure values; any thread."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnansweredPrompt:
    """A prompt that is not answered.

    Attributes:
        not_applied: Options and fields of the request without effect on this model.
        missing: Parts of the request that are in no part of the prompt.
    """

    tokens: list[int]
    text: str
    not_applied: tuple[str, ...]
    missing: tuple[str, ...]
