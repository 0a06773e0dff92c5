"""The likelihoods of sampled tokens, for the rows whose readers want them. Engine thread."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.inference.backend import Step
from engine.scheduling.queue.row import Row
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import TokenStats

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

_Wanted = tuple[int, int, Any, GenerationRequest]
"""A token's place in the step, its id, its log-probabilities, and its request."""


def wanted_stats(
    backend: "MlxBackend", rows: Mapping[int, Row], step: Step
) -> dict[int, TokenStats | Exception]:
    """Return the likelihoods of a step's tokens whose rows want a full trace, by their places.

    They are computed together. If that fails, each token is computed alone, and one that fails
    again gets its exception.
    """
    wanted = [
        (place, token_id, logprobs, rows[number].generation.request)
        for place, (number, token_id, logprobs) in enumerate(step.sampled)
        if number in rows and rows[number].trace is TraceLevel.FULL
    ]
    try:
        return _stats_of(backend, wanted)
    except Exception as error:
        if len(wanted) == 1:
            return {wanted[0][0]: error}
    found: dict[int, TokenStats | Exception] = {}
    for one in wanted:
        try:
            found |= _stats_of(backend, [one])
        except Exception as error:
            found[one[0]] = error
    return found


def _stats_of(backend: "MlxBackend", wanted: list[_Wanted]) -> dict[int, TokenStats | Exception]:
    chosen = {token_id for *_, request in wanted for token_id in request.chosen_logprobs}
    found = backend.stats(
        [(token_id, logprobs) for _, token_id, logprobs, _ in wanted],
        max(request.top_logprobs for *_, request in wanted),
        tuple(chosen),
    )
    return {
        place: _as_asked(stats, request)
        for (place, _, _, request), stats in zip(wanted, found, strict=True)
    }


def _as_asked(stats: TokenStats, request: GenerationRequest) -> TokenStats:
    """Return the likelihoods of a token without those that only other requests asked for."""
    if len(stats.top) > request.top_logprobs:
        stats = replace(stats, top=stats.top[: request.top_logprobs])
    if stats.chosen:
        told = dict(stats.chosen)
        stats = replace(stats, chosen=tuple((i, told[i]) for i in request.chosen_logprobs))
    return stats
