"""Answers SGLang's queries about the model and the server's health. Runs on the server's loop."""

from importlib.metadata import version

from api.dialects.sglang.wire import FlushedCache, SglangModel, SglangServer
from api.transport.service import Service, asker, collected, loaded_model, running
from engine import CacheOwner, GenerationRequest, StopRules, counted


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
    states = service.engine.models or (service.engine.status,)
    prompts, size_bytes = service.engine.status.cache_use.shares.get(asker(), (0, 0))
    return {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "served_model_name": model.id,
        "context_length": model.context_length,
        "version": version("fullstop-chat"),
        "internal_states": [
            {
                "running": sum(one.running for one in states),
                "waiting": sum(one.waiting for one in states),
                "cached_prompts": prompts,
                "cached_bytes": size_bytes,
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
