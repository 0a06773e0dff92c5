"""A small Messages server without a model and without a fault."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

LINES = "\n".join(str(number) for number in range(1, 21))
PIECE = 3


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    text: str
    reason: str
    sequence: str | None
    tokens: int


class SmallServer:
    """Answers from a script; a piece of three characters is a token."""

    piece_s = 0.0
    heads = 0

    def script(self, prompt: str) -> str:
        """Return the whole answer to a prompt."""
        if "1000" in prompt:
            return "\n".join(str(number) for number in range(1, 1001))
        return prompt.removeprefix("Repeat exactly: ") if "Repeat" in prompt else LINES

    def stop_in(self, text: str, stops: list[str]) -> tuple[int, str] | None:
        """Return the stop that completes first, and where it begins."""
        found = [(text.find(one) + len(one), text.find(one), one) for one in stops if one in text]
        return min(found)[1:] if found else None

    def reply(self, prompt: str, stops: list[str], limit: int) -> Reply:
        """Return the answer."""
        full = self.script(prompt)
        found = self.stop_in(full, stops)
        end = len(full) if found is None else found[0] + len(found[1])
        tokens = -(-end // PIECE)
        if tokens > limit:
            return Reply(full[: limit * PIECE], "max_tokens", None, limit)
        if found is None:
            return Reply(full, "end_turn", None, tokens)
        return self.stopped(Reply(full[: found[0]], "stop_sequence", found[1], tokens), full)

    def stopped(self, reply: Reply, full: str) -> Reply:
        """Return the answer that a stop ended."""
        return reply

    def refuse(self, body: Any) -> str | None:
        """Return what is wrong with a request; None accepts it."""
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return "messages: must be a list"
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: must be a whole number"
        stops = body.get("stop_sequences")
        if stops is not None and not isinstance(stops, list):
            return "stop_sequences: must be a list"
        for index, stop in enumerate(stops or []):
            if not isinstance(stop, str) or not stop:
                return f"stop_sequences[{index}]: must be a non-empty string"
        return None

    def events(self, reply: Reply) -> list[tuple[str, dict[str, Any]]]:
        """Return the events of a streamed answer."""
        block = {"type": "text", "text": ""}
        start = self.head() | {
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        }
        pieces = [reply.text[at : at + PIECE] for at in range(0, len(reply.text), PIECE)]
        usage = {"output_tokens": reply.tokens}
        stop = {"stop_reason": reply.reason, "stop_sequence": reply.sequence}
        return [
            ("message_start", {"message": start}),
            ("content_block_start", {"index": 0, "content_block": block}),
            *(
                ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
                for text in pieces
            ),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": stop, "usage": usage}),
            ("message_stop", {}),
        ]

    def head(self) -> dict[str, Any]:
        """Return the fields that an answer begins with."""
        self.heads += 1
        return {"id": f"msg_{self.heads}", "type": "message", "role": "assistant", "model": "small"}

    def message(self, reply: Reply) -> dict[str, Any]:
        """Return a whole answer."""
        return self.head() | {
            "content": [{"type": "text", "text": reply.text}],
            "stop_reason": reply.reason,
            "stop_sequence": reply.sequence,
            "usage": {"input_tokens": 5, "output_tokens": reply.tokens},
        }

    def error(self, message: str) -> web.Response:
        """Return a refusal."""
        error = {"type": "invalid_request_error", "message": message}
        return web.json_response({"type": "error", "error": error}, status=400)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        try:
            body = await request.json()
        except json.JSONDecodeError:
            return self.error("the body is no JSON")
        wrong = self.refuse(body)
        if wrong is not None:
            return self.error(wrong)
        prompt = body["messages"][-1]["content"]
        reply = self.reply(prompt, body.get("stop_sequences") or [], body["max_tokens"])
        if not body.get("stream"):
            await asyncio.sleep(self.piece_s * reply.tokens)
            return web.json_response(self.message(reply))
        return await self.stream(request, reply)

    async def stream(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        """Write a streamed answer."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for name, fields in self.events(reply):
            data = json.dumps({"type": name, **fields})
            await response.write(f"event: {name}\ndata: {data}\n\n".encode())
            if self.piece_s:
                await asyncio.sleep(self.piece_s)
        return response

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve while the block runs; yields the address."""
        app = web.Application()
        app.router.add_post("/v1/messages", self.handle)
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            [place] = runner.addresses
            yield f"http://127.0.0.1:{place[1]}"
        finally:
            await runner.cleanup()


class NamesNoSequence(SmallServer):
    """Does not report which stop matched."""

    def stopped(self, reply: Reply, full: str) -> Reply:
        return replace(reply, sequence=None)
