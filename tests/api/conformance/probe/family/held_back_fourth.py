"""Forty servers with one fault each, each made after a report against a real server.

Their author had seen neither the checks of the probe nor the other sets. The words of a right
verdict were written down before the probe was first run against them; those of four servers have
been corrected since, where a right sentence had none of them or another one had one by chance.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from aiohttp import web

from tests.api.conformance.probe.family.held_back import (
    CHAT,
    COMPLETIONS,
    GENERATE,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    ChangesFrames,
    HeldBack,
    changed,
)
from tests.api.conformance.probe.family.openai_wires import CREATED, sse
from tests.api.conformance.probe.family.talk import PIECE, Query, Said, pieces

# -- Chat Completions ----------------------------------------------------------------------------


class CutCallNamedWhole(HeldBack):
    """A streamed call that the limit cuts ends with "tool_calls"."""

    speaks, source = CHAT, "vllm-project/vllm#53269"
    words = "(?i)cut|limit|length|not json|incomplete"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        if query.is_streamed and said.ending == "limit":
            return Said("", "tool", None, said.tokens, call=said.text)
        return said


class EndsOnFirstChoice(ChangesFrames):
    """With n, every streamed choice ends in a chunk of index 0."""

    speaks, source = CHAT, "ggml-org/llama.cpp#20226"
    words = "(?i)index|choice"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if choice["finish_reason"] is not None:
                choice["index"] = 0
        return value


class NaturalEndUnsaid(ChangesFrames):
    """A stream that ends by itself never sets a finish_reason."""

    speaks, source = CHAT, "waybarrios/vllm-mlx#628"
    words = "(?i)finish_reason|finish reason|without a reason|no reason"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if choice["finish_reason"] == "stop" and choice["matched_stop"] is None:
                choice["finish_reason"] = None
        return value


class ThoughtTailInContent(HeldBack):
    """With stops, the end of streamed thinking is content."""

    speaks, source = CHAT, "vllm-project/vllm#51641"
    words = "(?i)part of the thinking|thinking in|thought in|reasoning in"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed or not query.stops or not said.thinking or not said.text:
            return said
        tail = said.thinking[-3 * PIECE :]
        return replace(said, thinking=said.thinking[: -3 * PIECE], text=tail + said.text)


class LogprobsPastStop(HeldBack):
    """Logprobs list tokens after the stop, which are not sent."""

    speaks, source = CHAT, "vllm-project/vllm#47616"
    words = "(?i)logprob"

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        if said.matched is None:
            return super().logged(said, full)
        return tuple(pieces(full[: len(said.text) + len(said.matched) + 2 * PIECE]))


class ErrorNamedAsReason(HeldBack):
    """A request that fails gets status 200 and finish_reason "error"."""

    speaks, source = CHAT, "LostRuins/koboldcpp#2481"
    words = '(?i)200|accept|refuse|status|"error"'

    def refusal(self, message: str, status: int = 400) -> web.Response:
        choice = {"index": 0, "message": {"role": "assistant", "content": ""}}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        head = {"id": "c0", "object": "chat.completion", "created": CREATED, "model": "small"}
        ended = {**choice, "finish_reason": "error", "matched_stop": None}
        return web.json_response({**head, "choices": [ended], "usage": usage})


class StopBeforeCall(HeldBack):
    """A streamed call is preceded by a chunk that ends with "stop"."""

    speaks, source = CHAT, "raullenchai/Rapid-MLX#433"
    words = "(?i)finish_reason|finish reason|twice|two|after the end|ended"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = []
        for frame in super().frames(said, query):
            if b'"tool_calls": [' in frame:
                value = json.loads(frame.removeprefix(b"data: "))
                value["choices"][0] |= {"delta": {}, "finish_reason": "stop"}
                written.append(sse(value))
            written.append(frame)
        return written


class MoreThoughtThanTokens(HeldBack):
    """Cut while thinking, it has more reasoning tokens than tokens."""

    speaks, source = CHAT, "sgl-project/sglang#39826"
    words = "(?i)reasoning_tokens|reasoning tokens"

    def details(self, said: Sequence[Said]) -> dict[str, int]:
        """Return the details of the count."""
        thought = sum(len(pieces(answer.thinking)) for answer in said)
        if any(answer.thinking and not answer.text for answer in said):
            thought += 3
        return {"reasoning_tokens": thought}

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        whole["usage"]["completion_tokens_details"] = self.details(said)
        return whole

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> dict[str, Any]:
            if value["usage"]:
                value["usage"]["completion_tokens_details"] = self.details(said)
            return value

        return changed(super().frames(said, query), change)


class StopUnreadInJson(HeldBack):
    """Stops are not looked for in an answer that must be JSON."""

    speaks, source = CHAT, "SharpAI/SwiftLM#126"
    words = "(?i)json|schema|response_format|format"

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        return None if query.has_schema else super().stop_in(text, query)


class EmojiInHalves(HeldBack):
    """Each half of an emoji becomes U+FFFD in a stream."""

    speaks, source = CHAT, "Luce-Org/lucebox#641"
    words = "(?i)fffd|unicode|character|emoji|utf-8"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed:
            return said
        return replace(said, text=re.sub(r"[^\0-\uffff]", "\ufffd\ufffd", said.text))


class NewLimitUnread(HeldBack):
    """A limit in max_completion_tokens has no effect."""

    speaks, source = CHAT, "ikawrakow/ik_llama.cpp#2321"
    words = "(?i)max_completion_tokens|more tokens than the limit"

    def read(self, body: dict[str, Any]) -> Query:
        query = super().read(body)
        if "max_tokens" in body:
            return replace(query, limit=body["max_tokens"])
        return replace(query, limit=4096)


class CutCallDropsConnection(HeldBack):
    """The connection is closed if the limit cuts a tool call off."""

    speaks, source = CHAT, "ml-explore/mlx-lm#905"
    words = "(?i)connection|closed|disconnect|no answer|broke off|dropped|limit"

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        if self.calls_tool(query) and self.called(query).ending == "limit":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return await super().respond(request, query)


# -- Messages ------------------------------------------------------------------------------------


class StreamedCallEndsTurn(ChangesFrames):
    """A streamed turn with a tool_use block has stop_reason "end_turn"."""

    speaks, source = MESSAGES, "BerriAI/litellm#34692"
    words = "(?i)tool_use|end_turn|stop_reason"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "message_delta" and value["delta"]["stop_reason"] == "tool_use":
            value["delta"]["stop_reason"] = "end_turn"
        return value


class ThinkingInTextBlock(ChangesFrames):
    """Streamed thinking_deltas arrive in a block begun as text."""

    speaks, source = MESSAGES, "BerriAI/litellm#32357"
    words = "(?i)thinking_delta|block|thinking"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value.get("content_block", {}).get("type") == "thinking":
            value["content_block"] = {"type": "text", "text": ""}
        return value


class FirstDeltaLost(HeldBack):
    """A stream lacks the first piece of the text."""

    speaks, source = MESSAGES, "BerriAI/litellm#30014"
    words = "(?i)missing|differ|lost|lacks|other text|not the same|first"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        deltas = (place for place, frame in enumerate(written) if b"text_delta" in frame)
        first = next(deltas, len(written))
        return written[:first] + written[first + 1 :]


class NothingReadInStream(ChangesFrames):
    """message_start of a stream says that the prompt has 0 tokens."""

    speaks, source = MESSAGES, "mlx-node/mlx-node#45"
    words = "(?i)input_tokens|prompt"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "message_start":
            value["message"]["usage"]["input_tokens"] = 0
        return value


class StreamedCallAsText(HeldBack):
    """A streamed call arrives as the raw text of the model."""

    speaks, source = MESSAGES, "raullenchai/Rapid-MLX#455"
    words = "(?i)tool_use|tool|call"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        if said.call is None or not query.is_streamed:
            return said
        return Said(f"commentary to=functions.note json{said.call}", "natural", None, said.tokens)


class ToolsLoseCount(ChangesFrames):
    """A stream with tools offered counts no output tokens at its end."""

    speaks, source = MESSAGES, "LostRuins/koboldcpp#2481"
    words = "(?i)output_tokens|usage|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if query.has_tool and value["type"] == "message_delta":
            value["usage"]["output_tokens"] = 0
        return value


class WholeCutEndsTurn(HeldBack):
    """An unstreamed answer that the limit cut has "end_turn"."""

    speaks, source = MESSAGES, "Blaizzy/mlx-vlm#1215"
    words = "(?i)max_tokens|end_turn|limit ended"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        if whole["stop_reason"] == "max_tokens":
            whole["stop_reason"] = "end_turn"
        return whole


class CallsInHistoryRefused(HeldBack):
    """A conversation in which a tool was called is refused with 400."""

    speaks, source = MESSAGES, "vllm-project/vllm#38738"
    words = "(?i)tool_result|tool_use|history|conversation|turn|result"

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        for message in query.body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            if any(block.get("type") in ("tool_use", "tool_result") for block in blocks):
                return self.refusal("Invalid assistant message")
        return None


# -- Completions ---------------------------------------------------------------------------------


class FreshIdEachChunk(HeldBack):
    """Each chunk of a stream has another id."""

    speaks, source = COMPLETIONS, "raullenchai/Rapid-MLX#461"
    words = "(?i) id|ids"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        numbers = count()

        def change(value: dict[str, Any]) -> dict[str, Any]:
            return {**value, "id": f"{value['id']}{next(numbers):02x}"}

        return changed(super().frames(said, query), change)


class OffsetsBehind(ChangesFrames):
    """Streamed text_offsets do not count the text of the first chunk."""

    speaks, source = COMPLETIONS, "vllm-project/vllm#47815"
    words = "(?i)text_offset|offset"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if "logprobs" in choice:
                [offset] = choice["logprobs"]["text_offset"]
                choice["logprobs"]["text_offset"] = [max(0, offset - PIECE)]
        return value


class TailAfterStop(HeldBack):
    """A stop is cut out and some of what followed it is sent."""

    speaks, source = COMPLETIONS, "osaurus-ai/vmlx-swift#109"
    words = "(?i)after the stop|past the stop|behind the stop|beyond|after|followed"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        assert said.matched is not None
        end = len(said.text) + len(said.matched)
        return replace(said, text=said.text + full[end : end + 2 * PIECE])


class ChoicesUncounted(HeldBack):
    """n is read by nobody: there is always one choice."""

    speaks, source = COMPLETIONS, "raullenchai/Rapid-MLX#733"
    words = "(?i)choice|n=|`n`"

    def read(self, body: dict[str, Any]) -> Query:
        return replace(super().read(body), choices=1)


class LongStreamLosesPiece(HeldBack):
    """A stream of more than 48 tokens lacks a piece of its text."""

    speaks, source = COMPLETIONS, "vllm-project/vllm#31296"
    words = "(?i)missing|lost|lacks|differ|other text|not the same|gap"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        return written[:48] + written[49:] if len(pieces(said[0].text)) > 49 else written


# -- Responses -----------------------------------------------------------------------------------


class CutItemCompleted(ChangesFrames):
    """In an incomplete response the item that was cut is "completed"."""

    speaks, source = RESPONSES, "vllm-project/vllm#57998"
    words = "(?i)item|status"

    def complete(self, items: Iterable[dict[str, Any]]) -> None:
        """Call the items that were cut complete."""
        for item in items:
            if item["status"] == "incomplete":
                item["status"] = "completed"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        self.complete(whole["output"])
        return whole

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        self.complete(value.get("response", {}).get("output", ()))
        self.complete([value["item"]] if "item" in value else ())
        return value


class CutStreamCompleted(ChangesFrames):
    """A stream that the limit cut ends with response.completed."""

    speaks, source = RESPONSES, "Arthur-Ficial/apfel#412"
    words = r"(?i)response\.completed|response\.incomplete|completed"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "response.incomplete":
            value["type"] = "response.completed"
        return value


class NumberedOnce(ChangesFrames):
    """response.output_item.done always has sequence_number 1."""

    speaks, source = RESPONSES, "BerriAI/litellm#28899"
    words = "(?i)sequence_number|sequence number|number"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "response.output_item.done":
            value["sequence_number"] = 1
        return value


class IndexesSwapped(HeldBack):
    """After thinking, output_index is not the place in output."""

    speaks, source = RESPONSES, "invergent-ai/surogate#175"
    words = "(?i)output_index|index|order|place|item 1 is"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> dict[str, Any]:
            if said[0].thinking and value.get("output_index", 2) < 2:
                value["output_index"] = 1 - value["output_index"]
            return value

        return changed(super().frames(said, query), change)


class EndWithoutOutput(ChangesFrames):
    """The response in a stream's last event has no output."""

    speaks, source = RESPONSES, "raullenchai/Rapid-MLX#851"
    words = "(?i)output is|no output|`output`|without output|lacks|missing"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] in ("response.completed", "response.incomplete"):
            del value["response"]["output"]
        return value


