"""Forty servers with one fault each, each made after a report against a real server.

Their author has seen neither the checks of the probe nor the sets before this one. Each server
says the words of which a right verdict has at least one; they were written down before the
probe was first run against it.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.openai_wires import CREATED, sse
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import PIECE, Query, Said, pieces

Change = Callable[[dict[str, Any]], None]


def read_frame(frame: bytes) -> Any:
    """Return the value in a frame, or its text if it has none."""
    text = frame.decode().strip().split("data: ", 1)[-1]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def event_of(value: dict[str, Any]) -> bytes:
    """Return a server-sent event that is named like its type."""
    return sse(value, value.get("type", ""))


def line_of(value: dict[str, Any]) -> bytes:
    """Return a line of JSON."""
    return f"{json.dumps(value)}\n".encode()


def changed(frames: Iterable[bytes], change: Change, *, is_lines: bool = False) -> list[bytes]:
    """Return the frames of a stream after a change of each of their objects."""
    written = []
    for frame in frames:
        value = read_frame(frame)
        if isinstance(value, dict):
            change(value)
            frame = line_of(value) if is_lines else event_of(value)
        written.append(frame)
    return written


class FourthServer(FamilyServer):
    """A server of this set.

    Attributes:
        words: What a right verdict says, in lower case: at least one of these.
    """

    words: ClassVar[tuple[str, ...]] = ()


class ChatServer(FourthServer):
    """One that speaks Chat Completions."""

    dialects = (WireDialect.CHAT,)


class MessagesServer(FourthServer):
    """One that speaks Messages."""

    dialects = (WireDialect.MESSAGES,)


class CompletionsServer(FourthServer):
    """One that speaks Completions."""

    dialects = (WireDialect.COMPLETIONS,)


class ResponsesServer(FourthServer):
    """One that speaks Responses."""

    dialects = (WireDialect.RESPONSES,)


class GenerateServer(FourthServer):
    """One that speaks SGLang's /generate."""

    dialects = (WireDialect.GENERATE,)


class OllamaServer(FourthServer):
    """One that speaks Ollama's /api/chat."""

    dialects = (WireDialect.OLLAMA,)


# -- Chat Completions ----------------------------------------------------------------------------


class CutCallNamedWhole(ChatServer):
    """A streamed call that the limit cuts ends with "tool_calls" (vllm-project/vllm#53269)."""

    words = ("cut", "limit", "length", "not json", "incomplete")

    def called(self, query: Query) -> Said:
        said = super().called(query)
        if query.is_streamed and said.ending == "limit":
            return Said("", "tool", None, said.tokens, call=said.text)
        return said


class EndsOnFirstChoice(ChatServer):
    """With n, every streamed choice ends in a chunk of index 0 (ggml-org/llama.cpp#20226)."""

    words = ("index", "choice")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            for choice in value["choices"]:
                if choice["finish_reason"] is not None:
                    choice["index"] = 0

        return changed(super().frames(said, query), change)


class NaturalEndUnsaid(ChatServer):
    """A stream that ends by itself never sets a finish_reason (waybarrios/vllm-mlx#628)."""

    words = ("finish_reason", "finish reason", "without a reason", "no reason")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            for choice in value["choices"]:
                if choice["finish_reason"] == "stop" and choice["matched_stop"] is None:
                    choice["finish_reason"] = None

        return changed(super().frames(said, query), change)


class ThoughtTailInContent(ChatServer):
    """With stops, the end of streamed thinking is content (vllm-project/vllm#51641)."""

    words = ("think", "thought", "reasoning")

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed or not query.stops or not said.thinking or not said.text:
            return said
        tail = said.thinking[-3 * PIECE :]
        return replace(said, thinking=said.thinking[: -3 * PIECE], text=tail + said.text)


class LogprobsPastStop(ChatServer):
    """Logprobs list tokens after the stop, which are not sent (vllm-project/vllm#47616)."""

    words = ("logprob",)

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        if said.matched is None:
            return super().logged(said, full)
        return tuple(pieces(full[: len(said.text) + len(said.matched) + 2 * PIECE]))


class ErrorNamedAsReason(ChatServer):
    """A request that fails gets status 200 and finish_reason "error" (LostRuins/koboldcpp#2481)."""

    words = ("200", "accept", "refuse", "status", '"error"')

    def refusal(self, message: str, status: int = 400) -> web.Response:
        choice = {"index": 0, "message": {"role": "assistant", "content": ""}}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        head = {"id": "c0", "object": "chat.completion", "created": CREATED, "model": "small"}
        ended = {**choice, "finish_reason": "error", "matched_stop": None}
        return web.json_response({**head, "choices": [ended], "usage": usage})


