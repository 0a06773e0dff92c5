"""The parameters of requests: the vendors' names and ranges, how they are read and written.

To add a sampling parameter, or a vendor's name for a stop option, add a row to ``PARAMETERS`` or
``STOP_SPELLINGS``. Pure; any thread, any process.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from api.dialects.shared.body import WireModel
from api.transport.config import ImageRule
from api.transport.errors import FieldPath, invalid
from engine import (
    MAX_STOP_CHARS,
    MAX_STOPS,
    OWN_STOP_OPTIONS,
    STOP_OPTIONS,
    Effort,
    GenerationRequest,
    InvalidRequest,
    OutputConstraint,
    Sampling,
    StopOption,
    StopOptions,
    StopRules,
    TextForm,
    checked_strings,
)

Vendor = Literal["OpenAI", "Anthropic", "SGLang", "Ollama"]


@dataclass(frozen=True, slots=True)
class Spelled:
    """How a vendor's requests spell a parameter.

    Attributes:
        type: The type of its values.
        names: Its names; the engine's if there are none.
        maximum: Greater values mean this one.
        unset: The value that means none.
        is_read_only: Whether it is accepted beyond the vendor's reference, and so never sent.
    """

    type: Any
    names: tuple[str, ...] = ()
    maximum: float | None = None
    unset: float | None = None
    is_read_only: bool = False


def _from(minimum: float, maximum: float) -> Any:
    return Annotated[float, Field(ge=minimum, le=maximum, allow_inf_nan=False)]


_ANY = Annotated[float, Field(allow_inf_nan=False)]
_SHARE = Spelled(_from(0, 1))
_PENALTY = Spelled(_from(-2, 2))
_BIASES = Spelled(dict[str, Annotated[float, Field(ge=-100, le=100)]])
_COUNT = Spelled(Annotated[int, Field(ge=-1)])
_SEED = Annotated[int, Field(ge=-(2**63), lt=2**64)]
_SIGNED_SEED = Annotated[int, Field(ge=-(2**63), lt=2**63)]


def _read_only(spelled: Spelled) -> Spelled:
    return replace(spelled, is_read_only=True)


# Parameters by the engine's names.
PARAMETERS: Mapping[str, Mapping[Vendor, Spelled]] = {
    "temperature": {
        "OpenAI": Spelled(_from(0, 2)),
        "Anthropic": Spelled(_from(0, 2)),
        "SGLang": Spelled(_from(0, 2)),
        # Above this temperature all tokens are equally likely, and dividing the logits loses
        # precision.
        "Ollama": Spelled(_ANY, maximum=1000.0),
    },
    "top_p": {
        "OpenAI": _SHARE,
        "Anthropic": _SHARE,
        "SGLang": _SHARE,
        "Ollama": Spelled(_ANY, maximum=1.0),
    },
    "top_k": {
        "OpenAI": _COUNT,
        "Anthropic": Spelled(Annotated[int, Field(ge=0)]),
        "SGLang": _COUNT,
        "Ollama": _COUNT,
    },
    "min_p": {
        "OpenAI": _SHARE,
        "Anthropic": _read_only(_SHARE),
        "SGLang": _SHARE,
        "Ollama": Spelled(_ANY, maximum=1.0),
    },
    # As llama.cpp and Ollama spell it, and as all others do.
    "repetition_penalty": {
        "OpenAI": Spelled(_from(0.01, 100), ("repeat_penalty", "repetition_penalty")),
        "Anthropic": Spelled(_from(0.01, 100), is_read_only=True),
        "SGLang": Spelled(_from(0.01, 2)),
        "Ollama": Spelled(_from(0.01, 100), ("repetition_penalty", "repeat_penalty")),
    },
    "presence_penalty": {
        "OpenAI": _PENALTY,
        "Anthropic": _read_only(_PENALTY),
        "SGLang": _PENALTY,
        "Ollama": _PENALTY,
    },
    "frequency_penalty": {
        "OpenAI": _PENALTY,
        "Anthropic": _read_only(_PENALTY),
        "SGLang": _PENALTY,
        "Ollama": _PENALTY,
    },
    "logit_bias": {"OpenAI": _BIASES, "SGLang": _BIASES},
    "xtc_probability": {"OpenAI": _SHARE, "SGLang": _SHARE, "Ollama": _SHARE},
    "xtc_threshold": {"OpenAI": _SHARE, "SGLang": _SHARE, "Ollama": _SHARE},
    "seed": {
        "OpenAI": Spelled(_SIGNED_SEED),
        "Anthropic": Spelled(_SIGNED_SEED, is_read_only=True),
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


# -- fields that a table lists -----------------------------------------------------------------


_Model = TypeVar("_Model", bound=WireModel)

# The name of a model; absent and null are empty, and mean the model that answers by default.
ModelName = Annotated[
    str,
    BeforeValidator(lambda value: "" if value is None else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}),
]


def with_fields(
    types: Mapping[str, Any], default: Any = None
) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator of wire models that adds optional fields."""
    fields: dict[str, Any] = {name: (type_, default) for name, type_ in types.items()}

    def added(model: type[_Model]) -> type[_Model]:
        if twice := sorted(fields.keys() & model.model_fields.keys()):
            raise ValueError(f"{model.__name__} already has the fields {', '.join(twice)}")
        made: Any = create_model(
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **fields,
        )
        return made  # type: ignore[no-any-return]

    return added


