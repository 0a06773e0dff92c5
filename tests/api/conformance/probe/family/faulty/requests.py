"""Servers with one fault each that a plain request does not show; most have an issue somewhere."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from tests.api.conformance.probe.family.faulty.fault import ALL, OPENAI, Faulty
from tests.api.conformance.probe.family.talk import PIECE, Query, Said

CHAT, MESSAGES = WireDialect.CHAT, WireDialect.MESSAGES
WITH_TEMPLATE = (MESSAGES, CHAT, WireDialect.RESPONSES, WireDialect.OLLAMA)
WITH_TOOLS = WITH_TEMPLATE


class _LosesStops(Faulty):
    def forgets(self, query: Query) -> bool:
        raise NotImplementedError

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, stops=()) if self.forgets(query) else query)


class LosesStopsBesideSystem(_LosesStops):
    finds: ClassVar = {"stops.system": {"stop_ignored"}}
    dialects: ClassVar = WITH_TEMPLATE

    def forgets(self, query: Query) -> bool:
        named = {"system", "instructions"} & query.body.keys()
        return bool(named) or '"role": "system"' in json.dumps(query.body)


class LosesStopsInTheSecondTurn(_LosesStops):
    finds: ClassVar = {"stops.turn": {"stop_ignored"}}
    dialects: ClassVar = WITH_TEMPLATE

    def forgets(self, query: Query) -> bool:
        return '"role": "assistant"' in json.dumps(query.body)


class LosesStopsBesideTools(_LosesStops):
    finds: ClassVar = {"stops.tools": {"stop_ignored"}}
    dialects: ClassVar = WITH_TOOLS

    def forgets(self, query: Query) -> bool:
        return "tools" in query.body and "Call" not in query.prompt


class LosesStopsAtATemperature(_LosesStops):
    finds: ClassVar = {"stops.temperature": {"stop_ignored"}}

    def forgets(self, query: Query) -> bool:
        return '"temperature": 0.7' in json.dumps(query.body)


class LosesStopsOfLongAnswers(Faulty):
    finds: ClassVar = {"stops.late": {"stop_ignored"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        found = super().stop_in(text, query)
        return None if found is not None and found[0] > 300 * PIECE else found


class LosesStopsOfShortAnswers(Faulty):
    """Looks for stops once it has 12 characters."""

    finds: ClassVar = {"stops.short": {"stop_ignored"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        return super().stop_in(text, query) if len(text) >= 12 else None


class LosesStopsNowAndThen(_LosesStops):
    finds: ClassVar = {}

    def forgets(self, query: Query) -> bool:
        return self.asked % 8 == 0


class LosesStopsAfterThinking(_LosesStops):
    finds: ClassVar = {"thinking.answer": {"stop_ignored"}}
    dialects: ClassVar = (MESSAGES, CHAT, WireDialect.OLLAMA)

    def forgets(self, query: Query) -> bool:
        return bool(query.is_thinking)


class CutsTheThinking(Faulty):
    """Cuts at the first occurrence of the stop that matched, which may be in the thinking."""

    finds: ClassVar = {"thinking.both": {"thinking_empties_answer"}}
    dialects: ClassVar = (MESSAGES, CHAT, WireDialect.OLLAMA)

    def thought(self, query: Query) -> str:
        return super().thought(query) and "First comes 1, then comes 2, and so on to 20."

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        at = said.thinking.find(said.matched or "")
        return said if at < 0 else replace(said, thinking=said.thinking[:at], text="")


class SplitsStopsAtCommas(Faulty):
    finds: ClassVar = {"stops.literal": {"stop_split"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(part for one in query.stops for part in one.split(",") if part)
        return super().answer(replace(query, stops=stops))


class TakesStringsForCharacters(Faulty):
    finds: ClassVar = {"stops.string": {"string_as_characters"}}
    dialects: ClassVar = (*OPENAI, WireDialect.GENERATE)

    def answer(self, query: Query) -> Said:
        holder: Any = query.body
        for name in DRIVERS[self.dialect].stop_path:
            holder = holder.get(name) or {}
        return super().answer(
            replace(query, stops=tuple(holder)) if isinstance(holder, str) else query
        )


class LeavesHalfACharacter(Faulty):
    finds: ClassVar = {"stop.unicode": {"half_character"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        is_wide = not (said.matched or "").isascii()
        return replace(said, text=said.text + "\ufffd") if is_wide else said


class CountsEmojiTwice(Faulty):
    finds: ClassVar = {"stop.after_emoji": {"text_lost"}, "stop.joined": {"text_lost"}}
    shows: ClassVar = {WireDialect.RESPONSES: {"stop.joined": {"text_lost"}}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        wide = sum(ord(char) > 0xFFFF for char in said.text)
        return replace(said, text=said.text[: len(said.text) - 2 * wide])


class IgnoresTheNewLimit(Faulty):
    finds: ClassVar = {"limit.completion_tokens": {"limit_ignored"}}
    dialects: ClassVar = (CHAT,)

    def answer(self, query: Query) -> Said:
        is_new = "max_completion_tokens" in query.body
        return super().answer(replace(query, limit=4_000) if is_new else query)


class GivesOneChoice(Faulty):
    finds: ClassVar = {"choices.count": {"choices_missing"}}
    dialects: ClassVar = OPENAI

    def answers(self, query: Query) -> list[Said]:
        return [self.answer(query)]


class CallsCallsEnds(Faulty):
    finds: ClassVar = {"tools.call": {"wrong_reason"}}
    dialects: ClassVar = (CHAT, MESSAGES)

    def called(self, query: Query) -> Said:
        said = super().called(query)
        is_wrong = query.is_streamed and said.call is not None
        return replace(said, ending="natural") if is_wrong else said


class SendsArgumentsAsAnObject(Faulty):
    finds: ClassVar = {"tools.call": {"arguments_form"}}
    dialects: ClassVar = (CHAT,)

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            for call in choice["message"].get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return whole


class CallsCutCallsCalls(Faulty):
    finds: ClassVar = {"tools.limit": {"call_cut_by_limit"}}
    dialects: ClassVar = (CHAT, MESSAGES)

    def called(self, query: Query) -> Said:
        said = super().called(query)
        is_cut = said.ending == "limit"
        return replace(said, text="", ending="tool", call=said.text) if is_cut else said


class DropsPartialCalls(Faulty):
    finds: ClassVar = {"tools.stop": {"partial_call_dropped"}}
    dialects: ClassVar = WITH_TOOLS

    def called(self, query: Query) -> Said:
        said = super().called(query)
        found = self.stop_in(said.call or "", query)
        if found is None:
            return said
        text = "" if query.is_streamed else (said.call or "")[: found[0]]
        return replace(said, call=None, text=text, ending="stop", matched=found[1])


class _MovesUsage(Faulty):
    dialects: ClassVar = OPENAI

    def moved(self, frames: list[bytes]) -> list[bytes]:
        raise NotImplementedError

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        return self.moved(frames) if self.wire.counts(query) else frames


class CountsBesideTheReason(_MovesUsage):
    finds: ClassVar = {"usage.chunk": {"usage_with_choices"}}

    def moved(self, frames: list[bytes]) -> list[bytes]:
        usage = json.loads(frames[-2].removeprefix(b"data: "))["usage"]
        last = json.loads(frames[-3].removeprefix(b"data: ")) | {"usage": usage}
        return [*frames[:-3], f"data: {json.dumps(last)}\n\n".encode(), frames[-1]]


class CountsTwice(_MovesUsage):
    finds: ClassVar = {"usage.chunk": {"usage_repeated"}}

    def moved(self, frames: list[bytes]) -> list[bytes]:
        return [*frames[:-1], frames[-2], frames[-1]]


class CountsUnasked(Faulty):
    finds: ClassVar = {"usage.chunk": {"usage_unasked"}}
    dialects: ClassVar = OPENAI

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        body = {**query.body, "stream_options": {"include_usage": True}}
        return super().frames(said, replace(query, body=body))


class HasNoRole(Faulty):
    finds: ClassVar = {"form.streamed": {"role_missing"}, "form.whole": {"role_missing"}}
    dialects: ClassVar = (CHAT,)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        role = b'"role": "assistant", '
        return [one.replace(role, b"") for one in super().frames(said, query)]

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole["choices"]:
            del choice["message"]["role"]
        return whole


class ShowsItsTemplate(Faulty):
    finds: ClassVar = {"form.streamed": {"template_mark"}, "form.whole": {"template_mark"}}
    dialects: ClassVar = WITH_TEMPLATE

    def script(self, query: Query) -> str:
        full = super().script(query)
        return full if query.has_schema else full + "<|im_end|>"


class FailsNowAndThen(Faulty):
    finds: ClassVar = {"server.answers": {"answers_lost"}}
    dialects: ClassVar = ALL

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if self.asked % 9:
            return None
        return web.json_response(self.wire.error("out of luck"), status=500)