class StopBeforeCall(ChatServer):
    """A streamed call is preceded by a chunk that ends with "stop" (raullenchai/Rapid-MLX#433)."""

    words = ("finish_reason", "finish reason", "twice", "two", "after the end", "ended")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = []
        for frame in super().frames(said, query):
            value = read_frame(frame)
            if isinstance(value, dict) and value["choices"]:
                [choice] = value["choices"]
                if "tool_calls" in choice["delta"]:
                    ended = {**choice, "delta": {}, "finish_reason": "stop"}
                    written.append(sse({**value, "choices": [ended]}))
            written.append(frame)
        return written


class MoreThoughtThanTokens(ChatServer):
    """Cut while thinking, it has more reasoning tokens than tokens (sgl-project/sglang#39826)."""

    words = ("reasoning_tokens", "reasoning tokens")

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
        def change(value: dict[str, Any]) -> None:
            if value["usage"]:
                value["usage"]["completion_tokens_details"] = self.details(said)

        return changed(super().frames(said, query), change)


class StopUnreadInJson(ChatServer):
    """Stops are not looked for in an answer that must be JSON (SharpAI/SwiftLM#126)."""

    words = ("json", "schema", "response_format", "format")

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        return None if query.has_schema else super().stop_in(text, query)


class EmojiInHalves(ChatServer):
    """Each half of an emoji becomes U+FFFD in a stream (Luce-Org/lucebox#641)."""

    words = ("fffd", "\ufffd", "unicode", "character", "emoji", "utf-8")

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed:
            return said
        return replace(said, text=re.sub(r"[^\0-\uffff]", "\ufffd\ufffd", said.text))


class NewLimitUnread(ChatServer):
    """A limit in max_completion_tokens has no effect (ikawrakow/ik_llama.cpp#2321)."""

    words = ("max_completion_tokens",)

    def read(self, body: dict[str, Any]) -> Query:
        query = super().read(body)
        if "max_tokens" in body:
            return replace(query, limit=body["max_tokens"])
        return replace(query, limit=4096)


class CutCallDropsConnection(ChatServer):
    """The connection is closed if the limit cuts a tool call off (ml-explore/mlx-lm#905)."""

    words = ("connection", "closed", "disconnect", "no answer", "broke off", "dropped", "limit")

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        if self.calls_tool(query) and self.called(query).ending == "limit":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return await super().respond(request, query)


# -- Messages ------------------------------------------------------------------------------------


class StreamedCallEndsTurn(MessagesServer):
    """A streamed turn with a tool_use block has stop_reason "end_turn" (BerriAI/litellm#34692)."""

    words = ("tool_use", "end_turn", "stop_reason")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] == "message_delta" and value["delta"]["stop_reason"] == "tool_use":
                value["delta"]["stop_reason"] = "end_turn"

        return changed(super().frames(said, query), change)


class ThinkingInTextBlock(MessagesServer):
    """Streamed thinking_deltas arrive in a block begun as text (BerriAI/litellm#32357)."""

    words = ("thinking_delta", "block", "thinking")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value.get("content_block", {}).get("type") == "thinking":
                value["content_block"] = {"type": "text", "text": ""}

        return changed(super().frames(said, query), change)


class FirstDeltaLost(MessagesServer):
    """A stream lacks the first piece of the text (BerriAI/litellm#30014)."""

    words = ("missing", "differ", "lost", "lacks", "other text", "not the same", "first")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        for place, frame in enumerate(written):
            if read_frame(frame).get("delta", {}).get("type") == "text_delta":
                return written[:place] + written[place + 1 :]
        return written


class NothingReadInStream(MessagesServer):
    """message_start of a stream says that the prompt has 0 tokens (mlx-node/mlx-node#45)."""

    words = ("input_tokens", "prompt")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] == "message_start":
                value["message"]["usage"]["input_tokens"] = 0

        return changed(super().frames(said, query), change)


class StreamWithoutSequence(MessagesServer):
    """Unless a stop matched, message_delta has no stop_sequence (vllm-project/vllm#55324)."""

    words = ("stop_sequence",)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] == "message_delta" and value["delta"]["stop_sequence"] is None:
                del value["delta"]["stop_sequence"]

        return changed(super().frames(said, query), change)


class StreamedCallAsText(MessagesServer):
    """A streamed call arrives as the raw text of the model (raullenchai/Rapid-MLX#455)."""

    words = ("tool_use", "tool", "call")

    def called(self, query: Query) -> Said:
        said = super().called(query)
        if said.call is None or not query.is_streamed:
            return said
        return Said(f"commentary to=functions.note json{said.call}", "natural", None, said.tokens)


