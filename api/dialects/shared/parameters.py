"""Reads the parameters that requests of several dialects share, and writes them back.

Sampling parameters have the engine's names, unless ``_SPELLINGS`` lists others. Pure; any thread.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from api.dialects.shared.parsing import WireModel
from api.service.config import ImageRule
from api.service.errors import FieldPath, invalid
from engine.errors import InvalidRequest
from engine.stopping.repetition import RepetitionDetection
from engine.stopping.rules import (
    MAX_STOP_CHARS,
    MAX_STOPS,
    STOP_OPTIONS,
    StopOptions,
    StopRules,
    StopScope,
    checked_strings,
)
from engine.values.request import Effort, GenerationRequest, OutputConstraint, Sampling, TextForm

Vendor = Literal["OpenAI", "Anthropic", "SGLang", "Ollama", "LM Studio", "Jina"]

# The name of a model; absent and null are empty, and mean the model that answers by default.
ModelName = Annotated[
    str,
    BeforeValidator(
        lambda value: "" if value is None else value, json_schema_input_type=str | None
    ),
]

# Maximum tokens of an answer; -1 and -2 are no limit, as LM Studio, llama.cpp and Ollama have it.
NoLimit = Literal[-1, -2]
MaxTokens = Annotated[int, Field(ge=1)] | NoLimit
MaxTokensOrNone = Annotated[int, Field(ge=0)] | NoLimit
AnyNumber = Annotated[float, Field(allow_inf_nan=False)]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
RepetitionPenalty = Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)]
Biases = dict[str, Annotated[float, Field(ge=-100, le=100)]]
TopK = Annotated[int, Field(ge=-1)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**64)]
# Vendors' seeds may be signed; the random generator takes their bits as an unsigned number.
SEEDS = 2**64
_SPELLINGS = {
    # As llama.cpp and Ollama spell it, and as all others do.
    "repetition_penalty": ("repeat_penalty", "repetition_penalty"),
    "seed": ("seed", "sampling_seed"),
}
# Values beyond these mean the nearest one, where a vendor allows them. Above the temperature all
# tokens are equally likely, and dividing the logits loses precision.
_RANGES = {
    "temperature": (0.0, 1000.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
}
OPENAI_STOP_OPTIONS = {
    "include_stop": "include_stop_str_in_output",
    "ignore_eos": "ignore_eos",
    "min_tokens": "min_tokens",
}
SGLANG_STOP_OPTIONS = {
    "include_stop": "no_stop_trim",
    "ignore_eos": "ignore_eos",
    "min_tokens": "min_new_tokens",
}
MinTokens = Annotated[int, Field(ge=0)]
_Scope = Literal["text", "text+thinking", "all"]
_STOP = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARS}
_LIST = {"type": "array", "items": _STOP, "maxItems": MAX_STOPS}
# JSON schemas for fields of any type, which ``checked_strings`` validates.
STOPS = WithJsonSchema({"anyOf": [_STOP, _LIST, {"type": "null"}]})
STOP_LIST = WithJsonSchema({"anyOf": [_LIST, {"type": "null"}]})
_WITHOUT_THINKING = ("none", "minimal", "off", "disabled")
# Vendors add values: an unknown one asks for reasoning without a limit, as most do.
_EFFORTS = {**{effort.value: effort for effort in Effort}, "off": Effort.NONE}
# Values that leave the effort to the model: an empty one, and Groq's and LM Studio's.
_OPEN_EFFORTS = ("", "default", "auto")


def token_limit(*given: int | None) -> int | None:
    """Return the first limit that is given; None for no limit."""
    limit = next((value for value in given if value is not None), -1)
    return None if limit < 0 else limit


def sampling_of(params: WireModel, path: FieldPath = ()) -> Sampling:
    """Return the sampling parameters of a request."""
    given: dict[str, Any] = {}
    for name in (field.name for field in fields(Sampling)):
        values = (getattr(params, spelling, None) for spelling in _SPELLINGS.get(name, (name,)))
        value = next((value for value in values if value is not None), None)
        if value is not None:
            if name in _RANGES:
                low, high = _RANGES[name]
                value = min(max(value, low), high)
            given[name] = value
    if given.get("top_p") == 0:
        # A nucleus of mass 0 contains only the likeliest token.
        del given["top_p"]
        given["top_k"] = 1
    elif "top_k" in given:
        # A negative value is a common spelling of "off".
        given["top_k"] = max(given["top_k"], 0)
    if "logit_bias" in given:
        given["logit_bias"] = _biases(given["logit_bias"], (*path, "logit_bias"))
    if "seed" in given:
        given["seed"] %= SEEDS
    return Sampling(**given)


def sampling_to_wire(
    sampling: Sampling, renamed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the fields of a request for these sampling parameters."""
    values = {field.name: getattr(sampling, field.name) for field in fields(Sampling)}
    values["logit_bias"] = {str(token_id): bias for token_id, bias in sampling.logit_bias}
    return {
        (renamed or {}).get(name, name): value
        for name, value in values.items()
        if value not in (None, {})
    }


