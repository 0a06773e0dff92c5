"""SGLang's native API as one value, from which the server is built. Pure; any thread."""

from typing import Literal

from api.dialects.sglang.ask import ask
from api.dialects.sglang.errors import error_to_wire
from api.dialects.sglang.queries import flush_cache, health_generate, model_info, server_info
from api.dialects.sglang.read import prompt_name, requests_from_wire
from api.dialects.sglang.wire import (
    FlushedCache,
    GenerateAnswers,
    GenerateEvent,
    GenerateParams,
    SglangErrorAnswer,
    SglangModel,
    SglangServer,
)
from api.dialects.sglang.write import GenerateEncoder, answer_id, write_answers
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute, admit_any

# SGLang accepts both methods.
_FLUSHING: tuple[Literal["POST"], Literal["GET"]] = ("POST", "GET")

DIALECT = Dialect(
    name="Generate",
    title="SGLang /generate",
    vendor="SGLang",
    reference="https://docs.sglang.ai/basic_usage/native_api.html",
    render_error=error_to_wire,
    error_type=SglangErrorAnswer,
    field_names={
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "chosen_logprobs": "token_ids_logprob",
        "prompt_scoring.start": "logprob_start_len",
        "prompt_scoring.top": "top_logprobs_num",
        "prompt_scoring.token_ids": "token_ids_logprob",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint.regex": "sampling_params.regex",
        "constraint.grammar": "sampling_params.ebnf",
        "constraint": "sampling_params",
        # The engine uses this name only to say that the prompt is empty.
        "messages": "text",
    },
    ask=ask,
    answers=(
        AnswerRoute(
            path="/generate",
            operation="text_completion",
            summary="SGLang's native API: raw prompts",
            request=GenerateParams,
            read=requests_from_wire,
            answer=GenerateAnswers,
            write_whole=write_answers,
            event=GenerateEvent,
            encoder=GenerateEncoder,
            answer_id=answer_id,
            admit=admit_any,
            own_names=prompt_name,
        ),
    ),
    queries=(
        QueryRoute(
            method="GET",
            path="/get_model_info",
            summary="The loaded model, for SGLang's clients",
            reply=model_info,
            answer=SglangModel,
        ),
        *(
            QueryRoute(
                method="GET",
                path=path,
                summary="The server and what it is doing, for SGLang's clients",
                reply=server_info,
                answer=SglangServer,
            )
            for path in ("/server_info", "/get_server_info")
        ),
        *(
            QueryRoute(
                method=method,
                path="/flush_cache",
                summary="Clear the prompt cache in memory",
                reply=flush_cache,
                answer=FlushedCache,
            )
            for method in _FLUSHING
        ),
        QueryRoute(
            method="GET",
            path="/health_generate",
            summary="Whether a token can be sampled",
            reply=health_generate,
        ),
    ),
)
