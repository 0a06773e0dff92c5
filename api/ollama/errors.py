"""Failures in the words of Ollama's error envelope. Pure; any thread."""

from typing import assert_never

from api.errors import ApiError, Dialect, ErrorKind, FieldPath
from api.ollama.wire import OllamaErrorAnswer


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    field = _spelled(error.field)
    return _status(error.kind), {"error": f"{field}: {error.message}" if field else error.message}


def _spelled(path: FieldPath) -> str:
    """Return a field's path as in ``options.stop[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _status(kind: ErrorKind) -> int:
    match kind:
        case ErrorKind.INVALID_REQUEST:
            return 400
        case ErrorKind.AUTHENTICATION:
            return 401
        case ErrorKind.PERMISSION:
            return 403
        case ErrorKind.NOT_FOUND:
            return 404
        case ErrorKind.METHOD_NOT_ALLOWED:
            return 405
        case ErrorKind.TOO_LARGE:
            return 413
        case ErrorKind.RATE_LIMITED:
            return 429
        case ErrorKind.NO_MODEL | ErrorKind.UNAVAILABLE:
            return 503
        case ErrorKind.INTERNAL:
            return 500
        case _:
            assert_never(kind)


OLLAMA = Dialect(
    name="Ollama",
    render_error=error_to_wire,
    error_type=OllamaErrorAnswer,
    field_names={
        "stops.strings": "options.stop",
        "stops.token_ids": "options.stop_token_ids",
        "max_tokens": "options.num_predict",
        "constraint.json_schema": "format",
        "constraint": "format",
    },
)
