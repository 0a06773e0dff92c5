"""SGLang's native API: raw prompts, and queries about the server. Runs on the server's loop.

https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from api.dialects.sglang.read import request_body, requests_from_wire
from api.dialects.sglang.wire import (
    GenerateAnswers,
    GenerateParams,
    SglangError,
)
from api.dialects.sglang.write import GenerateEncoder, answer_id, error_to_wire, write_answers
from api.dialects.shared.dialect import AnswerRoute, Dialect, ParsedRequest, query
from api.service.generations import collect_events, run_generations
from api.service.models import loaded_model
from api.service.service import Service
from engine.stopping.rules import StopRules
from engine.values.request import CacheOwner, GenerationRequest
from engine.wording import counted


class GenerateRoute(AnswerRoute[GenerateParams]):
    """``POST /generate``, whose requests may name an adapter and their answer."""

    def model_of(self, params: GenerateParams) -> str:
        return params.lora_path or ""

    async def admit(self, service: Service, params: GenerateParams) -> None:
        """Accept every request: requests name no model."""

    def answer_id(self, params: GenerateParams, unique: str) -> str:
        return answer_id(params, unique, 0)


def _field_names(params: GenerateParams) -> Mapping[str, str]:
    return {"prompt": "text" if params.text is not None else "input_ids"}


@query("GET", "/get_model_info", answer=dict[str, Any])
async def get_model_info(request: ParsedRequest[None]) -> dict[str, Any]:
    """The loaded model, for SGLang's clients."""
    model = await loaded_model(request.service)
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "is_generation": True,
        "preferred_sampling_params": None,
        "max_context_length": model.context_length,
        "vocab_size": model.vocabulary_size,
        "model_type": model.architecture,
    }


@query("GET", "/server_info", answer=dict[str, Any])
async def get_server_info(request: ParsedRequest[None]) -> dict[str, Any]:
    """The server's state, for SGLang's clients."""
    model = await loaded_model(request.service)
    states = request.service.models or (request.service.engine.status,)
    shares = request.service.engine.status.cache_use
    cached = shares.get(request.record.client_id)
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "served_model_name": model.id,
        "context_length": model.context_length,
        "version": version("fullstop-chat"),
        "internal_states": [
            {
                "running": sum(state.running for state in states),
                "waiting": sum(state.waiting for state in states),
                "cached_prompts": cached.entries if cached else 0,
                "cached_bytes": cached.size_bytes if cached else 0,
            }
        ],
    }


@query("POST", "/flush_cache", answer=dict[str, bool | str | int])
async def flush_cache(request: ParsedRequest[None]) -> dict[str, bool | str | int]:
    """Clear the prompt cache in memory."""
    owner = CacheOwner(request.record.client_id)
    prompts, size_bytes = await request.service.engine.forget_prompts(owner)
    return {
        "success": True,
        "message": f"Cache flushed: {counted(prompts, 'prompt')}. Running answers continue.",
        "flushed_prompts": prompts,
        "freed_bytes": size_bytes,
    }


@query("GET", "/health_generate", is_safe=False)
async def check_generation(request: ParsedRequest[None]) -> None:
    """Whether a token can be sampled."""
    model = await loaded_model(request.service)
    probe = GenerationRequest(
        prompt=(model.eos[0].token_id if model.eos else 0,),
        stops=StopRules(ignore_eos=True),
        max_tokens=1,
    )
    async with run_generations(request.service, request.record, [probe]) as [generation]:
        await collect_events(generation)


GENERATE = Dialect(
    name="Generate",
    title="SGLang /generate",
    vendor="SGLang",
    error_type=dict[str, SglangError],
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling": "sampling_params",
        "top_logprobs": "top_logprobs_num",
        "prompt_scoring.start": "logprob_start_len",
        "prompt_scoring.top": "top_logprobs_num",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint.regex": "sampling_params.regex",
        "constraint.grammar": "sampling_params.ebnf",
        "constraint": "sampling_params",
        # The engine uses this name only to say that the prompt is empty.
        "messages": "text",
    },
    routes=(
        GenerateRoute(
            path="/generate",
            summary="SGLang's native API: raw prompts",
            request=GenerateParams,
            answer=GenerateAnswers,
            read=requests_from_wire,
            write_whole=write_answers,
            encoder=GenerateEncoder,
            field_names=_field_names,
            operation="text_completion",
        ),
        get_model_info,
        get_server_info,
        replace(get_server_info, path="/get_server_info"),
        flush_cache,
        replace(flush_cache, method="GET", is_safe=False),  # SGLang accepts both methods
        check_generation,
    ),
)
