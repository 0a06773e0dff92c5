"""The sampling parameters of all dialects: fields of requests, and how they are read and written.

The vendors' names are in ``api.dialects.shared.parameters.vendors``. Pure; any thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.fields import with_fields
from api.dialects.shared.parameters.vendors import PARAMETERS, Spelled, Vendor
from api.transport.errors import FieldPath, invalid
from engine import GenerationRequest, Sampling

_Model = TypeVar("_Model", bound=WireModel)

# Vendors' seeds may be signed; the random generator takes their bits as an unsigned number.
_SEEDS = 2**64
# No vocabulary has ids of more digits.
_MOST_DIGITS = 18
_MOST_SHOWN = 40


def _names(name: str, spelled: Spelled) -> tuple[str, ...]:
    return spelled.names or (name,)


def with_sampling(vendor: Vendor) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds a vendor's sampling parameters to a type of requests."""
    return with_fields(
        {
            spelling: spelled.type | None
            for name, by_vendor in PARAMETERS.items()
            if (spelled := by_vendor.get(vendor)) is not None
            for spelling in _names(name, spelled)
        }
    )


def sent(params: WireModel, vendor: Vendor, name: str) -> Any:
    """Return a parameter as a request spells it."""
    spelled = PARAMETERS[name].get(vendor)
    if spelled is None:
        return None
    values = (getattr(params, spelling) for spelling in _names(name, spelled))
    return next((value for value in values if value is not None), None)


def sampling_of(params: WireModel, vendor: Vendor, path: FieldPath = ()) -> Sampling:
    """Return the sampling parameters of a request."""
    asked: dict[str, Any] = {}
    for name, by_vendor in PARAMETERS.items():
        value = sent(params, vendor, name)
        if value is None or value == by_vendor[vendor].unset:
            continue
        most = by_vendor[vendor].most
        asked[name] = value if most is None else min(max(value, 0.0), most)
    if asked.get("top_p") == 0:
        # A nucleus of mass 0 contains only the likeliest token.
        del asked["top_p"]
        asked["top_k"] = 1
    elif "top_k" in asked:
        # A negative value is a common spelling of "off".
        asked["top_k"] = max(asked["top_k"], 0)
    if "logit_bias" in asked:
        asked["logit_bias"] = _biases(asked["logit_bias"], (*path, "logit_bias"))
    if "seed" in asked:
        asked["seed"] %= _SEEDS
    return Sampling(**asked)


def sampling_to_wire(sampling: Sampling, vendor: Vendor) -> dict[str, Any]:
    """Return the fields of a vendor's request for these sampling parameters."""
    fields: dict[str, Any] = {}
    for name, by_vendor in PARAMETERS.items():
        spelled, value = by_vendor.get(vendor), getattr(sampling, name)
        if spelled is None or value in (None, ()):
            continue
        if name == "logit_bias":
            value = {str(token_id): bias for token_id, bias in value}
        elif name == "seed" and vendor == "OpenAI" and value >= _SEEDS // 2:
            value -= _SEEDS
        fields[_names(name, spelled)[-1]] = value
    return fields


def choices_of(request: GenerationRequest, count: int) -> list[GenerationRequest]:
    """Return a generation for each of ``count`` choices.

    The choices of one seed differ from each other, and are the same when the request is repeated.
    """
    seed = request.sampling.seed
    if seed is None:
        return [request] * count
    return [
        replace(request, sampling=replace(request.sampling, seed=(seed + index) % _SEEDS))
        for index in range(count)
    ]


def _biases(biases: Mapping[str, float], field: FieldPath) -> tuple[tuple[int, float], ...]:
    """Return biases, whose keys are token ids in decimal digits."""
    for key in biases:
        if not (key.isascii() and key.isdigit() and len(key) <= _MOST_DIGITS):
            shown = key if len(key) <= _MOST_SHOWN else f"{key[:_MOST_SHOWN]}…"
            raise invalid((*field, shown), "must be a token id in decimal digits")
    return tuple((int(key), bias) for key, bias in biases.items())