class ToolsLoseCount(MessagesServer):
    """A stream with tools offered counts no output tokens at its end (LostRuins/koboldcpp#2481)."""

    words = ("output_tokens", "usage", "count")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if query.has_tool and value["type"] == "message_delta":
                value["usage"]["output_tokens"] = 0

        return changed(super().frames(said, query), change)


class WholeCutEndsTurn(MessagesServer):
    """An unstreamed answer that the limit cut has "end_turn" (Blaizzy/mlx-vlm#1215)."""

    words = ("max_tokens", "end_turn")

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        if whole["stop_reason"] == "max_tokens":
            whole["stop_reason"] = "end_turn"
        return whole


class CallsInHistoryRefused(MessagesServer):
    """A conversation in which a tool was called is refused with 400 (vllm-project/vllm#38738)."""

    words = ("tool_result", "tool_use", "history", "conversation", "turn", "result")

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        for message in query.body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            if any(block.get("type") in ("tool_use", "tool_result") for block in blocks):
                return self.refusal("Invalid assistant message")
        return None


# -- Completions ---------------------------------------------------------------------------------


class FreshIdEachChunk(CompletionsServer):
    """Each chunk of a stream has another id (raullenchai/Rapid-MLX#461)."""

    words = (" id", "ids")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        number = 0

        def change(value: dict[str, Any]) -> None:
            nonlocal number
            number += 1
            value["id"] = f"{value['id']}{number:02x}"

        return changed(super().frames(said, query), change)


class OffsetsBehind(CompletionsServer):
    """Streamed text_offsets do not count the text of the first chunk (vllm-project/vllm#47815)."""

    words = ("text_offset", "offset")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            for choice in value["choices"]:
                if "logprobs" in choice:
                    [offset] = choice["logprobs"]["text_offset"]
                    choice["logprobs"]["text_offset"] = [max(0, offset - PIECE)]

        return changed(super().frames(said, query), change)


class TailAfterStop(CompletionsServer):
    """A stop is cut out and some of what followed it is sent (osaurus-ai/vmlx-swift#109)."""

    words = ("after the stop", "past the stop", "behind the stop", "beyond", "after", "followed")

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        assert said.matched is not None
        end = len(said.text) + len(said.matched)
        return replace(said, text=said.text + full[end : end + 2 * PIECE])


class ChoicesUncounted(CompletionsServer):
    """n is read by nobody: there is always one choice (raullenchai/Rapid-MLX#733)."""

    words = ("choice", "n=", "`n`")

    def read(self, body: dict[str, Any]) -> Query:
        return replace(super().read(body), choices=1)


class LongStreamLosesPiece(CompletionsServer):
    """A stream of more than 48 tokens lacks a piece of its text (vllm-project/vllm#31296)."""

    words = ("missing", "lost", "lacks", "differ", "other text", "not the same", "gap")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        return written[:48] + written[49:] if len(pieces(said[0].text)) > 49 else written


# -- Responses -----------------------------------------------------------------------------------


class CutItemCompleted(ResponsesServer):
    """In an incomplete response the item that was cut is "completed" (vllm-project/vllm#57998)."""

    words = ("item", "status")

    def complete(self, items: Iterable[dict[str, Any]]) -> None:
        """Call the items that were cut complete."""
        for item in items:
            if item["status"] == "incomplete":
                item["status"] = "completed"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        self.complete(whole["output"])
        return whole

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            self.complete(value.get("response", {}).get("output", ()))
            self.complete([value["item"]] if "item" in value else ())

        return changed(super().frames(said, query), change)


class CutStreamCompleted(ResponsesServer):
    """A stream that the limit cut ends with response.completed (Arthur-Ficial/apfel#412)."""

    words = ("response.completed", "response.incomplete", "completed")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] == "response.incomplete":
                value["type"] = "response.completed"

        return changed(super().frames(said, query), change)


class NumberedOnce(ResponsesServer):
    """response.output_item.done always has sequence_number 1 (BerriAI/litellm#28899)."""

    words = ("sequence_number", "sequence number", "number")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] == "response.output_item.done":
                value["sequence_number"] = 1

        return changed(super().frames(said, query), change)


class IndexesSwapped(ResponsesServer):
    """After thinking, output_index is not the place in output (invergent-ai/surogate#175)."""

    words = ("output_index", "index", "order", "place")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if said[0].thinking and value.get("output_index", 2) < 2:
                value["output_index"] = 1 - value["output_index"]

        return changed(super().frames(said, query), change)


class EndWithoutOutput(ResponsesServer):
    """The response in a stream's last event has no output (raullenchai/Rapid-MLX#851)."""

    words = ("output is", "no output", "`output`", "without output", "lacks", "missing")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            if value["type"] in ("response.completed", "response.incomplete"):
                del value["response"]["output"]

        return changed(super().frames(said, query), change)


