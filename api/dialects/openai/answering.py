"""How Chat Completions and Completions answer: read, convert, run, write. On the server's loop."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import web

from api.dialects.openai.chunks import AnswerHead
from api.dialects.openai.logprobs import TokenTexts
from api.dialects.openai.output_format import naming_form
from api.dialects.openai.parameters import GenerationParams
from api.dialects.shared.reading import read
from api.transport.context import check_model, model_name, new_id, service_of
from api.transport.events import StreamEncoder
from api.transport.json_text import json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, collected, running
from api.transport.sse import stream
from engine import Event, Finished, GenerationRequest

_Params = TypeVar("_Params", bound=GenerationParams)
_Sent = TypeVar("_Sent", bound=GenerationParams, contravariant=True)


class _ReadRequests(Protocol[_Sent]):
    def __call__(self, params: _Sent, *, strict: bool) -> list[GenerationRequest]: ...


class _MakeEncoder(Protocol[_Sent]):
    def __call__(
        self, head: AnswerHead, params: _Sent, texts: TokenTexts | None
    ) -> StreamEncoder: ...


class _Render(Protocol[_Sent]):
    def __call__(
        self,
        answers: Sequence[tuple[Sequence[Event], Finished]],
        head: AnswerHead,
        params: _Sent,
        texts: TokenTexts | None,
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Completing(Generic[_Params]):
    """What one of the two APIs has of its own.

    Attributes:
        params: The type of its requests.
        id_prefix: With what the ids of its answers begin.
        requests: Makes the generations of a request.
        encoder: Makes what encodes a stream.
        render: Makes a whole answer.
    """

    params: type[_Params]
    id_prefix: str
    requests: _ReadRequests[_Params]
    encoder: _MakeEncoder[_Params]
    render: _Render[_Params]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        params = await read(body_of(request), self.params)
        with naming_form(params):
            return await self._answered(request, params)

    async def _answered(self, request: web.Request, params: _Params) -> web.StreamResponse:
        service = service_of(request)
        check_model(service, params.model)
        wanted = self.requests(params, strict=service.config.strict)
        completion_id, created = new_id(self.id_prefix), int(time.time())
        async with running(service, wanted) as generations:
            head = AnswerHead(completion_id, created, model_name(service, params.model))
            texts = generations[0].vocabulary
            if params.stream:
                return await stream(
                    request,
                    batches_of(generations),
                    self.encoder(head, params, texts),
                    silence_s=service.config.keepalive_s,
                )
            answers = await asyncio.gather(*(collected(one) for one in generations))
        body = self.render(answers, head, params, texts)
        return web.json_response(body, dumps=json_text)
