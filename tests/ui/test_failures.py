"""What a person reads when something fails: our own words, never another library's."""

import errno

import pytest

from engine.errors import (
    EngineClosed,
    InvalidRequest,
    MemoryShort,
    ModelLoadFailed,
    NoModel,
    PromptTooLong,
    QueueFull,
)
from engine.values.verdict import UNEXPECTED
from ui.words import describe_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            PromptTooLong("messages", 5012, 4096),
            "The prompt has 5,012 tokens; the model’s context holds 4,096, the answer "
            "included: 917 tokens too many. Shorten the message, or choose a model with a "
            "longer context.",
        ),
        (InvalidRequest("max_tokens", "must be positive"), "The longest answer must be positive."),
        (InvalidRequest("messages", "the prompt is empty"), "The prompt is empty."),
        (
            InvalidRequest("the picture a[1].png", "is damaged; send another one"),
            "The picture a[1].png is damaged; send another one.",
        ),
        (NoModel("no model is loaded"), "No model is loaded. Load one and try again."),
        (
            MemoryShort("2.0 GB", "1.0 GB"),
            "There is not enough memory for this at the moment, because other programs or models "
            "use it. Close some of them, or try again later.",
        ),
        (QueueFull(9), "Too many requests are waiting. Try again in a moment."),
        (
            EngineClosed("the engine has been shut down"),
            "The model’s engine has stopped. Try again.",
        ),
        (ModelLoadFailed("ValueError: Expected shape (3,) but received (4,)"), UNEXPECTED),
        (ModelLoadFailed("RuntimeError: [malloc] no memory"), "The computer ran out of memory."),
        (OSError(errno.ENOSPC, "No space left on device"), "The disk is full."),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            "Nothing answers at that address.",
        ),
    ],
)
def test_a_failure_is_explained_in_sentences(error: Exception, words: str) -> None:
    assert describe_error(error) == words
