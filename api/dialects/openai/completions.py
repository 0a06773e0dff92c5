"""OpenAI's Completions API, ``POST /v1/completions``: raw prompts, no chat template.

Requests and answers are spelled as in https://platform.openai.com/docs/api-reference/completions
and by its open relatives. Pure except for the encoder's own state. Any thread.
"""

import codecs
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.read import (
    form_names,
    format_fields,
    generation_of,
    refuse_unsupported_choices,
    scoring_fields,
)
from api.dialects.openai.wire import (
    ChoiceEnding,
    ChoicesParams,
    CompletionUsage,
    ErrorAnswer,
    PromptLogprobs,
    Prompts,
)
from api.dialects.openai.write import (
    FIELD_NAMES,
    ChoicesEncoder,
    answer_tokens,
    ending_to_wire,
    error_to_wire,
    finite,
    prompt_logprobs_to_wire,
    prompt_tokens,
    token_text,
    usage_to_wire,
)
from api.dialects.shared.answers import raw_text_of
from api.dialects.shared.dialect import AnswerRoute, Collected, Dialect, Head
from api.dialects.shared.inspector_bodies import JsonObject, drop_empty, sampling_and_stops
from api.dialects.shared.parameters import (
    OPENAI_STOP_OPTIONS,
    MaxTokensOrNone,
    ReadContext,
    choices_of,
    token_limit,
)
from api.service.errors import invalid
from engine import Vocabulary
from engine.stopping.record import Channel
from engine.values.events import Event, Finished, TokenTrace
from engine.values.request import GenerationRequest, LimitSource, TraceLevel
from engine.values.tokens import PromptScoring, TokenSpan, TokenStats


class CompletionParams(ChoicesParams):
    """``POST /v1/completions``."""

    prompt: Prompts
    max_tokens: MaxTokensOrNone | None = None
    # Accepted beyond the reference, as open servers spell it.
    max_new_tokens: MaxTokensOrNone | None = None
    n_predict: MaxTokensOrNone | None = None
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)


class TextLogprobs(TypedDict):
    """The logprobs of the text's tokens: parallel lists.

    With ``echo`` the prompt's tokens come first; the very first token has no logprob.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: Annotated[list[int], Field(description="where each token begins, in characters")]


class TextChoice(ChoiceEnding):
    """One choice, or its new content in a stream."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    prompt_logprobs: NotRequired[PromptLogprobs]


class Completion(TypedDict):
    """The answer of ``POST /v1/completions``."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: CompletionUsage


def requests_from_wire(params: CompletionParams, context: ReadContext) -> list[GenerationRequest]:
    """Return one generation for each choice of each prompt, in the prompts' order."""
    refuse_unsupported_choices(params)
    if len(params.prompt) * (params.n or 1) > 128:
        raise invalid(("n",), "at most 128 choices are possible over all prompts")
    # Which tokens of the prompts are scored: all, if either of two fields asks, or none.
    scored = [params.prompt_logprobs, params.logprobs if params.echo else None]
    top_scores = max((count for count in scored if count is not None), default=None)
    limits = (params.max_tokens, params.max_new_tokens, params.n_predict)
    has_limit = any(limit is not None for limit in limits)
    common = replace(
        generation_of(params, context),
        # The reference's default is 16: the answer to a raw prompt may have no natural end.
        max_tokens=token_limit(*limits, 16),
        max_tokens_from=LimitSource.REQUEST if has_limit else LimitSource.API,
        trace=TraceLevel.OFF if params.logprobs is None else TraceLevel.FULL,
        top_logprobs=params.logprobs or 0,
        prompt_scoring=None if top_scores is None else PromptScoring(top=top_scores),
    )
    return [
        choice
        for prompt in params.prompt
        for choice in choices_of(
            replace(common, prompt=prompt if isinstance(prompt, str) else tuple(prompt)),
            params.n or 1,
        )
    ]


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    if request.all_pictures:
        return None
    raw = request.prompt
    return {
        "model": model,
        "prompt": list(raw) if isinstance(raw, tuple) else prompt,
        **sampling_and_stops(request, OPENAI_STOP_OPTIONS),
        # Without the field the answer would have the default, 16 tokens.
        "max_tokens": -1 if request.max_tokens is None else request.max_tokens,
        **drop_empty(
            **format_fields(request.constraint),
            **scoring_fields(request),
        ),
    }


def write_completion(
    answers: Sequence[Collected], params: CompletionParams, head: Head
) -> Completion:
    """Return the whole answer."""
    reports = params.fullstop.report
    choices: list[Any] = []
    for index, (events, finished) in enumerate(answers):
        tokens = (
            _scored_tokens([*events, finished], params, index, head.vocabulary)
            if params.echo
            else answer_tokens(events)
        )
        has_logprobs = params.logprobs is not None
        choice = {
            "index": index,
            "text": _echo_text(params, index, head.vocabulary) + raw_text_of(events),
            "logprobs": _logprobs(tokens, params, head.vocabulary) if has_logprobs else None,
            **ending_to_wire(finished, head, reports=reports),
        }
        if (count := params.prompt_logprobs) is not None:
            choice["prompt_logprobs"] = prompt_logprobs_to_wire(events, count, head.vocabulary)
        choices.append(choice)
    return {
        "id": head.answer_id,
        "object": "text_completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire([finished for _, finished in answers], params.n or 1),
    }


def _logprobs(
    tokens: Sequence[TokenSpan], params: CompletionParams, texts: Vocabulary | None
) -> TextLogprobs:
    has_top = params.logprobs and texts is not None
    return {
        "tokens": [token_text(token.raw) for token in tokens],
        "token_logprobs": [
            None if token.stats is None else finite(token.stats.logprob) for token in tokens
        ],
        "top_logprobs": [_top(token, texts) for token in tokens] if has_top else None,
        "text_offset": [token.start for token in tokens],
    }


