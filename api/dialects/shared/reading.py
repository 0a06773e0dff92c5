"""Reads the body of a request as a wire model: here if it is small, in the helper if it is large.

Knows no web framework and no vendor. Runs on the server's loop.
"""

import io
import json
import pickle
from typing import Any, TypeVar

from api.dialects.shared.body import WireModel, parsed
from api.transport.errors import ApiError, ContextOverflow, ErrorKind
from api.transport.request_body import SentBody

PROCESS = "api.dialects.shared.body_process"

_Model = TypeVar("_Model", bound=WireModel)


async def read(body: SentBody, model: type[_Model]) -> _Model:
    """Return a body as a wire model; what was sent is let go of.

    Args:
        body: The body of the request.
        model: What it is to be.

    Raises:
        ApiError: It is wrong (the error names the first field that is), too large, or cannot be
            read at the moment.
    """
    if not body.is_large:
        return parsed(body.small or b"", model)
    question = {
        "model": f"{model.__module__}:{model.__qualname__}",
        "encoding": body.encoding,
        "most_bytes": body.most_bytes,
        "context": None if body.model is None else body.model.context_length,
        "longest": None if body.model is None else body.model.longest_token_bytes,
    }
    try:
        body.size_bytes, params = await body.helper.read(
            json.dumps(question).encode(), *body.taken(), _understood
        )
    finally:
        body.drop()
    if not isinstance(params, model):
        raise TypeError(f"the helper returned a {type(params).__name__}")
    return params


def _understood(answer: bytes) -> tuple[int, object]:
    """Return size and wire model of an answer; on another thread than the loop's.

    Raises:
        ApiError: The body was refused.
    """
    kind, *found = _Unpickler(io.BytesIO(answer)).load()
    if kind == "read":
        size, params = found
        return size, params
    name, arguments = found
    if name == "ContextOverflow":
        raise ContextOverflow(**arguments)
    raise ApiError(ErrorKind(arguments.pop("kind")), arguments.pop("message"), **arguments)


class _Unpickler(pickle.Unpickler):
    """Makes wire models, and nothing else that has a name."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("api.dialects."):
            found = super().find_class(module, name)
            if isinstance(found, type) and issubclass(found, WireModel):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a wire model")
