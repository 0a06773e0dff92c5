"""A dialect as the probe uses it: one value that makes its requests. Pure; any thread."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.dialects.asks import Ask, Body, Path, put


@dataclass(frozen=True, slots=True)
class Driver:
    """Makes requests in one dialect.

    Attributes:
        dialect: The dialect.
        path: The path of requests.
        make: Makes the body of a request without its stops.
        stop_path: The path of the stops in the body.
        limit_path: The path of the token limit.
        prompt_path: The path of the prompt.
        is_envelope: Whether an error's body has the form that the dialect prescribes.
        words: How the dialect spells each ending, for reports.
        ids_path: The path of stop token ids; None if the dialect has none.
        takes_string: Whether one stop may be given without a list.
        can_think: Whether the dialect can switch thinking on and off.
        has_chat_template: Whether the model's template is put around the prompt.
        names_stop: Whether the dialect requires answers to name the stop that matched.
        are_stops_standard: Whether the dialect's specification has stops at all.
        limit_name: Another name for the limit, if a server requires it; empty for the dialect's
            name.
        least_tokens: The smallest limit that the server accepts.
        left_out: Optional fields that the server refuses.
        streamed_path: The path of requests for a stream; empty if a field of the body asks for it.
        is_detected: Whether detection tries it.
    """

    dialect: WireDialect
    path: str
    make: Callable[[Ask, str], Body]
    stop_path: Path
    limit_path: Path
    prompt_path: Path
    is_envelope: Callable[[Any], bool]
    words: Mapping[CapturedEnding, str]
    ids_path: Path | None = None
    takes_string: bool = True
    can_think: bool = True
    has_chat_template: bool = True
    names_stop: bool = False
    are_stops_standard: bool = True
    limit_name: str = ""
    least_tokens: int = 1
    left_out: tuple[str, ...] = ()
    streamed_path: str = ""
    is_detected: bool = True

    def body(self, ask: Ask, model: str) -> Body:
        """Return the body of a request; an empty model name leaves the field out."""
        if ask.max_tokens < self.least_tokens:
            ask = replace(ask, max_tokens=self.least_tokens)
        body = self.make(ask, model)
        if not model:
            body.pop("model", None)
        for name in self.left_out:
            for holder in (body, *(part for part in body.values() if isinstance(part, dict))):
                holder.pop(name, None)
        if self.limit_name:
            put(body, self._limit_path, body.pop(self.limit_path[-1]))
        if ask.stops:
            put(body, self.stop_path, list(ask.stops))
            if not self.are_stops_standard:
                # A server that knows the extension also knows how to report the stop that matched.
                put(body, ("fullstop",), {"report": True})
        if ask.token_ids and self.ids_path is not None:
            put(body, self.ids_path, list(ask.token_ids))
        return body

    def on_wire(self, body: Any) -> Any:
        """Return a body as it is sent, without ``stream`` if a path asks for the stream."""
        if not self.streamed_path or not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if name != "stream"}

    def has_stops(self, body: Body) -> bool:
        """Return whether a request has stops in any form."""
        holder: Any = body
        for name in self.stop_path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        return holder not in (None, [], ())

    def with_stop(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the stops."""
        changed = copy.deepcopy(body)
        put(changed, self.stop_path, value)
        return changed

    def with_limit(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the limit."""
        changed = copy.deepcopy(body)
        put(changed, self._limit_path, value)
        return changed

    @property
    def _limit_path(self) -> Path:
        return (*self.limit_path[:-1], self.limit_name or self.limit_path[-1])

    def with_prompt(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the prompt."""
        changed = copy.deepcopy(body)
        put(changed, self.prompt_path, value)
        return changed


def headers(
    dialect: WireDialect, api_key: str | None, more: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the headers of a request, names in lower case.

    Args:
        dialect: The dialect.
        api_key: The key, if the server requires one.
        more: Further headers; they replace others of the same name.
    """
    found = {"content-type": "application/json"}
    if dialect is WireDialect.MESSAGES:
        found["anthropic-version"] = "2023-06-01"
        if api_key:
            found["x-api-key"] = api_key
    if dialect is WireDialect.GEMINI and api_key:
        return found | {"x-goog-api-key": api_key} | {name.lower(): text for name, text in more}
    if api_key:
        found["authorization"] = f"Bearer {api_key}"
    return found | {name.lower(): value for name, value in more}


def path_of(
    driver: Driver, base_path: str | None, model: str = "", *, is_streamed: bool = False
) -> str:
    """Return the path of requests, with ``/v1`` replaced if another base path is given.

    Args:
        driver: The dialect.
        base_path: The other base path; None keeps the dialect's.
        model: The model's name, which some dialects have in their paths.
        is_streamed: Whether a stream is asked for.
    """
    path = driver.streamed_path if is_streamed and driver.streamed_path else driver.path
    path = path.replace("{model}", quote(model, safe=""))
    if base_path is None:
        return path
    begin = f"/{base_path.strip('/')}" if base_path.strip("/") else ""
    return begin + path.removeprefix("/v1")


def words_of(
    field: str, natural: str, stop: str, limit: str, *, tool: str = ""
) -> dict[CapturedEnding, str]:
    """Return how a dialect spells each ending in one field.

    Args:
        field: The field's name.
        natural: Its value if the model ended by itself.
        stop: Its value if a stop ended the answer.
        limit: Its value if a limit did.
        tool: Its value if a call did; empty for the natural end's.
    """
    return {
        CapturedEnding.NATURAL: f'{field} "{natural}"',
        CapturedEnding.STOP: f'{field} "{stop}"',
        CapturedEnding.NATURAL_OR_STOP: f'{field} "{natural}"',
        CapturedEnding.LIMIT: f'{field} "{limit}"',
        CapturedEnding.TOOL: f'{field} "{tool or natural}"',
    }
