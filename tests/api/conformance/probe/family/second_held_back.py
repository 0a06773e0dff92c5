"""Forty more servers with one fault each that a real server has had, settled in a list before the
probe was run against any of them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from tests.api.conformance.probe.family.held_back import (
    CHAT,
    COMPLETIONS,
    GENERATE,
    MESSAGES,
    OLLAMA,
    RESPONSES,
    ChangesAnswers,
    ChangesFrames,
    ChangesStreams,
    HeldBack,
    changed,
)
from tests.api.conformance.probe.family.openai_wires import sse
from tests.api.conformance.probe.family.talk import PIECE, Query, Said

_STEP = 4
_ENDS = ("response.completed", "response.incomplete")


def _value(frame: bytes) -> dict[str, Any] | None:
    data = frame.rpartition(b"data: ")[2]
    return json.loads(data) if data.startswith(b"{") else None


# -- Chat Completions --------------------------------------------------------------------------


class FinishesTheFirstChoiceOnly(ChangesFrames):
    """Gives every reason of a stream to the first choice."""

    speaks, source = CHAT, "llama.cpp#20226"
    words = r"[Cc]hoice \d|index"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if choice["finish_reason"]:
                choice["index"] = 0
        return value


class LeaksTheLastThought(HeldBack):
    """Puts the last token of thinking that the limit cut into the text."""

    speaks, source = CHAT, "exo#2001"
    words = r"thinking|reasoning"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if said.ending != "limit" or said.text or not said.thinking:
            return said
        rest, last = said.thinking[:-PIECE], said.thinking[-PIECE:]
        return replace(said, thinking=rest, text=last)


class FencesStreamedJson(HeldBack):
    """Wraps structured output into a Markdown fence, but only in streams."""

    speaks, source = CHAT, "vllm-mlx#357"
    words = r"JSON|schema|fence|differ"

    def script(self, query: Query) -> str:
        full = super().script(query)
        return f"```json\n{full}\n```" if query.has_schema and query.is_streamed else full


def _written(call: str) -> str:
    return f'<tool_call>\n{{"name": "note", "arguments": {call}}}\n</tool_call>'


class WritesCallsAsText(HeldBack):
    """Streams a call as text."""

    speaks, source = CHAT, "foundry-local#874"
    words = r"call|tool"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        if not query.is_streamed or said.call is None:
            return said
        return Said(_written(said.call), "natural", None, said.tokens)


class RepeatsCallsAsText(HeldBack):
    """Streams a call, and streams it as text as well."""

    speaks, source = CHAT, "textgen#7427"
    words = r"differ|markup|marker|twice|(text|content).*call|call.*(text|content)"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        is_hit = query.is_streamed and said.call is not None
        return replace(said, text=_written(said.call or "")) if is_hit else said


class LosesTheClosingBrace(HeldBack):
    """Loses the last character of a streamed call's arguments."""

    speaks, source = CHAT, "vllm#32152"
    words = r"argument"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        is_hit = query.is_streamed and said.call is not None
        return replace(said, call=(said.call or "")[:-1]) if is_hit else said


class CallsWithoutCalls(ChangesFrames):
    """Reports a call at the end of every stream where tools are offered."""

    speaks, source = CHAT, "litellm#32311"
    words = r"tool_calls|reason"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"] if query.has_tool else ():
            choice["finish_reason"] = choice["finish_reason"] and "tool_calls"
        return value


class CountsNothingBesideTools(ChangesFrames):
    """Omits the counts of a stream where tools are offered."""

    speaks, source = CHAT, "koboldcpp#2480"
    words = r"usage|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        return None if query.has_tool and not value["choices"] else value


class _SendsPairs(HeldBack):
    """Streams two tokens in a chunk."""

    speaks = CHAT

    def listed(self, entries: list[dict[str, Any]], query: Query) -> list[dict[str, Any]]:
        """Return what a chunk lists of its tokens."""
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found: list[dict[str, Any]] = []
        half: dict[str, Any] | None = None
        *frames, done = super().frames(said, query)
        for value in map(_value, frames):
            choice = value["choices"][0] if value and value["choices"] else {}
            has_text = bool(choice.get("delta", {}).get("content"))
            if half is not None and has_text:
                half["delta"]["content"] += choice["delta"]["content"]
                if "logprobs" in half:
                    half["logprobs"]["content"] += choice["logprobs"]["content"]
                half = None
            else:
                found.append(value or {})
                half = choice if has_text else None
        for value in found:
            for choice in value["choices"]:
                if "logprobs" in choice:
                    entries = choice["logprobs"]["content"]
                    choice["logprobs"] = {"content": self.listed(entries, query)}
        return [*map(sse, found), done]


