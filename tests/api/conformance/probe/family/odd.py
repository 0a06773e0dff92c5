"""Servers of the family that are correct, but unusual."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said

# The dialects whose streams are server-sent events.
SSE = tuple(one for one in FamilyServer.DIALECTS if one is not WireDialect.OLLAMA)


class EndsLinesWithTwo(FamilyServer):
    async def write(self, response: web.StreamResponse, frame: bytes) -> None:
        await response.write(frame.replace(b"\n", b"\r\n"))


class Comments(FamilyServer):
    async def write(self, response: web.StreamResponse, frame: bytes) -> None:
        between = b"\n" if self.dialect is WireDialect.OLLAMA else b": still here\n\n"
        await response.write(between + frame)


class IsSlow(FamilyServer):
    piece_s = 0.001
    only = ("baseline", "stop.*", "limit*", "stream.*", "hang_up.*", "form.*")


class Varies(FamilyServer):
    def __init__(self, dialect: WireDialect) -> None:
        super().__init__(dialect)
        self._number = count()

    def script(self, query: Query) -> str:
        full = super().script(query)
        at = len(full) * 3 // 4
        return full if query.has_schema else f"{full[:at]} <{next(self._number)}> {full[at:]}"


class AlwaysThinks(FamilyServer):
    is_thinking_always = True

    def thought(self, query: Query) -> str:
        return super().thought(query) * 8


class HasLittleRoom(FamilyServer):
    """Refuses more tokens than its context has room for."""

    room = 64

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if query.limit > self.room:
            return self.refusal(f"the context of {self.room} tokens has no room for {query.limit}")
        return None


class WantsAKey(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if request.headers.get("authorization") != "Bearer secret":
            return self.refusal("who are you?", 401)
        return None


class WantsAHeader(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if request.headers.get("x-team") != "blue":
            return self.refusal("the header X-Team is missing")
        return None


class IsBusy(FamilyServer):
    status = 429
    headers: ClassVar[dict[str, str]] = {"retry-after": "0.01"}

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if self.asked % 5:
            return None
        refusal = self.refusal("come back later", self.status)
        refusal.headers.update(self.headers)
        return refusal


class IsAwayForAMoment(IsBusy):
    status = 503
    headers: ClassVar[dict[str, str]] = {}


class WantsSixteenTokens(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if query.limit >= 16:
            return None
        return self.refusal(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, "
            f"but got {query.limit} instead. max_tokens"
        )


class RaisesSmallLimits(FamilyServer):
    """Raises limits below 16, which the vendor refuses, to that."""

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, limit=max(16, query.limit)))


class KnowsTheNewLimitOnly(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if "max_tokens" not in query.body:
            return None
        return self.refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.")


class FixesTheTemperature(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        is_set = "temperature" in str(query.body)
        return self.refusal("'temperature' does not support 0") if is_set else None


class WantsItsModel(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if query.body.get("model") == "right":
            return None
        return self.refusal("The model `default` does not exist", 404)


class HasOneOfItsOwn(FamilyServer):
    """Refuses the models that it lists, but answers requests that name none."""

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        if "model" not in query.body:
            return None
        return self.refusal("Repository Not Found", 404)

    def routes(self, app: web.Application) -> None:

        async def models(request: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "away"}]})

        super().routes(app)
        app.router.add_get("/v1/models", models)


class LivesElsewhere(FamilyServer):
    def routes(self, app: web.Application) -> None:
        app.router.add_post("/api/v3" + self.wire.path.removeprefix("/v1"), self.handle)


class RefusesLists(FamilyServer):
    """Accepts four stops, and refuses more with a clear error."""

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        return self.refusal("at most 4 stops") if len(query.stops) > 4 else None


class SamplesSeveral(FamilyServer):
    """Gives several choices only where they are sampled."""

    dialects = (WireDialect.CHAT, WireDialect.COMPLETIONS)

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        is_greedy = query.choices > 1 and not query.body.get("temperature")
        return self.refusal("n must be 1 when using greedy sampling") if is_greedy else None


class LogsIds(FamilyServer):
    dialects = (WireDialect.CHAT,)

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        for choice in whole.get("choices", []):
            if "logprobs" in choice:
                choice["logprobs"] = {"content": [{"id": 5, "logprob": -0.1}] * 9}
        return whole


class KnowsStopsOnly(FamilyServer):
    """Ignores tools, structured output and logprobs, and refuses more than one choice."""

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        return self.refusal("n must be 1") if query.choices > 1 else None

    def called(self, query: Query) -> Said:
        return self.answer(replace(query, has_tool=False))

    def answers(self, query: Query) -> list[Said]:
        return super().answers(replace(query, has_schema=False, has_logprobs=False))


class SendsUnknownEvents(FamilyServer):
    """Sends an event that the vendor has added since."""

    dialects = (WireDialect.MESSAGES,)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        frames = super().frames(said, query)
        extra = b'event: mood\ndata: {"type": "mood", "is": "fine"}\n\n'
        return [*frames[:2], extra, *frames[2:]]


class LogsReasoning(FamilyServer):
    dialects = (WireDialect.CHAT,)

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        return ("Let", " me", " see", *super().logged(said, full))


class LeavesNullsOut(FamilyServer):
    """Leaves stop_sequence out where no stop matched, which clients read as null."""

    dialects = (WireDialect.MESSAGES,)

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        begun, *others = super().frames(said, query)
        return [begun, *(one.replace(b', "stop_sequence": null', b"") for one in others)]

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole = super().body(said, query)
        return {name: value for name, value in whole.items() if value is not None}


class HangsUpOnce(FamilyServer):
    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.asked == 30:
            self.asked += 1
            assert request.transport is not None
            request.transport.close()
        return await super().handle(request)


class IsOddOften(FamilyServer):
    """Gives every nth answer another text.

    Attributes:
        every: Which answers are odd.
        odd: What they say, made of the usual text.
    """

    every = 5
    odd: Callable[[str], str] = staticmethod(lambda full: f"Sure: {full}")

    def script(self, query: Query) -> str:
        full = super().script(query)
        is_usual = query.has_schema or self.asked % self.every
        return full if is_usual else self.odd(full)


class RefusesResultsOfOtherCalls(FamilyServer):
    dialects = (WireDialect.MESSAGES, WireDialect.CHAT, WireDialect.RESPONSES)

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        is_other = "call12345" in str(query.body)
        return self.refusal("this is none of my calls") if is_other else None


class RefusesBareStrings(FamilyServer):
    def check(self, request: web.Request, query: Query) -> web.Response | None:
        is_bare = isinstance(DRIVERS[self.dialect].raw_stops(query.body), str)
        return self.refusal("the stops must be an array") if is_bare else None


RIGHT: Sequence[type[FamilyServer]] = (
    SendsUnknownEvents,
    LogsReasoning,
    LeavesNullsOut,
    HangsUpOnce,
    EndsLinesWithTwo,
    Comments,
    IsSlow,
    AlwaysThinks,
    HasLittleRoom,
    IsBusy,
    IsAwayForAMoment,
    WantsSixteenTokens,
    FixesTheTemperature,
    RefusesLists,
    KnowsStopsOnly,
    SamplesSeveral,
    LogsIds,
    RefusesResultsOfOtherCalls,
)
