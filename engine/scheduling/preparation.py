"""Renders prompts and compiles grammars on threads beside the engine's. No MLX."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.generation import Generation
from engine.grammar.masks import is_constrained
from engine.inference.backend import Prompt
from engine.values.request import GenerationRequest

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


def prepare(backend: "MlxBackend", generations: Sequence[Generation]) -> tuple[Prompt, ...]:
    """Compile the grammars of a request's choices, perhaps for seconds, and render its prompts.

    Consecutive choices with the same prompt share it.
    """
    for generation in generations:
        if is_constrained(generation.request):
            generation.form = backend.form(generation.request)
    requests = [generation.request for generation in generations]
    prompts = [backend.render(requests[0])]
    for before, request in pairwise(requests):
        is_same = _has_same_prompt(before, request)
        prompts.append(prompts[-1] if is_same else backend.render(request))
    return tuple(prompts)


def prompts_size(requests: Sequence[GenerationRequest]) -> int:
    """Return about how many characters or ids rendering these requests takes."""
    return _size(requests[0]) + sum(
        _size(request)
        for before, request in pairwise(requests)
        if not _has_same_prompt(before, request)
    )


def _size(request: GenerationRequest) -> int:
    prediction = len(request.prediction or "")
    if request.prompt is not None:
        return prediction + len(request.prompt)
    sizes = (len(message.content) + len(message.thinking or "") + 8 for message in request.messages)
    return prediction + sum(sizes)


def choices_field(requests: Sequence[GenerationRequest]) -> str:
    """Return the field that requests several answers: ``n``, or a list of prompts."""
    is_shared = any(_has_same_prompt(before, request) for before, request in pairwise(requests))
    return "n" if is_shared else "prompt"


def _has_same_prompt(request: GenerationRequest, other: GenerationRequest) -> bool:
    return (
        request.messages is other.messages
        and request.prompt is other.prompt
        and request.tools is other.tools
        and request.thinking == other.thinking
        and request.tool_choice == other.tool_choice
        and request.prediction is other.prediction
        and request.opens_answer == other.opens_answer
        and request.continues_last == other.continues_last
        and request.begun == other.begun
        and request.effort == other.effort
        and request.template_options == other.template_options
    )
