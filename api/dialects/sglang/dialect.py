"""SGLang's native API: raw prompts, and queries about the server. Runs on the server's loop.

https://docs.sglang.ai/basic_usage/native_api.html
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar

from api.dialects.sglang.read import request_body, requests_from_wire
from api.dialects.sglang.wire import (
    GenerateAnswers,
    GenerateParams,
    SglangError,
)
from api.dialects.sglang.write import GenerateEncoder, answer_id, error_to_wire, write_answers
from api.dialects.shared.dialect import AnswerRoute, Dialect, Head, query
from api.service.generations import collect_events, run_generations
from api.service.models import loaded_model
from api.service.record import RequestRecord
from api.service.service import Service
from engine import CacheOwner, GenerationRequest, StopRules, counted


class GenerateRoute(AnswerRoute[GenerateParams]):
    """``POST /generate``."""

    path = "/generate"
    summary = "SGLang's native API: raw prompts"
    request = GenerateParams
    answer = GenerateAnswers
    operation = "text_completion"
    read = staticmethod(requests_from_wire)
    write_whole = staticmethod(write_answers)
    encoder = staticmethod(GenerateEncoder)

    async def admit(self, service: Service, params: GenerateParams) -> None:
        """Accept every request: requests name no model."""

    def field_names(self, params: GenerateParams) -> Mapping[str, str]:
        return {"prompt": "text" if params.text is not None else "input_ids"}

    def answer_id(self, params: GenerateParams, head: Head) -> str:
        return answer_id(params, head, 0)


@query("GET", "/get_model_info", answer=dict[str, Any])
async def get_model_info(service: Service, record: RequestRecord, _: None) -> dict[str, Any]:
    """The loaded model, for SGLang's clients."""
    model = await loaded_model(service)
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
async def get_server_info(service: Service, record: RequestRecord, _: None) -> dict[str, Any]:
    """The server's state, for SGLang's clients."""
    model = await loaded_model(service)
    states = service.models or (service.engine.status,)
    cached = service.engine.status.cache_use.shares.get(record.client_id)
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
async def flush_cache(
    service: Service, record: RequestRecord, _: None
) -> dict[str, bool | str | int]:
    """Clear the prompt cache in memory."""
    owner = CacheOwner(record.client_id)
    prompts, size_bytes = await service.engine.forget_prompts(owner)
    return {
        "success": True,
        "message": f"Cache flushed: {counted(prompts, 'prompt')}. Running answers continue.",
        "flushed_prompts": prompts,
        "freed_bytes": size_bytes,
    }


@query("GET", "/health_generate", is_safe=False)
async def check_generation(service: Service, record: RequestRecord, _: None) -> None:
    """Whether a token can be sampled."""
    model = await loaded_model(service)
    probe = GenerationRequest(
        prompt=(model.eos[0].token_id if model.eos else 0,),
        stops=StopRules(ignore_eos=True),
        max_tokens=1,
    )
    async with run_generations(service, record, [probe]) as [generation]:
        await collect_events(generation)


class Generate(Dialect):
    """SGLang's native API."""

    name = "Generate"
    title = "SGLang /generate"
    vendor = "SGLang"
    error_type = dict[str, SglangError]
    field_names: ClassVar[Mapping[str, str]] = {
        "stops.strings": "sampling_params.stop",
        "stops.token_ids": "sampling_params.stop_token_ids",
        "max_tokens": "sampling_params.max_new_tokens",
        "n": "sampling_params.n",
        "sampling.logit_bias": "sampling_params.logit_bias",
        "top_logprobs": "top_logprobs_num",
        "prompt_scoring.start": "logprob_start_len",
        "prompt_scoring.top": "top_logprobs_num",
        "constraint.json_schema": "sampling_params.json_schema",
        "constraint.regex": "sampling_params.regex",
        "constraint.grammar": "sampling_params.ebnf",
        "constraint": "sampling_params",
        # The engine uses this name only to say that the prompt is empty.
        "messages": "text",
    }
    answers = (GenerateRoute(),)
    queries = (
        get_model_info,
        get_server_info,
        replace(get_server_info, path="/get_server_info"),
        flush_cache,
        replace(flush_cache, method="GET", is_safe=False),  # SGLang accepts both methods
        check_generation,
    )
    render_error = staticmethod(error_to_wire)
    request_body = staticmethod(request_body)
