"""What the bodies of OpenAI's three APIs have in common. Pure; any thread."""

from api.dialects.shared.asking import JsonObject, sampling_and_stops
from engine import GenerationRequest


def common_fields(request: GenerationRequest) -> JsonObject:
    """Return the fields that all three spell alike."""
    return sampling_and_stops(request, "OpenAI")
