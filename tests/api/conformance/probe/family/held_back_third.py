"""Another forty servers with one fault each that a real server has had, settled in a list before
the probe was run against any of them."""

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
    ChangesAnswers,
    ChangesFrames,
    ChangesStreams,
    HeldBack,
    changed,
)
from tests.api.conformance.probe.family.openai_wires import openai_error
from tests.api.conformance.probe.family.talk import PIECE, Query, Said, pieces

_STEP = 4
_END_OF_THOUGHT = "</think>\n\n"


def _is_cut_thought(said: Said) -> bool:
    return said.ending == "limit" and bool(said.thinking) and not said.text


def _asking(query: Query, choice: str) -> Query:
    return replace(query, body={**query.body, "tool_choice": choice})


# -- Chat Completions --------------------------------------------------------------------------


class CountsOneOfSeveral(HeldBack):
    """Counts the tokens of the first choice only."""

    speaks, source = CHAT, "llama.cpp#27318, vllm#9357"
    words = r"token|usage|count"

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


class EncodesArgumentsTwice(HeldBack):
    """Gives a call's arguments as JSON of a string that is JSON."""

    speaks, source = CHAT, "vllm#54964"
    words = r"argument"

    def called(self, query: Query) -> Said:
        said = super().called(query)
        return replace(said, call=json.dumps(said.call)) if said.call is not None else said


class RepeatsThoughts(HeldBack):
    """Streams every piece of the thinking twice."""

    speaks, source = CHAT, "bifrost#6427"
    words = r"thinking|reasoning"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        found: list[bytes] = []
        for frame in super().frames(said, query):
            found += [frame] * (2 if b'"reasoning_content": ' in frame else 1)
        return found


class LosesTextBehindThoughts(HeldBack):
    """Loses the first piece of streamed text behind the thinking."""

    speaks, source = CHAT, "litellm#26098"
    words = r"differ|lost|missing|lacks"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        waiting = {index for index, one in enumerate(said) if one.thinking}

        def change(value: dict[str, Any]) -> dict[str, Any] | None:
            for choice in value["choices"]:
                if choice["index"] in waiting and choice["delta"].get("content"):
                    waiting.remove(choice["index"])
                    return None
            return value

        return changed(super().frames(said, query), change)


class IgnoresRequiredTools(HeldBack):
    """Lets the model decide where a call is required."""

    speaks, source = CHAT, "vllm#44216, hindsight#1877"
    words = r"required|tool_choice|forced|no (tool )?call|not call"

    def calls_tool(self, query: Query) -> bool:
        is_hit = query.body.get("tool_choice") not in (None, "none")
        return super().calls_tool(_asking(query, "auto") if is_hit else query)


class CallsForbiddenTools(HeldBack):
    """Lets the model decide in streams where calls are forbidden."""

    speaks, source = CHAT, "vllm#42747"
    words = r"none|tool_choice|forbid"

    def calls_tool(self, query: Query) -> bool:
        is_hit = query.is_streamed and query.body.get("tool_choice") == "none"
        return super().calls_tool(_asking(query, "auto") if is_hit else query)


class SaysStopForCutThoughts(HeldBack):
    """Reports a natural end where the limit cut the thinking."""

    speaks, source = CHAT, "imp#1442, eliza#8189"
    words = r"length|limit|reason"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        return replace(said, ending="natural") if _is_cut_thought(said) else said


class CallsChunksCompletions(ChangesFrames):
    """Calls the chunks of a stream whole answers."""

    speaks, source = CHAT, "foundry-local#31"
    words = r"object|chat\.completion"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        return value | {"object": "chat.completion"}


class OmitsTheCallsIndex(ChangesFrames):
    """Streams calls without their index."""

    speaks, source = CHAT, "mlx-lm#598"
    words = r"index"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                del call["index"]
        return value


class RunsOnBehindJson(HeldBack):
    """Streams line ends behind structured output up to the limit."""

    speaks, source = CHAT, "ollama#4446, qvac#3225"
    words = r"differ|white ?space|runs on|limit|length"

    def script(self, query: Query) -> str:
        full = super().script(query)
        is_hit = query.has_schema and query.is_streamed
        return full + "\n" * PIECE * query.limit if is_hit else full


class LeaksTagsBesideStops(HeldBack):
    """Streams the end of the thinking as text where a request has stops."""

    speaks, source = CHAT, "vllm#51641"
    words = r"thinking|reasoning|think>|marker|differ"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not (query.is_streamed and query.stops and said.thinking) or _is_cut_thought(said):
            return said
        rest, last = said.thinking[:-PIECE], said.thinking[-PIECE:]
        return replace(said, thinking=rest, text=last + _END_OF_THOUGHT + said.text)


class StreamsAnswersAsThoughts(ChangesStreams):
    """Streams the answer as thinking where the thinking is switched off."""

    speaks, source = CHAT, "vllm#40466"
    words = r"thinking|reasoning|no text|empty|differ"

    def streamed(self, one: Said, query: Query) -> Said:
        return one if query.is_thinking is not False else replace(one, thinking=one.text, text="")


