"""Failures in the words of Ollama's error envelope. Pure; any thread."""

from api.errors import ApiError, Dialect, path_text, status_of
from api.ollama.wire import OllamaErrorAnswer


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    field = path_text(error.field)
    return status_of(error.kind), {"error": f"{field}: {error.message}" if field else error.message}


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
