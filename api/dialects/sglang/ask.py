"""The engine's requests as bodies of ``/generate``. Pure; any thread."""

import json

from api.dialects.shared.asking import JsonObject, filled, sampling_and_stops
from engine import GenerationRequest


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation: its prompt as text, or as the ids that ran."""
    raw, schema = request.prompt, None
    if request.constraint is not None:
        schema = json.dumps(dict(request.constraint.json_schema or {"type": "object"}))
    asked: JsonObject = {"input_ids": list(raw)} if isinstance(raw, tuple) else {"text": prompt}
    asked["sampling_params"] = {
        **sampling_and_stops(request, "SGLang"),
        **filled(
            max_new_tokens=request.max_tokens,
            json_schema=schema,
        ),
    }
    return asked
