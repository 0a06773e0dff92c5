"""Forty servers with one fault each that a real server has had, written without a look at the
probe's checks."""

import json
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
_MORE = "\n" + "and so on " * 400


class HeldBack(FamilyServer):
    """A server with a fault.

    Attributes:
        speaks: Its dialect.
        source: Who reported the fault.
        words: A pattern of what a finding must say.
    """

    speaks: ClassVar[WireDialect]
    source: ClassVar[str]
    words: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(self.speaks)


Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def changed(frames: list[bytes], change: Change) -> list[bytes]:
    """Return the frames of a stream with their values changed; None drops a frame."""
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


class ChangesFrames(HeldBack):
    """Changes the frames of its streams."""

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        """Return the changed value of a frame; None drops it."""
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return changed(super().frames(said, query), lambda value: self.change(value, query))


class ChangesAnswers(ChangesFrames):
    """Changes its whole answers as it changes the frames of its streams."""

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self.change(super().body(said, query), query) or {}


class ChangesStreams(HeldBack):
    """Streams something else than it says."""

    def streamed(self, one: Said, query: Query) -> Said:
        """Return what is streamed of an answer."""
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return super().frames([self.streamed(one, query) for one in said], query)


def _in_last_step(tokens: int, limit: int) -> bool:
    return tokens <= limit <= -(-tokens // _STEP) * _STEP


# -- Chat Completions --------------------------------------------------------------------------


class SaysStopInWholeAnswers(HeldBack):
    """Reports "stop" of every whole answer, also of one that the limit cut."""

    speaks, source = CHAT, "mlx-vlm#1215"
    words = r"limit|length|max_tokens"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            if choice["finish_reason"] == "length":
                choice["finish_reason"] = "stop"
        return whole


class _CallsTwice(HeldBack):
    """Calls the tool twice."""

    speaks = CHAT
    second: ClassVar[dict[str, Any]]

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found = []
        for frame in super().frames(said, query):
            found.append(frame)
            if b'"tool_calls": [' in frame:
                value = json.loads(frame.removeprefix(b"data: "))
                value["choices"][0]["delta"]["tool_calls"][0] |= self.second
                found.append(sse(value))
        return found


class GivesAllCallsOneIndex(_CallsTwice):
    """Streams two calls under the same index."""

    source = "litellm#37792"
    words = r"index"
    second: ClassVar = {"id": "t2"}

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            calls = choice["message"].get("tool_calls", [])
            calls.extend([one | {"id": "t2"} for one in calls])
        return whole


class SendsACallUnderTwoIndexes(_CallsTwice):
    """Streams the same call under a second index."""

    source = "LocalAI#9722"
    words = r"index|twice|same (id|call)|calls? (is|are) repeated"
    second: ClassVar = {"index": 1}


class LosesLineEndsBesideTools(HeldBack):
    """Drops line ends from streams where tools are offered."""

    speaks, source = CHAT, "vllm-mlx#464"
    words = r"differ|lost|missing|other text"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        is_hit = query.is_streamed and query.has_tool
        return replace(said, text=said.text.replace("\n", "")) if is_hit else said


class CountsOneTooFewAtTheLimit(HeldBack):
    """Counts one token less than it made where the limit ended the answer."""

    speaks, source = CHAT, "lmstudio#2335"
    words = r"token.*(count|limit)|count.*token"

    def limited(self, said: Said, query: Query) -> Said:
        return replace(said, tokens=said.tokens - 1)


class MakesOneTooMany(HeldBack):
    """Makes one token more than the limit allows."""

    speaks, source = CHAT, "mistral.rs#1539"
    words = r"limit|max_tokens"

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, limit=query.limit + 1))


class CallsStopsLimits(HeldBack):
    """Reports a stop string as the limit."""

    speaks, source = CHAT, "koboldcpp#2481"
    words = r"length|reason"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, ending="limit", matched=None)


class ChangesItsId(ChangesFrames):
    """Gives every chunk another id."""

    speaks, source = CHAT, "litellm#37792, koboldcpp#2481"
    words = r"\bids?\b"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        self._number = 0
        return super().frames(said, query)

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        self._number += 1
        return value | {"id": f"c{self._number}"}


class GivesNoReasonBesideLogprobs(ChangesFrames):
    """Omits the reason of a stream with logprobs."""

    speaks, source = CHAT, "litellm#10686"
    words = r"reason"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"] if query.has_logprobs else ():
            choice["finish_reason"] = None
        return value


class SaysNothingForNull(ChangesFrames):
    """Gives an empty reason before the last chunk, where null is due."""

    speaks, source = CHAT, "ollama#4357"
    words = r"finish_reason is an empty string"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            choice["finish_reason"] = choice["finish_reason"] or ""
        return value


class RepeatsTheName(HeldBack):
    """Repeats the function's name in every piece of its arguments."""

    speaks, source = CHAT, "llama.cpp#13800"
    words = r"name"

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


class RunsOnForAnEmptyList(HeldBack):
    """Takes an empty list of stops for the wish to have no end of a turn either."""

    speaks, source = CHAT, "ollama#3629"
    words = r"empty list|\[\]|no stops"

    def script(self, query: Query) -> str:
        return super().script(query) + (_MORE if query.body.get("stop") == [] else "")


