"""A Completions answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from api.dialects.completions.read import choices_per_prompt, echo_of, logprobs_to_wire
from api.dialects.completions.wire import CompletionParams
from api.dialects.openai.calls import call_to_wire
from api.dialects.openai.choices import ChoicesEncoder
from api.dialects.openai.chunks import AnswerHead, Chunks
from api.dialects.openai.logprobs import TokenTexts
from api.dialects.openai.parameters import includes_usage
from api.dialects.shared.extension import is_report_wanted
from api.transport.json_text import json_text
from engine import TokenSpan, ToolCallDelta


class CompletionEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream.

    Args:
        head: What is known from the beginning.
        params: The request.
        texts: What token ids stand for, where likelihoods are asked for.
    """

    def __init__(
        self, head: AnswerHead, params: CompletionParams, texts: TokenTexts | None = None
    ) -> None:
        per_prompt = choices_per_prompt(params)
        choices = len(params.prompt) * per_prompt
        super().__init__(
            Chunks(
                head.fields("text_completion"),
                choices=choices,
                per_prompt=per_prompt,
                includes_usage=includes_usage(params.stream_options),
            ),
            choices=choices,
            has_logprobs=params.logprobs is not None,
            reports=is_report_wanted(params.fullstop),
        )
        self._params = params
        self._texts = texts

    def _beginning(self, choice: int) -> str | None:
        echo = echo_of(self._params, choice)
        return self._text(echo) if echo else None

    def _text(self, text: str) -> str:
        return f'"text":{json_text(text)},"logprobs":null'

    def _thinking(self, text: str) -> str:
        return f'"text":"","reasoning_content":{json_text(text)},"logprobs":null'

    def _call(self, event: ToolCallDelta) -> str:
        calls = json_text([{"index": event.index, **call_to_wire(event.call)}])
        return f'"text":"","tool_calls":{calls},"logprobs":null'

    def _tokens(self, choice: int, text: str, tokens: list[TokenSpan]) -> str:
        count = self._params.logprobs or 0
        logprobs = logprobs_to_wire(tokens, count, self._texts)
        return f'"text":{json_text(text)},"logprobs":{json_text(logprobs)}'

    def _end(self) -> dict[str, object]:
        return {"text": ""}
