"""One request, independent of any dialect, and how fields are put into a body. Pure; any thread."""

from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, independent of any dialect.

    Attributes:
        prompt: What the user says.
        stops: The stop strings; empty leaves the field out.
        max_tokens: The limit.
        is_streamed: Whether the answer is streamed.
        is_thinking: Whether the model reasons first; None leaves it to the server.
        token_ids: Stop token ids, if the dialect has them.
    """

    prompt: str
    stops: tuple[str, ...] = ()
    max_tokens: int = 128
    is_streamed: bool = False
    is_thinking: bool | None = None
    token_ids: tuple[int, ...] = ()


def put(body: Body, path: Path, value: Any) -> None:
    """Set a field, and create the objects around it.

    Args:
        body: The request's body, which is changed.
        path: The names of the objects around the field, then its own; at least one.
        value: Any JSON value.
    """
    holder = body
    for name in path[:-1]:
        holder = holder.setdefault(name, {})
    holder[path[-1]] = value
