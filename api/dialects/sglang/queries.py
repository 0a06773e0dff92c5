"""What SGLang's clients ask about the model and its health. Runs on the server's loop."""

from api.dialects.sglang.wire import SglangModel
from api.transport.context import Service, loaded_model
from api.transport.running import collected, running
from engine import GenerationRequest, StopRules


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
