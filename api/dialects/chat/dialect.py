"""OpenAI's Chat Completions API as one value, from which the server is built.

Replies to its queries of tokens and vectors run on the server's loop.
"""

import asyncio
import base64
from collections.abc import Mapping

from api.dialects.chat.read import ask, prompt_from_wire, requests_from_wire
from api.dialects.chat.wire import (
    ChatCompletion,
    ChatCompletionParams,
    ChatEvent,
    DetokenizeAnswer,
    DetokenizeParams,
    TokenizeAnswer,
    TokenizeParams,
)
from api.dialects.chat.write import ChatEncoder, answer_id, write_completion
from api.dialects.openai.read import form_names
from api.dialects.openai.wire import (
    UNHONOURED_EMBEDDING,
    EmbeddingAnswer,
    EmbeddingParams,
    ErrorAnswer,
)
from api.dialects.openai.write import FIELD_NAMES, error_to_wire
from api.dialects.shared.answers import vectors_answer
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute
from api.dialects.shared.parameters import refuse
from api.dialects.shared.requests import ParsedRequest
from api.transport.answer_text import long_json_text
from api.transport.service import (
    Service,
    addressed,
    check_model,
    embedded,
    engine_name,
    loaded_model,
)
from engine import EmbeddingRequest, Embeddings

# -- tokens ------------------------------------------------------------------------------------
# Prompts and conversations are tokenized, and ids detokenized, for clients of vLLM.


# This many ids are encoded so fast that no stream is delayed.
_FEW_TOKENS = 4_000


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


# -- embeddings --------------------------------------------------------------------------------


async def embed(service: Service, params: EmbeddingParams) -> EmbeddingAnswer | str:
    """Answer ``POST /v1/embeddings``."""
    refuse(params, UNHONOURED_EMBEDDING)
    check_model(service, params.model)
    wanted = EmbeddingRequest(
        tuple(text if isinstance(text, str) else tuple(text) for text in params.texts),
        params.dimensions,
    )
    encoding = params.encoding_format or "float"
    made, model = await embedded(service, wanted, params.model, encoding)

    def answer(embeddings: Embeddings, tokens: int) -> EmbeddingAnswer:
        return {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": (
                        base64.b64encode(vector.tobytes()).decode()
                        if encoding == "base64"
                        else list(vector)
                    ),
                }
                for index, vector in enumerate(embeddings.vectors)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    return await vectors_answer(made, answer)


_EMBEDDINGS = (
    QueryRoute(
        method="POST",
        path="/v1/embeddings",
        summary="OpenAI Embeddings: texts as vectors",
        request=EmbeddingParams,
        reply=embed,
        answer=EmbeddingAnswer,
        operation="embeddings",
        own_names={"inputs": "input"},
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
    queries=(*_TOKENS, *_EMBEDDINGS),
)
