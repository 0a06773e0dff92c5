"""The process that parses large bodies, so that one that exhausts memory ends only this process.

Started as ``python -m api.dialects.shared.body_process``. Reads frames from its standard input and
answers each on its standard output; ends with its input. A question is a line of JSON, then the
body as it was sent:

    {"model": "module:class", "encoding": null, "max_bytes": n, "context": n or null,
     "longest": n or null, "read": "module:function", "strict": true,
     "images": "note"}

"read", "strict" and "images" are present if the engine's requests are wanted too. An answer is a
pickled tuple: ("read", size of the unpacked body, wire model, requests, refusal of the engine) or
("refused", the error's class, its arguments by name). The server's threads block one another, so as
much work as possible is done here. The turns of a wire model are left out once they have become
requests. There are no requests if the body refers to earlier answers, which this process does not
know.
"""

import os
import pickle
import sys
from importlib import import_module
from json import loads
from typing import Any

from api.dialects.shared.body import WireModel, check_text_memory, examined
from api.dialects.shared.requests import parsed_request
from api.transport.bodies import unpacked
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, invalid
from engine.processes import (
    CpuTimer,
    allow_memory,
    give_way,
    read_frame,
    return_freed_memory,
    write_frame,
)

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
            answer = _answer(loads(head), bodies)
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