class FailsWithSuccess(HeldBack):
    """Reports its errors as answers with the reason "error"."""

    speaks, source = CHAT, "koboldcpp#2481"
    words = r"200|accepted|error"

    def refusal(self, message: str, status: int = 400) -> web.Response:
        said = Said("", "natural", None, 0)
        whole = self.wire.whole([said], Query("", (), 1, is_streamed=False))
        whole["choices"][0]["finish_reason"] = "error"
        return web.json_response(whole)


# -- Completions -------------------------------------------------------------------------------


class SendsTheFirstTokenUnseen(HeldBack):
    """Streams the first token before it looks for stops."""

    speaks, source = COMPLETIONS, "higgs#1"
    words = r"stop.*(text|answer|sent|leak|include)"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        is_hit = query.is_streamed and len(said.text) < PIECE
        return replace(said, text=full[:PIECE]) if is_hit else said


class FailsOnEmptyAnswers(HeldBack):
    """Fails where a stop leaves nothing of a whole answer."""

    speaks, source = COMPLETIONS, "tabbyAPI#91"
    words = r"503"

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        said = self.answer(query)
        if said.ending == "stop" and not said.text and not query.is_streamed:
            return web.json_response(self.wire.error("list index out of range"), status=503)
        return await super().respond(request, query)


class RestartsItsOffsets(ChangesFrames):
    """Counts the offsets of tokens from 0 in every chunk."""

    speaks, source = COMPLETIONS, "vllm#47815"
    words = r"offset"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            logged = choice.get("logprobs") or {}
            if "text_offset" in logged:
                first = logged["text_offset"][:1]
                logged["text_offset"] = [at - first[0] for at in logged["text_offset"]]
        return value


class RepeatsTheLastPiece(HeldBack):
    """Sends the last piece of a stream again, beside the reason."""

    speaks, source = COMPLETIONS, "lmdeploy#816"
    words = r"differ|twice|repeat"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        last = (pieces(said[0].text) or [""])[-1]

        def change(value: dict[str, Any]) -> dict[str, Any]:
            for choice in value["choices"]:
                if choice["finish_reason"] and not choice["text"]:
                    choice["text"] = last
            return value

        return changed(super().frames(said, query), change)


class StreamsWithoutStops(HeldBack):
    """Refuses stops in requests for a stream."""

    speaks, source = COMPLETIONS, "smg#1524"
    words = r"400|refuse"

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if query.is_streamed and query.stops:
            return self.refusal("stop is not supported in streams")
        return None


# -- Messages ----------------------------------------------------------------------------------


class WritesTextIntoCalls(HeldBack):
    """Streams text into the block of a call."""

    speaks, source = MESSAGES, "sglang#24293"
    words = r"text_delta|block"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found = []
        for frame in super().frames(said, query):
            found.append(frame)
            if b"input_json_delta" in frame:
                value = json.loads(frame.partition(b"data: ")[2])
                value["delta"] = {"type": "text_delta", "text": "\n"}
                found.append(sse(value, value["type"]))
        return found


class CountsNoPromptInStreams(ChangesFrames):
    """Counts 0 tokens for the prompt of a stream."""

    speaks, source = MESSAGES, "mlx-node#45"
    words = r"input_tokens|prompt"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "message_start":
            value["message"]["usage"]["input_tokens"] = 0
        return value


class CountsOneTokenInStreams(ChangesFrames):
    """Counts 1 token for the answer of a stream, whatever was made."""

    speaks, source = MESSAGES, "koboldcpp#2481"
    words = r"token|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "message_delta":
            value["usage"]["output_tokens"] = 1
        return value


class ClosesNoBlock(ChangesFrames):
    """Never closes a block."""

    speaks, source = MESSAGES, "sglang#26795"
    words = r"content_block_stop|clos|block .*open"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        return None if value["type"] == "content_block_stop" else value


class SwallowsThinkingInStreams(HeldBack):
    """Streams nothing of the thinking that whole answers have."""

    speaks, source = MESSAGES, "sglang#26795"
    words = r"thinking.*missing"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return super().frames([replace(one, thinking="") for one in said], query)


# -- Responses ---------------------------------------------------------------------------------


class CompletesWhatIsCut(ChangesFrames):
    """Ends the stream of a cut answer with response.completed."""

    speaks, source = RESPONSES, "agentic-api#273"
    words = r"response\.(incomplete|completed)"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        is_end = value["type"] == "response.incomplete"
        return value | {"type": "response.completed"} if is_end else value


def _complete(output: list[dict[str, Any]]) -> None:
    for item in output:
        item["status"] = "completed"


class CompletesCutItems(ChangesFrames):
    """Says of the item that was cut that it is completed."""

    speaks, source = RESPONSES, "vllm#57998"
    words = r"item|status"

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


class NeverSaysTheTextIsDone(ChangesFrames):
    """Omits response.output_text.done."""

    speaks, source = RESPONSES, "ogx#5309"
    words = r"output_text\.done"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        return None if value["type"] == "response.output_text.done" else value


