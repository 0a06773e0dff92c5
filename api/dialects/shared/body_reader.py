"""Reads a request's body: on the server's loop, or on a thread if it is large.

Knows no vendor.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from api.dialects.shared.body import WireModel, check_text_memory, parsed
from api.dialects.shared.requests import ParsedRequest, ReadRequest, parsed_request
from api.transport.bodies import SentBody
from api.transport.config import ImageRule
from api.transport.errors import invalid

_Model = TypeVar("_Model", bound=WireModel)


async def read_body(body: SentBody, model: type[_Model]) -> tuple[_Model, tuple[str, ...]]:
    """Return a body as a wire model, and its fields without effect; free its bytes.

    Args:
        body: The body of the request.
        model: The type to parse it as.

    Raises:
        ApiError: It is invalid (the error names the first wrong field) or too large.
    """

    def read() -> tuple[_Model, tuple[str, ...]]:
        raw = body.take()
        check_text_memory(raw, body.max_bytes)
        return parsed(raw, model)

    try:
        if not body.is_large:
            return read()
        async with body.turn:
            return await asyncio.to_thread(read)
    finally:
        body.drop()


async def read_request(
    body: SentBody,
    model: type[_Model],
    reader: ReadRequest[_Model],
    *,
    strict: bool,
    images: ImageRule = "refuse",
    recall: Callable[[_Model], _Model] = lambda params: params,
) -> ParsedRequest[_Model]:
    """Return a body as a wire model, with the generations that it asks for.

    Args:
        body: The body of the request; its bytes are freed.
        model: The type to parse it as.
        reader: Converts it to the engine's requests.
        strict: Refuse what the hosted API refuses.
        images: What becomes of images if the request does not say it.
        recall: Adds the items of earlier answers that it refers to; called on the loop.

    Raises:
        ApiError: The same as ``read_body``, or raised by ``reader``.
    """
    is_large = body.is_large
    sent, not_applied = await read_body(body, model)
    params = recall(sent)
    read = partial(parsed_request, params, reader, not_applied, strict=strict, images=images)
    try:
        return await asyncio.to_thread(read) if is_large else read()
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
