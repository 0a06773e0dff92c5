"""A Completions answer, whole and as server-sent events.

Pure but for the encoder's own state. Knows no web framework. Any thread.
"""

from collections.abc import Sequence

from api.dialects.completions.read import choices_per_prompt
from api.dialects.completions.wire import (
    Completion,
    CompletionParams,
    TextChoice,
    TextLogprobs,
)
from api.dialects.openai.choices import Choices, ChoicesEncoder
from api.dialects.openai.endings import ending_to_wire, usage_to_wire
from api.dialects.openai.logprobs import (
    answer_tokens,
    finite,
    logprob_of,
    token_text,
)
from api.dialects.openai.parameters import includes_usage
from api.dialects.shared.answers.said import raw_text_of
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters.extension import is_report_wanted
from api.transport.json_text import json_text
from engine import Finished, TokenSpan, Vocabulary


def write_completion(
    answers: Sequence[Collected], params: CompletionParams, head: Head
) -> Completion:
    """Return the whole answer.

    Takes what ``WriteWhole`` does.
    """
    reports = is_report_wanted(params.fullstop)
    choices: list[TextChoice] = [
        {
            "index": index,
            "text": _echo(params, index) + raw_text_of(events),
            "logprobs": (
                _logprobs(answer_tokens(events), params.logprobs, head.vocabulary)
                if params.logprobs is not None
                else None
            ),
            **ending_to_wire(finished, reports=reports),
        }
        for index, (events, finished) in enumerate(answers)
    ]
    ends = [finished for _, finished in answers]
    return {
        "id": _id(head),
        "object": "text_completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire(ends, choices_per_prompt(params)),
    }


def _id(head: Head) -> str:
    return f"cmpl-{head.unique}"


def _echo(params: CompletionParams, choice: int) -> str:
    """Return what precedes the answer in a choice's text: its prompt, if that is wanted."""
    prompt = params.prompt[choice // choices_per_prompt(params)]
    return prompt if params.echo and isinstance(prompt, str) else ""


def _logprobs(tokens: Sequence[TokenSpan], count: int, texts: Vocabulary | None) -> TextLogprobs:
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


def _top(token: TokenSpan, texts: Vocabulary | None) -> dict[str, float]:
    stats = token.stats
    if stats is None or texts is None:
        return {}
    top = {token_text(texts.bytes_of(token_id)): finite(value) for token_id, value in stats.top}
    # The token itself is always among them, likely or not.
    top.setdefault(token_text(token.token_raw), finite(stats.logprob))
    return top


class CompletionEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(self, params: CompletionParams, head: Head) -> None:
        per_prompt = choices_per_prompt(params)
        count = len(params.prompt) * per_prompt
        empty: Completion = {
            "id": _id(head),
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

    def _begin(self, choice: int) -> None:
        echo = _echo(self._params, choice)
        if echo:
            self._delta(choice, self._text_fields(echo))

    def _text_fields(self, text: str) -> str:
        return f'"text":{json_text(text)},"logprobs":null'

    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        logprobs = _logprobs(tokens, self._params.logprobs or 0, self._texts)
        return f'"text":{json_text(text)},"logprobs":{json_text(logprobs)}'

    def _last_choice(self, finished: Finished, choice: int) -> TextChoice:
        ending = ending_to_wire(finished, reports=self._choices.reports)
        return {"index": choice, "text": "", "logprobs": None, **ending}
