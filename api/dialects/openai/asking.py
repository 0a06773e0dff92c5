"""The fields of request bodies that OpenAI's three APIs share. Pure; any thread."""

from api.dialects.shared.asking import JsonObject, sampling_and_stops
from engine import GenerationRequest


def common_fields(request: GenerationRequest) -> JsonObject:
    """Return the fields that all three APIs spell the same."""
    return sampling_and_stops(request, "OpenAI")


def scoring_fields(request: GenerationRequest) -> JsonObject:
    """Return the field that asks for the log-probabilities of a whole prompt."""
    wanted = request.prompt_scoring
    if wanted is None or wanted.start or wanted.token_ids:
        return {}
    return {"prompt_logprobs": wanted.top}


def last_turn_fields(request: GenerationRequest) -> JsonObject:
    """Return the fields that have the last turn continued, where it is."""
    if not request.continues_message:
        return {}
    return {"continue_final_message": True, "add_generation_prompt": False}
