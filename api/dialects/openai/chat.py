"""OpenAI's Chat Completions API, and its queries: tokens (for vLLM's clients) and embeddings.

Queries run on the server's loop. https://platform.openai.com/docs/api-reference/chat
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from api.dialects.openai.chat_read import (
    MAX_TOKENS,
    prompt_from_wire,
    request_body,
    requests_from_wire,
)
from api.dialects.openai.chat_wire import (
    AppliedTemplate,
    ChatCompletion,
    ChatCompletionParams,
    DetokenizeAnswer,
    DetokenizeParams,
    PromptParts,
    RenderedChat,
    TokenizeAnswer,
    TokenizeParams,
)
from api.dialects.openai.chat_write import ChatEncoder, write_completion
from api.dialects.openai.read import form_names
from api.dialects.openai.wire import EmbeddingAnswer, EmbeddingParams, ErrorAnswer
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.shared.dialect import AnswerRoute, Dialect, ParsedRequest, query
from api.dialects.shared.encoding import long_json_text
from api.dialects.shared.inspector_bodies import drop_empty, sampling_and_stops
from api.dialects.shared.parameters import OPENAI_STOP_OPTIONS
from api.service.errors import rename_field
from api.service.generations import embed_texts
from api.service.models import (
    address_requests,
    check_model,
    keep_loaded,
    list_models,
    loaded_model,
    model_name,
)
from engine.errors import NoModel
from engine.library.template_files import special_tokens
from engine.values.embedding import EmbeddingRequest, Embeddings
from engine.values.request import GenerationRequest
from engine.values.unanswered_prompt import UnansweredPrompt


def _field_names(params: ChatCompletionParams) -> Mapping[str, str]:
    given = (name for name in MAX_TOKENS if getattr(params, name) is not None)
    return {**form_names(params), "max_tokens": next(given, "max_tokens")}


@query("POST", "/tokenize", request=TokenizeParams, read=prompt_from_wire, answer=TokenizeAnswer)
async def tokenize(request: ParsedRequest[TokenizeParams]) -> str:
    """The tokens of a text or of a conversation, for clients of vLLM and llama.cpp."""
    service, params = request.service, request.params
    check_model(service, params.model)
    model = await loaded_model(service, params.model)
    [generation] = address_requests(service, request.generations, params.model)
    is_plain = params.add_special_tokens is False
    if params.content is not None:
        is_plain = not params.add_special
    if generation.prompt == "" or (generation.prompt is not None and is_plain):
        pieces = await service.engine.tokenize(str(generation.prompt), generation.model)
    else:
        pieces = await service.engine.prompt_pieces(generation)
    answer: TokenizeAnswer = {
        "count": len(pieces),
        "max_model_len": model.context_length,
        "tokens": [token_id for token_id, _ in pieces],
        "token_strs": [text for _, text in pieces] if params.return_token_strs else None,
    }
    return await asyncio.to_thread(long_json_text, answer)


@query(
    "POST",
    "/v1/chat/completions/render",
    request=ChatCompletionParams,
    read=requests_from_wire,
    answer=RenderedChat,
    field_names=_field_names,
)
async def render_chat(request: ParsedRequest[ChatCompletionParams]) -> str:
    """The prompt of a Chat request as token ids and text, for vLLM's clients."""
    generation, prompt, parts = await _render(request)
    answer: RenderedChat = {
        "request_id": request.record.request_id,
        "token_ids": prompt.tokens,
        "features": None,
        "sampling_params": {
            **sampling_and_stops(generation, OPENAI_STOP_OPTIONS),
            **drop_empty(max_tokens=generation.max_tokens),
        },
        "model": model_name(request.service, request.params.model),
        "stream": bool(request.params.stream),
        "cache_salt": None,
        "priority": 0,
        "fullstop": {"prompt": prompt.text, **parts},
    }
    return await asyncio.to_thread(long_json_text, answer)


@query(
    "POST",
    "/apply-template",
    request=ChatCompletionParams,
    read=requests_from_wire,
    answer=AppliedTemplate,
    field_names=_field_names,
)
async def apply_template(request: ParsedRequest[ChatCompletionParams]) -> str:
    """The prompt of a Chat request as text, for llama.cpp's clients."""
    _, prompt, parts = await _render(request)
    answer: AppliedTemplate = {"prompt": prompt.text, "fullstop": parts}
    return await asyncio.to_thread(long_json_text, answer)


