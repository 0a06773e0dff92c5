"""The vendors' names of sampling parameters and stop options, and their ranges.

To add a parameter, or a vendor's name for a stop option, add a row. Vendors are listed here, too.
Pure; any thread.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

Vendor = Literal["OpenAI", "Anthropic", "SGLang", "Ollama"]


@dataclass(frozen=True, slots=True)
class Spelled:
    """How a vendor's requests spell a parameter."""

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

# Parameters by the engine's names.
PARAMETERS: Mapping[str, Mapping[Vendor, Spelled]] = {
    "temperature": {
        "OpenAI": Spelled(_from(0, 2)),
        "Anthropic": Spelled(_from(0, 2)),
        "SGLang": Spelled(_from(0, 2)),
        # Above this temperature all tokens are equally likely, and dividing the logits loses
        # precision.
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
        # The reference's default of -1 means a random seed.
        "Ollama": Spelled(_SEED, unset=-1),
    },
}

# Stop options by the engine's names.
STOP_SPELLINGS: Mapping[str, Mapping[Vendor, str]] = {
    "include_stop": {"OpenAI": "include_stop_str_in_output", "SGLang": "no_stop_trim"},
    "ignore_eos": {"OpenAI": "ignore_eos", "SGLang": "ignore_eos"},
    "min_tokens": {"OpenAI": "min_tokens", "SGLang": "min_new_tokens"},
}

_Parameters = Mapping[str, Mapping[Vendor, Spelled]]
_Options = Mapping[str, Mapping[Vendor, str]]


def spellings(
    vendor: Vendor, parameters: _Parameters = PARAMETERS, options: _Options = STOP_SPELLINGS
) -> list[str]:
    """Return the names of all parameters and stop options that a vendor's requests may have."""

    def names() -> Iterator[str]:
        for name, spelled in parameters.items():
            if vendor in spelled:
                yield from spelled[vendor].names or (name,)
        yield from (by_vendor[vendor] for by_vendor in options.values() if vendor in by_vendor)

    return list(names())


def check_spellings(parameters: _Parameters, options: _Options) -> None:
    """Make sure that a name means one thing in the requests of a vendor."""
    for vendor in get_args(Vendor):
        for name, count in Counter(spellings(vendor, parameters, options)).items():
            if count > 1:
                raise ValueError(f"{vendor}: two parameters are named {name}")


check_spellings(PARAMETERS, STOP_SPELLINGS)
