"""The process that reads large bodies first, and may die of it.

Started as ``python -m api.dialects.shared.body_process``. Reads frames from its standard input and
answers each on its standard output; ends with its input. A question is a line of JSON, then the
body as it was sent:

    {"model": "module:class", "encoding": null, "most_bytes": n, "context": n or null,
     "longest": n or null}

An answer is a pickled tuple: ("read", size of the unpacked body, wire model), or ("refused", the
error's class, its arguments by name).
"""

import os
import pickle
import sys
from importlib import import_module
from json import loads
from typing import Any

from api.dialects.shared.body import WireModel
from api.dialects.shared.examining import examined
from api.transport.errors import ApiError, ContextOverflow, ErrorKind, invalid
from api.transport.unpacking import unpacked
from engine.processes.frames import read_frame, write_frame
from engine.processes.own_limits import CpuTimer, allow_memory, give_way

_CPU_S = 15.0
_MOST_BYTES = 640 << 20
_DEEPEST = 10_000


def main() -> None:
    """Answer frames until the input ends."""
    give_way()
    # What a library prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    allow_memory(_MOST_BYTES)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        head, _, body = frame.partition(b"\n")
        del frame
        bodies = [body]
        del body
        with CpuTimer(_CPU_S):
            answer = _answer(loads(head), bodies)
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
    """Return the answer to a body that can be read; the list is emptied, to save memory."""
    module, _, name = asked["model"].partition(":")
    model: type[WireModel] = getattr(import_module(module), name)
    raw = bodies.pop()
    if asked["encoding"] is not None:
        raw = unpacked(raw, asked["encoding"], asked["most_bytes"])
    size = len(raw)
    params = examined(raw, model, asked["context"], asked["longest"])
    del raw
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEPEST)
    try:
        return pickle.dumps(("read", size, params), protocol=5)
    except RecursionError:
        raise invalid((), "the body is nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)


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
