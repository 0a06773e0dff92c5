"""Failures in the words of Ollama's error envelope. Pure; any thread."""

from api.dialects.ollama.wire import OllamaErrorAnswer
from api.transport.errors import ApiError, ContextOverflow, Dialect, path_text, status_of


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    return status_of(error.kind), {"error": _message(error)}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for these very words.
        excess = error.prompt_tokens - error.most_tokens
        return f"prompt too long; exceeded max context length by {excess} tokens"
    field = path_text(error.field)
    return f"{field}: {error.message}" if field else error.message


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
