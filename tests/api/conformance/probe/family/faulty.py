"""Servers of the family with one fault each; the class from which they come is the right twin.

Each names what must be found: the check that is the first to show it, and its fault.
"""

import asyncio
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.drivers import DRIVERS
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said, pieces

_TURNS = 400
ALL = tuple(FamilyServer.DIALECTS)
NAMING = (WireDialect.MESSAGES, WireDialect.GENERATE)
OPENAI = (WireDialect.CHAT, WireDialect.COMPLETIONS)
SSE = tuple(one for one in ALL if one is not WireDialect.OLLAMA)


class Faulty(FamilyServer):
    """A server with a fault.

    Attributes:
        finds: The checks that must fail for themselves, each with its faults.
        dialects: The dialects in which the fault exists.
    """

    finds: ClassVar[dict[str, set[str]]]
    dialects = ALL


# -- text --------------------------------------------------------------------------------------


class IgnoresStops(Faulty):
    """Knows no stops."""

    finds: ClassVar = {"stop.one_character": {"stop_ignored"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=full, ending="natural", matched=None, tokens=len(pieces(full)))


class IncludesStops(Faulty):
    """Leaves the stop in the text."""

    finds: ClassVar = {"stop.one_character": {"stop_included"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text + (said.matched or ""))


class LosesHeldTextAtLimits(Faulty):
    """Drops at the limit what could have become a stop, in streams alone."""

    finds: ClassVar = {"limit.held": {"held_text_lost"}}

    def limited(self, said: Said, query: Query) -> Said:
        for stop in query.stops if query.is_streamed else ():
            for length in range(len(stop) - 1, 0, -1):
                if said.text.endswith(stop[:length]):
                    return replace(said, text=said.text[:-length])
        return said


class LosesStopsToLimits(Faulty):
    """Names the limit where the last allowed token completes a stop."""

    finds: ClassVar = {"limit.stop_on_last_token": {"stop_lost_to_limit"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        if said.tokens + len(pieces(said.thinking)) == query.limit:
            return replace(said, ending="limit", matched=None)
        return said


class DropsTextAroundNestedStops(Faulty):
    """Drops the beginning of a longer stop together with the one inside it."""

    finds: ClassVar = {"stop.nested": {"text_lost"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        for stop in query.stops:
            begin = stop.find(said.matched or "")
            if begin > 0 and said.text.endswith(stop[:begin]):
                return replace(said, text=said.text[:-begin])
        return said


class _KeepsTheFirst(Faulty):
    most = 4

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, stops=query.stops[: self.most]))


class DropsTheFifthStop(_KeepsTheFirst):
    """Takes four stops and drops the others without a word."""

    finds: ClassVar = {"stops.many": {"stops_dropped"}}


class DropsTheEighthStop(_KeepsTheFirst):
    """Takes seven stops."""

    finds: ClassVar = {"stops.many": {"stops_dropped"}}
    most = 7


class DropsTheSixteenthStop(_KeepsTheFirst):
    """Takes fifteen stops."""

    finds: ClassVar = {"stops.many": {"stops_dropped"}}
    most = 15


class FiresOnNothingInStreams(Faulty):
    """Takes an empty stop for one that matches, in streams alone."""

    finds: ClassVar = {"stops.empty": {"empty_stop_fires"}}

    def read(self, body: dict[str, Any]) -> Query:
        driver = DRIVERS[self.dialect]
        holder = body
        for name in driver.stop_path[:-1]:
            holder = holder.get(name, {})
        if holder.get(driver.stop_path[-1]) != [""]:
            return super().read(body)
        return replace(super().read(driver.with_stop(body, None)), stops=("",))

    def answer(self, query: Query) -> Said:
        if query.stops == ("",) and not query.is_streamed:
            query = replace(query, stops=())
        return super().answer(query)


class CutsStopsShort(Faulty):
    """Looks at the first 16 characters of a stop only."""

    finds: ClassVar = {"stops.long": {"stop_cut_short"}}
    longest = 16

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        stops = tuple(one[: self.longest] for one in query.stops)
        found = super().stop_in(text, replace(query, stops=stops))
        whole = {one[: self.longest]: one for one in query.stops}
        return None if found is None else (found[0], whole[found[1]])


class ForgetsLongStops(Faulty):
    """Holds a window of 20 characters, so that no longer stop is ever complete."""

    finds: ClassVar = {"stops.long": {"long_stop_ignored"}}

    def answer(self, query: Query) -> Said:
        return super().answer(
            replace(query, stops=tuple(one for one in query.stops if len(one) <= 20))
        )


class IgnoresCase(Faulty):
    """Compares without case."""

    finds: ClassVar = {"stops.literal": {"case_ignored"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        exact = super().stop_in(text, query)
        lowered = replace(query, stops=tuple(one.lower() for one in query.stops))
        return exact or super().stop_in(text.lower(), lowered)


class TakesPatterns(Faulty):
    """Takes stops for regular expressions where they are ones."""

    finds: ClassVar = {"stops.literal": {"stop_is_pattern"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        exact = super().stop_in(text, query)
        if exact is not None:
            return exact
        for stop in query.stops:
            try:
                found = re.search(stop, text)
            except re.error:
                continue
            if found is not None and found[0]:
                return found.start(), found[0]
        return None


class UnescapesStops(Faulty):
    """Takes a backslash and a letter for a line break."""

    finds: ClassVar = {"stops.literal": {"stop_unescaped"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(one.replace("\\n", "\n") for one in query.stops)
        return super().answer(replace(query, stops=stops))


class NormalisesStops(Faulty):
    """Composes the characters of stops."""

    finds: ClassVar = {"stops.code_points": {"stop_normalised"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(unicodedata.normalize("NFC", one) for one in query.stops)
        return super().answer(replace(query, stops=stops))


class ChangesLineEnds(Faulty):
    """Takes two characters of a line break for one."""

    finds: ClassVar = {"stops.code_points": {"line_ends_changed"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(one.replace("\r\n", "\n") for one in query.stops)
        return super().answer(replace(query, stops=stops))


class TrimsTextBeforeStops(Faulty):
    """Takes away the white space before a stop."""

    finds: ClassVar = {"stop.one_character": {"space_trimmed"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text.rstrip())


# -- several requests --------------------------------------------------------------------------


class StopsTheFirstChoiceOnly(Faulty):
    """Ends the first of several choices only."""

    finds: ClassVar = {"choices.stop": {"choice_not_stopped"}}
    dialects: ClassVar = OPENAI

    def answers(self, query: Query) -> list[Said]:
        free = replace(query, stops=())
        return [self.answer(query if not index else free) for index in range(query.choices)]


class KeepsStopsForTheNext(Faulty):
    """Takes the stops of the last request that had some where a request has none."""

    finds: ClassVar = {"stops.sticky": {"stop_sticks"}}

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._last: tuple[str, ...] = ()

    def answer(self, query: Query) -> Said:
        self._last = query.stops or self._last
        return super().answer(replace(query, stops=self._last))


class SharesStops(Faulty):
    """Gives every request the stops of those that are under way."""

    finds: ClassVar = {"stops.concurrent": {"stop_leaks"}}

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._under_way: list[tuple[str, ...]] = []

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        self._under_way.append(query.stops)
        try:
            # Whoever comes at the same time is here before anybody is answered: the client runs
            # on this loop, so that its turns count, not the time.
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            stops = tuple(one for stops in self._under_way for one in stops)
            return await super().respond(request, replace(query, stops=stops))
        finally:
            self._under_way.remove(query.stops)


# -- reasons -----------------------------------------------------------------------------------


class NamesTheFirstStop(Faulty):
    """Names the first stop of the list, whichever matched."""

    finds: ClassVar = {"stop.overlapping": {"wrong_sequence"}}
    dialects: ClassVar = (*NAMING, *OPENAI)

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, matched=query.stops[0])


class CallsNaturalEndsStops(Faulty):
    """Says of every answer that a stop ended it."""

    finds: ClassVar = {"reason.natural": {"natural_end_misnamed"}}
    dialects: ClassVar = (WireDialect.MESSAGES,)

    def ended(self, said: Said, query: Query) -> Said:
        return replace(said, ending="stop")


class CallsStopsNaturalEnds(Faulty):
    """Says of answers that a stop ended that they ended by themselves."""

    finds: ClassVar = {"stop.one_character": {"wrong_reason"}}
    dialects: ClassVar = (WireDialect.MESSAGES,)

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, ending="natural", matched=None)


_REASONS = {
    WireDialect.MESSAGES: rb'"stop_reason": "\w+"',
    WireDialect.CHAT: rb'"finish_reason": "\w+"',
    WireDialect.COMPLETIONS: rb'"finish_reason": "\w+"',
    WireDialect.RESPONSES: rb'"status": "completed"',
    WireDialect.GENERATE: rb'"finish_reason": \{[^}]*\}',
    WireDialect.OLLAMA: rb'"done_reason": "\w+"',
}


class GivesNoReason(Faulty):
    """Leaves out why a stream ended."""

    finds: ClassVar = {"stop.one_character": {"reason_missing"}}

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        if said[0].ending not in ("stop", "natural"):
            return super().frames(said, query)
        reason = re.compile(_REASONS[self.dialect])

        def nothing(found: re.Match[bytes]) -> bytes:
            return found[0].split(b":")[0] + b": null"

        return [reason.sub(nothing, one) for one in super().frames(said, query)]


class FinishesTwice(Faulty):
    """Says twice why a stream ended."""

    finds: ClassVar = {"form.streamed": {"reason_repeated"}}
    dialects: ClassVar = (*OPENAI, *NAMING)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        last = -3 if self.dialect in OPENAI else -2
        return [*frames[:last], frames[last], *frames[last:]]


class SpeaksAfterTheFinish(Faulty):
    """Sends the last piece of a stream after the reason."""

    finds: ClassVar = {"form.streamed": {"text_after_reason"}}
    dialects: ClassVar = OPENAI

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        if not said[0].text or query.choices > 1:
            return frames
        return [*frames[:-4], frames[-3], frames[-4], *frames[-2:]]


# -- usage -------------------------------------------------------------------------------------


class CountsNothingOut(Faulty):
    """Counts 0 tokens for every answer."""

    finds: ClassVar = {"usage.counts": {"usage_zero"}}

    def answer(self, query: Query) -> Said:
        return replace(super().answer(query), tokens=0)


class CountsBelowZero(Faulty):
    """Counts a negative number of tokens for the prompt."""

    finds: ClassVar = {"usage.counts": {"usage_negative"}}

    def answer(self, query: Query) -> Said:
        return replace(super().answer(query), prompt_tokens=-1)


class AddsUpWrongly(Faulty):
    """Gives a total that is not the sum."""

    finds: ClassVar = {"usage.counts": {"usage_total"}}
    dialects: ClassVar = (*OPENAI, WireDialect.RESPONSES)

    def answer(self, query: Query) -> Said:
        return replace(super().answer(query), total=3)


class CountsWhatIsSeen(Faulty):
    """Counts the tokens of the text that is shown only."""

    finds: ClassVar = {"usage.stop": {"usage_visible_only"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, tokens=max(1, len(pieces(said.text))))


class CountsStreamsOtherwise(Faulty):
    """Counts one token less in streams."""

    finds: ClassVar = {"usage.streamed": {"usage_differs"}}

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        return replace(said, tokens=max(1, said.tokens - 1)) if query.is_streamed else said


class GeneratesOn(Faulty):
    """Generates to the end and hides what is behind the stop."""

    finds: ClassVar = {"stop.one_character": {"stop_only_hidden"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, tokens=len(pieces(full)))


# -- streams -----------------------------------------------------------------------------------


class SendsJson(Faulty):
    """Sends JSON where a stream was asked for."""

    finds: ClassVar = {"stream.framing": {"not_a_stream"}}

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        return await super().respond(request, replace(query, is_streamed=False))


class SaysTextPlain(Faulty):
    """Sends streams as plain text."""

    finds: ClassVar = {"stream.framing": {"content_type"}}
    stream_type = "text/plain"


class LeavesStreamsOpen(Faulty):
    """Never closes the connection of a stream."""

    finds: ClassVar = {"stream.framing": {"connection_left_open"}}
    grace_s = 0.1

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        response = await super().respond(request, query)
        if query.is_streamed:
            await asyncio.sleep(600)
        return response


class HoldsStreamsBack(Faulty):
    """Sends the whole stream when the answer is complete."""

    finds: ClassVar = {"stream.pace": {"stream_buffered"}}
    dialects: ClassVar = (WireDialect.CHAT, WireDialect.OLLAMA)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return [b"".join(super().frames(said, query))]

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        if query.is_streamed and "1000" in query.prompt and query.limit < 1000:
            await asyncio.sleep(2.0)
        return await super().respond(request, query)


class ShowsOtherTextInStreams(Faulty):
    """Strips the line ends from streams."""

    finds: ClassVar = {"baseline": {"stream_differs"}}

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        return replace(said, text=said.text.replace("\n", "")) if query.is_streamed else said


class ThinksAloudInStreams(Faulty):
    """Puts the thinking into the text of streams."""

    finds: ClassVar = {"baseline": {"stream_differs"}}

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        if not query.is_streamed or query.has_tool:
            return said
        return replace(said, text=f"<think>Lass mal sehen.</think>\n\n{said.text}")


# -- features ----------------------------------------------------------------------------------


class CutsCalls(Faulty):
    """Cuts the arguments of a call at a stop and reports a call."""

    finds: ClassVar = {"tools.stop": {"call_cut_by_stop"}}
    dialects: ClassVar = (WireDialect.CHAT, WireDialect.RESPONSES)

    def called(self, query: Query) -> Said:
        said = super().called(query)
        found = self.stop_in(said.call or "", query)
        return said if found is None else replace(said, call=(said.call or "")[: found[0]])


class IgnoresStopsInStructure(Faulty):
    """Knows no stops in structured output."""

    finds: ClassVar = {"structured.stop": {"structured_stop_ignored"}}
    dialects: ClassVar = (WireDialect.CHAT, WireDialect.RESPONSES, WireDialect.OLLAMA)

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, stops=()) if query.has_schema else query)


class LogsDroppedTokens(Faulty):
    """Lists the tokens behind the stop with the others."""

    finds: ClassVar = {"logprobs.stop": {"logprobs_of_dropped_tokens"}}
    dialects: ClassVar = OPENAI

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        return tuple(pieces(full))[: said.tokens + 2]


# -- clients that leave ------------------------------------------------------------------------


class WorksForNobody(Faulty):
    """Has one place only, and does not free it when a client leaves."""

    finds: ClassVar = {"hang_up.streamed": {"not_freed"}}
    dialects: ClassVar = (WireDialect.MESSAGES, WireDialect.CHAT)
    patience_s = 0.2
    _busy_s = 5.0

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._free_at_s = 0.0

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        await asyncio.sleep(max(0.0, self._free_at_s - time.monotonic()))
        if query.limit >= 1000:
            self.piece_s = 0.002
        try:
            return await super().respond(request, query)
        except asyncio.CancelledError:
            self._free_at_s = time.monotonic() + self._busy_s
            raise
        finally:
            self.piece_s = 0.0


# -- errors ------------------------------------------------------------------------------------


class FailsOnMistakes(Faulty):
    """Answers with 500 what is the client's fault."""

    finds: ClassVar = {"stops.empty": {"server_error"}}

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return super().refusal(message, 500)


FAULTY: tuple[type[Faulty], ...] = tuple(
    one
    for one in list(globals().values())
    if isinstance(one, type) and issubclass(one, Faulty) and "finds" in vars(one)
)