class ListsTheFirstAlternatives(_SendsPairs):
    """Gives the alternatives of the first token of a chunk for the second one as well."""

    source = "sglang#39260"
    words = r"logprob"

    def _alternatives(self, entry: dict[str, Any], query: Query) -> dict[str, Any]:
        found = [dict(entry), {"token": "~", "logprob": -3.0}]
        return {"top_logprobs": found[: query.body.get("top_logprobs") or 0]}

    def listed(self, entries: list[dict[str, Any]], query: Query) -> list[dict[str, Any]]:
        return [one | self._alternatives(entries[0], query) for one in entries]

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            for entry in (choice.get("logprobs") or {}).get("content", ()):
                entry |= self._alternatives(entry, query)
        return whole


class LosesTheLastLogprob(HeldBack):
    """Does not list the last token of a whole answer that ended by itself."""

    speaks, source = CHAT, "ik_llama.cpp#998"
    words = r"logprob"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        is_hit = said.logged and said.ending == "natural" and not query.is_streamed
        return replace(said, logged=said.logged[:-1]) if is_hit and said.logged else said


class StreamsByDefault(HeldBack):
    """Streams where a request does not say whether it wants a stream."""

    speaks, source = CHAT, "OmniRoute#10239"
    words = r"stream|SSE|JSON"

    def read(self, body: dict[str, Any]) -> Query:
        return super().read({"stream": True, **body})


class ThinksAfterTheAnswer(HeldBack):
    """Streams the end of the turn as thinking, behind the answer."""

    speaks, source = CHAT, "hcx-vllm-plugin#2"
    words = r"thinking|reasoning|marker|im_end"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found = []
        for frame in super().frames(said, query):
            value = _value(frame)
            for choice in value["choices"] if value else ():
                one = said[choice["index"]]
                if choice["finish_reason"] and one.thinking and one.ending == "natural":
                    thought = {"reasoning_content": "<|im_end|>"}
                    last = {**choice, "delta": thought, "finish_reason": None}
                    found.append(sse({**(value or {}), "choices": [last]}))
            found.append(frame)
        return found


class ListsOneTokenAChunk(_SendsPairs):
    """Lists the last token only of a chunk with two."""

    source = "Rapid-MLX#243"
    words = r"logprob"

    def listed(self, entries: list[dict[str, Any]], query: Query) -> list[dict[str, Any]]:
        return entries[-1:]


# -- Completions -------------------------------------------------------------------------------


class CutsDeltasTwice(HeldBack):
    """Takes the pieces of a stream for the whole text so far, and cuts off what was sent."""

    speaks, source = COMPLETIONS, "sglang#30188"
    words = r"differ|lost|missing|other text"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        sent: Counter[int] = Counter()

        def change(value: dict[str, Any]) -> dict[str, Any]:
            for choice in value["choices"]:
                piece, place = choice["text"], choice["index"]
                choice["text"] = piece[sent[place] :]
                sent[place] += len(piece)
            return value

        return changed(super().frames(said, query), change)


class SaysEos(HeldBack):
    """Reports the natural end under a name of its own."""

    speaks, source = COMPLETIONS, "openai-dotnet#267"
    words = r"finish_reason|eos"

    def _rename(self, choices: Iterable[dict[str, Any]], said: Sequence[Said]) -> None:
        for choice in choices:
            if choice["finish_reason"] and said[choice["index"]].ending == "natural":
                choice["finish_reason"] = "eos"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        self._rename(whole["choices"], said)
        return whole

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        def change(value: dict[str, Any]) -> dict[str, Any]:
            self._rename(value["choices"], said)
            return value

        return changed(super().frames(said, query), change)


class FinishesTheLastChoiceOnly(ChangesFrames):
    """Gives only the last choice of a stream a reason."""

    speaks, source = COMPLETIONS, "sglang#8417"
    words = r"[Cc]hoice \d|index"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if choice["index"] < query.choices - 1:
                choice["finish_reason"] = None
        return value