class NothingReadUnstreamed(HeldBack):
    """Unstreamed, input_tokens are 0 and missing in the total."""

    speaks, source = RESPONSES, "sgl-project/sglang#10012"
    words = "(?i)input_tokens|prompt"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        usage = whole["usage"]
        usage |= {"input_tokens": 0, "total_tokens": usage["output_tokens"]}
        return whole


# -- /generate -----------------------------------------------------------------------------------


class LimitHidesStop(HeldBack):
    """A stop shortly before the limit is overlooked for "length"."""

    speaks, source = GENERATE, "sgl-project/sglang#31599"
    words = "(?i)limit|length"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        if query.limit - said.tokens >= 4:
            return said
        text = full[: query.limit * PIECE]
        return Said(text, "limit", None, len(pieces(text)))


class EndWithoutCounts(ChangesFrames):
    """The last frame of a stream has no counts."""

    speaks, source = GENERATE, "ai-dynamo/dynamo#11062"
    words = "(?i)completion_tokens|prompt_tokens|count|usage"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        about = value["meta_info"]
        if about["finish_reason"] is not None:
            del about["prompt_tokens"], about["completion_tokens"]
        return value


class StopBegunInStream(HeldBack):
    """A frame of a stream has most of the stop, the last one not."""

    speaks, source = GENERATE, "sgl-project/sglang#6997"
    words = "(?i)part of|begin|prefix|shrink|taken back|shorter|in a frame"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        [answer] = said
        if answer.matched is None or len(answer.matched) < 2:
            return written
        begun = self.wire._answer(query, answer, answer.text + answer.matched[:-1], is_last=False)
        return [*written[:-2], sse(begun), *written[-2:]]


