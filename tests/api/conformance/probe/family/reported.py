"""Servers with one fault each that a real server has had; ``source`` names the report."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.openai_wires import sse
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import PIECE, Query, Said, pieces

CHAT, COMPLETIONS, MESSAGES = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.MESSAGES
RESPONSES, GENERATE, OLLAMA = WireDialect.RESPONSES, WireDialect.GENERATE, WireDialect.OLLAMA
_STEP = 4
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


class ReportedFault(FamilyServer):
    """A server with a fault.

    Attributes:
        home_dialect: Its dialect.
        source: Who reported the fault.
        pattern: A pattern of what a finding must say.
    """

    home_dialect: ClassVar[WireDialect]
    source: ClassVar[str]
    pattern: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.home_dialect)


def changed(frames: list[bytes], change: Change) -> list[bytes]:
    found = []
    for frame in frames:
        head, _, data = frame.rpartition(b"data: ")
        if not data.strip().startswith(b"{"):
            found.append(frame)
            continue
        value = change(json.loads(data))
        if value is None:
            continue
        if not frame.startswith((b"event: ", b"data: ")):
            found.append(f"{json.dumps(value)}\n".encode())
        else:
            found.append(sse(value, value["type"] if head else ""))
    return found


class ChangesStreams(ReportedFault):
    def streamed(self, one: Said, query: Query) -> Said:
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return super().frames([self.streamed(one, query) for one in said], query)


class ChangesFrames(ReportedFault):
    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return changed(super().frames(said, query), lambda value: self.change(value, query))


class ChangesAnswers(ChangesFrames):
    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self.change(super().body(said, query), query) or {}


class RepeatsTheName(ReportedFault):
    home_dialect, source = CHAT, "llama.cpp#13800"
    pattern = r"name"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found = []
        for frame in super().frames(said, query):
            value = frame.removeprefix(b"data: ")
            if b'"tool_calls": [' not in frame:
                found.append(frame)
                continue
            for piece in pieces(said[0].call or ""):
                part = json.loads(value)
                call = part["choices"][0]["delta"]["tool_calls"][0]
                call["function"]["arguments"] = piece
                found.append(sse(part))
        return found


def _complete(output: list[dict[str, Any]]) -> None:
    for item in output:
        item["status"] = "completed"


class CompletesCutItems(ChangesFrames):
    home_dialect, source = RESPONSES, "vllm#57998"
    pattern = r"item|status"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        _complete(whole["output"])
        return whole

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"].endswith("complete") or value["type"].endswith("completed"):
            _complete(value["response"]["output"])
        if value["type"] == "response.output_item.done":
            _complete([value["item"]])
        return value


def _value(frame: bytes) -> dict[str, Any] | None:
    data = frame.rpartition(b"data: ")[2]
    return json.loads(data) if data.startswith(b"{") else None


class LeaksTheLastThought(ReportedFault):
    home_dialect, source = CHAT, "exo#2001"
    pattern = r"thinking|reasoning"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if said.ending != "limit" or said.text or not said.thinking:
            return said
        rest, last = said.thinking[:-PIECE], said.thinking[-PIECE:]
        return replace(said, thinking=rest, text=last)


class StreamsByDefault(ReportedFault):
    home_dialect, source = CHAT, "OmniRoute#10239"
    pattern = r"stream|SSE|JSON"

    def read(self, body: dict[str, Any]) -> Query:
        return super().read({"stream": True, **body})


class LeavesPartsOfOverlappingStops(ReportedFault):
    home_dialect, source = COMPLETIONS, "omlx#2386"
    pattern = r"stop.*(text|part|begin|left|leak|remain)|(leak|part|left|begin).*stop"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        matched = said.matched or ""
        others = [one for one in query.stops if one != matched]
        is_hit = any(one.startswith(matched) or matched.startswith(one) for one in others)
        return replace(said, text=said.text + matched[:-PIECE]) if is_hit else said


class StreamsTheThinkingBehind(ReportedFault):
    home_dialect, source = MESSAGES, "opencode-kiro-auth#46"
    pattern = r"thinking|order"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        if not said[0].thinking:
            return frames
        values = [_value(frame) or {} for frame in frames]
        order = {None: 0, 1: 1, 0: 2}
        [start, *blocks] = values
        blocks.sort(key=lambda value: order.get(value.get("index", 9), 3))
        for value in blocks:
            if value.get("index") in (0, 1):
                value["index"] = 1 - value["index"]
        return [sse(value, value["type"]) for value in (start, *blocks)]


class RefusesWithSuccess(ReportedFault):
    home_dialect, source = RESPONSES, "ogx#5224"
    pattern = r"200|accept|error"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        response = await super().handle(request)
        if response.status != 400 or not isinstance(response, web.Response):
            return response
        try:
            body = await request.json()
        except json.JSONDecodeError:
            return response
        if not isinstance(body, dict) or not body.get("stream"):
            return response
        event = sse(json.loads(response.text or "{}"))
        return web.Response(body=event, content_type="text/event-stream")


class ForgetsThePromptOfRepeats(ChangesAnswers):
    home_dialect, source = OLLAMA, "ollama#2068, ollama#3427"
    pattern = r"prompt"

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def answers(self, query: Query) -> list[Said]:
        is_repeat = query.prompt in self._seen
        self._seen.add(query.prompt)
        said = super().answers(query)
        return [replace(one, prompt_tokens=0) for one in said] if is_repeat else said

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value.get("prompt_eval_count") == 0:
            del value["prompt_eval_count"]
        return value


def _is_cut_thought(said: Said) -> bool:
    return said.ending == "limit" and bool(said.thinking) and not said.text


def _asking(query: Query, choice: str) -> Query:
    return replace(query, body={**query.body, "tool_choice": choice})


class CountsOneOfSeveral(ReportedFault):
    home_dialect, source = CHAT, "llama.cpp#27318, vllm#9357"
    pattern = r"token|usage|count"

    def _count(self, value: dict[str, Any], said: Sequence[Said]) -> dict[str, Any]:
        usage, tokens = value["usage"], said[0].tokens
        if usage is not None:
            total = usage["prompt_tokens"] + tokens
            usage |= {"completion_tokens": tokens, "total_tokens": total}
        return value

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self._count(super().body(said, query), said)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return changed(super().frames(said, query), lambda value: self._count(value, said))


class IgnoresRequiredTools(ReportedFault):
    home_dialect, source = CHAT, "vllm#44216, hindsight#1877"
    pattern = r"required|tool_choice|forced|no (tool )?call|not call"

    def calls_tool(self, query: Query) -> bool:
        is_hit = query.body.get("tool_choice") not in (None, "none")
        return super().calls_tool(_asking(query, "auto") if is_hit else query)


class StreamsAnswersAsThoughts(ChangesStreams):
    home_dialect, source = CHAT, "vllm#40466"
    pattern = r"thinking|reasoning|no text|empty|differ"

    def streamed(self, one: Said, query: Query) -> Said:
        return one if query.is_thinking is not False else replace(one, thinking=one.text, text="")


class CountsMoreThoughtsThanTokens(ReportedFault):
    """Makes four tokens a step, and counts as thinking those of the last step behind the limit."""

    home_dialect, source = CHAT, "sglang#37450, sglang#39826"
    pattern = r"reasoning_tokens|details"

    def _detail(self, value: dict[str, Any], said: Sequence[Said]) -> dict[str, Any]:
        made = [len(pieces(one.thinking)) for one in said]
        both = zip(said, made, strict=True)
        spent = sum(-(-(n + 1) // _STEP) * _STEP if _is_cut_thought(one) else n for one, n in both)
        if value["usage"] is not None:
            value["usage"]["completion_tokens_details"] = {"reasoning_tokens": spent}
        return value

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self._detail(super().body(said, query), said)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return changed(super().frames(said, query), lambda value: self._detail(value, said))


class ChangesCallIds(ChangesFrames):
    """Gives a call other ids at the end of a stream."""

    home_dialect, source = RESPONSES, "vllm#47916"
    pattern = r"call_id|item_id|\bids?\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for item in value["response"]["output"] if "response" in value else ():
            if item["type"] == "function_call":
                item |= {"id": "f2", "call_id": "call_2"}
        return value


class CountsNothingAtTheEnd(ChangesFrames):
    home_dialect, source = GENERATE, "dynamo#11062"
    pattern = r"token|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["meta_info"]["finish_reason"]:
            del value["meta_info"]["prompt_tokens"], value["meta_info"]["completion_tokens"]
        return value


class LosesTheOnlyPiece(ChangesStreams):
    home_dialect, source = OLLAMA, "sglang#17961"
    pattern = r"differ|lost|missing|empty|no text"

    def streamed(self, one: Said, query: Query) -> Said:
        is_hit = len(one.text) <= PIECE and not one.thinking
        return replace(one, text="") if is_hit else one


class ThoughtTailInContent(ReportedFault):
    home_dialect, source = CHAT, "vllm-project/vllm#51641"
    pattern = "(?i)part of the thinking|thinking in|thought in|reasoning in"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed or not query.stops or not said.thinking or not said.text:
            return said
        tail = said.thinking[-3 * PIECE :]
        return replace(said, thinking=said.thinking[: -3 * PIECE], text=tail + said.text)


class StopBeforeCall(ReportedFault):
    home_dialect, source = CHAT, "raullenchai/Rapid-MLX#433"
    pattern = "(?i)finish_reason|finish reason|twice|two|after the end|ended"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        written = []
        for frame in super().frames(said, query):
            if b'"tool_calls": [' in frame:
                value = json.loads(frame.removeprefix(b"data: "))
                value["choices"][0] |= {"delta": {}, "finish_reason": "stop"}
                written.append(sse(value))
            written.append(frame)
        return written


class EmojiInHalves(ReportedFault):
    home_dialect, source = CHAT, "Luce-Org/lucebox#641"
    pattern = "(?i)fffd|unicode|character|emoji|utf-8"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed:
            return said
        return replace(said, text=re.sub(r"[^\0-\uffff]", "\ufffd\ufffd", said.text))


class ThinkingInTextBlock(ChangesFrames):
    home_dialect, source = MESSAGES, "BerriAI/litellm#32357"
    pattern = "(?i)thinking_delta|block|thinking"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value.get("content_block", {}).get("type") == "thinking":
            value["content_block"] = {"type": "text", "text": ""}
        return value


class CallsInHistoryRefused(ReportedFault):
    home_dialect, source = MESSAGES, "vllm-project/vllm#38738"
    pattern = "(?i)tool_result|tool_use|history|conversation|turn|result"

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        for message in query.body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            if any(block.get("type") in ("tool_use", "tool_result") for block in blocks):
                return self.refusal("Invalid assistant message")
        return None


class NumberedOnce(ChangesFrames):
    """response.output_item.done always has sequence_number 1."""

    home_dialect, source = RESPONSES, "BerriAI/litellm#28899"
    pattern = "(?i)sequence_number|sequence number|number"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "response.output_item.done":
            value["sequence_number"] = 1
        return value


REPORTED: tuple[type[ReportedFault], ...] = tuple(
    one
    for one in tuple(globals().values())
    if isinstance(one, type) and issubclass(one, ReportedFault) and "source" in vars(one)
)
