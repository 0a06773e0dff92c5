"""The prompt that Completions repeats before the answer: its text and its logprobs.

Pure except for their own state; any thread.
"""

import codecs
from collections.abc import Sequence
from typing import NamedTuple

from api.dialects.completions.read import choices_per_prompt
from api.dialects.completions.wire import CompletionParams, TextLogprobs
from api.dialects.openai.logprobs import finite, token_text
from engine import (
    Channel,
    Finished,
    PromptScores,
    PromptToken,
    TokenSpan,
    TokenTrace,
    Vocabulary,
)


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


class EchoedPart(NamedTuple):
    """The next part of a prompt."""

    text: str
    logprobs: TextLogprobs


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

    def part(self, scores: PromptScores) -> EchoedPart:
        """Return the text of the next tokens of the prompt, and their scores."""
        found: TextLogprobs = {
            "tokens": [],
            "token_logprobs": [],
            "top_logprobs": [] if self._names_top else None,
            "text_offset": [],
        }
        text = ""
        for token in scores.tokens():
            raw = self._texts.bytes_of(token.token_id) if self._texts is not None else b""
            found["tokens"].append(token_text(raw))
            found["token_logprobs"].append(None if token.logprob is None else finite(token.logprob))
            if found["top_logprobs"] is not None:
                found["top_logprobs"].append(self._top(token))
            found["text_offset"].append(self.length)
            own = self._decoder.decode(self._spelled(raw))
            self.length += len(own)
            text += own
        return EchoedPart(text, found)

    def rest(self) -> str:
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
    found: dict[str, float] = {}
    for token_id, logprob in likely:
        raw = texts.bytes_of(token_id) if texts is not None else b""
        found.setdefault(token_text(raw), finite(logprob))
    return found


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
        found: list[TokenSpan] = []
        for span in event.settled:
            if span.channel is not Channel.TEXT:
                continue
            found += self._without_text(span.index)
            if self._traced and self._traced[0].index == span.index:
                self._traced.pop(0)
            found.append(span)
            self._end = span.end
        if isinstance(event, Finished):
            found += self._without_text(None)
        return found

    def _without_text(self, before: int | None) -> list[TokenSpan]:
        found = []
        while self._traced and (before is None or self._traced[0].index < before):
            one = self._traced.pop(0)
            found.append(
                TokenSpan(
                    one.index, one.token_id, Channel.TEXT, self._end, "", b"", one.raw, one.stats
                )
            )
        return found
