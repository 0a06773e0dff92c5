"""SGLang's native API as one value, from which the server is built, and the answers to its queries.

Replies run on the server's loop.
"""

from importlib.metadata import version
from typing import Literal

from api.dialects.sglang.read import ask, prompt_name, requests_from_wire
from api.dialects.sglang.wire import (
    FlushedCache,
    GenerateAnswers,
    GenerateEvent,
    GenerateParams,
    SglangErrorAnswer,
    SglangModel,
    SglangServer,
)
from api.dialects.sglang.write import GenerateEncoder, answer_id, error_to_wire, write_answers
from api.dialects.shared.dialect import AnswerRoute, Dialect, QueryRoute, admit_any
from api.transport.service import Service, asker, collected, loaded_model, running
from engine import CacheOwner, GenerationRequest, StopRules, counted

# -- the model and the server's health ---------------------------------------------------------


async def model_info(service: Service, _: None) -> SglangModel:
    """Describe the loaded model, without its path on this computer."""
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


async def server_info(service: Service, _: None) -> SglangServer:
    """Describe the server, without any path on this computer."""
    model = await loaded_model(service)
    states = service.models or (service.engine.status,)
    held = service.engine.status.cache_use.shares.get(asker())
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
                "cached_prompts": held.entries if held else 0,
                "cached_bytes": held.size_bytes if held else 0,
            }
        ],
    }


async def flush_cache(service: Service, _: None) -> FlushedCache:
    """Clear the client's own prompt cache in memory; running answers continue."""
    prompts, size_bytes = await service.engine.forget_prompts(CacheOwner(asker()))
    return {
        "success": True,
        "message": f"Cache flushed: {counted(prompts, 'prompt')}. Running answers continue.",
        "flushed_prompts": prompts,
        "freed_bytes": size_bytes,
    }


async def health_generate(service: Service, _: None) -> None:
    """Return once the model has sampled a token."""
    model = await loaded_model(service)
    probe = GenerationRequest(
        prompt=(model.eos[0].token_id if model.eos else 0,),
        stops=StopRules(ignore_eos=True),
        max_tokens=1,
    )
    async with running(service, [probe]) as [generation]:
        await collected(generation)


# -- the dialect -------------------------------------------------------------------------------


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
