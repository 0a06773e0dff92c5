"""The request types of Ollama's API, spelled as in its reference.

Only shapes: what they mean is ``read``'s business. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel, WithJsonSchema

from api.dialects.shared.answers import DEFERRED, AnswerModel, FullstopReport
from api.dialects.shared.body import WireModel
from api.dialects.shared.extension import FullstopOptions
from api.dialects.shared.stops import STOPS

# Numbers outside what makes sense are taken as the nearest that does, as the reference does it.
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
_FORMAT = WithJsonSchema(
    {
        "anyOf": [
            {"enum": ["json", ""]},
            {"type": "object", "description": "a JSON schema"},
            {"type": "null"},
        ]
    }
)
# The model stays loaded whatever it says; only the answer to 0 is the reference's.
_KEEP_ALIVE = WithJsonSchema({"type": ["string", "number", "null"]})


class Options(WireModel):
    """``options``: how the answer is drawn, and what ends it.

    What concerns memory and threads (``num_ctx``, ``num_gpu`` …) is accepted and changes nothing.
    """

    stop: Annotated[Any, STOPS] = None
    # -1 and -2 are "until it ends by itself", as is 0.
    num_predict: int | None = Field(default=None, ge=-2)
    temperature: _Number | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    top_k: int | None = Field(default=None, ge=-1)
    top_p: _Number | None = None
    min_p: _Number | None = None
    repeat_penalty: float | None = Field(default=None, ge=0.01, le=100, allow_inf_nan=False)
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    typical_p: float | None = None
    tfs_z: float | None = None
    mirostat: int | None = None


class CalledFunction(WireModel):
    """What was called, and with what."""

    name: str
    arguments: dict[str, Any]


class ToolCallParam(WireModel):
    """A call that an earlier answer made."""

    id: str | None = None
    function: CalledFunction


class ChatMessage(WireModel):
    """One turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[ToolCallParam] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class FunctionParam(WireModel):
    """A function that the client runs."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolParam(WireModel):
    """A tool; only functions can be offered to a model here."""

    type: str | None = None
    function: FunctionParam | None = None


class AnswerParams(WireModel):
    """What ``/api/chat`` and ``/api/generate`` have in common."""

    model: str
    stream: bool | None = None
    format: Annotated[Any, _FORMAT] = None
    options: Options | None = None
    think: bool | str | None = None
    keep_alive: Annotated[Any, _KEEP_ALIVE] = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    fullstop: FullstopOptions | None = None


class ChatParams(AnswerParams):
    """``POST /api/chat``; no messages ask whether the model is there."""

    messages: list[ChatMessage] | None = None
    tools: list[ToolParam] | None = None


class GenerateParams(AnswerParams):
    """``POST /api/generate``; no prompt asks whether the model is there."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[Any] | None = None


class ShowParams(WireModel):
    """``POST /api/show``."""

    model: str | None = None
    name: str | None = None


class OllamaErrorAnswer(AnswerModel):
    """What every failure looks like."""

    error: str


class OllamaAnswer(AnswerModel):
    """One line of an answer; the last has ``done`` and the counts, durations in nanoseconds."""

    model: str
    created_at: str
    done: bool
    done_reason: Literal["stop", "length", "load", "unload", "error"] | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    error: str | None = Field(default=None, description="where a stream broke off")
    fullstop: FullstopReport | None = None


class OllamaCalledFunction(AnswerModel):
    """What is to be called, and with what."""

    index: int
    name: str
    arguments: dict[str, Any]


class OllamaCall(AnswerModel):
    """A call that the client is to make."""

    id: str
    function: OllamaCalledFunction


class OllamaMessage(AnswerModel):
    """The answer, or in a stream what is new of it."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaCall] | None = None


class OllamaChatAnswer(OllamaAnswer):
    """An answer of ``/api/chat``, and a line of its stream."""

    message: OllamaMessage


class OllamaGenerateAnswer(OllamaAnswer):
    """An answer of ``/api/generate``, and a line of its stream."""

    response: str
    thinking: str | None = None


class OllamaChatLine(RootModel[OllamaChatAnswer | OllamaErrorAnswer]):
    """One line of a stream of ``/api/chat``."""

    model_config = DEFERRED


class OllamaGenerateLine(RootModel[OllamaGenerateAnswer | OllamaErrorAnswer]):
    """One line of a stream of ``/api/generate``."""

    model_config = DEFERRED


class OllamaDetails(AnswerModel):
    """What kind of model it is."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaListed(AnswerModel):
    """A model; those that run tell until when, the others since when they are there."""

    name: str
    model: str
    size: int
    digest: str
    details: OllamaDetails
    modified_at: str | None = None
    expires_at: str | None = None
    size_vram: int | None = None
    context_length: int | None = None


class OllamaModels(AnswerModel):
    """``GET /api/tags`` and ``GET /api/ps``."""

    models: list[OllamaListed]


class OllamaVersion(AnswerModel):
    """``GET /api/version``."""

    version: str


class OllamaModel(AnswerModel):
    """``POST /api/show``."""

    modelfile: str
    parameters: str
    template: str
    details: OllamaDetails
    model_info: dict[str, str | int]
    capabilities: list[Literal["completion", "tools", "thinking"]]
    modified_at: str
