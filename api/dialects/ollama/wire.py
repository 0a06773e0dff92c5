"""The requests and answers of Ollama's API, spelled as in its reference.

https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import re
from typing import Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api.dialects.openai.chat_wire import CalledToolParam
from api.dialects.openai.wire import TokenLogprob
from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.parameters import (
    STOPS,
    AnyNumber,
    ChatTemplateKwargs,
    ModelName,
    OwnOptions,
    Seed,
)
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import FunctionParam

_FORMAT = WithJsonSchema(
    {
        "anyOf": [
            {"enum": ["json", ""]},
            {"type": "object", "description": "a JSON schema"},
            {"type": "null"},
        ]
    }
)
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Durations as Go writes them, and plain numbers.
_PART = r"(\d{1,15}(?:\.\d{0,15})?)(ns|us|µs|ms|s|m|h|$)"
_DURATION = re.compile(rf"[+-]?(?:{_PART}){{1,8}}")


def _keep_alive_s(value: Any) -> float | None:
    """Return the seconds that a model stays loaded after a request; None if it does not say.

    0 unloads it at once; -1 keeps it loaded forever, and so does a very long time, which timers do
    not support.
    """
    if value is None or value == "":
        return None
    seconds = value
    if isinstance(value, str) and _DURATION.fullmatch(text := value.strip()):
        seconds = sum(
            float(number) * _UNITS_S[unit or "s"] for number, unit in re.findall(_PART, text)
        )
        seconds = -seconds if text.startswith("-") else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        form = 'must be seconds, or a duration such as "5m" or "1h30m"'
        raise PydanticCustomError("keep_alive", form)
    return float(seconds) if 0 <= seconds <= 1e8 else -1.0


class OllamaOptions(WireModel):
    """``options``: sampling and stop parameters."""

    # Values beyond a parameter's range mean the nearest one.
    temperature: AnyNumber | None = None
    top_p: AnyNumber | None = None
    top_k: int | None = None
    min_p: AnyNumber | None = None
    repetition_penalty: AnyNumber | None = None
    repeat_penalty: AnyNumber | None = None
    presence_penalty: AnyNumber | None = None
    frequency_penalty: AnyNumber | None = None
    xtc_probability: AnyNumber | None = None
    xtc_threshold: AnyNumber | None = None
    # The reference's default of -1 means a random seed.
    seed: Seed | None = None
    stop: Annotated[Any, STOPS] = None
    # -1, -2 and 0 mean no limit.
    num_predict: int | None = Field(default=None, ge=-2)


class OllamaCallParam(WireModel):
    """A call that an earlier answer made."""

    id: str | None = None
    function: CalledToolParam


class OllamaTurn(WireModel):
    """One turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    # As other servers name it.
    reasoning_content: str | None = None
    reasoning: Any = None
    images: list[Any] | None = None
    tool_calls: list[OllamaCallParam] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaTool(WireModel):
    """A tool; only functions can be offered to a model here."""

    function_types: ClassVar = ("function",)

    type: str | None = None
    function: FunctionParam | None = None


class ModelParams(WireModel):
    """Which model is used, and for how many seconds it then stays in memory."""

    model: ModelName = ""
    keep_alive: Annotated[
        float | None,
        BeforeValidator(_keep_alive_s),
        WithJsonSchema({"type": ["string", "number", "null"]}),
    ] = None


class AnswerParams(ModelParams):
    """The fields that ``/api/chat`` and ``/api/generate`` have in common."""

    stream: bool | None = None
    format: Annotated[Any, _FORMAT] = None
    options: OllamaOptions | None = None
    think: bool | str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    # Accepted beyond the reference.
    chat_template_kwargs: ChatTemplateKwargs | None = None
    fullstop: OwnOptions


class ChatParams(AnswerParams):
    """``POST /api/chat``; without messages it loads or unloads the model."""

    messages: list[OllamaTurn] | None = None
    tools: list[OllamaTool] | None = None


class PromptParams(AnswerParams):
    """``POST /api/generate``; without a prompt it loads or unloads the model."""

    prompt: str | None = None
    system: str | None = None
    raw: bool | None = None
    images: list[Any] | None = None


class NamedModelParams(WireModel):
    """``POST /api/show`` and ``POST /api/pull``."""

    model: str | None = None
    name: str | None = None
    # Of a pull.
    stream: bool | None = None
    insecure: bool | None = None


# The bodies that are one text: errors, the version, and the lines of a pull.
OllamaText = dict[str, str]
DoneReason = Literal["stop", "length", "load", "unload", "error"]


class OllamaMessage(TypedDict):
    """The answer of ``/api/chat``, or its new content in a stream."""

    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str]
    tool_calls: NotRequired[
        Annotated[
            list[dict[str, Any]],
            Field(description="each with id and function: index, name, and arguments as an object"),
        ]
    ]


class OllamaContent(TypedDict, total=False):
    """The fields that only some lines have; durations are in nanoseconds."""

    message: Annotated[OllamaMessage, Field(description="of ``/api/chat``")]
    response: Annotated[str, Field(description="of ``/api/generate``")]
    thinking: Annotated[str, Field(description="of ``/api/generate``")]
    done_reason: DoneReason
    total_duration: int
    load_duration: int
    prompt_eval_count: int
    prompt_eval_duration: int
    eval_count: int
    eval_duration: int
    error: Annotated[str, Field(description="if a stream failed")]
    logprobs: list[TokenLogprob]
    fullstop: FullstopReport


class OllamaAnswer(OllamaContent):
    """One line of an answer; the last has ``done``, counts and durations."""

    model: str
    created_at: str
    done: bool


def _as_texts(value: Any) -> Any:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else value


class EmbedParams(ModelParams):
    """``POST /api/embed``; without input it only loads the model."""

    texts: Annotated[
        list[str], BeforeValidator(_as_texts, json_schema_input_type=str | list[str] | None)
    ] = Field(default_factory=list, alias="input")
    truncate: bool | None = None
    dimensions: int | None = Field(default=None, ge=0)
    options: WireModel | None = None  # none has an effect here


class OldEmbedParams(ModelParams):
    """``POST /api/embeddings``, the earlier route for a single text."""

    prompt: str | None = None
    options: WireModel | None = None  # none has an effect here
