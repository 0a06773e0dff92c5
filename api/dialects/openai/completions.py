"""OpenAI's Completions API, ``POST /v1/completions``: raw prompts, no chat template.

Requests and answers are spelled as in https://platform.openai.com/docs/api-reference/completions
and by its open relatives. Pure except for the encoder's own state. Any thread.
"""

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.read import (
    allows_more,
    form_names,
    guided,
    openai_sampling_and_stops,
    refuse_in_stream,
    scoring_fields,
    stops_of,
    thinking_budget_of,
)
from api.dialects.openai.wire import (
    ChoiceEnding,
    CompletionUsage,
    ErrorAnswer,
    PromptLogprobs,
    Prompts,
    ScoringParams,
    StreamOptions,
    includes_usage,
)
from api.dialects.openai.write import (
    FIELD_NAMES,
    ChoicesEncoder,
    answer_tokens,
    ending_to_wire,
    error_to_wire,
    finite,
    logprob_of,
    prompt_logprobs_to_wire,
    token_text,
    usage_to_wire,
)
from api.dialects.shared.answers import raw_text_of
from api.dialects.shared.dialect import AnswerRoute, Collected, Dialect, Head
from api.dialects.shared.parameters import (
    MaxTokensOrNone,
    choices_of,
    enables_report,
    sampling_of,
    token_limit,
    with_template_options,
)
from api.dialects.shared.requests import JsonObject, filled
from api.transport.answer_text import json_text
from api.transport.errors import invalid, unsupported
from engine import (
    Channel,
    Event,
    Finished,
    GenerationRequest,
    PromptScores,
    PromptScoring,
    PromptToken,
    TokenSpan,
    TokenTrace,
    TraceLevel,
    Vocabulary,
)

_MAX_CHOICES = 128
# The reference's default: the answer to a raw prompt may have no natural end.
_DEFAULT_MAX_TOKENS = 16

# -- requests and answers ----------------------------------------------------------------------


class CompletionParams(ScoringParams):
    """``POST /v1/completions``."""

    prompt: Prompts
    max_tokens: MaxTokensOrNone | None = None
    # Accepted beyond the reference, as open servers spell it.
    max_new_tokens: MaxTokensOrNone | None = None
    n_predict: MaxTokensOrNone | None = None
    n: int | None = Field(default=None, ge=1, le=128)
    best_of: int | None = Field(default=None, ge=1)
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    stream_options: StreamOptions | None = None


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


class ScoredTextChoice(TextChoice):
    """One choice with the log-probabilities of its prompt."""

    prompt_logprobs: PromptLogprobs


class Completion(TypedDict):
    """The answer of ``POST /v1/completions``, and one event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice] | list[ScoredTextChoice]
    usage: NotRequired[CompletionUsage | None]


# -- reading -----------------------------------------------------------------------------------


def requests_from_wire(
    params: CompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return one generation for each choice of each prompt, in the prompts' order.

    Takes and raises what ``ReadRequest`` does.
    """
    _refuse_unsupported(params)
    common = GenerationRequest(
        sampling=sampling_of(params),
        stops=stops_of(params, strict=strict),
        max_tokens=token_limit(
            params.max_tokens, params.max_new_tokens, params.n_predict, _DEFAULT_MAX_TOKENS
        ),
        trace=TraceLevel.OFF if params.logprobs is None else TraceLevel.FULL,
        top_logprobs=params.logprobs or 0,
        constraint=guided(params),
        thinking_budget=thinking_budget_of(params),
        allows_more_keys=allows_more(params),
        prompt_scoring=_scoring(params),
    )
    common = with_template_options(common, params.chat_template_kwargs)
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
    requested = [params.prompt_logprobs, params.logprobs if params.echo else None]
    counts = [count for count in requested if count is not None]
    return PromptScoring(top=max(counts)) if counts else None


def _refuse_unsupported(params: CompletionParams) -> None:
    count = choices_per_prompt(params)
    if params.best_of is not None and params.best_of != count:
        raise unsupported(("best_of",), f"choosing among more answers than n ({count})")
    if len(params.prompt) * count > _MAX_CHOICES:
        raise invalid(("n",), f"at most {_MAX_CHOICES} choices are possible over all prompts")
    refuse_in_stream(params)


