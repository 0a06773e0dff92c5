"""Renders prompts and compiles grammars on threads beside the engine's. No MLX."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.generation import Generation
from engine.grammar.masks import is_constrained
from engine.inference.backend import Prompt
from engine.values.request import GenerationRequest

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


def prepare(backend: "MlxBackend", generations: Sequence[Generation]) -> tuple[Prompt, ...]:
    """Compile the grammars of a request's choices, perhaps for seconds, and render its prompts."""
    prompts: dict[object, Prompt] = {}
    for generation in generations:
        request = generation.request
        if is_constrained(request):
            generation.grammar = backend.form(request)
        if request.prompt_key not in prompts:
            prompts[request.prompt_key] = backend.render(request)
    return tuple(prompts[generation.request.prompt_key] for generation in generations)


def prompts_size(requests: Sequence[GenerationRequest]) -> int:
    """Return about how many characters or ids rendering these requests takes."""
    return sum(map(_size, {request.prompt_key: request for request in requests}.values()))


def _size(request: GenerationRequest) -> int:
    prediction = len(request.prediction or "")
    if request.prompt is not None:
        return prediction + len(request.prompt)
    sizes = (len(message.content) + len(message.thinking or "") + 8 for message in request.messages)
    return prediction + sum(sizes)


def choices_field(requests: Sequence[GenerationRequest]) -> str:
    """Return the field that requests several answers: ``n``, or a list of prompts."""
    return "n" if len({request.prompt_key for request in requests}) < len(requests) else "prompt"