class RefusesLogprobsBesideStops(HeldBack):
    """Fails with 400 where a stop ended an answer with logprobs."""

    speaks, source = COMPLETIONS, "TensorRT-LLM#18190"
    words = r"400|refuse"

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        if query.has_logprobs and self.answer(query).ending == "stop":
            return self.refusal("token_ids and logprobs have different lengths")
        return await super().respond(request, query)


class ListsAsChatDoes(HeldBack):
    """Lists the tokens of whole answers in the form of Chat Completions."""

    speaks, source = COMPLETIONS, "imp#1589"
    words = r"logprobs.*(form|shape|tokens is|content)"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            if "logprobs" in choice:
                tokens = choice["logprobs"]["tokens"]
                listed = [{"token": one, "logprob": -0.1, "top_logprobs": []} for one in tokens]
                choice["logprobs"] = {"content": listed}
        return whole


class LeavesPartsOfOverlappingStops(HeldBack):
    """Cuts off only the last token of a stop where another stop begins alike."""

    speaks, source = COMPLETIONS, "omlx#2386"
    words = r"stop.*(text|part|begin|left|leak|remain)|(leak|part|left|begin).*stop"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        matched = said.matched or ""
        others = [one for one in query.stops if one != matched]
        is_hit = any(one.startswith(matched) or matched.startswith(one) for one in others)
        return replace(said, text=said.text + matched[:-PIECE]) if is_hit else said


# -- Messages ----------------------------------------------------------------------------------


class SkipsAnIndex(ChangesFrames):
    """Numbers the blocks of a stream with gaps."""

    speaks, source = MESSAGES, "new-api#5482"
    words = r"index|[Bb]lock \d"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        return value | {"index": value["index"] * 2} if "index" in value else value


class StreamsTheThinkingBehind(HeldBack):
    """Streams the text before the thinking."""

    speaks, source = MESSAGES, "opencode-kiro-auth#46"
    words = r"thinking|order"

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


class FailsOnCutCalls(HeldBack):
    """Fails where the limit cut a call in a whole answer."""

    speaks, source = MESSAGES, "vllm#48273"
    words = r"500"

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        is_called = query.has_tool and "Call the tool" in query.prompt
        if is_called and not query.is_streamed and self.answer(query).ending == "limit":
            return self.refusal("Unterminated string", status=500)
        return await super().respond(request, query)


class TellsUnfinishedThoughts(HeldBack):
    """Gives thinking that the limit cut as the text of a whole answer."""

    speaks, source = MESSAGES, "imp#509"
    words = r"thinking|reasoning"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        is_cut = said.ending == "limit" and not said.text and said.thinking
        is_hit = is_cut and not query.is_streamed
        return replace(said, text=said.thinking, thinking="") if is_hit else said


class BreaksWideCharacters(ChangesStreams):
    """Streams two replacement characters for every character beyond ASCII."""

    speaks, source = MESSAGES, "lucebox#641"
    words = r"U\+FFFD|\ufffd|replacement|character|differ"

    def streamed(self, one: Said, query: Query) -> Said:
        return replace(one, text=re.sub(r"[^\x00-\x7f]", "\ufffd\ufffd", one.text))


class OmitsTheSequence(ChangesFrames):
    """Omits stop_sequence at the end of a stream where it is null."""

    speaks, source = MESSAGES, "vllm#55324"
    words = r"stop_sequence"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "message_delta" and value["delta"]["stop_sequence"] is None:
            del value["delta"]["stop_sequence"]
        return value


# -- Responses ---------------------------------------------------------------------------------


class CountsItemsFromOne(ChangesFrames):
    """Counts the items of a stream from 1."""

    speaks, source = RESPONSES, "sglang#12644"
    words = r"output_index|[Ii]tem \d"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if "output_index" in value:
            value["output_index"] += 1
        return value


class NamesNoPlace(ChangesFrames):
    """Does not say to which item and part the events of a stream belong."""

    speaks, source = RESPONSES, "lemonade#3607"
    words = r"output_index|content_index"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        omitted = ("output_index", "content_index")
        return {name: value[name] for name in value if name not in omitted}


class EndsInAnotherOrder(ChangesFrames):
    """Lists the items at the end of a stream in another order than it streamed them."""

    speaks, source = RESPONSES, "surogate#175"
    words = r"order|index|position|output\[\d\]"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] in _ENDS:
            value["response"]["output"].reverse()
        return value


