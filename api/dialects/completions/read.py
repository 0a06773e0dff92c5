"""Converts requests of Completions to the engine's, and back. Pure functions."""

from dataclasses import replace

from api.dialects.completions.wire import CompletionParams
from api.dialects.openai.read import (
    allows_more,
    guided,
    refuse_in_stream,
    scoring_fields,
    stops_of,
    thinking_budget_of,
)
from api.dialects.openai.wire import UNHONOURED
from api.dialects.shared.parameters import choices_of, refuse, sampling_of
from api.dialects.shared.requests import JsonObject, filled, sampling_and_stops
from api.transport.errors import invalid, unsupported
from engine import GenerationRequest, PromptScoring, TraceLevel

_MAX_CHOICES = 128
# The reference's default: the answer to a raw prompt may have no natural end.
_DEFAULT_MAX_TOKENS = 16


def requests_from_wire(
    params: CompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return one generation for each choice of each prompt, in the prompts' order.

    Takes and raises what ``ReadRequest`` does.
    """
    _refuse_unsupported(params)
    common = GenerationRequest(
        sampling=sampling_of(params, "OpenAI"),
        stops=stops_of(params, strict=strict),
        max_tokens=_DEFAULT_MAX_TOKENS if params.max_tokens is None else params.max_tokens,
        trace=TraceLevel.OFF if params.logprobs is None else TraceLevel.FULL,
        top_logprobs=params.logprobs or 0,
        constraint=guided(params),
        thinking_budget=thinking_budget_of(params),
        allows_more_keys=allows_more(params),
        prompt_scoring=_scoring(params),
    )
    return [
        choice
        for prompt in params.prompt
        for choice in choices_of(
            replace(common, prompt=prompt if isinstance(prompt, str) else tuple(prompt)),
            choices_per_prompt(params),
        )
    ]


def choices_per_prompt(params: CompletionParams) -> int:
    """Return how many answers each prompt gets."""
    return params.n or 1


def _scoring(params: CompletionParams) -> PromptScoring | None:
    """Return which tokens of the prompts are scored: all, if either of two fields asks, or none."""
    asked = [params.prompt_logprobs, params.logprobs if params.echo else None]
    counts = [count for count in asked if count is not None]
    return PromptScoring(top=max(counts)) if counts else None


def _refuse_unsupported(params: CompletionParams) -> None:
    refuse(params, UNHONOURED)
    count = choices_per_prompt(params)
    if params.best_of is not None and params.best_of != count:
        raise unsupported(("best_of",), f"choosing among more answers than n ({count})")
    if len(params.prompt) * count > _MAX_CHOICES:
        raise invalid(("n",), f"at most {_MAX_CHOICES} choices are possible over all prompts")
    if params.suffix:
        raise unsupported(("suffix",), "completing text before a suffix")
    refuse_in_stream(params)


# -- the way back ------------------------------------------------------------------------------


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    raw = request.prompt
    return {
        "model": model,
        "prompt": list(raw) if isinstance(raw, tuple) else prompt,
        **sampling_and_stops(request, "OpenAI"),
        **filled(max_tokens=request.max_tokens, **scoring_fields(request)),
    }
