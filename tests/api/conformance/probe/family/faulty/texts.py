"""Servers with one fault each, in their text or in how they treat several requests."""

import asyncio
import re
import unicodedata
from dataclasses import replace
from itertools import accumulate
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from tests.api.conformance.probe.family.faulty.fault import ALL, OPENAI, Faulty
from tests.api.conformance.probe.family.talk import PIECE, Query, Said, pieces

_TURNS = 400


class IgnoresStops(Faulty):
    """Ignores stops; Responses has none anyway."""

    finds: ClassVar = {"stop.one_character": {"stop_ignored"}}
    dialects: ClassVar = tuple(one for one in ALL if one is not WireDialect.RESPONSES)

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=full, ending="natural", matched=None, tokens=len(pieces(full)))


class IncludesStops(Faulty):
    finds: ClassVar = {"stop.one_character": {"stop_included"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text + (said.matched or ""))


class LosesHeldTextAtLimits(Faulty):
    finds: ClassVar = {"limit.held": {"held_text_lost"}}

    def limited(self, said: Said, query: Query) -> Said:
        for stop in query.stops if query.is_streamed else ():
            for length in range(len(stop) - 1, 0, -1):
                if said.text.endswith(stop[:length]):
                    return replace(said, text=said.text[:-length])
        return said


class LosesStopsToLimits(Faulty):
    finds: ClassVar = {"limit.stop_on_last_token": {"stop_lost_to_limit"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        if said.tokens + len(pieces(said.thinking)) == query.limit:
            return replace(said, ending="limit", matched=None)
        return said


class DropsTextAroundNestedStops(Faulty):
    """Drops the beginning of a longer stop together with the stop inside it."""

    finds: ClassVar = {"stop.nested": {"text_lost"}}

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        for stop in query.stops:
            begin = stop.find(said.matched or "")
            if begin > 0 and said.text.endswith(stop[:begin]):
                return replace(said, text=said.text[:-begin])
        return said


class DropsTheFifthStop(Faulty):
    finds: ClassVar = {"stops.many": {"stops_dropped"}}

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, stops=query.stops[:4]))


class FiresOnNothingInStreams(Faulty):
    finds: ClassVar = {"stops.empty": {"empty_stop_fires"}}

    def read(self, body: dict[str, Any]) -> Query:
        driver = DRIVERS[self.dialect]
        holder = body
        for name in driver.stop_path[:-1]:
            holder = holder.get(name, {})
        if holder.get(driver.stop_path[-1]) != [""]:
            return super().read(body)
        return replace(super().read(driver.with_stops(body, None)), stops=("",))

    def answer(self, query: Query) -> Said:
        if query.stops == ("",) and not query.is_streamed:
            query = replace(query, stops=())
        return super().answer(query)


class CutsStopsShort(Faulty):
    finds: ClassVar = {"stops.long": {"stop_cut_short"}}
    longest = 16

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        stops = tuple(one[: self.longest] for one in query.stops)
        found = super().stop_in(text, replace(query, stops=stops))
        whole = {one[: self.longest]: one for one in query.stops}
        return None if found is None else (found[0], whole[found[1]])


class ForgetsLongStops(Faulty):
    finds: ClassVar = {"stops.long": {"long_stop_ignored"}}

    def answer(self, query: Query) -> Said:
        return super().answer(
            replace(query, stops=tuple(one for one in query.stops if len(one) <= 20))
        )


class IgnoresCase(Faulty):
    finds: ClassVar = {"stops.literal": {"case_ignored"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        exact = super().stop_in(text, query)
        lowered = replace(query, stops=tuple(one.lower() for one in query.stops))
        return exact or super().stop_in(text.lower(), lowered)


class TakesPatterns(Faulty):
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
    finds: ClassVar = {"stops.literal": {"stop_unescaped"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(one.replace("\\n", "\n") for one in query.stops)
        return super().answer(replace(query, stops=stops))


class NormalisesStops(Faulty):
    finds: ClassVar = {"stops.code_points": {"stop_normalised"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(unicodedata.normalize("NFC", one) for one in query.stops)
        return super().answer(replace(query, stops=stops))


class ChangesLineEnds(Faulty):
    finds: ClassVar = {"stops.code_points": {"line_ends_changed"}}

    def answer(self, query: Query) -> Said:
        stops = tuple(one.replace("\r\n", "\n") for one in query.stops)
        return super().answer(replace(query, stops=stops))


class TrimsTextBeforeStops(Faulty):
    finds: ClassVar = {"stop.one_character": {"space_trimmed"}}
    shows: ClassVar = {
        WireDialect.RESPONSES: {**finds, "limit.stop_on_last_token": {"space_trimmed"}}
    }

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text.rstrip())


class StopsTheFirstChoiceOnly(Faulty):
    finds: ClassVar = {"choices.stop": {"choice_not_stopped"}}
    dialects: ClassVar = OPENAI

    def answers(self, query: Query) -> list[Said]:
        free = replace(query, stops=())
        return [self.answer(query if not index else free) for index in range(query.choices)]


class KeepsStopsForTheNext(Faulty):
    finds: ClassVar = {"stops.sticky": {"stop_sticks"}}

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._last: tuple[str, ...] = ()

    def answer(self, query: Query) -> Said:
        self._last = query.stops or self._last
        return super().answer(replace(query, stops=self._last))


class SharesStops(Faulty):
    finds: ClassVar = {"stops.concurrent": {"stop_leaks"}}

    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._under_way: list[tuple[str, ...]] = []

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        self._under_way.append(query.stops)
        try:
            # Requests that are sent at the same time arrive before any is answered: the client runs
            # on this loop, so its turns count and not the time.
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            stops = tuple(one for stops in self._under_way for one in stops)
            return await super().respond(request, replace(query, stops=stops))
        finally:
            self._under_way.remove(query.stops)


class TrimsStops(Faulty):
    finds: ClassVar = {"stop.trailing_space": {"text_lost"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        trimmed = {one.rstrip() or one: one for one in query.stops}
        found = super().stop_in(text, replace(query, stops=tuple(trimmed)))
        return None if found is None else (found[0], trimmed[found[1]])


class WaitsForLongerStops(Faulty):
    """Misses a stop at the very end of a whole answer where it could have become a longer one."""

    finds: ClassVar = {"stop.alike_at_the_end": {"stop_ignored"}}

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        found = super().stop_in(text, query)
        if found is None or query.is_streamed or found[0] + len(found[1]) < len(text):
            return found
        longer = [one for one in query.stops if one != found[1] and one.startswith(found[1])]
        return None if longer else found


class LosesTheLastPieceToLimits(Faulty):
    """Streams several tokens in a piece, and loses the last one where the limit ends the answer."""

    finds: ClassVar = {"limit": {"token_lost_to_limit"}}
    piece = rf"(?s).{{1,{2 * PIECE}}}"

    def limited(self, said: Said, query: Query) -> Said:
        lost = query.pieces(said.text)[-1] if query.is_streamed else ""
        return replace(said, text=said.text.removesuffix(lost))


class SeesStopsAtTokensOnly(Faulty):
    """Has words as tokens, and sees a stop that spans several only from a token's beginning."""

    finds: ClassVar = {"stop.begins_inside": {"stop_ignored"}}
    token = r" ?[^\s\d]+|\d|\s"

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        ends = list(accumulate(map(len, query.tokens(text)), initial=0))
        found = [
            (match.end(), match.start(), one)
            for one in query.stops
            for match in re.finditer(re.escape(one), text)
            if match.start() in ends or not any(match.start() < end < match.end() for end in ends)
        ]
        return min(found)[1:] if found else None
