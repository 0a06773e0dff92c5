"""Failures in Ollama's error format. Pure; any thread."""

from api.dialects.ollama.wire import OllamaErrorAnswer
from api.dialects.shared.answers.errors import with_field
from api.transport.errors import ApiError, ContextOverflow, status_of


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, OllamaErrorAnswer]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    return status_of(error.kind), {"error": _message(error)}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for exactly these words.
        excess = error.prompt_tokens - error.most_tokens
        return f"prompt too long; exceeded max context length by {excess} tokens"
    return with_field(error)
