"""The sampling parameters of all dialects in one table: names, bounds, and how they are read.

A new parameter is one more row. The fields of the requests are made of the table, the engine's
``Sampling`` is read by it, and a request is written by it. Pure; any thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.fields import with_fields
from api.transport.errors import FieldPath, invalid
from engine import GenerationRequest, Sampling

Vendor = Literal["OpenAI", "Anthropic", "SGLang", "Ollama"]

_Model = TypeVar("_Model", bound=WireModel)

# Vendors' seeds may be signed; a generator of random numbers takes them as they are in memory.
_SEEDS = 2**64
# No vocabulary has ids of more digits.
_MOST_DIGITS = 18
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Spelled:
    """How the requests of a vendor spell a parameter.

    Attributes:
        type: What the field may be, beside null.
        names: Its names, if not the engine's; the first one that is there counts.
        most: A number is brought into the range from 0 to this one, as the reference does it.
        unset: A value that means that nothing is asked for.
    """

    type: Any
    names: tuple[str, ...] = ()
    most: float | None = None
    unset: float | None = None


def _from(least: float, most: float) -> Any:
    return Annotated[float, Field(ge=least, le=most, allow_inf_nan=False)]


_ANY = Annotated[float, Field(allow_inf_nan=False)]
_SHARE = Spelled(_from(0, 1))
_PENALTY = Spelled(_from(-2, 2))
_BIASES = Spelled(dict[str, Annotated[float, Field(ge=-100, le=100)]])
_COUNT = Spelled(Annotated[int, Field(ge=-1)])
_SEED = Annotated[int, Field(ge=-(2**63), lt=2**64)]

# By the engine's names.
PARAMETERS: Mapping[str, Mapping[Vendor, Spelled]] = {
    "temperature": {
        "OpenAI": Spelled(_from(0, 2)),
        "Anthropic": Spelled(_from(0, 2)),
        "SGLang": Spelled(_from(0, 2)),
        # Beyond it all tokens are equally likely, and the logits' quotients lose their digits.
        "Ollama": Spelled(_ANY, most=1000.0),
    },
    "top_p": {
        "OpenAI": _SHARE,
        "Anthropic": _SHARE,
        "SGLang": _SHARE,
        "Ollama": Spelled(_ANY, most=1.0),
    },
    "top_k": {
        "OpenAI": _COUNT,
        "Anthropic": Spelled(Annotated[int, Field(ge=0)]),
        "SGLang": _COUNT,
        "Ollama": _COUNT,
    },
    "min_p": {"OpenAI": _SHARE, "SGLang": _SHARE, "Ollama": Spelled(_ANY, most=1.0)},
    "repetition_penalty": {
        "OpenAI": Spelled(_from(0.01, 100)),
        "SGLang": Spelled(_from(0.01, 2)),
        "Ollama": Spelled(_from(0.01, 100), ("repeat_penalty",)),
    },
    "presence_penalty": {"OpenAI": _PENALTY, "SGLang": _PENALTY, "Ollama": _PENALTY},
    "frequency_penalty": {"OpenAI": _PENALTY, "SGLang": _PENALTY, "Ollama": _PENALTY},
    "logit_bias": {"OpenAI": _BIASES, "SGLang": _BIASES},
    "seed": {
        "OpenAI": Spelled(Annotated[int, Field(ge=-(2**63), lt=2**63)]),
        "SGLang": Spelled(_SEED, ("seed", "sampling_seed")),
        # The reference's default of -1 means a new draw each time.
        "Ollama": Spelled(_SEED, unset=-1),
    },
}


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
    """Return a parameter as a request spells it.

    Args:
        params: A request's model with the vendor's sampling parameters.
        vendor: Whose.
        name: The engine's name of the parameter.

    Returns:
        The value as it was sent; None where it was not.
    """
    spelled = PARAMETERS[name].get(vendor)
    if spelled is None:
        return None
    values = (getattr(params, spelling) for spelling in _names(name, spelled))
    return next((value for value in values if value is not None), None)


def sampling_of(params: WireModel, vendor: Vendor, path: FieldPath = ()) -> Sampling:
    """Return how tokens are to be drawn.

    Args:
        params: A request's model with the vendor's sampling parameters.
        vendor: Whose.
        path: Where in the request that model is.

    Raises:
        ApiError: A bias is for no token id; the error names it.
    """
    asked: dict[str, Any] = {}
    for name, by_vendor in PARAMETERS.items():
        value = sent(params, vendor, name)
        if value is None or value == by_vendor[vendor].unset:
            continue
        most = by_vendor[vendor].most
        asked[name] = value if most is None else min(max(value, 0.0), most)
    if asked.get("top_p") == 0:
        # A nucleus of mass 0 holds the likeliest token alone.
        del asked["top_p"]
        asked["top_k"] = 1
    elif "top_k" in asked:
        # A negative one is a common spelling of "off".
        asked["top_k"] = max(asked["top_k"], 0)
    if "logit_bias" in asked:
        asked["logit_bias"] = _biases(asked["logit_bias"], (*path, "logit_bias"))
    if "seed" in asked:
        asked["seed"] %= _SEEDS
    return Sampling(**asked)


def sampling_to_wire(sampling: Sampling, vendor: Vendor) -> dict[str, Any]:
    """Return the fields with which a vendor's request asks for a way of drawing tokens."""
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

    Choices of one seed differ among each other and are the same again next time.
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
