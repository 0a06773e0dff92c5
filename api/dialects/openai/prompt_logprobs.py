"""Writes the logprobs of a prompt's tokens as vLLM's ``prompt_logprobs``. Pure; any thread.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from collections.abc import Sequence

from api.dialects.openai.answers import PromptLogprob, PromptLogprobs
from api.dialects.openai.logprobs import finite
from engine import Event, PromptScores, PromptToken, Vocabulary


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