def _top(token: TokenSpan, texts: Vocabulary | None) -> dict[str, float] | None:
    """Return log-probabilities by the tokens' texts; of several with one text, the first."""
    if token.stats is None or texts is None:
        return None
    logprobs: dict[str, float] = {}
    # The token itself is always included, however unlikely it was.
    for token_id, logprob in (*token.stats.top, (token.token_id, token.stats.logprob)):
        logprobs.setdefault(token_text(texts.bytes_of(token_id)), finite(logprob))
    return logprobs


class CompletionEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream.

    An answer whose prompt is scored is one chunk.
    """

    kind = "text_completion"

    def __init__(self, params: CompletionParams, head: Head) -> None:
        self._is_scored = bool(params.echo) and params.logprobs is not None
        count = len(params.prompt) * (params.n or 1)
        has_logprobs = params.logprobs is not None and not self._is_scored
        super().__init__(params, head, count=count, has_logprobs=has_logprobs)
        self._params = params
        self._events: list[list[Event]] = [[] for _ in range(count)]

    def _add(self, event: Event, choice: int) -> None:
        if self._is_scored and not isinstance(event, Finished):
            self._events[choice].append(event)
        else:
            super()._add(event, choice)

    def _begin(self, choice: int) -> None:
        echo = _echo_text(self._params, choice, self._texts)
        if echo and not self._is_scored:
            self._delta(choice, self._content(echo))

    def _end(self, finished: Finished, choice: int) -> None:
        if self._is_scored:
            events = [*self._events[choice], finished]
            text = _echo_text(self._params, choice, self._texts) + raw_text_of(events)
            tokens = _scored_tokens(events, self._params, choice, self._texts)
            self._delta(choice, self._content(text, tokens))
        super()._end(finished, choice)

    def _content(self, text: str, tokens: list[TokenSpan] | None = None) -> dict[str, object]:
        logprobs = None if tokens is None else _logprobs(tokens, self._params, self._texts)
        return {"text": text, "logprobs": logprobs}

    def _ending(self, finished: Finished) -> dict[str, object]:
        return {**self._content(""), **ending_to_wire(finished, self._head, reports=self._reports)}


def _prompt_of(params: CompletionParams, choice: int) -> str | list[int]:
    return params.prompt[choice // (params.n or 1)]


def _echo_text(params: CompletionParams, choice: int, texts: Vocabulary | None) -> str:
    """Return the text before a choice's answer: its prompt if ``echo`` is set, else nothing."""
    prompt = _prompt_of(params, choice) if params.echo else ""
    if isinstance(prompt, str):
        return prompt
    if texts is None:
        return ""
    return b"".join(map(texts.bytes_of, prompt)).decode("utf-8", "replace")


def _scored_tokens(
    events: Sequence[Event], params: CompletionParams, choice: int, texts: Vocabulary | None
) -> list[TokenSpan]:
    """Return the tokens of a prompt and of its answer, each with its part of the text of both.

    Clients that score a prompt count the tokens after it. Tokens without text in the answer, such
    as an end token or a stop that was cut off, are therefore included with an empty text, as are
    the tokens that a tokenizer adds to the prompt.
    """
    tokens: list[TokenSpan] = []
    prompt, offset = _prompt_of(params, choice), 0
    # None for a prompt of ids: its text is made from them.
    left = whole = prompt.encode("utf-8", "replace") if isinstance(prompt, str) else None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token_id, logprob, rank, top in prompt_tokens(events):
        raw = spelled = texts.bytes_of(token_id) if texts is not None else b""
        if left is not None:
            # Some tokenizers put a space before a text.
            if left == whole and not left.startswith(raw):
                spelled = raw.removeprefix(b" ")
            spelled = spelled if left.startswith(spelled) else b""
            left = left.removeprefix(spelled)
        stats = None  # of the first token
        if logprob is not None and rank is not None:
            stats = TokenStats(logprob, rank, top, 0.0)
        tokens.append(TokenSpan(len(tokens), token_id, Channel.TEXT, offset, "", raw, stats))
        offset += len(decoder.decode(spelled))
    before = end = len(_echo_text(params, choice, texts))
    spans = {span.index: span for span in answer_tokens(events)}
    for trace in (event for event in events if isinstance(event, TokenTrace)):
        if (span := spans.get(trace.index)) is not None:
            tokens.append(replace(span, start=before + span.start))
            end = before + span.end
        else:
            empty = ("", b"", trace.stats)
            tokens.append(TokenSpan(trace.index, trace.token_id, Channel.TEXT, end, *empty))
    return tokens


_ANSWERS = AnswerRoute(
    path="/v1/completions",
    summary="OpenAI Completions",
    request=CompletionParams,
    answer=Completion,
    read=requests_from_wire,
    write_whole=write_completion,
    encoder=CompletionEncoder,
    field_names=form_names,
    id_prefix="cmpl-",
    operation="text_completion",
)

COMPLETIONS = Dialect(
    name="Completions",
    title="OpenAI Completions",
    vendor="OpenAI",
    error_type=ErrorAnswer,
    render_error=error_to_wire,
    request_body=request_body,
    field_names={
        **FIELD_NAMES,
        "messages": "prompt",
        "top_logprobs": "logprobs",
        "prompt_scoring.top": "prompt_logprobs",
    },
    stream_fields={"stream_options": {"include_usage": True}},
    # The second is LM Studio's.
    routes=(_ANSWERS, replace(_ANSWERS, path="/api/v0/completions")),
)
