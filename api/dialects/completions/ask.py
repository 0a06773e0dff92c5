"""The engine's requests as bodies of Completions. Pure; any thread."""

from api.dialects.openai.asking import common_fields, scoring_fields
from api.dialects.shared.asking import JsonObject, filled
from engine import GenerationRequest


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    raw = request.prompt
    return {
        "model": model,
        "prompt": list(raw) if isinstance(raw, tuple) else prompt,
        **common_fields(request),
        **filled(max_tokens=request.max_tokens, **scoring_fields(request)),
    }
