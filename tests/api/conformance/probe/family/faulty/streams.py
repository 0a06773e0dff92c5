"""Servers with one fault each: streams, features, clients that leave, and errors."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.faulty.fault import OPENAI, Faulty
from tests.api.conformance.probe.family.talk import Query, Said, pieces


class SendsJson(Faulty):
    finds: ClassVar = {"stream.framing": {"not_a_stream"}}

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        return await super().respond(request, replace(query, is_streamed=False))


class SaysTextPlain(Faulty):
    finds: ClassVar = {"stream.framing": {"content_type"}}
    stream_type = "text/plain"


class IgnoresBlanksInStreams(Faulty):
    finds: ClassVar = {"stops.blank": {"stop_ignored"}}
    only: ClassVar = ("baseline", "stops.blank")

    def answer(self, query: Query) -> Said:
        is_blank = query.is_streamed and not "".join(query.stops).strip()
        return super().answer(replace(query, stops=()) if is_blank else query)


class LeavesStreamsOpen(Faulty):
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
    finds: ClassVar = {"baseline": {"stream_differs"}}

    def answer(self, query: Query) -> Said:
        said = super().answer(query)
        return replace(said, text=said.text.replace("\n", "")) if query.is_streamed else said


class CutsCalls(Faulty):
    finds: ClassVar = {"tools.stop": {"call_cut_by_stop"}}
    dialects: ClassVar = (WireDialect.CHAT, WireDialect.RESPONSES)

    def called(self, query: Query) -> Said:
        said = super().called(query)
        found = self.stop_in(said.call or "", query)
        return said if found is None else replace(said, call=(said.call or "")[: found[0]])


class IgnoresStopsInStructure(Faulty):
    finds: ClassVar = {"structured.stop": {"structured_stop_ignored"}}
    dialects: ClassVar = (WireDialect.CHAT, WireDialect.RESPONSES, WireDialect.OLLAMA)

    def answer(self, query: Query) -> Said:
        return super().answer(replace(query, stops=()) if query.has_schema else query)


class LogsDroppedTokens(Faulty):
    finds: ClassVar = {"logprobs.stop": {"logprobs_of_dropped_tokens"}}
    dialects: ClassVar = OPENAI

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        return tuple(pieces(full))[: said.tokens + 2]


class WorksForNobody(Faulty):
    """Serves one request at a time, and does not notice that a client leaves."""

    finds: ClassVar = {"hang_up.streamed": {"not_freed"}}
    dialects: ClassVar = (WireDialect.MESSAGES, WireDialect.CHAT)
    patience_s = 0.2
    _busy_s = 2.0

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


class FailsOnMistakes(Faulty):
    finds: ClassVar = {"stops.empty": {"server_error"}, "errors.json": {"server_error"}}
    # Here the vendor states what the first of them breaks only in part.
    dialects: ClassVar = (WireDialect.MESSAGES, *OPENAI, WireDialect.RESPONSES, WireDialect.OLLAMA)

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return super().refusal(message, 500)
