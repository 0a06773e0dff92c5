"""Reads a request's body: here if it is small, in a process of its own if it is large.

One that exhausts memory ends that process alone. Knows no vendor. Runs on the server's loop, and as
``python -m api.dialects.shared.body_reader``.
"""

import asyncio
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any, TypeVar

from api.dialects.shared.body import WireModel, check_text_memory, examined, parsed
from api.dialects.shared.requests import ParsedRequest, ReadRequest, parsed_request
from api.transport.bodies import SentBody, unpacked
from api.transport.config import ImageRule
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, invalid
from engine import GenerationRequest
from engine.processes import (
    CpuTimer,
    allow_memory,
    give_way,
    read_frame,
    return_freed_memory,
    write_frame,
)

PROCESS = "api.dialects.shared.body_reader"
# Bodies of at most this size are parsed so fast that any number of them may follow one another.
_TINY_BYTES = 4_096
# Bodies that refer to earlier answers are parsed in this process, in a thread.
_MAX_RECALLING_BYTES = 1 << 20

_Model = TypeVar("_Model", bound=WireModel)
_Result = TypeVar("_Result")
# The size of a body, the wire model, and, if requested, the generations that it asks for, or the
# field that the engine would refuse with the reason.
_Read = tuple[int, WireModel, Sequence[GenerationRequest] | None, tuple[str, str] | None]


async def read_body(body: SentBody, model: type[_Model]) -> _Model:
    """Return a body as a wire model, and free its bytes.

    Args:
        body: The body of the request.
        model: The type to parse it as.

    Raises:
        ApiError: It is invalid (the error names the first wrong field), too large, or cannot be
            parsed at the moment.
    """
    if not body.is_large:
        return await _in_turn(body, lambda: parsed(body.small or b"", model))
    _, params, _, _ = await _read_apart(body, model, {})
    return _checked(params, model)


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
        reader: Converts it to the engine's requests; a function of a module.
        strict: Refuse what the hosted API refuses.
        images: What becomes of images if the request does not say it.
        recall: Adds the items of earlier answers that it refers to.

    Raises:
        ApiError: The same as ``read_body``, or raised by ``reader``.
    """
    if not body.is_large:
        return await _in_turn(
            body,
            lambda: parsed_request(
                recall(parsed(body.small or b"", model)), reader, strict=strict, images=images
            ),
        )
    size, params, wanted, refusal = await _read_apart(
        body, model, {"read": _place_of(reader), "strict": strict, "images": images}
    )
    if wanted is None:
        # It refers to earlier answers, which only this process knows.
        if size > _MAX_RECALLING_BYTES:
            raise invalid(
                (),
                f"a request that refers to earlier answers may have {_MAX_RECALLING_BYTES:,} "
                f"bytes, and this one has {size:,}; send the whole conversation instead",
            )
        whole = recall(_checked(params, model))
        return await asyncio.to_thread(parsed_request, whole, reader, strict=strict, images=images)
    return ParsedRequest(_checked(params, model), wanted, refusal)


async def _in_turn(body: SentBody, work: Callable[[], _Result]) -> _Result:
    """Call a function with a small body, in turn with others.

    Many may arrive at once. Of those that take a while, one is parsed in each iteration of the
    loop, so that streams are served in between.
    """
    if body.size_bytes <= _TINY_BYTES:
        return work()
    async with body.helper.small_turn:
        await asyncio.sleep(0)
        return work()


async def _read_apart(body: SentBody, model: type[WireModel], more: dict[str, Any]) -> _Read:
    """Have the helper process parse a body."""
    question = {
        "model": _place_of(model),
        "encoding": body.encoding,
        "max_bytes": body.max_bytes,
        "context": None if body.model is None else body.model.context_length,
        "longest": None if body.model is None else body.model.longest_token_bytes,
        **more,
    }
    try:
        answer = await body.helper.read(json.dumps(question).encode(), *body.taken(), _understood)
    finally:
        body.drop()
    body.size_bytes = answer[0]
    return answer


def _checked(params: WireModel, model: type[_Model]) -> _Model:
    if not isinstance(params, model):
        raise TypeError(f"the helper returned a {type(params).__name__}")
    return params


def _place_of(named: Any) -> str:
    """Return the module and name of a class or function, as the helper process expects it."""
    return f"{named.__module__}:{named.__qualname__}"


def _understood(answer: bytes) -> _Read:
    """Decode the helper process's answer to a body; runs on a thread other than the loop's."""
    kind, *values = _Unpickler(io.BytesIO(answer)).load()
    if kind == "read":
        size, params, wanted, refusal = values
        return size, params, wanted, refusal
    name, arguments = values
    if name == "ContextOverflow":
        raise ContextOverflow(**arguments)
    raise ApiError(ErrorKind(arguments.pop("kind")), arguments.pop("message"), **arguments)


class _Unpickler(pickle.Unpickler):
    """Unpickles wire models and the engine's values; refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("api.dialects."):
            named = super().find_class(module, name)
            if isinstance(named, type) and issubclass(named, WireModel):
                return named
        elif module.startswith(("engine.values.", "engine.stopping.")):
            named = super().find_class(module, name)
            if isinstance(named, type) and (issubclass(named, Enum) or is_dataclass(named)):
                return named
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a request")