class EndsWithoutOutput(ChangesFrames):
    """Ends its streams with a response without output."""

    speaks, source = RESPONSES, "vllm#30223"
    words = r"output|differ"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] in ("response.completed", "response.incomplete"):
            value["response"]["output"] = []
        return value


class NumbersWrongly(ChangesFrames):
    """Numbers its events with gaps and repetitions."""

    speaks, source = RESPONSES, "GoModel#953, litellm#28899"
    words = r"sequence_number"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        return value | {"sequence_number": value["sequence_number"] // 2 * 3}


class AddsNoParts(ChangesFrames):
    """Streams text without saying that there is an item and a part for it."""

    speaks, source = RESPONSES, "sub2api#4468"
    words = r"added"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        return None if value["type"].endswith(".added") else value


class EndsAnotherResponse(ChangesFrames):
    """Ends its streams with another response than it began."""

    speaks, source = RESPONSES, "onyx#13730"
    words = r"\bids?\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] in ("response.completed", "response.incomplete"):
            value["response"]["id"] = "another"
        return value


# -- /generate ---------------------------------------------------------------------------------


class MissesStopsWithinSteps(HeldBack):
    """Makes several tokens a step, and sees only the stops near the end of one."""

    speaks, source = GENERATE, "sglang#23802"
    words = r"ignore|goes on|ran on|in the text|stop"

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        step = _STEP * PIECE
        found = [
            (at + len(one), at, one)
            for one in query.stops
            for at in range(len(text))
            if text.startswith(one, at) and -(at + len(one)) % step <= PIECE
        ]
        return min(found)[1:] if found else None


class PrefersTheLimitToStops(HeldBack):
    """Reports the limit where the step that completed a stop also reached the limit."""

    speaks, source = GENERATE, "sglang#31599"
    words = r"stop"

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        if not _in_last_step(said.tokens, query.limit):
            return said
        return Said(full[: query.limit * PIECE], "limit", None, query.limit)


class TakesPartsBack(HeldBack):
    """Streams the beginning of a stop, and takes it back in the next event."""

    speaks, source = GENERATE, "sglang#6997"
    words = r"stop.*(stream|sent|leak|part|begin)|(leak|part|begin).*stop|taken? back"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        *before, last, done = super().frames(said, query)
        if said[0].ending != "stop" or len(said[0].matched or "") < 2:
            return [*before, last, done]
        value = json.loads(last.removeprefix(b"data: "))
        value["text"] += (said[0].matched or "")[:-1]
        value["meta_info"]["finish_reason"] = None
        return [*before, sse(value), last, done]


class NamesNoStopInStreams(ChangesFrames):
    """Names the stop in whole answers, but not in streams."""

    speaks, source = GENERATE, "smg#1524"
    words = r"does not name the stop"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        reason = value["meta_info"]["finish_reason"]
        if reason and "matched" in reason:
            reason["matched"] = None
        return value


class PrefersTheLimitToTheEnd(HeldBack):
    """Goes on to the limit where the step of the answer's end also reaches the limit."""

    speaks, source = GENERATE, "sglang#33758"
    words = r"end|natural|length|differ"

    def ended(self, said: Said, query: Query) -> Said:
        if not _in_last_step(said.tokens, query.limit):
            return said
        junk = "".join(pieces(_MORE)[: query.limit - said.tokens])
        return Said(said.text + junk, "limit", None, query.limit)


# -- Ollama ------------------------------------------------------------------------------------


class IsNeverDone(ChangesFrames):
    """Never says that it is done."""

    speaks, source = OLLAMA, "ollama#10015"
    words = r"done"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        return value | {"done": False}


class LosesATokenToTheLimit(HeldBack):
    """Gives one token less than the limit, and counts it."""

    speaks, source = OLLAMA, "ollama#14080"
    words = r"token|limit|text"

    def limited(self, said: Said, query: Query) -> Said:
        return replace(said, text=said.text[:-PIECE])


class SendsArgumentsAsText(ChangesFrames):
    """Sends the arguments of a call as JSON in a string where an object is due."""

    speaks, source = OLLAMA, "litellm#37792"
    words = r"argument"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self.change(super().body(said, query), query)

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for call in value["message"].get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        return value


class StreamsNothing(HeldBack):
    """Ends every stream at once."""

    speaks, source = OLLAMA, "FastFlowLM#436"
    words = r"empty|no text|differ|nothing"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return super().frames([Said("", "natural", None, 0)], query)


class ForgetsItsOwnEnd(HeldBack):
    """Lets the stops of a request replace the end of its own turn."""

    speaks, source = OLLAMA, "ollama#4524"
    words = r"differ|goes on|ran on|own end|never occurs|behind"

    def script(self, query: Query) -> str:
        full = super().script(query)
        is_lost = query.stops and self.stop_in(full, query) is None
        return full + "<|eot_id|>" + _MORE if is_lost else full


HELD_BACK: tuple[type[HeldBack], ...] = tuple(
    one
    for one in tuple(globals().values())
    if isinstance(one, type) and issubclass(one, HeldBack) and "source" in vars(one)
)
