"""Options of a request that another of its options overrules. Pure; any thread."""

from collections.abc import Iterator

from engine.values.request import GenerationRequest, Sampling

# Below it the likeliest token is drawn: dividing by the temperature would overflow.
MIN_TEMPERATURE = 1e-4
# The values with which an option for drawing is off.
_OFF = {"top_p": 1, "top_k": 0, "min_p": 0, "xtc_probability": 0, "xtc_threshold": None}


def plain_name(field: str) -> str:
    """Return a field's name without the levels of the engine's nesting."""
    return field.removeprefix("sampling.").removeprefix("stops.")


def overruled_options(request: GenerationRequest, sampling: Sampling) -> Iterator[str]:
    """Yield the names of options without effect, each with the reason in parentheses.

    ``sampling`` has the model's own settings where the request has none.
    """
    rules, limit = request.stops, request.max_tokens
    if (sampling.temperature or 0) < MIN_TEMPERATURE:
        given = {name: getattr(request.sampling, name) for name in (*_OFF, "seed")}
        for name, value in given.items():
            if value is not None and (name == "seed" or value != _OFF[name]):
                yield f"sampling.{name} (the temperature is 0)"
    elif sampling.xtc_threshold is not None and not sampling.xtc_probability:
        yield "sampling.xtc_threshold (xtc_probability is 0)"
    if not rules.stops and not rules.token_ids:
        if rules.min_tokens and rules.repetition is None:
            yield "stops.min_tokens (there are no stops)"
        return
    if limit is not None and rules.min_tokens >= limit:
        reason = f"min_tokens reaches the limit of {limit}"
        yield from (f"stops.strings[{index}] ({reason})" for index in range(len(rules.stops)))
        if rules.token_ids:  # perhaps thousands
            yield f"stops.token_ids ({reason})"
    elif not rules.min_tokens:
        for index, stop in enumerate(rules.stops):
            others = (other for other in rules.stops if other is not stop)
            if any(other.outruns(stop, rules.scope) for other in others):
                yield f"stops.strings[{index}] (another stop is always complete before it)"