# -- the reverse -------------------------------------------------------------------------------


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation, with its prompt as text or as token ids."""
    raw = request.prompt
    return {
        "model": model,
        "prompt": list(raw) if isinstance(raw, tuple) else prompt,
        **openai_sampling_and_stops(request),
        **filled(max_tokens=request.max_tokens, **scoring_fields(request)),
    }


# -- writing -----------------------------------------------------------------------------------


def write_completion(
    answers: Sequence[Collected], params: CompletionParams, head: Head
) -> Completion:
    """Return the whole answer."""
    reports = enables_report(params.fullstop)
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
        logprobs = [
            prompt_logprobs_to_wire(events, count, head.vocabulary) for events, _ in answers
        ]
        scored = [
            {**choice, "prompt_logprobs": scores}
            for choice, scores in zip(choices, logprobs, strict=True)
        ]
    ends = [finished for _, finished in answers]
    return {
        "id": f"cmpl-{head.unique}",
        "object": "text_completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices if scored is None else scored,
        "usage": usage_to_wire(ends, choices_per_prompt(params)),
    }


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
    parts = [echo.part(event)[1] for event in events if isinstance(event, PromptScores)]
    echo.finish()
    traces = [event for event in events if isinstance(event, TokenTrace)]
    tokens = [token for trace in traces for token in every.add(trace)] + every.add(finished)
    return _joined([*parts, _logprobs(tokens, params.logprobs, texts, echo.length)])


def _joined(parts: Sequence[TextLogprobs]) -> TextLogprobs:
    return {
        "tokens": [token for part in parts for token in part["tokens"]],
        "token_logprobs": [logprob for part in parts for logprob in part["token_logprobs"]],
        "top_logprobs": (
            [top for part in parts for top in part["top_logprobs"] or ()]
            if any(part["top_logprobs"] is not None for part in parts)
            else None
        ),
        "text_offset": [offset for part in parts for offset in part["text_offset"]],
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
        empty: dict[str, object] = {
            "id": f"cmpl-{head.unique}",
            "object": "text_completion",
            "created": int(head.created_s),
            "model": head.model,
            "choices": [],
        }
        super().__init__(
            empty,
            count=count,
            per_prompt=per_prompt,
            includes_usage=includes_usage(params.stream_options),
            has_logprobs=params.logprobs is not None,
        )
        self._params = params
        self._reports = enables_report(params.fullstop)
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
            self._delta(choice, self._fields(*self._echoes[choice].part(scores)))

    def _text(self, text: str, choice: int) -> None:
        self._end_echo(choice)
        super()._text(text, choice)

    def _end_echo(self, choice: int) -> None:
        """Send the prompt's text after its last token."""
        text = self._echoes[choice].finish() if self._echoes is not None else ""
        if text:
            self._delta(choice, self._text_fields(text))

    def _tokens_of(self, event: TokenTrace | Finished, choice: int) -> list[TokenSpan]:
        if self._echoes is None:
            return super()._tokens_of(event, choice)
        self._end_echo(choice)
        before = self._echoes[choice].length
        return [
            replace(token, start=before + token.start) for token in self._every[choice].add(event)
        ]

    def _text_fields(self, text: str) -> str:
        return f'"text":{json_text(text)},"logprobs":null'

    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        return self._fields(text, _logprobs(tokens, self._params.logprobs or 0, self._texts))

    def _fields(self, text: str, logprobs: TextLogprobs) -> str:
        return f'"text":{json_text(text)},"logprobs":{json_text(logprobs)}'

    def _last_choice(self, finished: Finished, choice: int) -> TextChoice:
        ending = ending_to_wire(finished, reports=self._reports)
        return {"index": choice, "text": "", "logprobs": None, **ending}


# -- echo --------------------------------------------------------------------------------------
# The prompt that is repeated before the answer: its text and its logprobs.


