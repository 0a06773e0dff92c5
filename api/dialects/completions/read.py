"""Between Completions' types and the domain's. Pure functions, no web framework."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api.dialects.completions.wire import CompletionParams
from api.dialects.openai.calls import call_to_wire
from api.dialects.openai.chunks import AnswerHead
from api.dialects.openai.decoding import choices_of, sampling_of, stops_of
from api.dialects.openai.endings import stop_to_wire, usage_to_wire
from api.dialects.openai.logprobs import (
    TokenTexts,
    answer_tokens,
    finite,
    logprob_of,
    token_text,
)
from api.dialects.openai.output_format import allows_more, guided
from api.dialects.openai.unhonoured import refuse_unhonoured
from api.dialects.shared.extension import is_report_wanted, report_to_wire
from api.transport.errors import invalid, unsupported
from engine import (
    Event,
    Finished,
    GenerationRequest,
    TextDelta,
    ThinkingDelta,
    TokenSpan,
    ToolCallDelta,
    TraceLevel,
)

_MAX_CHOICES = 128
# The reference's default: a raw prompt need not have a natural end.
_DEFAULT_MAX_TOKENS = 16

# -- requests ---------------------------------------------------------------------------------


def requests_from_wire(
    params: CompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return what a request asks for: for each prompt in turn, one generation per choice.

    Args:
        params: The request.
        strict: Refuse what the hosted API refuses.

    Raises:
        ApiError: A feature is not supported, or a field is wrong; the error names it.
        InvalidRequest: A stop is wrong; the message names its index.
    """
    _refuse_unsupported(params)
    common = GenerationRequest(
        sampling=sampling_of(params),
        stops=stops_of(params, strict=strict),
        max_tokens=params.max_tokens or _DEFAULT_MAX_TOKENS,
        trace=TraceLevel.OFF if params.logprobs is None else TraceLevel.FULL,
        top_logprobs=params.logprobs or 0,
        constraint=guided(params),
        allows_more_keys=allows_more(params),
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


def _refuse_unsupported(params: CompletionParams) -> None:
    refuse_unhonoured(params)
    count = choices_per_prompt(params)
    if params.best_of is not None and params.best_of != count:
        raise unsupported(("best_of",), f"choosing among more answers than n ({count})")
    if len(params.prompt) * count > _MAX_CHOICES:
        raise invalid(("n",), f"at most {_MAX_CHOICES} choices are possible over all prompts")
    if params.suffix:
        raise unsupported(("suffix",), "filling in before a suffix")
    if not params.echo:
        return
    if params.logprobs is not None:
        raise unsupported(("echo",), "returning the log-probabilities of a prompt")
    if not all(isinstance(prompt, str) for prompt in params.prompt):
        raise unsupported(("echo",), "returning a prompt that was sent as token ids")


# -- answers ----------------------------------------------------------------------------------


def echo_of(params: CompletionParams, choice: int) -> str:
    """Return what precedes the answer in a choice's text: its prompt, if that is wanted."""
    prompt = params.prompt[choice // choices_per_prompt(params)]
    return prompt if params.echo and isinstance(prompt, str) else ""


def response_to_wire(
    answers: Sequence[tuple[Sequence[Event], Finished]],
    head: AnswerHead,
    params: CompletionParams,
    texts: TokenTexts | None = None,
) -> dict[str, Any]:
    """Return the whole answer.

    Args:
        answers: For each choice its events and its end.
        head: What is known from the beginning.
        params: The request.
        texts: What token ids stand for, where likelihoods are asked for.
    """
    choices = []
    for index, (events, finished) in enumerate(answers):
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        thinking = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
        calls = [call_to_wire(event.call) for event in events if isinstance(event, ToolCallDelta)]
        choice: dict[str, object] = {
            "index": index,
            "text": echo_of(params, index) + text,
            "logprobs": (
                logprobs_to_wire(answer_tokens(events), params.logprobs, texts)
                if params.logprobs is not None
                else None
            ),
            **stop_to_wire(finished.stop),
        }
        if thinking:
            choice["reasoning_content"] = thinking
        if calls:
            choice["tool_calls"] = calls
        if is_report_wanted(params.fullstop):
            choice["fullstop"] = report_to_wire(finished)
        choices.append(choice)
    usages = [finished.usage for _, finished in answers]
    return {
        **head.fields("text_completion"),
        "choices": choices,
        "usage": usage_to_wire(usages, choices_per_prompt(params)),
    }


def logprobs_to_wire(
    tokens: Sequence[TokenSpan], count: int, texts: TokenTexts | None
) -> dict[str, object]:
    """Return a choice's ``logprobs``: one list for each fact, in step with each other.

    Args:
        tokens: The tokens of the answer's text.
        count: How many of the likeliest tokens are named for each.
        texts: What token ids stand for.
    """
    return {
        "tokens": [token_text(token.raw) for token in tokens],
        "token_logprobs": [logprob_of(token) for token in tokens],
        "top_logprobs": [_top(token, texts) for token in tokens] if count and texts else None,
        "text_offset": [token.start for token in tokens],
    }


def _top(token: TokenSpan, texts: TokenTexts | None) -> dict[str, float]:
    stats = token.stats
    if stats is None or texts is None:
        return {}
    top = {token_text(texts.bytes_of(token_id)): finite(value) for token_id, value in stats.top}
    # The token itself is always among them, likely or not.
    top.setdefault(token_text(token.token_raw), finite(stats.logprob))
    return top
