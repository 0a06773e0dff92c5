"""What the bodies of OpenAI's three APIs have in common. Pure; any thread."""

from api.dialects.shared.asking import Body, filled, sampling_and_stops
from engine import GenerationRequest


def common_fields(request: GenerationRequest) -> Body:
    """Return the fields that all three spell alike."""
    stops = request.stops
    return {
        **sampling_and_stops(request, "OpenAI"),
        **filled(
            include_stop_str_in_output=stops.include_stop or None,
            ignore_eos=stops.ignore_eos or None,
            min_tokens=stops.min_tokens or None,
        ),
    }