# -- the process -------------------------------------------------------------------------------
# Reads frames from its standard input and answers each on its standard output; ends with its
# input. A question is a line of JSON, then the body as it was sent:
#
#     {"model": "module:class", "encoding": null, "max_bytes": n, "context": n or null,
#      "longest": n or null, "read": "module:function", "strict": true, "images": "note"}
#
# "read", "strict" and "images" are present if the engine's requests are wanted too. An answer is a
# pickled tuple: ("read", size of the unpacked body, wire model, requests, refusal of the engine) or
# ("refused", the error's class, its arguments by name). The server's threads block one another, so
# as much work as possible is done there. The turns of a wire model are left out once they have
# become requests. There are no requests if the body refers to earlier answers, which the process
# does not know.


_CPU_S = 15.0
_MAX_BYTES = 640 << 20
_MAX_DEPTH = 10_000
# After a body of this many bytes, returning memory to the system is worth the time.
_LARGE_BYTES = 1 << 20


def main() -> None:
    """Answer frames until the input ends."""
    give_way()
    # Output that a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    allow_memory(_MAX_BYTES)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        head, _, body = frame.partition(b"\n")
        del frame
        bodies, is_large = [body], len(body) > _LARGE_BYTES
        del body
        with CpuTimer(_CPU_S):
            answer = _answer(json.loads(head), bodies)
        if is_large:
            return_freed_memory()
        write_frame(answers, answer)
        del answer


def _answer(asked: dict[str, Any], bodies: list[bytes]) -> bytes:
    try:
        return _read(asked, bodies)
    except ContextOverflow as error:
        return pickle.dumps(
            (
                "refused",
                "ContextOverflow",
                {
                    "field": error.field,
                    "prompt_tokens": error.prompt_tokens,
                    "context_length": error.context_length,
                },
            )
        )
    except ApiError as error:
        return _refused(error)
    except MemoryError:
        reason = "the body takes too much memory to read; send a smaller one, and prompts as text"
        return _refused(ApiError(ErrorKind.TOO_LARGE, reason))


def _read(asked: dict[str, Any], bodies: list[bytes]) -> bytes:
    """Return the answer to a body that can be parsed; empties the list to save memory."""
    model: type[WireModel] = _named(asked["model"])
    raw = bodies.pop()
    if asked["encoding"] is not None:
        raw = unpacked(raw, asked["encoding"], asked["max_bytes"])
    check_text_memory(raw, asked["max_bytes"])
    size = len(raw)
    params = examined(raw, model, asked["context"], asked["longest"])
    del raw
    answer: tuple[Any, ...] = ("read", size, params, None, None)
    if "read" in asked and not params.needs_recall:
        try:
            parsed = parsed_request(
                params, _named(asked["read"]), strict=asked["strict"], images=asked["images"]
            )
        except RecursionError:
            raise invalid((), "the body is nested too deeply") from None
        params = params.without_turns()
        answer = ("read", size, params, parsed.wanted, parsed.refusal)
        del parsed
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_MAX_DEPTH)
    try:
        return pickle.dumps(answer, protocol=5)
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _refused(error: ApiError) -> bytes:
    arguments = {
        "kind": error.kind.value,
        "message": error.message,
        "field": error.field,
        "code": error.code,
        "details": error.details,
        "retry_after_s": error.retry_after_s,
    }
    return pickle.dumps(("refused", "ApiError", arguments))


if __name__ == "__main__":
    main()
