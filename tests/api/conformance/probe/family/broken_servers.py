"""Small servers with one fault each, which the name of the class states."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

from aiohttp import web

from tests.api.conformance.probe.small_server import PIECE, Reply, SmallServer


class Leaks(SmallServer):
    """Leaves the first letter of a longer stop in the text."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        letters = (reply.sequence or "")[:-1]
        return replace(reply, text=reply.text + letters[:1])


class LeaksWhenStreamed(SmallServer):
    """Leaves the first letter of a longer stop in the text, but only in streams."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        letters = (reply.sequence or "")[:-1]
        return super().events(replace(reply, text=reply.text + letters[:1]))


class NamesTheWrongReason(SmallServer):
    """Reports a natural end after a stop."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, reason="end_turn", sequence=None)


class NamesNoSequence(SmallServer):
    """Does not report which stop matched."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, sequence=None)


class OnlyHides(SmallServer):
    """Generates to the end and hides the text after the stop."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, tokens=-(-len(full) // PIECE))


class CutsOut(SmallServer):
    """Removes stops from the text and goes on."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        text = full.replace(reply.sequence or "", "")
        return Reply(text, "end_turn", None, -(-len(full) // PIECE))


class Ignores(SmallServer):
    """Ignores stops."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return Reply(full, "end_turn", None, -(-len(full) // PIECE))


class Includes(SmallServer):
    """Leaves the stop in the text."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, text=reply.text + (reply.sequence or ""))


class CutsAtPieces(SmallServer):
    """Looks for stops in each piece separately, and leaves the rest of the last piece."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, text=full[: reply.tokens * PIECE])


class TakesTheFirstListed(SmallServer):
    """Prefers the stop that comes first in the list."""

    def stop_in(self, text: str, stops: list[str]) -> tuple[int, str] | None:
        return next(((text.find(one), one) for one in stops if one in text), None)


class LosesHeldText(SmallServer):
    """Never releases text that could have become a stop."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        reply = super().reply(prompt, stops, limit)
        if reply.sequence is None:
            for stop in stops:
                for length in range(len(stop) - 1, 0, -1):
                    if reply.text.endswith(stop[:length]):
                        return replace(reply, text=reply.text[:-length])
        return reply


class TrimsStops(SmallServer):
    """Removes white space from the ends of stops."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        return super().reply(prompt, [stop.strip() or stop for stop in stops], limit)


class ReversesEvents(SmallServer):
    """Ends the message before it reports the reason."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        *begin, delta, stop = super().events(reply)
        return [*begin, stop, delta]


class NeverEnds(SmallServer):
    """Omits message_stop."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        return super().events(reply)[:-1]


class CountsNothing(SmallServer):
    """Omits the usage."""

    def message(self, reply: Reply) -> dict[str, Any]:
        return {key: value for key, value in super().message(reply).items() if key != "usage"}


class StreamsOtherText(SmallServer):
    """Loses the line ends in streams."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        return super().events(replace(reply, text=reply.text.replace("o", "0")))


class IgnoresLimits(SmallServer):
    """Ignores the limit."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        return super().reply(prompt, stops, 10_000)


class HangsOnBlank(SmallServer):
    """Never answers if a stop is white space."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if b'"stop_sequences": ["\\n"]' in body:
            await asyncio.sleep(60)
        return await super().handle(request)


class RunsOnAfterHangUps(SmallServer):
    """Serves one request at a time, and does not notice that a client leaves."""

    piece_s = 0.002

    def __init__(self) -> None:
        self._place = asyncio.Lock()
        self._is_waited_for = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self._place.locked():
            self._is_waited_for.set()
        async with self._place:
            pass
        if b"1000" in await request.read():
            task = asyncio.create_task(self._occupy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await super().handle(request)

    async def _occupy(self) -> None:
        await asyncio.sleep(0.01)
        async with self._place:
            self._is_waited_for.clear()
            await self._is_waited_for.wait()
            await asyncio.sleep(1.5)  # the next request waits, however late the probe sends it


class AcceptsAnything(SmallServer):
    """Accepts any value for the stops."""

    def refuse(self, body: Any) -> str | None:
        stops = body.get("stop_sequences") if isinstance(body, dict) else None
        if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
            body = {key: value for key, value in body.items() if key != "stop_sequences"}
        return super().refuse(body)

    def reply(self, prompt: str, stops: Any, limit: int) -> Reply:
        known = [one for one in stops if isinstance(one, str)] if isinstance(stops, list) else []
        return super().reply(prompt, known, limit)


class FiresOnNothing(SmallServer):
    """Treats an empty stop as one that matches."""

    def refuse(self, body: Any) -> str | None:
        if isinstance(body, dict) and body.get("stop_sequences") == [""]:
            body = body | {"stop_sequences": []}
        return super().refuse(body)


class Fails(SmallServer):
    """Answers with 500 if the client made a mistake."""

    def error(self, message: str) -> web.Response:
        return web.Response(status=500, text="Internal Server Error")


class SpeaksPlainly(SmallServer):
    """Sends errors as plain text."""

    def error(self, message: str) -> web.Response:
        return web.Response(status=400, text=message)


class Wanders(SmallServer):
    """Correct, but never gives the same answer twice."""

    def __init__(self) -> None:
        self._asked = count()

    def script(self, prompt: str) -> str:
        full = super().script(prompt)
        at = len(full) * 3 // 4
        return f"{full[:at]} <{next(self._asked)}> {full[at:]}"


class WandersAndIgnores(Wanders):
    """Never gives the same answer twice, and ignores stops."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return Reply(full, "end_turn", None, -(-len(full) // PIECE))