class CountsMoreThoughtsThanTokens(HeldBack):
    """Makes four tokens a step, and counts as thinking those of the last step behind the limit."""

    speaks, source = CHAT, "sglang#37450, sglang#39826"
    words = r"reasoning_tokens|details"

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


# -- Completions -------------------------------------------------------------------------------


class StreamsDeltas(ChangesFrames):
    """Streams text in the form of Chat Completions."""

    speaks, source = COMPLETIONS, "GenieX#66"
    words = r"delta|object|(no|missing|lacks?|without) .*text|text.* (is missing|lost|empty)"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            choice["delta"] = {"content": choice.pop("text")}
        return value | {"object": "text_completion.chunk"}


class EndsWithoutText(ChangesFrames):
    """Omits the text of the chunk with the reason."""

    speaks, source = COMPLETIONS, "litellm#11158"
    words = r"\btext\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for choice in value["choices"]:
            if choice["finish_reason"]:
                del choice["text"]
        return value


class StreamsStopTokens(HeldBack):
    """Streams the text of the token at whose id it stops."""

    speaks, source = COMPLETIONS, "vllm#55483"
    words = r"token id|stop_token_ids|differ"

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not (query.token_ids and query.is_streamed) or said.ending != "natural":
            return said
        begin = len(said.text)
        return replace(said, text=self.script(query)[: begin + PIECE])


class TakesZeroForNone(HeldBack):
    """Lists no tokens where no alternatives are asked for."""

    speaks, source = COMPLETIONS, "vllm#3707"
    words = r"logprob"

    def read(self, body: dict[str, Any]) -> Query:
        query = super().read(body)
        return replace(query, has_logprobs=query.has_logprobs and body["logprobs"] != 0)


class RefusesWithDetail(HeldBack):
    """Gives errors a form of its own."""

    speaks, source = COMPLETIONS, "ray#64833"
    words = r"error|detail"

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return web.json_response({"detail": message}, status=status)


class OmitsDone(HeldBack):
    """Ends streams without the mark of their end."""

    speaks, source = COMPLETIONS, "TGI#2221, llama-box#2"
    words = r"DONE"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return super().frames(said, query)[:-1]


# -- Messages ----------------------------------------------------------------------------------


class RefusesAsOpenAI(HeldBack):
    """Gives errors in the form of another vendor."""

    speaks, source = MESSAGES, "vllm#57997"
    words = r"error"

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return web.json_response(openai_error(message), status=status)


class StartsTwice(HeldBack):
    """Starts every stream twice."""

    speaks, source = MESSAGES, "litellm#33859"
    words = r"message_start"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        return frames[:1] + frames


class EndsWithoutStart(HeldBack):
    """Streams nothing but the end of an empty answer."""

    speaks, source = MESSAGES, "plano#898"
    words = r"message_start|message_delta|stop_reason|before"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        [one] = said
        is_hit = not one.text and not one.thinking and one.call is None
        return super().frames(said, query)[-1 if is_hit else 0 :]


class StreamsNoArguments(ChangesFrames):
    """Streams calls without their arguments."""

    speaks, source = MESSAGES, "litellm#29491"
    words = r"argument|input|partial_json"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any] | None:
        return None if value.get("delta", {}).get("type") == "input_json_delta" else value


class NamesNoEvents(HeldBack):
    """Streams events without their names."""

    speaks, source = MESSAGES, "pi#1984, pi#4381"
    words = r"event"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return [frame[frame.index(b"data: ") :] for frame in super().frames(said, query)]


class OmitsEmptyTexts(HeldBack):
    """Omits the text of the block of text beside a call."""

    speaks, source = MESSAGES, "vllm#22627"
    words = r"\btext\b"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for block in whole["content"] if said[0].call is not None else ():
            if block["type"] == "text" and not block["text"]:
                del block["text"]
        return whole


class StreamsTextAsJson(ChangesFrames):
    """Streams text as empty arguments where tools are offered."""

    speaks, source = MESSAGES, "litellm#29286"
    words = r"input_json_delta|text_delta|differ|lost|empty|no text"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if query.has_tool and value.get("delta", {}).get("type") == "text_delta":
            value["delta"] = {"type": "input_json_delta", "partial_json": ""}
        return value


# -- Responses ---------------------------------------------------------------------------------


def _numbered(frames: Iterable[bytes]) -> list[bytes]:
    numbers = count()
    return changed(list(frames), lambda value: value | {"sequence_number": next(numbers)})


class FinishesCallsNameless(ChangesFrames):
    """Forgets the name of a call where it says that it is done."""

    speaks, source = RESPONSES, "CLIProxyAPI#1004"
    words = r"\bname\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "response.output_item.done" and "name" in value["item"]:
            value["item"]["name"] = ""
        return value