# -- limits ------------------------------------------------------------------------------------


# The most tokens of an answer; -1 and -2 are no limit, as LM Studio, llama.cpp and Ollama have it.
NoLimit = Literal[-1, -2]
MaxTokens = Annotated[int, Field(ge=1)] | NoLimit
MaxTokensOrNone = Annotated[int, Field(ge=0)] | NoLimit


def token_limit(*given: int | None) -> int | None:
    """Return the first limit that is given; None for no limit."""
    limit = next((value for value in given if value is not None), -1)
    return None if limit < 0 else limit


# -- sampling ----------------------------------------------------------------------------------


# Vendors' seeds may be signed; the random generator takes their bits as an unsigned number.
_SEEDS = 2**64
# No vocabulary has ids of more digits.
_MAX_DIGITS = 18
_MAX_SHOWN = 40


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
        maximum = by_vendor[vendor].maximum
        asked[name] = value if maximum is None else min(max(value, 0.0), maximum)
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
        if spelled is None or spelled.is_read_only or value in (None, ()):
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
        if not (key.isascii() and key.isdigit() and len(key) <= _MAX_DIGITS):
            name = key if len(key) <= _MAX_SHOWN else f"{key[:_MAX_SHOWN]}…"
            raise invalid((*field, name), "must be a token id in decimal digits")
    return tuple((int(key), bias) for key, bias in biases.items())


# -- stop options ------------------------------------------------------------------------------
# Every option of the engine is accepted in the object ``fullstop`` of every dialect; those that a
# vendor has, too, also by the vendor's name.


# Names in the object ``fullstop``, for options whose own name would say too little.
_OWN_NAMES = {"scope": "stop_scope"}
# Those of the objects with a value for each stop that has one of its own.
_NAMES_BY_STOP = {"scope": "stop_scopes"}


def _own_name(option: StopOption) -> str:
    return _OWN_NAMES.get(option.name, option.name)


def _name_by_stop(option: StopOption) -> str:
    return _NAMES_BY_STOP.get(option.name, f"stop_{option.name}")


def _type(option: StopOption) -> Any:
    if issubclass(option.kind, Enum):
        return Literal[tuple(member.value for member in option.kind)]
    return Annotated[int, Field(ge=0)] if option.kind is int else option.kind


