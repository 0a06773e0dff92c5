"""Little servers that are right in everything but one thing, which their names say."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

from aiohttp import web

from tests.api.conformance.probe.small_server import PIECE, Reply, SmallServer


class Leaks(SmallServer):
    """Leaves the first letter of a longer stop."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        letters = (reply.sequence or "")[:-1]
        return replace(reply, text=reply.text + letters[:1])


class LeaksWhenStreamed(SmallServer):
    """Leaves the first letter of a longer stop in streams alone."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        letters = (reply.sequence or "")[:-1]
        return super().events(replace(reply, text=reply.text + letters[:1]))


class NamesTheWrongReason(SmallServer):
    """Calls a stop a natural end."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, reason="end_turn", sequence=None)


class NamesNoSequence(SmallServer):
    """Does not say which stop it was."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, sequence=None)


class OnlyHides(SmallServer):
    """Generates to the end and hides what comes behind the stop."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, tokens=-(-len(full) // PIECE))


class CutsOut(SmallServer):
    """Takes stops out of the text and runs on."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        text = full.replace(reply.sequence or "", "")
        return Reply(text, "end_turn", None, -(-len(full) // PIECE))


class Ignores(SmallServer):
    """Knows no stops."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return Reply(full, "end_turn", None, -(-len(full) // PIECE))


class Includes(SmallServer):
    """Leaves the stop in the text."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, text=reply.text + (reply.sequence or ""))


class CutsAtPieces(SmallServer):
    """Looks for stops piece by piece and leaves the rest of the last piece."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, text=full[: reply.tokens * PIECE])


class TakesTheFirstListed(SmallServer):
    """Lets the order of the list decide."""

    def stop_in(self, text: str, stops: list[str]) -> tuple[int, str] | None:
        return next(((text.find(one), one) for one in stops if one in text), None)


class LosesHeldText(SmallServer):
    """Keeps for ever what could have become a stop."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        reply = super().reply(prompt, stops, limit)
        if reply.sequence is None:
            for stop in stops:
                for length in range(len(stop) - 1, 0, -1):
                    if reply.text.endswith(stop[:length]):
                        return replace(reply, text=reply.text[:-length])
        return reply


class TrimsStops(SmallServer):
    """Takes white space off the ends of stops."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        return super().reply(prompt, [stop.strip() or stop for stop in stops], limit)


class ReversesEvents(SmallServer):
    """Ends the message before it says why."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        *begin, delta, stop = super().events(reply)
        return [*begin, stop, delta]


class NeverEnds(SmallServer):
    """Leaves out message_stop."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        return super().events(reply)[:-1]


class CountsNothing(SmallServer):
    """Leaves out the usage."""

    def message(self, reply: Reply) -> dict[str, Any]:
        return {key: value for key, value in super().message(reply).items() if key != "usage"}


class StreamsOtherText(SmallServer):
    """Loses the line ends in streams."""

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        return super().events(replace(reply, text=reply.text.replace("o", "0")))


class IgnoresLimits(SmallServer):
    """Knows no limit."""

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        return super().reply(prompt, stops, 10_000)


class HangsOnBlank(SmallServer):
    """Never answers where a stop is white space."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if b'"stop_sequences": ["\\n"]' in body:
            await asyncio.sleep(60)
        return await super().handle(request)


class RunsOnAfterHangUps(SmallServer):
    """Has one place only, and does not free it when a client leaves."""

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
    """Takes any value for the stops."""

    def refuse(self, body: Any) -> str | None:
        stops = body.get("stop_sequences") if isinstance(body, dict) else None
        if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
            body = {key: value for key, value in body.items() if key != "stop_sequences"}
        return super().refuse(body)

    def reply(self, prompt: str, stops: Any, limit: int) -> Reply:
        known = [one for one in stops if isinstance(one, str)] if isinstance(stops, list) else []
        return super().reply(prompt, known, limit)


class FiresOnNothing(SmallServer):
    """Takes an empty stop for one that matches."""

    def refuse(self, body: Any) -> str | None:
        if isinstance(body, dict) and body.get("stop_sequences") == [""]:
            body = body | {"stop_sequences": []}
        return super().refuse(body)


class Fails(SmallServer):
    """Answers with 500 what is the client's fault."""

    def error(self, message: str) -> web.Response:
        return web.Response(status=500, text="Internal Server Error")


class SpeaksPlainly(SmallServer):
    """Says errors in plain text."""

    def error(self, message: str) -> web.Response:
        return web.Response(status=400, text=message)


class Wanders(SmallServer):
    """Right, but never says the same twice."""

    def __init__(self) -> None:
        self._asked = count()

    def script(self, prompt: str) -> str:
        full = super().script(prompt)
        at = len(full) * 3 // 4
        return f"{full[:at]} <{next(self._asked)}> {full[at:]}"


class WandersAndIgnores(Wanders):
    """Never says the same twice, and knows no stops."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return Reply(full, "end_turn", None, -(-len(full) // PIECE))
