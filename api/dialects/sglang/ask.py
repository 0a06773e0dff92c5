"""The engine's requests as bodies of ``/generate``. Pure; any thread."""

import json
import re

from api.dialects.shared.asking import JsonObject, filled, sampling_and_stops
from engine import GenerationRequest, OutputConstraint

_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    raw = request.prompt
    asked: JsonObject = {"input_ids": list(raw)} if isinstance(raw, tuple) else {"text": prompt}
    asked["sampling_params"] = {
        **sampling_and_stops(request, "SGLang"),
        **filled(
            max_new_tokens=request.max_tokens,
            **_form(request.constraint),
        ),
    }
    wanted = request.prompt_scoring
    if wanted is not None:
        asked |= {
            "return_logprob": True,
            "logprob_start_len": wanted.start,
            "top_logprobs_num": wanted.top,
            **filled(token_ids_logprob=list(wanted.token_ids)),
        }
    return asked


def _form(constraint: OutputConstraint | None) -> JsonObject:
    if constraint is None:
        return {}
    if (form := constraint.text_form) is None:
        return {"json_schema": json.dumps(dict(constraint.json_schema or {"type": "object"}))}
    if form.grammar is not None:
        return {"ebnf": form.grammar}
    return {"regex": form.regex or "|".join(map(_literal, form.choices))}


def _literal(text: str) -> str:
    """Return a regular expression that only this text matches."""
    return _META.sub(r"\\\g<0>", text)