def _wire(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _spelled(vendor: Vendor) -> Iterator[tuple[StopOption, str]]:
    """Yield the options that a vendor has, each with its spelling."""
    for option in STOP_OPTIONS:
        spelling = STOP_SPELLINGS.get(option.name, {}).get(vendor)
        if spelling is not None:
            yield option, spelling


def with_stop_options(vendor: Vendor) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds a vendor's stop options to a type of requests."""
    return with_fields({name: _type(option) | None for option, name in _spelled(vendor)})


def with_own_stop_options(model: type[_Model]) -> type[_Model]:
    """Add every stop option to the type of the object ``fullstop``, and those of single stops."""
    for_all = {_own_name(option): _type(option) | None for option in STOP_OPTIONS}
    by_stop: dict[str, Any] = {
        _name_by_stop(option): dict.__class_getitem__((str, _type(option)))
        for option in OWN_STOP_OPTIONS
    }
    return with_fields(for_all)(with_fields(by_stop, Field(default_factory=dict))(model))


def stop_options_of(params: WireModel, vendor: Vendor) -> StopOptions:
    """Return the stop options that a vendor's fields set."""
    sent = {option.name: getattr(params, spelling) for option, spelling in _spelled(vendor)}
    return StopOptions(**{name: value for name, value in sent.items() if value is not None})


def own_stop_options(options: WireModel) -> dict[str, Any]:
    """Return the engine's stop options that a request's object ``fullstop`` sets."""
    sent = ((option, getattr(options, _own_name(option))) for option in STOP_OPTIONS)
    return {option.name: option.kind(value) for option, value in sent if value is not None}


def stop_options_to_wire(options: StopOptions, vendor: Vendor) -> dict[str, Any]:
    """Return the fields of a vendor's request for these stop options."""
    values = ((option, name, getattr(options, option.name)) for option, name in _spelled(vendor))
    return {name: _wire(value) for option, name, value in values if value != option.default}


def own_stop_options_to_wire(rules: StopRules, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object ``fullstop``: the options that a body cannot express without it."""
    said = {*body, *(name for part in body.values() if isinstance(part, dict) for name in part)}
    values = ((option, getattr(rules, option.name)) for option in STOP_OPTIONS)
    for_all = {
        _own_name(option): _wire(value)
        for option, value in values
        if value != option.default and said.isdisjoint(STOP_SPELLINGS.get(option.name, {}).values())
    }
    by_stop = {
        _name_by_stop(option): {
            stop.text: _wire(value)
            for stop in rules.stops
            if (value := getattr(stop, option.name)) != option.default
        }
        for option in OWN_STOP_OPTIONS
    }
    return for_all | {name: values for name, values in by_stop.items() if values}


# -- stop strings ------------------------------------------------------------------------------


_STOP = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARS}
_LIST = {"type": "array", "items": _STOP, "maxItems": MAX_STOPS}
# JSON schemas for fields that accept any type; ``checked_strings`` decides what is valid.
STOPS = WithJsonSchema({"anyOf": [_STOP, _LIST, {"type": "null"}]})
STOP_LIST = WithJsonSchema({"anyOf": [_LIST, {"type": "null"}]})


def stop_strings(stop: object, field: FieldPath, *, limit: int | None = None) -> tuple[str, ...]:
    """Return the stop strings of a request."""
    name = ".".join(str(part) for part in field)
    match stop:
        case None:
            return ()
        case str():
            try:
                return checked_strings([stop], name)
            except InvalidRequest as error:
                raise invalid(field, error.reason) from None
        case list():
            strings = checked_strings(stop, name)
            if limit is not None and len(strings) > limit:
                raise invalid(
                    field,
                    f"at most {limit} stop sequences are allowed, got {len(strings)}",
                    code="array_above_max_length",
                )
            return strings
        case _:
            raise invalid(field, "must be a string, a list of strings or null", code="invalid_type")


# -- reasoning effort, options of the chat template ---------------------------------------------
# Vendors add words: an unknown one asks for reasoning without a limit, as most do.


_WITHOUT_THINKING = ("none", "minimal", "off", "disabled")
_EFFORTS = {**{effort.value: effort for effort in Effort}, "off": Effort.NONE}
# Words that leave the effort to the model: an empty one, and Groq's and LM Studio's.
_OPEN_EFFORTS = ("", "default", "auto")


class ChatTemplateKwargs(WireModel):
    """Options of the chat template by their names, as vLLM and SGLang spell them."""

    model_config = ConfigDict(extra="allow")

    enable_thinking: bool | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)

    @property
    def switches_thinking(self) -> bool | None:
        """Whether they switch reasoning on or off; None if they do not."""
        return self.thinking if self.enable_thinking is None else self.enable_thinking


def with_template_options(
    wanted: GenerationRequest, kwargs: ChatTemplateKwargs | None
) -> GenerationRequest:
    """Return a request with a client's options of the chat template.

    Those that a field of the request expresses take precedence over that field, as in vLLM.
    """
    if kwargs is None:
        return wanted
    effort, thinking = given_effort(kwargs.reasoning_effort), kwargs.switches_thinking
    if effort is not None:
        wanted = replace(wanted, effort=effort_of(effort), thinking=asks_for_thinking(effort))
    if thinking is not None:
        wanted = replace(wanted, thinking=thinking)
    if wanted.thinking_budget is None:
        wanted = replace(wanted, thinking_budget=budget_of(kwargs.thinking_budget))
    return replace(wanted, template_options=kwargs.model_dump(exclude_unset=True))


def given_effort(effort: str | None) -> str | None:
    """Return the reasoning effort; None for a word that means the default."""
    return None if effort is None or _plain(effort) in _OPEN_EFFORTS else effort


def asks_for_thinking(effort: str) -> bool:
    """Whether a word for the effort of reasoning switches reasoning on."""
    return _plain(effort) not in _WITHOUT_THINKING


def effort_of(effort: str | None) -> Effort | None:
    """Return the effort that a word means; None if it leaves the effort open."""
    word = given_effort(effort)
    return None if word is None else _EFFORTS.get(_plain(word), Effort.HIGH)


def budget_of(*asked: int | None) -> int | None:
    """Return the first reasoning budget that is given; None if there is none, or it is -1."""
    given = next((budget for budget in asked if budget is not None), None)
    return None if given is None or given < 0 else given


def _plain(effort: str) -> str:
    return effort.strip().lower()


# -- output formats other than JSON ------------------------------------------------------------


def regex_form(regex: str | None) -> OutputConstraint | None:
    """Return the constraint of a regular expression; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(regex=regex)) if regex else None


def choices_form(choices: list[str] | None) -> OutputConstraint | None:
    """Return the constraint of a list of texts; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(choices=tuple(choices))) if choices else None


def grammar_form(grammar: str | None) -> OutputConstraint | None:
    """Return the constraint of a grammar; None if it is absent or empty."""
    return OutputConstraint(text_form=TextForm(grammar=grammar)) if grammar else None


# -- the product's own object ------------------------------------------------------------------
# ``fullstop`` chooses where stops are searched for and asks for the full stop record, in every
# dialect alike. Without it, answers contain only the vendor's fields.


_Params = TypeVar("_Params", bound=WireModel)


@with_own_stop_options
class FullstopOptions(WireModel):
    """The object ``fullstop`` of a request; it also accepts every stop option."""

    report: bool = False
    images: ImageRule | None = None
    additional_properties: bool = False


def with_own_options(rules: StopRules, options: FullstopOptions | None) -> StopRules:
    """Return a request's stops with the options that its ``fullstop`` sets."""
    if options is None:
        return rules
    stops = {stop.text: stop for stop in rules.stops}
    for option in OWN_STOP_OPTIONS:
        name = _name_by_stop(option)
        for text, value in getattr(options, name).items():
            if text not in stops:
                shown = json.dumps(text, ensure_ascii=False)
                raise InvalidRequest(f"fullstop.{name}", f"{shown} is not among the stop sequences")
            stops[text] = replace(stops[text], **{option.name: option.kind(value)})
    return replace(rules, stops=tuple(stops.values()), **own_stop_options(options))


def is_report_wanted(options: FullstopOptions | None) -> bool:
    """Whether a request asks for the stop record."""
    return options is not None and options.report


def with_image_rule(params: _Params, rule: ImageRule) -> _Params:
    """Return a request with the server's rule for images, unless it has one of its own."""
    if "fullstop" not in type(params).model_fields:
        return params
    options: FullstopOptions = getattr(params, "fullstop", None) or FullstopOptions()
    if options.images is not None:
        return params
    return params.model_copy(update={"fullstop": options.model_copy(update={"images": rule})})


def wants_image_notes(options: FullstopOptions | None, *, is_new: bool) -> bool:
    """Whether a note is put in the place of an image."""
    rule = None if options is None else options.images
    return rule == "note" or (rule == "refuse-new" and not is_new)


def allows_more_keys(options: FullstopOptions | None) -> bool:
    """Whether JSON that must follow a schema may have keys that the schema does not name."""
    return options is not None and options.additional_properties
