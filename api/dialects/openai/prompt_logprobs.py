"""Writes the logprobs of a prompt's tokens as vLLM's ``prompt_logprobs``. Pure; any thread.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from collections.abc import Sequence

from typing_extensions import TypedDict

from api.dialects.openai.logprobs import finite
from api.dialects.openai.parameters import ScoringParams
from api.transport.errors import unsupported
from engine import Event, PromptScores, PromptToken, Vocabulary


class PromptLogprob(TypedDict):
    """A candidate token at a position of the prompt; the likeliest has rank 1."""

    logprob: float
    rank: int
    decoded_token: str


# For each position of the prompt, by token id: its own token and the likeliest ones.
PromptLogprobs = list[dict[str, PromptLogprob] | None]


def refuse_in_stream(params: ScoringParams) -> None:
    """Refuse to stream a prompt's log-probabilities, as the vendor does."""
    if params.prompt_logprobs is not None and params.stream:
        raise unsupported(("prompt_logprobs",), "log-probabilities of the prompt in a stream")


def prompt_tokens(events: Sequence[Event]) -> list[PromptToken]:
    """Return the scored tokens of a prompt."""
    return [
        token for event in events if isinstance(event, PromptScores) for token in event.tokens()
    ]


def prompt_logprobs_to_wire(
    events: Sequence[Event], count: int, texts: Vocabulary | None
) -> PromptLogprobs:
    """Return ``prompt_logprobs`` from the events of an answer."""
    return [_described(token, count, texts) for token in prompt_tokens(events)]


def _described(
    token: PromptToken, count: int, texts: Vocabulary | None
) -> dict[str, PromptLogprob] | None:
    if token.logprob is None or token.rank is None:
        return None
    told = [(token.token_id, token.logprob, token.rank + 1)]
    told += [(one, logprob, rank) for rank, (one, logprob) in enumerate(token.top[:count], 1)]
    return {
        str(token_id): {
            "logprob": finite(logprob),
            "rank": rank,
            "decoded_token": texts.text_of(token_id) if texts is not None else "",
        }
        for token_id, logprob, rank in told
    }