@query("GET", "/props", answer=dict[str, Any])
async def get_props(request: ParsedRequest[None]) -> dict[str, Any]:
    """The context, special tokens and chat template of a model, for llama.cpp's clients."""
    service = request.service
    common = {
        "total_slots": service.engine.limits.max_rows,
        "build_info": f"fullstop-{version('fullstop-chat')}",
    }
    status = service.resolve_model(request.url.get("model", ""))
    if status is None:
        if not service.is_choosing:
            raise NoModel("no model is loaded")
        # Several models, of which none answers requests without a name.
        return {
            **common,
            "role": "router",
            "models_autoload": True,
            "model_alias": "fullstop",
            "model_path": "none",
            "default_generation_settings": {"params": {}, "n_ctx": 0},
        }
    [model] = await list_models([status])
    tokens = await asyncio.to_thread(special_tokens, status.model_folder)
    return {
        **common,
        "default_generation_settings": {"n_ctx": model.context_length},
        "model_alias": status.id,
        "model_path": status.id,
        "chat_template": model.template,
        "bos_token": tokens.get("bos_token", ""),
        "eos_token": tokens.get("eos_token", ""),
        "modalities": {"vision": model.can_see, "audio": False},
        "is_sleeping": not status.is_loaded,
    }


async def _render(
    request: ParsedRequest[ChatCompletionParams],
) -> tuple[GenerationRequest, UnansweredPrompt, PromptParts]:
    """Return a Chat request's generation, prompt and parts; name missing ones in the headers."""
    service, record, model = request.service, request.record, request.params.model
    check_model(service, model)
    generation = address_requests(service, request.generations, model)[0]
    prompt = await service.engine.render_prompt(generation)
    engines = (rename_field(name, record.field_names) for name in prompt.not_applied)
    record.not_applied = (*record.not_applied, *engines)
    has_places = "".join(prompt.pieces) == prompt.text
    parts: PromptParts = {
        "not_in_prompt": list(prompt.missing),
        "parts": [
            {"part": part.kind, "field": part.field, "start": part.start, "end": part.end}
            for part in (prompt.parts if has_places else ())
        ],
        "no_effect": list(record.no_effect),
    }
    record.not_applied = (*record.not_applied, *prompt.missing)
    return generation, prompt, parts


@query("POST", "/detokenize", request=DetokenizeParams, answer=DetokenizeAnswer)
async def detokenize(request: ParsedRequest[DetokenizeParams]) -> DetokenizeAnswer:
    """The text of token ids, for clients of vLLM and llama.cpp."""
    service, params = request.service, request.params
    check_model(service, params.model)
    name = service.engine_name(params.model)
    text = await service.engine.detokenize(params.tokens, name)
    return {"prompt": text, "content": text}


@query(
    "POST",
    "/v1/embeddings",
    request=EmbeddingParams,
    answer=EmbeddingAnswer,
    operation="embeddings",
    field_names=lambda params: {"inputs": "input"},
)
async def embed(request: ParsedRequest[EmbeddingParams]) -> str:
    """OpenAI Embeddings: texts as vectors."""
    service, record, params = request.service, request.record, request.params
    check_model(service, params.model)
    inputs = tuple(text if isinstance(text, str) else tuple(text) for text in params.texts)
    embedding = EmbeddingRequest(inputs, params.dimensions)
    embeddings = await embed_texts(service, record, embedding, params.model)
    keep_loaded(service, params.model, params.ttl)
    return await asyncio.to_thread(_embedding_json, embeddings, record.model, params)


def _embedding_json(embeddings: Embeddings, model: str, params: EmbeddingParams) -> str:
    tokens, is_base64 = sum(embeddings.tokens), params.encoding_format == "base64"
    answer: EmbeddingAnswer = {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": (
                    base64.b64encode(vector.tobytes()).decode() if is_base64 else list(vector)
                ),
            }
            for index, vector in enumerate(embeddings.vectors)
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return long_json_text(answer)


_ANSWERS = AnswerRoute(
    path="/v1/chat/completions",
    summary="OpenAI Chat Completions",
    request=ChatCompletionParams,
    answer=ChatCompletion,
    read=requests_from_wire,
    write_whole=write_completion,
    encoder=ChatEncoder,
    field_names=_field_names,
    id_prefix="chatcmpl-",
)

# Its errors answer requests that show no dialect.
CHAT = Dialect(
    name="Chat Completions",
    title="OpenAI Chat Completions",
    vendor="OpenAI",
    error_type=ErrorAnswer,
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        **FIELD_NAMES,
        "prompt_scoring.top": "prompt_logprobs",
        "tool_choice.name": "tool_choice",
        "constraint.json_schema": "response_format.json_schema.schema",
        "constraint": "response_format",
    },
    stream_fields={"stream_options": {"include_usage": True}},
    routes=(
        _ANSWERS,
        tokenize,
        detokenize,
        render_chat,
        apply_template,
        get_props,
        embed,
        # LM Studio's, as Zed asks it.
        replace(_ANSWERS, path="/api/v0/chat/completions"),
        replace(embed, path="/api/v0/embeddings"),
    ),
)