def echo_of(params: CompletionParams, choice: int, texts: Vocabulary | None) -> str:
    """Return the text before a choice's answer: its prompt if ``echo`` is set, else nothing."""
    if not params.echo:
        return ""
    prompt = params.prompt[choice // choices_per_prompt(params)]
    if isinstance(prompt, str):
        return prompt
    if texts is None:
        return ""
    return b"".join(map(texts.bytes_of, prompt)).decode("utf-8", "replace")


def scores_echo(params: CompletionParams) -> bool:
    """Whether the answer includes the logprobs of the prompt's tokens."""
    return bool(params.echo) and params.logprobs is not None


class Echo:
    """The text of a prompt, piece by piece, with the tokens of each piece.

    The text is exactly the prompt. Tokens that a tokenizer adds, such as one for the beginning,
    have an empty text. If a tokenizer changes the text, so that its tokens do not spell it, the
    remaining text goes with the last token.
    """

    def __init__(self, params: CompletionParams, choice: int, texts: Vocabulary | None) -> None:
        self.length = 0
        self._texts = texts
        self._names_top = bool(params.logprobs)
        prompt = params.prompt[choice // choices_per_prompt(params)]
        # None for a prompt of ids: its text is made from them.
        self._left = prompt.encode("utf-8", "replace") if isinstance(prompt, str) else None
        self._is_begun = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def part(self, scores: PromptScores) -> tuple[str, TextLogprobs]:
        """Return the text of the next tokens of the prompt, and their scores."""
        logprobs: TextLogprobs = {
            "tokens": [],
            "token_logprobs": [],
            "top_logprobs": [] if self._names_top else None,
            "text_offset": [],
        }
        text = ""
        for token in scores.tokens():
            raw = self._texts.bytes_of(token.token_id) if self._texts is not None else b""
            logprobs["tokens"].append(token_text(raw))
            logprobs["token_logprobs"].append(
                None if token.logprob is None else finite(token.logprob)
            )
            if logprobs["top_logprobs"] is not None:
                logprobs["top_logprobs"].append(self._top(token))
            logprobs["text_offset"].append(self.length)
            own = self._decoder.decode(self._spelled(raw))
            self.length += len(own)
            text += own
        return text, logprobs

    def finish(self) -> str:
        """Return the remaining text after the last token."""
        own = self._decoder.decode(self._left or b"", final=True)
        self._left = b""
        self.length += len(own)
        return own

    def _spelled(self, raw: bytes) -> bytes:
        """Return those bytes of a token that come next in the text."""
        left = self._left
        if left is None:
            return raw
        if not left.startswith(raw):
            # Some tokenizers put a space before a text.
            raw = raw[1:] if not self._is_begun and raw[:1] == b" " else b""
            if not left.startswith(raw):
                return b""
        self._is_begun = self._is_begun or bool(raw)
        self._left = left[len(raw) :]
        return raw

    def _top(self, token: PromptToken) -> dict[str, float] | None:
        if token.logprob is None:
            return None
        return top_of([*token.top, (token.token_id, token.logprob)], self._texts)


def top_of(likely: Sequence[tuple[int, float]], texts: Vocabulary | None) -> dict[str, float]:
    """Return log-probabilities by the tokens' texts; of several tokens with one text, the first."""
    logprobs: dict[str, float] = {}
    for token_id, logprob in likely:
        raw = texts.bytes_of(token_id) if texts is not None else b""
        logprobs.setdefault(token_text(raw), finite(logprob))
    return logprobs


class EveryToken:
    """All sampled tokens of an answer in order, each with its part of the answer's text.

    Clients that score a prompt count the tokens after it. Tokens without text in the answer, such
    as an end token or a stop that was cut off, are therefore included with an empty text.
    """

    def __init__(self) -> None:
        self._traced: list[TokenTrace] = []
        self._end = 0

    def add(self, event: TokenTrace | Finished) -> list[TokenSpan]:
        """Take an event; return the tokens whose part of the text is now known."""
        if isinstance(event, TokenTrace):
            self._traced.append(event)
        spans: list[TokenSpan] = []
        for span in event.settled:
            if span.channel is not Channel.TEXT:
                continue
            spans += self._without_text(span.index)
            if self._traced and self._traced[0].index == span.index:
                self._traced.pop(0)
            spans.append(span)
            self._end = span.end
        if isinstance(event, Finished):
            spans += self._without_text(None)
        return spans

    def _without_text(self, before: int | None) -> list[TokenSpan]:
        spans = []
        while self._traced and (before is None or self._traced[0].index < before):
            trace = self._traced.pop(0)
            spans.append(
                TokenSpan(
                    trace.index,
                    trace.token_id,
                    Channel.TEXT,
                    self._end,
                    "",
                    b"",
                    trace.stats,
                )
            )
        return spans


# -- the dialect -------------------------------------------------------------------------------


class CompletionsRoute(AnswerRoute[CompletionParams]):
    """``POST /v1/completions``."""

    path = "/v1/completions"
    summary = "OpenAI Completions"
    request = CompletionParams
    answer = Completion
    id_prefix = "cmpl-"
    operation = "text_completion"
    read = staticmethod(requests_from_wire)
    write_whole = staticmethod(write_completion)
    encoder = staticmethod(CompletionEncoder)
    field_names = staticmethod(form_names)


class Completions(Dialect):
    """OpenAI's Completions API."""

    name = "Completions"
    title = "OpenAI Completions"
    vendor = "OpenAI"
    reference = "https://platform.openai.com/docs/api-reference/completions"
    error_type = ErrorAnswer
    field_names: ClassVar[Mapping[str, str]] = {
        **FIELD_NAMES,
        "messages": "prompt",
        "top_logprobs": "logprobs",
        "prompt_scoring.top": "prompt_logprobs",
    }
    stream_fields: ClassVar[Mapping[str, object]] = {"stream_options": {"include_usage": True}}
    answers = (CompletionsRoute(),)
    render_error = staticmethod(error_to_wire)
    request_body = staticmethod(request_body)
