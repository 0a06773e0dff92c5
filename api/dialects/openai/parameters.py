"""Request parameters that OpenAI's three APIs share, with those of their open relatives.

Only the shapes; ``decoding`` knows what they mean. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from api.dialects.openai.unhonoured import UNHONOURED
from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.extension import FullstopOptions
from api.dialects.shared.parameters.fields import ModelName
from api.dialects.shared.parameters.refusing import with_refused
from api.dialects.shared.parameters.sampling import with_sampling
from api.dialects.shared.parameters.stop_options import with_stop_options
from api.dialects.shared.parameters.stops import STOPS

# JSON schemas for fields that accept any type; their readers check them.
TOOL_CHOICE = WithJsonSchema(
    {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}, {"type": "null"}]}
)
SCHEMA_OR_TEXT = WithJsonSchema(
    {"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]}
)
FORMAT_TYPE = WithJsonSchema({"enum": ["text", "json_object", "json_schema"]})


def _as_prompts(value: Any) -> Any:
    """Read one prompt as a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _are_ids(value):
            return [value]
        if all(isinstance(one, str) for one in value) or all(_are_ids(one) for one in value):
            return value
    raise PydanticCustomError(
        "prompt_type",
        "must be a string, a list of strings, a list of token ids or a list of such lists",
    )


def _are_ids(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(type(one) is int or (type(one) is float and one.is_integer()) for one in value)


_IDS = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
_PROMPT = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            _IDS,
            {"type": "array", "items": _IDS, "minItems": 1},
        ]
    }
)


# A prompt or several, each as text or as token ids.
Prompts = Annotated[list[str | list[int]], BeforeValidator(_as_prompts), _PROMPT]


class ChatTemplateKwargs(WireModel):
    """Switches of the chat template, as open servers accept them."""

    enable_thinking: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)


class LastTurnParams(WireModel):
    """Whether the answer continues a last turn of the assistant, as vLLM spells it."""

    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class StreamOptions(WireModel):
    """What a stream includes in addition to the answer."""

    include_usage: bool | None = None


def includes_usage(options: StreamOptions | None) -> bool:
    """Whether a stream ends with its usage."""
    return options is not None and bool(options.include_usage)


class StructuredOutputs(WireModel):
    """``structured_outputs``, the output format as vLLM spells it."""

    json_schema: Annotated[Any, SCHEMA_OR_TEXT] = Field(default=None, alias="json")
    json_object: bool | None = None
    disable_additional_properties: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: SkipJsonSchema[Any] = None


@with_stop_options("OpenAI")
@with_sampling("OpenAI")
@with_refused(UNHONOURED)
class GenerationParams(WireModel):
    """How an answer is sampled, where it stops, and whether it is streamed."""

    model: ModelName = ""
    stream: bool | None = None
    stop: Annotated[Any, STOPS] = None
    # Accepted beyond the reference, as open servers spell them.
    enable_thinking: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)
    thinking_token_budget: int | None = Field(default=None, ge=-1)
    chat_template_kwargs: ChatTemplateKwargs | None = None
    stop_token_ids: list[int] | None = None
    guided_json: Annotated[Any, SCHEMA_OR_TEXT] = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    structured_outputs: StructuredOutputs | None = None
    fullstop: FullstopOptions | None = None


class ScoringParams(GenerationParams):
    """The same for APIs that return the logprobs of a prompt."""

    # As vLLM spells it.
    prompt_logprobs: int | None = Field(default=None, ge=0, le=20)


class CustomGrammar(WireModel):
    """The grammar of a custom tool's input."""

    syntax: str | None = None
    definition: str | None = None


class CustomFormat(CustomGrammar):
    """The format of a custom tool's input; Chat Completions puts a grammar one level deeper."""

    type: str
    grammar: CustomGrammar | None = None
