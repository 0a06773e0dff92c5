"""A server without a model that speaks every dialect without a fault.

Each of its relatives overrides one method, which is its fault.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web

from api.conformance.captures.values import WireDialect
from tests.api.conformance.probe.family.openai_wires import (
    ChatWire,
    CompletionsWire,
    ResponsesWire,
)
from tests.api.conformance.probe.family.other_wires import GenerateWire, MessagesWire, OllamaWire
from tests.api.conformance.probe.family.talk import PIECE, TOKEN, Query, Refused, Said

WIRES: dict[WireDialect, Any] = {
    WireDialect.MESSAGES: MessagesWire(),
    WireDialect.CHAT: ChatWire(),
    WireDialect.COMPLETIONS: CompletionsWire(),
    WireDialect.RESPONSES: ResponsesWire(),
    WireDialect.GENERATE: GenerateWire(),
    WireDialect.OLLAMA: OllamaWire(),
}
_THOUGHT = "Zuerst denke ich nach. "
_JSON = '{"color": "blue", "shape": "circle", "size": "large"}'


class FamilyServer:
    """Answers from a script; a piece of three characters is a token."""

    DIALECTS = tuple(WIRES)
    piece_s = 0.0
    grace_s = 30.0  # after the end of a stream
    patience_s = 30.0  # after a client left
    is_thinking_always = False
    only: tuple[str, ...] = ()
    dialects: tuple[WireDialect, ...] = ()
    stream_type = ""
    token = TOKEN
    piece = ""

    def __init__(self, dialect: WireDialect) -> None:
        self.dialect = dialect
        self.wire = WIRES[dialect]
        self.asked = 0

    # -- the answer --------------------------------------------------------------------------

    def script(self, query: Query) -> str:
        counted = re.search(r"Count from 1 to (\d+)", query.prompt)
        if query.has_schema:
            return _JSON
        if counted:
            lines = [str(number) for number in range(1, int(counted[1]) + 1)]
            # A raw prompt may contain the beginning of the count.
            begun = len(re.findall(r"^\d+$", query.prompt, re.MULTILINE))
            return "\n".join(lines[begun:])
        repeated = re.search(r"Repeat exactly: ([^<\n]*)", query.prompt)
        return repeated[1] if repeated else "\n".join(str(number) for number in range(7, 400))

    def thought(self, query: Query) -> str:
        if not self.is_thinking_always and not query.is_thinking:
            return ""
        return _THOUGHT * 3

    def stop_in(self, text: str, query: Query) -> tuple[int, str] | None:
        found = [(text.find(one) + len(one), text.find(one), one) for one in query.stops]
        there = [(end, begin, one) for end, begin, one in found if begin >= 0]
        return min(there)[1:] if there else None

    def answer(self, query: Query) -> Said:
        if self.calls_tool(query):
            return self.called(query)
        thought = self.thought(query)
        spent = len(query.tokens(thought))
        if spent >= query.limit:
            thought = "".join(query.tokens(thought)[: query.limit])
            return Said("", "limit", None, query.limit, thought)
        full = self.script(query)
        if query.token_ids:
            full = full[: PIECE * (len(full) // PIECE // 3)]
        found = self.stop_in(full, query)
        end = len(full) if found is None else found[0] + len(found[1])
        tokens = len(query.tokens(full[:end]))
        room = query.limit - spent
        if tokens > room:
            text = "".join(query.tokens(full)[:room])
            said = Said(text, "limit", None, room, thought)
            said = self.limited(said, query)
        elif found is None:
            said = self.ended(Said(full, "natural", None, tokens, thought), query)
        else:
            said = Said(full[: found[0]], "stop", found[1], tokens, thought)
            said = self.stopped(said, full, query)
        said = replace(said, tokens=said.tokens + spent)
        return replace(said, logged=self.logged(said, full)) if query.has_logprobs else said

    def calls_tool(self, query: Query) -> bool:
        choice = query.body.get("tool_choice")
        kind = choice.get("type") if isinstance(choice, dict) else choice
        if not query.has_tool or kind == "none":
            return False
        return kind in ("any", "required", "tool", "function") or "Call the tool" in query.prompt

    def called(self, query: Query) -> Said:
        call = '{"text": "red green blue"}'
        tokens = query.tokens(call)
        if query.limit < len(tokens):
            return Said("".join(tokens[: query.limit]), "limit", None, query.limit)
        return Said("", "tool", None, len(tokens), call=call)

    def limited(self, said: Said, query: Query) -> Said:
        return said

    def ended(self, said: Said, query: Query) -> Said:
        return said

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return said

    def logged(self, said: Said, full: str) -> tuple[str, ...]:
        return tuple(re.findall(self.token, said.text))

    def answers(self, query: Query) -> list[Said]:
        return [self.answer(query) for _ in range(query.choices)]

    # -- the wire ----------------------------------------------------------------------------

    def frames(self, said: Sequence[Said], query: Query) -> list[bytes]:
        return list(self.wire.stream(said, query))

    def body(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        whole: dict[str, Any] = self.wire.whole(said, query)
        return whole

    def read(self, body: dict[str, Any]) -> Query:
        query: Query = self.wire.read(body)
        return replace(query, token=self.token, piece=self.piece or self.token)

    def refusal(self, message: str, status: int = 400) -> web.Response:
        return web.json_response(self.wire.error(message), status=status)

    def check(self, request: web.Request, query: Query) -> web.Response | None:
        return None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        try:
            body = await request.json()
            if not isinstance(body, dict):
                raise Refused("the body is not an object")
            query = self.read(body)
        except json.JSONDecodeError:
            return self.refusal("the body is not JSON")
        except Refused as refused:
            return self.refusal(str(refused))
        refusal = self.check(request, query)
        if refusal is not None:
            return refusal
        return await self.respond(request, query)

    async def respond(self, request: web.Request, query: Query) -> web.StreamResponse:
        said = self.answers(query)
        if not query.is_streamed:
            await self.work(said[0].tokens)
            return web.json_response(self.body(said, query))
        response = web.StreamResponse(
            headers={"content-type": self.stream_type or self.wire.content_type}
        )
        await response.prepare(request)
        frames = self.frames(said, query)
        for frame in frames:
            await self.write(response, frame)
        return response

    async def write(self, response: web.StreamResponse, frame: bytes) -> None:
        await response.write(frame)
        await self.work(1)

    async def work(self, tokens: int) -> None:
        if self.piece_s:
            await asyncio.sleep(self.piece_s * tokens)

    # -- the server --------------------------------------------------------------------------

    def routes(self, app: web.Application) -> None:
        app.router.add_post(self.wire.path, self.handle)

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        app = web.Application()
        self.routes(app)
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        try:
            [place] = runner.addresses
            yield f"http{'s' if tls else ''}://127.0.0.1:{place[1]}"
        finally:
            await runner.cleanup()
