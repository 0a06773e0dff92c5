"""The wire formats of the dialects that are probed only if they are named."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from aiohttp import web

from api.conformance.captures.values import WireDialect
from tests.api.conformance.captures.opening.saved import amazon
from tests.api.conformance.probe.family.openai_wires import (
    openai_error,
    sse,
    stops_of,
    whole_number,
)
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Refused, Said


def text_of(value: Any, name: str) -> str:
    """Return a prompt, or refuse it."""
    if not isinstance(value, str):
        raise Refused(f"{name}: must be a string")
    return value


def first_text(turns: Any, *path: str | int) -> str:
    """Return the text of the first turn."""
    try:
        found = turns[0]
        for name in path:
            found = found[name]
    except (KeyError, IndexError, TypeError):
        raise Refused("the turns are not as they must be") from None
    return text_of(found, "text")


class LlamaWire:
    """llama.cpp's /completion."""

    content_type = "text/event-stream"
    error = staticmethod(openai_error)
    words: ClassVar = {"natural": "eos", "stop": "word", "limit": "limit"}

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        return Query(
            text_of(body.get("prompt"), "prompt"),
            stops_of(body.get("stop"), takes_string=False),
            whole_number(body.get("n_predict"), "n_predict"),
            bool(body.get("stream")),
        )

    def whole(self, said: Sequence[Said], query: Query, text: str | None = None) -> dict[str, Any]:
        """Return a whole answer."""
        [one] = said
        return {
            "content": one.text if text is None else text,
            "stop": True,
            "model": "small",
            "stop_type": self.words[one.ending],
            "stopping_word": one.matched or "",
            "tokens_predicted": one.tokens,
            "tokens_evaluated": one.prompt_tokens,
        }

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        for piece in query.pieces(said[0].text):
            yield sse({"content": piece, "stop": False, "tokens": []})
        yield sse(self.whole(said, query, text=""))


class TgiWire:
    """Text Generation Inference."""

    content_type = "text/event-stream"
    words: ClassVar = {"natural": "eos_token", "stop": "stop_sequence", "limit": "length"}

    @staticmethod
    def error(message: str) -> dict[str, Any]:
        """Return an error."""
        return {"error": message, "error_type": "validation"}

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        parameters = body.get("parameters") or {}
        return Query(
            text_of(body.get("inputs"), "inputs"),
            stops_of(parameters.get("stop"), takes_string=False),
            whole_number(parameters.get("max_new_tokens"), "max_new_tokens"),
            bool(body.get("stream")),
        )

    def _details(self, one: Said) -> dict[str, Any]:
        return {"finish_reason": self.words[one.ending], "generated_tokens": one.tokens}

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        return {"generated_text": said[0].text, "details": self._details(said[0])}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        [one] = said
        for number, piece in enumerate(query.pieces(one.text), 1):
            token = {"id": number, "text": piece, "special": False}
            yield sse({"index": number, "token": token, "generated_text": None, "details": None})
        end = {"id": 0, "text": "", "special": True}
        yield sse({"token": end, "generated_text": one.text, "details": self._details(one)})


class GeminiWire:
    """Gemini's generateContent."""

    content_type = "text/event-stream"
    words: ClassVar = {"natural": "STOP", "stop": "STOP", "limit": "MAX_TOKENS"}

    @staticmethod
    def error(message: str) -> dict[str, Any]:
        """Return an error."""
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        config = body.get("generationConfig") or {}
        return Query(
            first_text(body.get("contents"), "parts", 0, "text"),
            stops_of(config.get("stopSequences"), takes_string=False),
            whole_number(config.get("maxOutputTokens"), "maxOutputTokens"),
            bool(body.get("stream")),
        )

    def _part(self, text: str, one: Said | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "content": {"parts": [{"text": text}]}}
        found: dict[str, Any] = {"candidates": [candidate], "modelVersion": "small"}
        if one is not None:
            candidate["finishReason"] = self.words[one.ending]
            found["usageMetadata"] = {
                "promptTokenCount": one.prompt_tokens,
                "candidatesTokenCount": one.tokens,
                "totalTokenCount": one.prompt_tokens + one.tokens,
            }
        return found

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        return self._part(said[0].text, said[0])

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        for piece in query.pieces(said[0].text):
            yield sse(self._part(piece, None))
        yield sse(self._part("", said[0]))


class ConverseWire:
    """Bedrock's Converse, whose streams are binary."""

    content_type = "application/vnd.amazon.eventstream"
    words: ClassVar = {"natural": "end_turn", "stop": "stop_sequence", "limit": "max_tokens"}

    @staticmethod
    def error(message: str) -> dict[str, Any]:
        """Return an error."""
        return {"message": message}

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        config = body.get("inferenceConfig") or {}
        return Query(
            first_text(body.get("messages"), "content", 0, "text"),
            stops_of(config.get("stopSequences"), takes_string=False),
            whole_number(config.get("maxTokens"), "maxTokens"),
            bool(body.get("stream")),
        )

    def _usage(self, one: Said) -> dict[str, int]:
        given, made = one.prompt_tokens, one.tokens
        return {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        [one] = said
        message = {"role": "assistant", "content": [{"text": one.text}]}
        reason = self.words[one.ending]
        return {"output": {"message": message}, "stopReason": reason, "usage": self._usage(one)}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        [one] = said
        yield amazon([("messageStart", {"role": "assistant"})])
        for piece in query.pieces(one.text):
            delta = {"contentBlockIndex": 0, "delta": {"text": piece}}
            yield amazon([("contentBlockDelta", delta)])
        yield amazon([("contentBlockStop", {"contentBlockIndex": 0})])
        yield amazon([("messageStop", {"stopReason": self.words[one.ending]})])
        yield amazon([("metadata", {"usage": self._usage(one)})])


NAMED_WIRES: dict[WireDialect, tuple[Any, str, str]] = {
    WireDialect.LLAMA_CPP: (LlamaWire(), "/completion", ""),
    WireDialect.TGI: (TgiWire(), "/generate", "/generate_stream"),
    WireDialect.GEMINI: (
        GeminiWire(),
        "/v1beta/models/small:generateContent",
        "/v1beta/models/small:streamGenerateContent",
    ),
    WireDialect.CONVERSE: (
        ConverseWire(),
        "/model/small/converse",
        "/model/small/converse-stream",
    ),
}


class NamedServer(FamilyServer):
    """Speaks one of these dialects, without a fault."""

    def __init__(self, dialect: WireDialect) -> None:
        self.dialect = dialect
        self.wire, self._path, self._streamed_path = NAMED_WIRES[dialect]
        self.asked = 0

    def routes(self, app: web.Application) -> None:
        """Add its routes."""
        app.router.add_post(self._path, self.handle)
        if self._streamed_path:
            app.router.add_post(self._streamed_path, self.handle_streamed)

    def read(self, body: dict[str, Any]) -> Query:
        """Return a request; in some dialects the path says whether it wants a stream."""
        if self._streamed_path and "stream" in body:
            raise Refused("stream: this is not a field")
        return super().read(body)

    async def handle_streamed(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for a stream."""
        try:
            query = self.read(await request.json())
        except (json.JSONDecodeError, Refused) as refused:
            return self.refusal(str(refused))
        streamed = Query(query.prompt, query.stops, query.limit, is_streamed=True)
        return await self.respond(request, streamed)