class NothingReadUnstreamed(ResponsesServer):
    """Unstreamed, input_tokens are 0 and missing in the total (sgl-project/sglang#10012)."""

    words = ("input_tokens", "prompt")

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        usage = whole["usage"]
        usage |= {"input_tokens": 0, "total_tokens": usage["output_tokens"]}
        return whole


# -- /generate -----------------------------------------------------------------------------------


class LimitHidesStop(GenerateServer):
    """A stop shortly before the limit is overlooked for "length" (sgl-project/sglang#31599)."""

    words = ("limit", "length")

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        if query.limit - said.tokens >= 4:
            return said
        text = full[: query.limit * PIECE]
        return Said(text, "limit", None, len(pieces(text)))


class EndWithoutCounts(GenerateServer):
    """The last frame of a stream has no counts (ai-dynamo/dynamo#11062)."""

    words = ("completion_tokens", "prompt_tokens", "count", "usage")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            about = value["meta_info"]
            if about["finish_reason"] is not None:
                del about["prompt_tokens"], about["completion_tokens"]

        return changed(super().frames(said, query), change)


class StopBegunInStream(GenerateServer):
    """A frame of a stream has most of the stop, the last one not (sgl-project/sglang#6997)."""

    words = ("part of", "begin", "prefix", "shrink", "taken back", "shorter", "in a frame")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        [answer] = said
        if answer.matched is None or len(answer.matched) < 2:
            return written
        begun = self.wire._answer(query, answer, answer.text + answer.matched[:-1], is_last=False)
        return [*written[:-2], sse(begun), *written[-2:]]


class CountsToLimit(GenerateServer):
    """After a stop of several tokens it counts up to the limit (smg-project/smg#1877)."""

    words = ("completion_tokens", "count", "tokens")

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        assert said.matched is not None
        if len(said.matched) <= PIECE:
            return said
        return replace(said, tokens=min(query.limit, len(pieces(full))))


# -- Ollama --------------------------------------------------------------------------------------


class TwoThoughts(OllamaServer):
    """Of streamed thinking only the first two pieces arrive (BerriAI/litellm#20737)."""

    words = ("think", "thought")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = super().frames(said, query)
        thoughts = len(pieces(said[0].thinking))
        return written[: min(2, thoughts)] + written[thoughts:]


class ArgumentsAsText(OllamaServer):
    """The arguments of a call are a string, not an object (jjang-ai/mlxstudio#72)."""

    words = ("arguments",)

    def write_out(self, value: dict[str, Any]) -> None:
        """Make the arguments a string."""
        for call in value["message"].get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        self.write_out(whole)
        return whole

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return changed(super().frames(said, query), self.write_out, is_lines=True)


class LastLineLosesCall(OllamaServer):
    """Streamed, a call is lost with the last line that held it (QuantumNous/new-api#7252)."""

    words = ("tool", "call")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            value["message"].pop("tool_calls", None)

        return changed(super().frames(said, query), change, is_lines=True)


class StreamUncounted(OllamaServer):
    """The last line of a stream has no counts (ollama/ollama#15169)."""

    words = ("eval_count", "count")

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> None:
            value.pop("eval_count", None)
            value.pop("prompt_eval_count", None)

        return changed(super().frames(said, query), change, is_lines=True)


FOURTH: tuple[type[FourthServer], ...] = (
    CutCallNamedWhole,
    EndsOnFirstChoice,
    NaturalEndUnsaid,
    ThoughtTailInContent,
    LogprobsPastStop,
    ErrorNamedAsReason,
    StopBeforeCall,
    MoreThoughtThanTokens,
    StopUnreadInJson,
    EmojiInHalves,
    NewLimitUnread,
    CutCallDropsConnection,
    StreamedCallEndsTurn,
    ThinkingInTextBlock,
    FirstDeltaLost,
    NothingReadInStream,
    StreamWithoutSequence,
    StreamedCallAsText,
    ToolsLoseCount,
    WholeCutEndsTurn,
    CallsInHistoryRefused,
    FreshIdEachChunk,
    OffsetsBehind,
    TailAfterStop,
    ChoicesUncounted,
    LongStreamLosesPiece,
    CutItemCompleted,
    CutStreamCompleted,
    NumberedOnce,
    IndexesSwapped,
    EndWithoutOutput,
    NothingReadUnstreamed,
    LimitHidesStop,
    EndWithoutCounts,
    StopBegunInStream,
    CountsToLimit,
    TwoThoughts,
    ArgumentsAsText,
    LastLineLosesCall,
    StreamUncounted,
)
