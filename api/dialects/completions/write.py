"""A Completions answer, whole and as server-sent events.

Pure except for the encoder's own state. Knows no web framework. Any thread.
"""

from collections.abc import Sequence
from dataclasses import replace

from api.dialects.completions.echo import Echo, EveryToken, echo_of, scores_echo, top_of
from api.dialects.completions.read import choices_per_prompt
from api.dialects.completions.wire import (
    Completion,
    CompletionParams,
    ScoredTextChoice,
    TextChoice,
    TextLogprobs,
)
from api.dialects.openai.choices import Choices, ChoicesEncoder
from api.dialects.openai.endings import ending_to_wire, usage_to_wire
from api.dialects.openai.logprobs import (
    answer_tokens,
    logprob_of,
    token_text,
)
from api.dialects.openai.parameters import includes_usage
from api.dialects.openai.prompt_logprobs import prompt_logprobs_to_wire
from api.dialects.shared.answers.said import raw_text_of
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters.extension import is_report_wanted
from api.transport.answer_text import json_text
from engine import Event, Finished, PromptScores, TokenSpan, TokenTrace, Vocabulary


def write_completion(
    answers: Sequence[Collected], params: CompletionParams, head: Head
) -> Completion:
    """Return the whole answer."""
    reports = is_report_wanted(params.fullstop)
    choices: list[TextChoice] = [
        {
            "index": index,
            "text": echo_of(params, index, head.vocabulary) + raw_text_of(events),
            "logprobs": _all_logprobs(events, finished, params, index, head.vocabulary),
            **ending_to_wire(finished, reports=reports),
        }
        for index, (events, finished) in enumerate(answers)
    ]
    scored: list[ScoredTextChoice] | None = None
    if (count := params.prompt_logprobs) is not None:
        told = [prompt_logprobs_to_wire(events, count, head.vocabulary) for events, _ in answers]
        scored = [
            {**choice, "prompt_logprobs": one} for choice, one in zip(choices, told, strict=True)
        ]
    ends = [finished for _, finished in answers]
    return {
        "id": answer_id(params, head),
        "object": "text_completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices if scored is None else scored,
        "usage": usage_to_wire(ends, choices_per_prompt(params)),
    }


def answer_id(params: object, head: Head) -> str:
    """Return the id of an answer."""
    return f"cmpl-{head.unique}"


def _all_logprobs(
    events: Sequence[Event],
    finished: Finished,
    params: CompletionParams,
    choice: int,
    texts: Vocabulary | None,
) -> TextLogprobs | None:
    """Return a choice's ``logprobs``, including those of its prompt if the request asks
    for them.
    """
    if params.logprobs is None:
        return None
    if not scores_echo(params):
        return _logprobs(answer_tokens(events), params.logprobs, texts)
    echo, every = Echo(params, choice, texts), EveryToken()
    parts = [echo.part(one).logprobs for one in events if isinstance(one, PromptScores)]
    echo.rest()
    traces = [one for one in events if isinstance(one, TokenTrace)]
    tokens = [token for one in traces for token in every.add(one)] + every.add(finished)
    return _joined([*parts, _logprobs(tokens, params.logprobs, texts, echo.length)])


def _joined(parts: Sequence[TextLogprobs]) -> TextLogprobs:
    return {
        "tokens": [token for part in parts for token in part["tokens"]],
        "token_logprobs": [one for part in parts for one in part["token_logprobs"]],
        "top_logprobs": (
            [one for part in parts for one in part["top_logprobs"] or ()]
            if any(part["top_logprobs"] is not None for part in parts)
            else None
        ),
        "text_offset": [place for part in parts for place in part["text_offset"]],
    }


def _logprobs(
    tokens: Sequence[TokenSpan], count: int, texts: Vocabulary | None, before: int = 0
) -> TextLogprobs:
    """Return a choice's ``logprobs``: parallel lists."""
    return {
        "tokens": [token_text(token.raw) for token in tokens],
        "token_logprobs": [logprob_of(token) for token in tokens],
        "top_logprobs": [_top(token, texts) for token in tokens] if count and texts else None,
        "text_offset": [before + token.start for token in tokens],
    }


def _top(token: TokenSpan, texts: Vocabulary | None) -> dict[str, float]:
    stats = token.stats
    if stats is None or texts is None:
        return {}
    # The token itself is always included, however unlikely it was.
    return top_of([*stats.top, (token.token_id, stats.logprob)], texts)


class CompletionEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(self, params: CompletionParams, head: Head) -> None:
        per_prompt = choices_per_prompt(params)
        count = len(params.prompt) * per_prompt
        empty: Completion = {
            "id": answer_id(params, head),
            "object": "text_completion",
            "created": int(head.created_s),
            "model": head.model,
            "choices": [],
        }
        super().__init__(
            empty,
            Choices(
                count=count,
                per_prompt=per_prompt,
                includes_usage=includes_usage(params.stream_options),
                has_logprobs=params.logprobs is not None,
                reports=is_report_wanted(params.fullstop),
            ),
        )
        self._params = params
        self._texts = head.vocabulary

        self._echoes = (
            [Echo(params, choice, head.vocabulary) for choice in range(count)]
            if scores_echo(params)
            else None
        )
        self._every = [EveryToken() for _ in range(count)]

    def _begin(self, choice: int) -> None:
        if self._echoes is not None:
            return  # it comes with its scores
        echo = echo_of(self._params, choice, self._texts)
        if echo:
            self._delta(choice, self._text_fields(echo))

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        if self._echoes is not None:
            part = self._echoes[choice].part(scores)
            self._delta(choice, self._fields(part.text, part.logprobs))

    def _text(self, text: str, choice: int) -> None:
        self._end_echo(choice)
        super()._text(text, choice)

    def _end_echo(self, choice: int) -> None:
        """Send the prompt's text after its last token."""
        rest = self._echoes[choice].rest() if self._echoes is not None else ""
        if rest:
            self._delta(choice, self._text_fields(rest))

    def _tokens_of(self, event: TokenTrace | Finished, choice: int) -> list[TokenSpan]:
        if self._echoes is None:
            return super()._tokens_of(event, choice)
        self._end_echo(choice)
        before = self._echoes[choice].length
        return [replace(one, start=before + one.start) for one in self._every[choice].add(event)]

    def _text_fields(self, text: str) -> str:
        return f'"text":{json_text(text)},"logprobs":null'

    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        return self._fields(text, _logprobs(tokens, self._params.logprobs or 0, self._texts))

    def _fields(self, text: str, logprobs: TextLogprobs) -> str:
        return f'"text":{json_text(text)},"logprobs":{json_text(logprobs)}'

    def _last_choice(self, finished: Finished, choice: int) -> TextChoice:
        ending = ending_to_wire(finished, reports=self._choices.reports)
        return {"index": choice, "text": "", "logprobs": None, **ending}
