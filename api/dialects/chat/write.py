"""A Chat Completions answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from api.dialects.chat.read import allows_parallel_calls, logprobs_to_wire, shows_thinking
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.openai.calls import call_to_wire
from api.dialects.openai.choices import ChoicesEncoder
from api.dialects.openai.chunks import AnswerHead, Chunks
from api.dialects.openai.logprobs import TokenTexts, entries_to_wire
from api.dialects.openai.parameters import includes_usage
from api.dialects.shared.extension import is_report_wanted
from api.transport.json_text import json_text
from engine import TokenSpan, ToolCallDelta


class ChatEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream.

    Args:
        head: What is known from the beginning.
        params: The request.
        texts: What token ids stand for, where likelihoods are asked for.
    """

    def __init__(
        self, head: AnswerHead, params: ChatCompletionParams, texts: TokenTexts | None = None
    ) -> None:
        choices = params.n or 1
        super().__init__(
            Chunks(
                head.fields("chat.completion.chunk"),
                choices=choices,
                per_prompt=choices,
                includes_usage=includes_usage(params.stream_options),
            ),
            choices=choices,
            has_logprobs=bool(params.logprobs),
            reports=is_report_wanted(params.fullstop),
        )
        self._allows_parallel_calls = allows_parallel_calls(params)
        self._shows_thinking = shows_thinking(params)
        self._texts = texts

    def _beginning(self, choice: int) -> str:
        return _delta('"role":"assistant","content":""')

    def _text(self, text: str) -> str:
        return _delta(f'"content":{json_text(text)}')

    def _thinking(self, text: str) -> str | None:
        if not self._shows_thinking:
            return None
        return _delta(f'"reasoning_content":{json_text(text)}')

    def _call(self, event: ToolCallDelta) -> str | None:
        if event.index > 0 and not self._allows_parallel_calls:
            return None
        calls = json_text([{"index": event.index, **call_to_wire(event.call)}])
        return _delta(f'"tool_calls":{calls}')

    def _tokens(self, choice: int, text: str, tokens: list[TokenSpan]) -> str:
        logprobs = json_text(logprobs_to_wire(entries_to_wire(tokens, self._texts)))
        return _delta(f'"content":{json_text(text)}', logprobs)

    def _end(self) -> dict[str, object]:
        return {"delta": {}}


def _delta(fields: str, logprobs: str = "null") -> str:
    return f'"delta":{{{fields}}},"logprobs":{logprobs}'
