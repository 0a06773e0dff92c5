"""Forks of a recorded run: its answer goes on from one of its tokens with others. Pure; no MLX."""

from collections import deque
from dataclasses import replace

from engine.errors import EngineError
from engine.recording.replay import replay, with_replayed_tokens
from engine.recording.run_trace import RunTrace
from engine.stopping.record import FORK_SOURCE, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Speculation, TokenTrace
from engine.values.request import Fork, GenerationRequest, TraceLevel
from engine.values.tokens import TokenOrigin, TokenStats
from engine.wording import counted, quoted


def fork_request(run: RunTrace, token_index: int, chosen: tuple[int, ...]) -> GenerationRequest:
    """Return the request of an answer that repeats a run's up to a token, then has the chosen ones.

    At temperature 0, the token that the run has there gives the run's answer again.

    Raises:
        EngineError: The run has no such token, is not whole, or lacks its request.
    """
    fork = _fork(run, token_index, chosen)
    if run.request is None:
        raise EngineError(
            "the run has no prompt: an earlier version saved it; answer the question again with "
            "--save-run"
        )
    rendered = tuple(run.rendered)
    return replace(
        run.request, stops=run.rules, max_tokens=run.max_tokens, rendered=rendered, fork=fork
    )


def likelihood_request(run: RunTrace, token_index: int, count: int) -> GenerationRequest:
    """Return a request whose only token has the likelihoods, and alternatives, of a run's token.

    Raises:
        EngineError: As ``fork_request``.
    """
    forked = fork_request(run, token_index, ())
    assert forked.fork is not None, "it was made"
    return replace(
        forked,
        fork=None,
        # Its token is then one of the likeliest, unlike one of a run that these lack.
        sampling=replace(forked.sampling, temperature=0.0, xtc_probability=None),
        begun=(*forked.begun, *forked.fork.tokens),
        max_tokens=1,
        stops=StopRules(),
        thinking_budget=None,
        constraint=None,
        trace=TraceLevel.FULL,
        top_logprobs=count,
    )


def with_likelihoods(run: RunTrace, token_index: int, looked_up: RunTrace) -> RunTrace:
    """Return a run with what the answer to a ``likelihood_request`` has on one of its tokens."""
    stats = looked_up.tokens[0].stats if looked_up.tokens else None
    tokens = run.tokens.copy()
    tokens[token_index] = replace(tokens[token_index], stats=stats)
    return replace(run, tokens=tokens, vocabulary=looked_up.vocabulary)


def end_here(run: RunTrace, token_index: int) -> tuple[RunTrace, Fork]:
    """Return a run that ends at a token, as if the model had chosen its end token there.

    Without an end token that counts, it is cancelled there. Needs no model.

    Raises:
        EngineError: The run has no such token, or is not whole.
    """
    end = _end_token(run)
    fork = _fork(run, token_index, () if end is None else (end.token_id,))
    kept = list(run.tokens)[:token_index]
    if end is not None:
        time_s = run.tokens[token_index].time_s
        kept.append(replace(end, index=token_index, time_s=time_s, stats=fork.stats[-1]))
    details = replace(run.details, limit_from=None, planned_call=None)
    ended = replace(run, tokens=deque(kept), residue="", speculation=Speculation(), details=details)
    if end is not None:
        sources = dict(zip(run.setting.eos, run.setting.eos_sources, strict=False))
        named = ((sources | {end.token_id: FORK_SOURCE}).get(i, "") for i in run.setting.eos)
        ended.setting = replace(run.setting, eos_sources=tuple(named))
    if end is None:
        ended.stop = replace(run.stop, kind=StopKind.CANCELLED) if run.stop else None
    played = replay(ended)
    if run.request is not None:
        ended.request = replace(run.request, fork=fork)
    ended.stop = played.stop or run.stop
    ended.details = played.details
    return with_replayed_tokens(ended), fork


def _end_token(run: RunTrace) -> TokenTrace | None:
    """Return the token that ends an answer of the run's model; None where none counts."""
    eos, vocabulary = run.setting.eos, run.vocabulary
    if run.rules.ignore_eos or not eos or not run.tokens:
        return None
    end = next((token for token in run.tokens if token.token_id in eos), None)
    if end is None:
        special = None if vocabulary is None else vocabulary.special.get(eos[0])
        end = replace(run.tokens[0], token_id=eos[0], raw=b"", special=special)
    return replace(end, piece="", origin=TokenOrigin.CHOSEN)


def _fork(run: RunTrace, token_index: int, chosen: tuple[int, ...]) -> Fork:
    count = len(run.tokens)
    if not 0 <= token_index < count:
        raise EngineError(
            f"the run has no token {token_index + 1:,}; it has {counted(count, 'token')}, numbered "
            "from 1"
        )
    if not run.is_whole or (run.stop and run.stop.token_index not in (None, count - 1)):
        raise EngineError("the run is not whole: tokens of it are missing")
    ids = [token.token_id for token in run.tokens]
    replaced: TokenTrace = run.tokens[token_index]
    return Fork(
        (*ids[:token_index], *chosen),
        token_index,
        replaced.token_id,
        replaced.special or replaced.piece,
        (*(token.stats for token in list(run.tokens)[:token_index]), _stats_of(replaced, chosen)),
    )


def _stats_of(replaced: TokenTrace, chosen: tuple[int, ...]) -> TokenStats | None:
    """Return how likely the first chosen token was, if the run recorded it."""
    stats = replaced.stats
    if stats is None:
        return None
    for rank, (token_id, logprob) in enumerate(stats.top):
        if (token_id,) == chosen[:1]:
            return replace(stats, logprob=logprob, rank=rank)
    is_own = chosen[:1] == (replaced.token_id,) and stats.rank >= len(stats.top)
    return stats if is_own else None


def chosen_text(run: RunTrace, chosen: tuple[int, ...]) -> str:
    """Return the text of tokens as a run's vocabulary has it; empty without one."""
    vocabulary = run.vocabulary
    return "" if vocabulary is None else "".join(map(vocabulary.text_of, chosen))


def describe_fork(token_index: int, replaced: str, chosen: str) -> str:
    """Return a fork in words: ``token 35 is “ END” in place of “ the”``; no text is the end."""
    new = quoted(chosen) if chosen else "the end"
    old = quoted(replaced) if replaced else "a token without text"
    return f"token {token_index + 1:,} is {new} in place of {old}"
