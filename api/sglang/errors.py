"""Failures in the words of SGLang's error envelope. Pure; any thread."""

from typing import assert_never

from api.errors import ApiError, Dialect, ErrorKind, FieldPath
from api.sglang.wire import SglangErrorAnswer


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error answer."""
    status = status_of(error.kind)
    field = _spelled(error.field)
    inner: dict[str, object] = {
        "message": f"{field}: {error.message}" if field else error.message,
        "type": error.kind.value,
        "param": field,
        "code": status,
    }
    return status, {"error": inner}


def status_of(kind: ErrorKind) -> int:
    """Return the HTTP status of a kind of failure."""
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


def _spelled(path: FieldPath) -> str | None:
    """Return a field's path as in ``sampling_params.stop[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or None


GENERATE = Dialect(
    name="Generate",
    render_error=error_to_wire,
    error_type=SglangErrorAnswer,
    field_names={
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint": "sampling_params.json_schema",
        # The one complaint under this name is that the prompt is empty.
        "messages": "text",
    },
)