class BreaksOffWhileThinking(HeldBack):
    """Closes a stream in the middle of the thinking."""

    speaks, source = RESPONSES, "ollama#17118"
    words = r"response\.(completed|incomplete)|never ends|no end|terminal|broke|closed"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        thoughts = [at for at, frame in enumerate(frames) if b"reasoning_text.delta" in frame]
        return frames[: thoughts[len(thoughts) // 2]] if thoughts else frames


class CountsNoInput(HeldBack):
    """Counts no tokens for the prompt of a whole answer."""

    speaks, source = RESPONSES, "sglang#10012"
    words = r"input_tokens|usage|prompt"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        whole["usage"] |= {"input_tokens": 0, "total_tokens": whole["usage"]["output_tokens"]}
        return whole


class SaysStopAsStatus(ChangesFrames):
    """Ends streams with a status that is a reason of Chat Completions."""

    speaks, source = RESPONSES, "litellm#15714"
    words = r"status"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["type"] == "response.completed":
            value["response"]["status"] = "stop"
        return value


class ChangesCallIds(ChangesFrames):
    """Gives a call other ids at the end of a stream."""

    speaks, source = RESPONSES, "vllm#47916"
    words = r"call_id|item_id|\bids?\b"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        for item in value["response"]["output"] if "response" in value else ():
            if item["type"] == "function_call":
                item |= {"id": "f2", "call_id": "call_2"}
        return value


class StreamsNoTextDeltas(HeldBack):
    """Sends the text of a stream only where it says that it is done."""

    speaks, source = RESPONSES, "codex-lb#504"
    words = r"delta|differ|empty|no text"

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        omitted = b"event: response.output_text.delta\n"
        frames = super().frames(said, query)
        return _numbered(frame for frame in frames if not frame.startswith(omitted))


class DropsRepeatedPieces(ChangesStreams):
    """Drops pieces of a stream that occurred in its text before."""

    speaks, source = RESPONSES, "metapi#336"
    words = r"differ|lost|missing|lacks"

    def streamed(self, one: Said, query: Query) -> Said:
        kept = ""
        for piece in pieces(one.text):
            kept += "" if piece in kept else piece
        return replace(one, text=kept)


# -- /generate ---------------------------------------------------------------------------------


class ListsThePromptsIds(ChangesAnswers):
    """Lists the last tokens of the prompt before those of the answer."""

    speaks, source = GENERATE, "sglang#17240, sglang#10896"
    words = r"output_ids"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        meta = value["meta_info"]
        made = meta["completion_tokens"] if meta["finish_reason"] else len(pieces(value["text"]))
        return value | {"output_ids": [11, 12, 13, *range(100, 100 + made)]}


class RepeatsWideCharacters(ChangesStreams):
    """Streams every character beyond ASCII twice."""

    speaks, source = GENERATE, "sglang#31598"
    words = r"differ|character|twice|repeat"

    def streamed(self, one: Said, query: Query) -> Said:
        return replace(one, text=re.sub(r"([^\x00-\x7f])", r"\1\1", one.text))


class CountsNothingAtTheEnd(ChangesFrames):
    """Omits the counts of the event with the reason."""

    speaks, source = GENERATE, "dynamo#11062"
    words = r"token|count"

    def change(self, value: dict[str, Any], query: Query) -> dict[str, Any]:
        if value["meta_info"]["finish_reason"]:
            del value["meta_info"]["prompt_tokens"], value["meta_info"]["completion_tokens"]
        return value


# -- Ollama ------------------------------------------------------------------------------------


class IgnoresFormatWithoutThinking(HeldBack):
    """Forgets the format where the thinking is switched off."""

    speaks, source = OLLAMA, "ollama#14645"
    words = r"JSON|format|schema"

    def script(self, query: Query) -> str:
        has_schema = query.has_schema and query.is_thinking is not False
        return super().script(replace(query, has_schema=has_schema))


class IsNotDoneAfterThinking(HeldBack):
    """Returns a whole answer with thinking before it is complete."""

    speaks, source = OLLAMA, "ollama#17836"
    words = r"\bdone"

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        if not said[0].thinking:
            return whole
        begun = {name: whole[name] for name in ("model", "created_at", "message")}
        begun["message"]["content"] = ""
        return begun | {"done": False}


class LeaksThinkingThatIsOff(HeldBack):
    """Gives the thinking as text where it is switched off."""

    speaks, source = OLLAMA, "ollama#18044, ollama#10964"
    words = r"think"

    def script(self, query: Query) -> str:
        full = super().script(query)
        if query.is_thinking is not False or query.has_schema:
            return full
        return self.thought(replace(query, is_thinking=True)) + _END_OF_THOUGHT + full


class LosesTheOnlyPiece(ChangesStreams):
    """Loses the text of a stream that is complete at once."""

    speaks, source = OLLAMA, "sglang#17961"
    words = r"differ|lost|missing|empty|no text"

    def streamed(self, one: Said, query: Query) -> Said:
        is_hit = len(one.text) <= PIECE and not one.thinking
        return replace(one, text="") if is_hit else one


THIRD_HELD_BACK: tuple[type[HeldBack], ...] = tuple(
    one
    for one in tuple(globals().values())
    if isinstance(one, type)
    and issubclass(one, HeldBack)
    and "source" in vars(one)
    and one.__module__ == __name__
)