def choices_of(request: GenerationRequest, count: int) -> list[GenerationRequest]:
    """Return a generation for each of ``count`` choices.

    The choices of one seed differ from each other, and are the same when the request is repeated.
    """
    seed = request.sampling.seed
    if seed is None:
        return [request] * count
    return [
        replace(request, sampling=replace(request.sampling, seed=(seed + index) % SEEDS))
        for index in range(count)
    ]


def _biases(biases: Mapping[str, float], field: FieldPath) -> tuple[tuple[int, float], ...]:
    """Return biases, whose keys are token ids in decimal digits."""
    for key in biases:
        if not (key.isascii() and key.isdigit() and len(key) <= 18):
            raise invalid((*field, key), "must be a token id in decimal digits")
    return tuple((int(key), bias) for key, bias in biases.items())


class RepetitionParams(WireModel):
    """``repetition_detection`` as vLLM spells it, and ``min_tokens``: which cycle ends an answer.

    https://docs.vllm.ai/en/latest/api/vllm/sampling_params
    """

    model_config = ConfigDict(extra="forbid")

    max_pattern_size: int = Field(default=0, ge=0, description="tokens; 0 switches it off")
    min_pattern_size: int = Field(default=0, ge=0, description="tokens; 0 means 1")
    min_count: int = Field(default=0, ge=0, description="copies, at least 2")
    min_tokens: int = Field(default=0, ge=0, description="of all copies together")

    def detection(self, field: FieldPath) -> RepetitionDetection | None:
        """Return the engine's figures; None where it is off."""
        if not self.max_pattern_size:
            return None
        figures = {**self.model_dump(), "min_pattern_size": self.min_pattern_size or 1}
        try:
            return RepetitionDetection(**figures)
        except InvalidRequest as error:
            raise invalid((*field, error.field.rpartition(".")[2]), error.reason) from None


# Every dialect accepts all options of the engine in the object ``fullstop``, and some of them by
# the vendor's name, too.
class FullstopOptions(WireModel):
    """The object ``fullstop`` of a request: its stop options, and whether its answer has a report.

    Without it, answers contain only the vendor's fields.
    """

    report: bool = False
    images: ImageRule | None = None
    additional_properties: bool = False
    stop_scopes: dict[str, _Scope] = Field(default_factory=dict)
    stop_scope: _Scope | None = None
    include_stop: bool | None = None
    ignore_eos: bool | None = None
    ignore_template_eos: bool | None = None
    min_tokens: MinTokens | None = None
    repetition_detection: RepetitionParams | None = None


@dataclass(frozen=True, slots=True)
class ReadContext:
    """How the server reads a body: ``ServerConfig`` and the headers of its request decide."""

    strict: bool = False
    images: ImageRule = "refuse-new"
    repetition: RepetitionDetection | None = None

    def allows_image_note(self, options: FullstopOptions, *, is_new: bool) -> bool:
        """Whether a note replaces an image of the last turn, or of an earlier one."""
        rule = options.images or self.images
        return rule == "note" or (rule == "refuse-new" and not is_new)


OwnOptions = Annotated[
    FullstopOptions,
    BeforeValidator(
        lambda value: {} if value is None else value, json_schema_input_type=FullstopOptions | None
    ),
    Field(default_factory=FullstopOptions),
]


def stop_options_of(params: WireModel, spellings: Mapping[str, str]) -> StopOptions:
    """Return the stop options that a vendor's fields set."""
    given = {name: getattr(params, spelling) for name, spelling in spellings.items()}
    return StopOptions(**{name: value for name, value in given.items() if value is not None})


