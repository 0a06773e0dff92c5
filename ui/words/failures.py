"""Says in words for a person why something failed. Pure; any thread.

The text of an exception is written for logs; only our own errors carry sentences.
"""

from engine import (
    SAMPLING_OPTIONS,
    UNEXPECTED,
    EngineClosed,
    EngineError,
    InvalidRequest,
    MemoryShort,
    NoModel,
    PromptTooLong,
    QueueFull,
    as_sentence,
    counted,
    plain_cause,
)
from engine.files.causes import os_cause

# The names of a request's fields in the window.
_NAMES = {
    "max_tokens": "the longest answer",
    "thinking_budget": "the thinking budget",
    **{one.name: f"the {one.title.lower()}" for one in SAMPLING_OPTIONS},
    "stop_token_ids": "each stop token",
    "messages": "the conversation",
}


def failure_words(error: BaseException) -> str:
    """Return why something failed, as whole sentences."""
    match error:
        case PromptTooLong():
            return (
                f"The conversation has {counted(error.prompt_tokens, 'token')}; the model’s "
                f"context holds {error.context_length:,}, the answer included: "
                f"{counted(error.prompt_tokens - error.context_length + 1, 'token')} too many. "
                "Shorten the message, or start a new conversation."
            )
        case InvalidRequest():
            return as_sentence(_invalid(error))
        case NoModel() if str(error) not in ("", "no model is loaded"):
            return as_sentence(plain_cause(str(error)))
        case NoModel():
            return "No model is loaded. Load one and try again."
        case QueueFull():
            return "Too many requests are waiting. Try again in a moment."
        case MemoryShort():
            return (
                "There is not enough memory for this at the moment, because other programs or "
                "models use it. Close some of them, or try again later."
            )
        case EngineClosed() if str(error) not in ("", "the engine has been shut down"):
            return as_sentence(plain_cause(str(error)))
        case EngineClosed():
            return "The model’s engine has stopped. Try again."
        case EngineError():
            return as_sentence(plain_cause(str(error)))
        case OSError():
            return as_sentence(os_cause(error))
        case _:
            return UNEXPECTED


def _invalid(error: InvalidRequest) -> str:
    """Return what is wrong with a request; a reason such as "must be …" gets its subject."""
    if not error.reason.startswith(("must ", "is ", "has ", "contains ")):
        return error.reason
    field = error.field.partition("[")[0]
    return f"{_NAMES.get(field, f'the setting {field}')} {error.reason}"
