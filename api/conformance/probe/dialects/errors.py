"""Whether an error's body has the form that its dialect prescribes. Pure; any thread."""

from collections.abc import Mapping
from typing import Any


def is_messages_error(body: Any) -> bool:
    """Return whether this is an error object of the Messages API."""
    return isinstance(body, dict) and body.get("type") == "error" and _has_words(body, "type")


def is_openai_error(body: Any) -> bool:
    """Return whether this is an error object as OpenAI sends it."""
    return isinstance(body, dict) and _has_words(body)


def _has_words(body: Mapping[str, Any], *more: str) -> bool:
    error = body.get("error")
    names = ("message", *more)
    return isinstance(error, dict) and all(isinstance(error.get(name), str) for name in names)


def is_ollama_error(body: Any) -> bool:
    """Return whether this is an error in words, as Ollama sends it."""
    return isinstance(body, dict) and isinstance(body.get("error"), str)


def is_generate_error(body: Any) -> bool:
    """Return whether this is an error of SGLang's native API, which has two forms."""
    return is_openai_error(body) or is_ollama_error(body)


def is_converse_error(body: Any) -> bool:
    """Return whether this is an error as Bedrock sends it."""
    return isinstance(body, dict) and isinstance(body.get("message"), str)