def stop_options_to_wire(options: StopOptions, spellings: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a vendor's request for these stop options."""
    return {
        spellings[option.name]: getattr(options, option.name)
        for option in STOP_OPTIONS
        if option.name in spellings and getattr(options, option.name) != option.default
    }


def with_own_options(
    rules: StopRules,
    options: FullstopOptions,
    context: ReadContext,
    repetition: RepetitionParams | None = None,
) -> StopRules:
    """Return a request's stops with the options that its ``fullstop`` sets.

    ``repetition`` is a vendor's field; without any, the server's figures count.
    """
    stops = {stop.text: stop for stop in rules.stops}
    for text, scope in options.stop_scopes.items():
        if text not in stops:
            reason = f"{json.dumps(text, ensure_ascii=False)} is not among the stop sequences"
            raise InvalidRequest("fullstop.stop_scopes", reason)
        stops[text] = replace(stops[text], scope=StopScope(scope))
    given = {
        option.name: option.kind(value)
        for option in STOP_OPTIONS
        if (value := getattr(options, _own_name(option.name))) is not None
    }
    detection = context.repetition
    if (own := options.repetition_detection) is not None:
        detection = own.detection(("fullstop", "repetition_detection"))
    elif repetition is not None:
        detection = repetition.detection(("repetition_detection",))
    return replace(rules, stops=tuple(stops.values()), repetition=detection, **given)


def own_stop_options_to_wire(rules: StopRules, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object ``fullstop``: the options that a body cannot express without it."""
    names = {*body, *(name for part in body.values() if isinstance(part, dict) for name in part)}
    own: dict[str, Any] = {}
    for option in STOP_OPTIONS:
        value = getattr(rules, option.name)
        vendors = (OPENAI_STOP_OPTIONS.get(option.name), SGLANG_STOP_OPTIONS.get(option.name))
        if value != option.default and names.isdisjoint(vendors):
            own[_own_name(option.name)] = value
    if scopes := {stop.text: stop.scope for stop in rules.stops if stop.scope is not None}:
        own["stop_scopes"] = scopes
    if rules.repetition is not None:
        own["repetition_detection"] = asdict(rules.repetition)
    return own


def _own_name(option: str) -> str:
    """Return the name of an option in the object ``fullstop``."""
    return "stop_scope" if option == "scope" else option


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


class ChatTemplateKwargs(WireModel):
    """Options of the chat template by their names, as vLLM and SGLang spell them."""

    model_config = ConfigDict(extra="allow")

    enable_thinking: bool | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)


def with_template_options(
    request: GenerationRequest, kwargs: ChatTemplateKwargs | None
) -> GenerationRequest:
    """Return a request with a client's template options, which override its fields, as in vLLM."""
    if kwargs is None:
        return request
    if (effort := given_effort(kwargs.reasoning_effort)) is not None:
        request = replace(request, effort=effort_of(effort), thinking=enables_thinking(effort))
    thinking = kwargs.thinking if kwargs.enable_thinking is None else kwargs.enable_thinking
    if thinking is not None:
        request = replace(request, thinking=thinking)
    if request.thinking_budget is None:
        request = replace(request, thinking_budget=token_limit(kwargs.thinking_budget))
    return replace(request, template_options=kwargs.model_dump(exclude_unset=True))


# How requests spell options of the engine that have several names, by precedence.
_SPELLED = {
    "effort": (
        "chat_template_kwargs.reasoning_effort", "output_config.effort", "reasoning.effort",
        "reasoning_effort", "think",
    ),
    "thinking_budget": (
        "thinking.budget_tokens", "thinking_budget", "thinking_token_budget",
        "chat_template_kwargs.thinking_budget",
    ),
    "thinking": ("thinking", "enable_thinking", "think", "reasoning", "reasoning_effort"),
    "stops.min_tokens": ("fullstop.min_tokens", "min_tokens", "sampling_params.min_new_tokens"),
}  # fmt: skip


def given_names(params: WireModel) -> dict[str, str]:
    """Return a request's own names of these options, as far as it has them."""
    given: dict[str, str] = {}
    for name, spellings in _SPELLED.items():
        for spelling in spellings:
            value: Any = params
            for key in spelling.split("."):
                value = getattr(value, key, None)
            if value is not None:
                given.setdefault(name, spelling)
    return given


def given_effort(effort: str | None) -> str | None:
    """Return the reasoning effort; None for a word that means the default."""
    return None if effort is None or _plain(effort) in _OPEN_EFFORTS else effort


def enables_thinking(effort: str) -> bool:
    """Whether a reasoning effort switches reasoning on."""
    return _plain(effort) not in _WITHOUT_THINKING


def effort_of(effort: str | None) -> Effort | None:
    """Return the effort that a word means; None if it leaves the effort open."""
    word = given_effort(effort)
    return None if word is None else _EFFORTS.get(_plain(word), Effort.HIGH)


def _plain(effort: str) -> str:
    return effort.strip().lower()


def json_form(schema: object, path: FieldPath) -> OutputConstraint | None:
    """Return the constraint of a schema that may be written as JSON text."""
    if schema is None:
        return None
    if isinstance(schema, str):
        with contextlib.suppress(ValueError, RecursionError):
            schema = json.loads(schema)
    if not isinstance(schema, dict):
        raise invalid(path, "must be a JSON schema, or one as JSON text")
    return OutputConstraint(schema)


def text_constraint(kind: str, form: Any) -> OutputConstraint | None:
    """Return the constraint of a format other than JSON; None if it is absent or empty.

    ``kind`` is the name of its field in ``TextForm``.
    """
    if not form:
        return None
    fields: dict[str, Any] = {kind: tuple(form) if kind == "choices" else form}
    return OutputConstraint(text_form=TextForm(**fields))
