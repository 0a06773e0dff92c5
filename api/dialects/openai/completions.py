"""OpenAI's Completions API, ``POST /v1/completions``: raw prompts, no chat template.

Requests and answers are spelled as in https://platform.openai.com/docs/api-reference/completions
and by its open relatives. Pure except for the encoder's own state. Any thread.
"""

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.read import (
    form_names,
    generation_of,
    openai_sampling_and_stops,
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
    token_limit,
)
from api.dialects.shared.requests import JsonObject, filled
from api.transport.errors import invalid
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

# -- requests and answers ----------------------------------------------------------------------


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


# -- reading -----------------------------------------------------------------------------------


def requests_from_wire(
    params: CompletionParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return one generation for each choice of each prompt, in the prompts' order.

    Takes and raises what ``ReadRequest`` does.
    """
    refuse_unsupported_choices(params)
    if len(params.prompt) * (params.n or 1) > 128:
        raise invalid(("n",), "at most 128 choices are possible over all prompts")
    # Which tokens of the prompts are scored: all, if either of two fields asks, or none.
    scored = [params.prompt_logprobs, params.logprobs if params.echo else None]
    top_scores = max((count for count in scored if count is not None), default=None)
    common = replace(
        generation_of(params, strict=strict),
        # The reference's default is 16: the answer to a raw prompt may have no natural end.
        max_tokens=token_limit(params.max_tokens, params.max_new_tokens, params.n_predict, 16),
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
    choices: list[Any] = []
    for index, (events, finished) in enumerate(answers):
        choice = {
            "index": index,
            "text": _echo_text(params, index, head.vocabulary) + raw_text_of(events),
            "logprobs": _all_logprobs(events, finished, params, index, head.vocabulary),
            **ending_to_wire(finished, reports=reports),
        }
        if (count := params.prompt_logprobs) is not None:
            choice["prompt_logprobs"] = prompt_logprobs_to_wire(events, count, head.vocabulary)
        choices.append(choice)
    return {
        "id": f"cmpl-{head.unique}",
        "object": "text_completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire([finished for _, finished in answers], params.n or 1),
    }


def _all_logprobs(
    events: Sequence[Event],
    finished: Finished,
    params: CompletionParams,
    choice: int,
    texts: Vocabulary | None,
) -> TextLogprobs | None:
    """Return a choice's ``logprobs``, with ``echo`` also those of its prompt."""
    if params.logprobs is None:
        return None
    if not params.echo:
        tokens = _scored(answer_tokens(events))
    else:
        prompt = [
            token for event in events if isinstance(event, PromptScores) for token in event.tokens()
        ]
        before, every = len(_echo_text(params, choice, texts)), EveryToken()
        sampled = (
            event for event in (*events, finished) if isinstance(event, TokenTrace | Finished)
        )
        tokens = _scored_echo(params, choice, prompt, texts)
        tokens += _scored([token for event in sampled for token in every.add(event)], before)
    return _logprobs(tokens, params.logprobs, texts)


class ScoredToken(NamedTuple):
    """A token of a prompt or of an answer, and where its text begins."""

    raw: bytes
    logprob: float | None
    likely: Sequence[tuple[int, float]]
    offset: int


def _scored(tokens: Sequence[TokenSpan], before: int = 0) -> list[ScoredToken]:
    """Return tokens of an answer whose text begins after ``before`` characters."""
    return [
        ScoredToken(
            token.raw,
            logprob_of(token),
            # The token itself is always included, however unlikely it was.
            () if (stats := token.stats) is None else (*stats.top, (token.token_id, stats.logprob)),
            before + token.start,
        )
        for token in tokens
    ]


def _logprobs(tokens: Sequence[ScoredToken], count: int, texts: Vocabulary | None) -> TextLogprobs:
    return {
        "tokens": [token_text(token.raw) for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": (
            [_top(token, texts) for token in tokens] if count and texts is not None else None
        ),
        "text_offset": [token.offset for token in tokens],
    }


def _top(token: ScoredToken, texts: Vocabulary) -> dict[str, float] | None:
    """Return log-probabilities by the tokens' texts; of several with one text, the first."""
    if token.logprob is None:
        return None
    logprobs: dict[str, float] = {}
    for token_id, logprob in token.likely:
        logprobs.setdefault(token_text(texts.bytes_of(token_id)), finite(logprob))
    return logprobs


class CompletionEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(self, params: CompletionParams, head: Head) -> None:
        count = len(params.prompt) * (params.n or 1)
        super().__init__(
            params,
            head,
            "text_completion",
            answer_id=f"cmpl-{head.unique}",
            count=count,
            has_logprobs=params.logprobs is not None,
        )
        self._params = params
        # The tokens of each choice's prompt until they are sent, and those of its answer.
        self._prompts: dict[int, list[PromptToken]] = (
            {choice: [] for choice in range(count)} if params.echo and self._has_logprobs else {}
        )
        self._every = [EveryToken() for _ in range(count)]

    def _begin(self, choice: int) -> None:
        echo = _echo_text(self._params, choice, self._texts)
        if echo and not self._has_logprobs:
            self._delta(choice, self._content(echo))

    def _prompt(self, scores: PromptScores, choice: int) -> None:
        if choice in self._prompts:
            self._prompts[choice] += scores.tokens()

    def _token(self, trace: TokenTrace | Finished, choice: int) -> None:
        if (prompt := self._prompts.pop(choice, None)) is not None:
            tokens = _scored_echo(self._params, choice, prompt, self._texts)
            echo = _echo_text(self._params, choice, self._texts)
            self._delta(choice, self._fields(echo, tokens or None))
        super()._token(trace, choice)

    def _tokens_of(self, event: TokenTrace | Finished, choice: int) -> list[TokenSpan]:
        if not self._params.echo:
            return super()._tokens_of(event, choice)
        before = len(_echo_text(self._params, choice, self._texts))
        return [
            replace(token, start=before + token.start) for token in self._every[choice].add(event)
        ]

    def _content(self, text: str, tokens: list[TokenSpan] | None = None) -> dict[str, object]:
        return self._fields(text, None if tokens is None else _scored(tokens))

    def _fields(self, text: str, tokens: list[ScoredToken] | None) -> dict[str, object]:
        count = self._params.logprobs or 0
        logprobs = None if tokens is None else _logprobs(tokens, count, self._texts)
        return {"text": text, "logprobs": logprobs}

    def _ending(self, finished: Finished) -> dict[str, object]:
        return {**self._content(""), **ending_to_wire(finished, reports=self._reports)}


# -- echo --------------------------------------------------------------------------------------
# The prompt that is repeated before the answer: its text and its logprobs.


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


def _scored_echo(
    params: CompletionParams, choice: int, tokens: Sequence[PromptToken], texts: Vocabulary | None
) -> list[ScoredToken]:
    """Return the tokens of a prompt, each with the offset of its text in the prompt.

    Tokens that a tokenizer adds, such as one for the beginning, have an empty text.
    """
    prompt, offset, is_begun = _prompt_of(params, choice), 0, False
    # None for a prompt of ids: its text is made from them.
    left = prompt.encode("utf-8", "replace") if isinstance(prompt, str) else None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    scored = []
    for token in tokens:
        raw = spelled = texts.bytes_of(token.token_id) if texts is not None else b""
        if left is not None:
            # Some tokenizers put a space before a text.
            if not is_begun and not left.startswith(raw):
                spelled = raw.removeprefix(b" ")
            spelled = spelled if left.startswith(spelled) else b""
            left = left.removeprefix(spelled)
            is_begun = is_begun or bool(spelled)
        logprob = None if token.logprob is None else finite(token.logprob)
        likely = () if token.logprob is None else (*token.top, (token.token_id, token.logprob))
        scored.append(ScoredToken(raw, logprob, likely, offset))
        offset += len(decoder.decode(spelled))
    return scored


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
            at = self._end
            spans.append(
                TokenSpan(trace.index, trace.token_id, Channel.TEXT, at, "", b"", trace.stats)
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
