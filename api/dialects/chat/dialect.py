"""OpenAI's Chat Completions API as one value, from which the server is built.

Replies to its queries of tokens run on the server's loop.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.chat.read import ask, requests_from_wire
from api.dialects.chat.wire import (
    ChatCompletion,
    ChatCompletionParams,
    ChatEvent,
    ChatTool,
    ChatTurn,
    GatewayReasoning,
)
from api.dialects.chat.write import ChatEncoder, answer_id, write_completion
from api.dialects.openai.embeddings import ROUTES as EMBEDDINGS
from api.dialects.openai.read import form_names, with_last_turn
from api.dialects.openai.wire import TOOL_CHOICE, ChatTemplateKwargs, ErrorAnswer, LastTurnParams
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.shared.body import WireModel
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute
from api.dialects.shared.parameters import FullstopOptions, ModelName
from api.dialects.shared.requests import ParsedRequest
from api.transport.answer_text import long_json_text
from api.transport.errors import invalid, unsupported
from api.transport.service import Service, addressed, check_model, engine_name, loaded_model
from engine import GenerationRequest

# -- tokens ------------------------------------------------------------------------------------
# Prompts and conversations are tokenized, and ids detokenized, for clients of vLLM.


# This many ids are encoded so fast that no stream is delayed.
_FEW_TOKENS = 4_000


class TokenizeParams(LastTurnParams):
    """``POST /tokenize``: a text, or a conversation as in Chat Completions."""

    model: ModelName = ""
    prompt: str | None = None
    messages: Annotated[list[ChatTurn], Field(min_length=1)] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    tools: list[ChatTool] | None = None
    tool_choice: Annotated[Any, TOOL_CHOICE] = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)
    thinking_token_budget: int | None = Field(default=None, ge=-1)
    reasoning_effort: str | None = None
    reasoning: GatewayReasoning | None = None
    chat_template_kwargs: ChatTemplateKwargs | None = None
    fullstop: FullstopOptions | None = None
    chat_template: str | None = None


class DetokenizeParams(WireModel):
    """``POST /detokenize``."""

    model: ModelName = ""
    tokens: list[int]


class TokenizeAnswer(TypedDict):
    """The tokens of a prompt."""

    count: int
    max_model_len: Annotated[int, Field(description="tokens that the model's context holds")]
    tokens: list[int]
    token_strs: Annotated[list[str] | None, Field(description="their texts, if requested")]


class DetokenizeAnswer(TypedDict):
    """The text of some tokens."""

    prompt: str


def prompt_from_wire(params: TokenizeParams, *, strict: bool = False) -> list[GenerationRequest]:
    """Return the prompt to tokenize; takes and raises the same as ``ReadRequest``."""
    if (params.prompt is None) == (params.messages is None):
        raise invalid(("prompt",), "give either prompt or messages")
    if params.chat_template:
        raise unsupported(("chat_template",), "a chat template in a request")
    if params.messages is None:
        return [GenerationRequest(prompt=params.prompt)]
    if params.add_special_tokens:
        raise unsupported(("add_special_tokens",), "special tokens beside the chat template's own")
    chat = ChatCompletionParams(
        model=params.model,
        messages=params.messages,
        tools=params.tools,
        tool_choice=params.tool_choice,
        enable_thinking=params.enable_thinking,
        thinking_budget=params.thinking_budget,
        thinking_token_budget=params.thinking_token_budget,
        reasoning_effort=params.reasoning_effort,
        reasoning=params.reasoning,
        chat_template_kwargs=params.chat_template_kwargs,
        fullstop=params.fullstop,
    )
    [wanted] = requests_from_wire(chat, strict=strict)
    return [with_last_turn(wanted, params, is_answered=False)]


async def tokenize(service: Service, asked: ParsedRequest[TokenizeParams]) -> TokenizeAnswer | str:
    """Return the tokens of a prompt as the model would read them."""
    params = asked.params
    check_model(service, params.model)
    model = await loaded_model(service, params.model)
    [wanted] = addressed(service, asked.requests(), params.model)
    if wanted.prompt == "" or (wanted.prompt is not None and params.add_special_tokens is False):
        pieces = await service.engine.tokenize(str(wanted.prompt), wanted.model)
    else:
        pieces = await service.engine.prompt_pieces(wanted)
    answer: TokenizeAnswer = {
        "count": len(pieces),
        "max_model_len": model.context_length,
        "tokens": [token_id for token_id, _ in pieces],
        "token_strs": [text for _, text in pieces] if params.return_token_strs else None,
    }
    if len(pieces) <= _FEW_TOKENS:
        return answer
    return await asyncio.to_thread(long_json_text, answer)


async def detokenize(service: Service, params: DetokenizeParams) -> DetokenizeAnswer:
    """Return the text of some tokens."""
    check_model(service, params.model)
    name = engine_name(service, params.model)
    return {"prompt": await service.engine.detokenize(params.tokens, name)}


_TOKENS = (
    QueryRoute(
        method="POST",
        path="/tokenize",
        summary="The tokens of a text or of a conversation, for vLLM's clients",
        reply=tokenize,
        request=TokenizeParams,
        read=prompt_from_wire,
        answer=TokenizeAnswer,
    ),
    QueryRoute(
        method="POST",
        path="/detokenize",
        summary="The text of token ids, for vLLM's clients",
        reply=detokenize,
        request=DetokenizeParams,
        answer=DetokenizeAnswer,
    ),
)


# -- the dialect -------------------------------------------------------------------------------


def _own_names(params: ChatCompletionParams) -> Mapping[str, str]:
    """Return this request's names of engine fields that have two names in this API."""
    if params.max_completion_tokens is None:
        return form_names(params)
    return {**form_names(params), "max_tokens": "max_completion_tokens"}


DIALECT = Dialect(
    name="Chat Completions",
    title="OpenAI Chat Completions",
    vendor="OpenAI",
    reference="https://platform.openai.com/docs/api-reference/chat",
    render_error=error_to_wire,
    error_type=ErrorAnswer,
    field_names={
        **FIELD_NAMES,
        "prompt_scoring.top": "prompt_logprobs",
        "tool_choice.name": "tool_choice",
        "constraint.json_schema": "response_format.json_schema.schema",
        "constraint": "response_format",
    },
    ask=ask,
    stream_fields={"stream_options": {"include_usage": True}},
    answers=(
        AnswerRoute(
            path="/v1/chat/completions",
            summary="OpenAI Chat Completions",
            request=ChatCompletionParams,
            read=requests_from_wire,
            answer=ChatCompletion,
            write_whole=write_completion,
            event=ChatEvent,
            encoder=ChatEncoder,
            own_names=_own_names,
            answer_id=answer_id,
        ),
    ),
    queries=(*_TOKENS, *EMBEDDINGS),
)