class CountsToLimit(HeldBack):
    """After a stop of several tokens it counts up to the limit."""

    speaks, source = GENERATE, "smg-project/smg#1877"
    words = "(?i)completion_tokens|count|tokens"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        assert said.matched is not None
        if len(said.matched) <= PIECE:
            return said
        return replace(said, tokens=min(query.limit, len(pieces(full))))


# -- Ollama --------------------------------------------------------------------------------------


class TwoThoughts(HeldBack):
    """Of streamed thinking only the first two pieces arrive."""

    speaks, source = OLLAMA, "BerriAI/litellm#20737"
    words = "(?i)think|thought"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        thoughts = len(pieces(said[0].thinking))
        return written[: min(2, thoughts)] + written[thoughts:]


class ArgumentsAsText(ChangesFrames):
    """The arguments of a call are a string, not an object."""

    speaks, source = OLLAMA, "jjang-ai/mlxstudio#72"
    words = "(?i)arguments"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for call in value["message"].get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        return value

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self.change(super().body(said, query), query)


class LastLineLosesCall(ChangesFrames):
    """Streamed, a call is lost with the last line that held it."""

    speaks, source = OLLAMA, "QuantumNous/new-api#7252"
    words = "(?i)tool|call"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        value["message"].pop("tool_calls", None)
        return value


class StreamUncounted(ChangesFrames):
    """The last line of a stream has no counts."""

    speaks, source = OLLAMA, "ollama/ollama#15169"
    words = "(?i)eval_count|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        value.pop("eval_count", None)
        value.pop("prompt_eval_count", None)
        return value


FOURTH_HELD_BACK: tuple[type[HeldBack], ...] = tuple(
    make
    for make in tuple(globals().values())
    if isinstance(make, type) and issubclass(make, HeldBack) and "source" in vars(make)
)
