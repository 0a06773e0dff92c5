"""How a request can fail, independent of any vendor; each dialect renders errors in its own format.

Pure values; knows no web framework. Any thread.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from api.service.config import IMAGES_HEADER
from engine.errors import (
    EngineClosed,
    EngineError,
    EngineStuck,
    InvalidRequest,
    MemoryShort,
    NoModel,
    PictureUnseen,
    PromptTooLong,
    QueueFull,
    RequestCancelled,
    UnknownModel,
)
from engine.stopping.record import StopKind
from engine.values.events import Finished
from engine.values.no_effect import plain_name
from engine.wording import counted

FieldPath = tuple[str | int, ...]

_WITHOUT_IMAGES = (
    'remove it from the conversation, or send "fullstop": {"images": "note"}, or the header '
    f"{IMAGES_HEADER}: note, to have a note in its place"
)

# The engine's message when a generation was ended on purpose.
_CANCELLED = "the generation was cancelled on the server"
_RESTART = (
    ": choose Restart in the Models window, or unload it (POST /api/generate with "
    '"keep_alive": 0), and the next request loads it again'
)


class ErrorKind(StrEnum):
    """The ways in which a request can fail.

    Attributes:
        status: The HTTP status that most vendors use for it.
    """

    status: int

    def __new__(cls, value: str, status: int) -> "ErrorKind":
        kind = str.__new__(cls, value)
        kind._value_, kind.status = value, status
        return kind

    INVALID_REQUEST = "invalid_request", 400
    AUTHENTICATION = "authentication", 401
    PERMISSION = "permission", 403
    NOT_FOUND = "not_found", 404
    METHOD_NOT_ALLOWED = "method_not_allowed", 405
    TIMEOUT = "timeout", 408
    TOO_LARGE = "too_large", 413
    UNSUPPORTED_ENCODING = "unsupported_encoding", 415
    RATE_LIMITED = "rate_limited", 429
    NO_MODEL = "no_model", 503
    OVERLOADED = "overloaded", 503
    UNAVAILABLE = "unavailable", 503
    INTERNAL = "internal", 500


class ApiError(Exception):
    """A request that failed."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        field: FieldPath = (),
        code: str | None = None,
        details: Mapping[str, object] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        message = shown(message, 1_000)
        super().__init__(message)
        self.kind = kind
        self.message = message
        # A client may have chosen the names in a field's path.
        self.field = tuple(shown(part, 40) if isinstance(part, str) else part for part in field)
        self.code = code
        self.details = details
        self.retry_after_s = retry_after_s


class ContextOverflow(ApiError):
    """A prompt that does not fit into the model's context.

    Clients recognise it by the vendor's exact message, which each dialect sends, and then shorten
    the conversation. ``max_tokens`` is the length of the longest prompt that fits.
    """

    def __init__(self, field: FieldPath, prompt_tokens: int, context_length: int) -> None:
        super().__init__(
            ErrorKind.INVALID_REQUEST,
            f"the prompt has {counted(prompt_tokens, 'token')}, "
            f"the model's context holds {context_length:,} including the answer",
            field=field,
            code="context_length_exceeded",
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        # An answer has at least one token, so a prompt must not fill the context.
        self.max_tokens = min(context_length, prompt_tokens - 1)


def shown(text: str, max_chars: int = 200) -> str:
    """Return the beginning of a text of a request, as much as an error may repeat."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def invalid(
    field: FieldPath,
    message: str,
    *,
    code: str | None = None,
    details: Mapping[str, object] | None = None,
) -> ApiError:
    """Return the error for a wrong field of a request."""
    return ApiError(ErrorKind.INVALID_REQUEST, message, field=field, code=code, details=details)


def required(field: FieldPath) -> ApiError:
    """Return the error for a missing field of a request."""
    return invalid(field, "Field required", code="missing_required_parameter")


def unseen(field: FieldPath, reason: str) -> ApiError:
    """Return the error for something that the model cannot see or hear."""
    return invalid(field, f"{reason}; {_WITHOUT_IMAGES}", code="unsupported_content")


def unsupported(field: FieldPath, what: str, instead: str = "") -> ApiError:
    """Return the error for an unsupported feature that would change the answer."""
    remedy = f"; use {instead}" if instead else ""
    reason = f"{shown(what)} is not supported by this server{remedy}"
    return invalid(field, reason, code="unsupported_parameter")


def from_engine(error: EngineError, names: Mapping[str, str]) -> ApiError:
    """Return an engine's refusal, with its field named as the client spelled it."""
    match error:
        case PromptTooLong():
            field = field_path(rename_field(error.field, names))
            return ContextOverflow(field, error.prompt_tokens, error.context_length)
        case PictureUnseen():
            return unseen(field_path(error.field), error.reason)
        case InvalidRequest():
            return invalid(field_path(rename_field(error.field, names)), error.reason)
        case QueueFull():
            return ApiError(ErrorKind.RATE_LIMITED, str(error), retry_after_s=error.retry_after_s)
        case MemoryShort():
            return ApiError(ErrorKind.OVERLOADED, str(error), retry_after_s=error.retry_after_s)
        case UnknownModel():
            field = field_path(rename_field("model", names))
            return ApiError(ErrorKind.NOT_FOUND, str(error), field=field, code="model_not_found")
        case NoModel():
            return ApiError(ErrorKind.NO_MODEL, str(error) or "no model is loaded")
        case EngineClosed():
            return ApiError(ErrorKind.UNAVAILABLE, "the server is shutting down")
        case EngineStuck():
            return ApiError(ErrorKind.UNAVAILABLE, f"{error}{_RESTART}", retry_after_s=10)
        case RequestCancelled():
            return ApiError(ErrorKind.UNAVAILABLE, _CANCELLED)
        case _:
            return ApiError(ErrorKind.INTERNAL, str(error))


def failure_of(finished: Finished) -> ApiError | None:
    """Return the error that a generation ended with, or None if it ended normally."""
    if finished.stop.kind is StopKind.ERROR:
        kind = ErrorKind.INVALID_REQUEST if finished.is_request_at_fault else ErrorKind.INTERNAL
        return ApiError(kind, finished.error or "the generation failed")
    if finished.stop.kind is StopKind.CANCELLED:
        return ApiError(ErrorKind.UNAVAILABLE, _CANCELLED)
    return None


def field_path(text: str) -> FieldPath:
    """Return the path of a field's name: ``stop[0]`` and ``stop.0`` both become ("stop", 0)."""
    parts = re.findall(r"[^.\[\]]+", text)
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts)


def path_text(path: FieldPath) -> str:
    """Return a field's path as most vendors spell it: ``messages[0].content``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def rename_field(field: str, names: Mapping[str, str]) -> str:
    """Return a field of the engine's request as the client spelled it."""
    # The longest name first: a field may have another name than the object that it is a part of.
    for known, name in sorted(names.items(), key=lambda pair: -len(pair[0])):
        if field == known or field.startswith((f"{known}[", f"{known}.", f"{known} (")):
            return name + field[len(known) :]
    # The other levels of the engine's nesting have no counterpart in any request body.
    return plain_name(field)
