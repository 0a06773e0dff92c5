"""Tokenizes prompts and conversations and detokenizes ids, for clients of vLLM.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
Clients also count the tokens of Chat Completions requests this way. OpenAI has no route for that,
so clients of open servers send the messages, tools and switches to ``/tokenize``.
"""

import asyncio
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.chat.read import requests_from_wire
from api.dialects.chat.wire import ChatCompletionParams, ChatTool, ChatTurn, GatewayReasoning
from api.dialects.openai.decoding import with_last_turn
from api.dialects.openai.parameters import TOOL_CHOICE, ChatTemplateKwargs, LastTurnParams
from api.dialects.shared.body import WireModel
from api.dialects.shared.dialect import QueryRoute
from api.dialects.shared.parameters.extension import FullstopOptions
from api.dialects.shared.parameters.fields import ModelName
from api.dialects.shared.requested import Asked
from api.transport.answer_text import long_json_text
from api.transport.errors import invalid, unsupported
from api.transport.service import Service, addressed, check_model, engine_name, loaded_model
from engine import GenerationRequest

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


async def tokenize(service: Service, asked: Asked[TokenizeParams]) -> TokenizeAnswer | str:
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


ROUTES = (
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