class ChangesItemIds(ChangesFrames):
    """Gives the item another id in every delta."""

    speaks, source = RESPONSES, "vllm#23218, litellm#36375"
    words = r"item_id|\bids?\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"].endswith(".delta"):
            value["item_id"] += f"_{value['sequence_number']}"
        return value


class FinishesThinkingEmpty(ChangesFrames):
    """Repeats nothing of the thinking where it says that it is done."""

    speaks, source = RESPONSES, "bifrost#5149"
    words = r"reasoning|thinking"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        is_done = value["type"] == "response.reasoning_text.done"
        return value | {"text": ""} if is_done else value


class ForgetsTheThinking(ChangesFrames):
    """Omits the item of the thinking at the end of a stream."""

    speaks, source = RESPONSES, "litellm-rs#541"
    words = r"reasoning|thinking|items?\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] in _ENDS:
            output = value["response"]["output"]
            value["response"]["output"] = [one for one in output if one["type"] != "reasoning"]
        return value


class LeavesTheThinkingOpen(HeldBack):
    """Never says that the item of the thinking is done."""

    speaks, source = RESPONSES, "CLIProxyAPI#3449"
    words = r"output_item\.done"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found: list[bytes] = []
        for frame in super().frames(said, query):
            value = _value(frame) or {}
            is_thought = value.get("item", {}).get("type") == "reasoning"
            if not (is_thought and value["type"] == "response.output_item.done"):
                found.append(sse(value | {"sequence_number": len(found)}, value["type"]))
        return found


class CountsAsChatDoes(ChangesFrames):
    """Names its counts as Chat Completions does."""

    speaks, source = RESPONSES, "freebuff2api#10"
    words = r"usage|input_tokens|output_tokens"
    _names: ClassVar = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}

    def _rename(self, response: dict[str, Any]) -> None:
        usage = response["usage"]
        response["usage"] = {self._names.get(name, name): usage[name] for name in usage}

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        self._rename(whole)
        return whole

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if "response" in value:
            self._rename(value["response"])
        return value


class RefusesWithSuccess(HeldBack):
    """Refuses requests for a stream with 200 and the body of an error as an event."""

    speaks, source = RESPONSES, "ogx#5224"
    words = r"200|accept|error"

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


# -- /generate ---------------------------------------------------------------------------------


class GivesTheReasonAsText(ChangesAnswers):
    """Gives the reason as a string where an object is due."""

    speaks, source = GENERATE, "sglang#1407"
    words = r"finish_reason"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        reason = value["meta_info"]["finish_reason"]
        value["meta_info"]["finish_reason"] = reason and reason["type"]
        return value


class RepeatsTheFirstPiece(ChangesFrames):
    """Streams the first piece in every event."""

    speaks, source = GENERATE, "sglang#215"
    words = r"differ|lost|missing|repeat|never grows"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        return value | {"text": value["text"][:PIECE]}


class CountsBehindTheStop(HeldBack):
    """Makes four tokens a step, and counts those of the last step behind the stop."""

    speaks, source = GENERATE, "sglang#25980"
    words = r"token|count"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        made = -(-said.tokens // _STEP) * _STEP
        return replace(said, tokens=min(made, query.limit, -(-len(full) // PIECE)))


# -- Ollama ------------------------------------------------------------------------------------


class ForgetsThePromptOfRepeats(ChangesAnswers):
    """Omits the count of a prompt's tokens where it has seen the prompt before."""

    speaks, source = OLLAMA, "ollama#2068, ollama#3427"
    words = r"prompt"

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


class LosesTheTokenOfTheStop(HeldBack):
    """Cuts off the whole token in which a stop begins, with the text before the stop."""

    speaks, source = OLLAMA, "ollama#7256"
    words = r"before|lost|missing|too early|too much"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=full[: len(said.text) // PIECE * PIECE])


class StreamsNoCalls(ChangesStreams):
    """Omits calls from streams."""

    speaks, source = OLLAMA, "lemonade#1428"
    words = r"call|tool"

    def streamed(self, one: Said, query: Query) -> Said:
        return replace(one, call=None)


SECOND_HELD_BACK: tuple[type[HeldBack], ...] = tuple(
    one
    for one in tuple(globals().values())
    if isinstance(one, type)
    and issubclass(one, HeldBack)
    and "source" in vars(one)
    and one.__module__ == __name__
)
