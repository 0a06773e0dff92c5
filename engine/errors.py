"""The errors that callers of the engine handle. Pure values; any thread."""

from collections.abc import Sequence

from engine.wording import counted


class EngineError(Exception):
    """The engine could not do something; the message names the cause and the remedy."""


class InvalidRequest(EngineError):
    """A request that can never succeed as it is.

    Attributes:
        field: The name of the offending field, as the caller knows it; may be empty.
        reason: The fault and the remedy.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class PictureUnseen(InvalidRequest):
    """A picture for a model that does not see; ``problem`` is why, where it was made to see."""

    def __init__(self, field: str, problem: str = "") -> None:
        reason = "this model reads text only and cannot see this image"
        super().__init__(field, f"{reason}: {problem}" if problem else reason)


class PromptTooLong(InvalidRequest):
    """A prompt that leaves no room in the model's context for an answer."""

    def __init__(self, field: str, prompt_tokens: int, context_length: int) -> None:
        super().__init__(
            field,
            f"the prompt has {counted(prompt_tokens, 'token')}, "
            f"the model's context holds {context_length:,} including the answer",
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class NoModel(EngineError):
    """A request needs a model, and none is loaded."""


class UnknownModel(EngineError):
    """A request names a model that is not offered, or a name that several models have."""

    def __init__(self, name: str, nearest: Sequence[str], *, is_ambiguous: bool = False) -> None:
        shortened = name if len(name) <= 200 else f"{name[:200]}…"
        ids = ", ".join(nearest)
        if is_ambiguous:
            message = f"several models are named {shortened}: {ids}; use one of these ids"
        else:
            message = f"no model named {shortened} is available"
            message += f"; the nearest names are {ids}" if ids else ""
        super().__init__(message)
        self.name = name


class ModelLoadFailed(EngineError):
    """A model could not be loaded; the message names the cause and the remedy."""


class ModelDamaged(ModelLoadFailed):
    """A file of a model is damaged; another copy of it can be loaded."""


def not_numbers(model: str) -> EngineError:
    """Return the error of a loaded model that computes values that are not numbers (NaN)."""
    return EngineError(
        f"{model} computed values that are not numbers (NaN), so it cannot answer this. Its "
        "weights or their conversion are damaged: download another conversion of the model"
    )


class DraftLoadFailed(ModelLoadFailed):
    """A draft model could not be loaded beside a model; the message names the cause."""


class QueueFull(EngineError):
    """Too many requests are waiting; ``choices`` answers were requested together."""

    retry_after_s = 1.0

    def __init__(self, waiting: int, choices: int = 1) -> None:
        more = "" if choices == 1 else f", and {choices} more together exceed the limit"
        are = "is" if waiting == 1 else "are"
        super().__init__(
            f"{counted(waiting, 'request')} {are} already waiting{more}; try again later"
        )


class MemoryShort(EngineError):
    """Memory for an answer is missing, because other programs or models use it; try again later."""

    retry_after_s = 10.0  # when memory may be free again: an estimate

    def __init__(self, needed: str, free: str) -> None:
        super().__init__(
            f"not enough memory: the request needs {needed}, {free} is free now; other programs or "
            "models use the rest. Try again later."
        )


class RequestCancelled(EngineError):
    """The request was cancelled before its answer began: on purpose, or for another model."""


class EngineClosed(EngineError):
    """The engine has been shut down."""


class EngineStuck(EngineError):
    """A model hung: it answers nothing until it is restarted; requests to others may be retried."""


class InvalidTemplate(EngineError):
    """A chat template that cannot be used.

    Attributes:
        reason: The fault, without where it is.
        line: Where, counted from 1; None if that is not known.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line
