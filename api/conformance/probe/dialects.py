"""The APIs that the probe speaks, as data: their requests, features, reasons and errors.

Pure; any thread.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.conformance.captures.frames import count, mapping
from api.conformance.captures.values import CapturedEnding, WireDialect

Body = dict[str, Any]
Path = tuple[str, ...]

CHAT, COMPLETIONS, MESSAGES = WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.MESSAGES
RESPONSES, GENERATE, OLLAMA = WireDialect.RESPONSES, WireDialect.GENERATE, WireDialect.OLLAMA
TOOL_PROMPT = "Call the tool note with the text: red green blue"
STRUCTURE_PROMPT = "Describe a large blue circle as JSON with color, shape and size"
TOOL_NAME = "note"
_CALL_PROMPT = "Call the tool note with the text: red, and then do what it says."
_TOOL_DESCRIPTION = "Keeps a text."
_PARAMETERS: Body = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
_SCHEMA: Body = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("color", "shape", "size")},
    "required": ["color", "shape", "size"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, independent of any dialect."""

    prompt: str
    stops: tuple[str, ...] = ()
    max_tokens: int = 128
    is_streamed: bool = False
    is_thinking: bool | None = None
    token_ids: tuple[int, ...] = ()
    system: str = ""
    earlier: tuple[str, str] | None = None
    temperature: float = 0
    seed: int | None = None
    includes_usage: bool = True


def is_error(dialect: WireDialect, body: Any) -> bool:
    """Whether a body is the error object of a dialect."""
    error = mapping(body).get("error")
    # SGLang's native API has both forms.
    if isinstance(error, str):
        return dialect in (OLLAMA, GENERATE)
    names = ("message",) if dialect is GENERATE else ("message", "type")
    is_object = all(isinstance(mapping(error).get(name), str) for name in names)
    is_named = dialect is not MESSAGES or body.get("type") == "error"
    return is_object and is_named and dialect is not OLLAMA


# Features of some dialects; each function returns the changed body, or None without the feature.


def with_choices(dialect: WireDialect, body: Body, number: int) -> Body | None:
    """Request several answers."""
    return {**body, "n": number} if dialect in (CHAT, COMPLETIONS) else None


def with_logprobs(dialect: WireDialect, body: Body) -> Body | None:
    """Request the log probabilities of the tokens."""
    fields: dict[WireDialect, Any] = {CHAT: True, COMPLETIONS: 1}
    return {**body, "logprobs": fields[dialect]} if dialect in fields else None


def with_structure(dialect: WireDialect, body: Body) -> Body | None:
    """Request JSON of a given schema."""
    named = {"name": "thing", "strict": True, "schema": _SCHEMA}
    fields: dict[WireDialect, Body] = {
        CHAT: {"response_format": {"type": "json_schema", "json_schema": named}},
        RESPONSES: {"text": {"format": {"type": "json_schema", **named}}},
        OLLAMA: {"format": _SCHEMA},
    }
    return {**body, **fields[dialect]} if dialect in fields else None


def with_tool(dialect: WireDialect, body: Body, choice: str = "auto") -> Body | None:
    """Offer a tool; ``choice`` is auto, none, required or named."""
    function = {
        "name": TOOL_NAME,
        "description": _TOOL_DESCRIPTION,
        "parameters": _PARAMETERS,
    }
    choices: Body = {"none": "none", "required": "required"}
    if dialect is MESSAGES:
        tool: Body = {
            "name": TOOL_NAME,
            "description": _TOOL_DESCRIPTION,
            "input_schema": _PARAMETERS,
        }
        choices = {"none": {"type": "none"}, "required": {"type": "any"}}
        choices["named"] = {"type": "tool", "name": TOOL_NAME}
    elif dialect is RESPONSES:
        tool = {"type": "function", **function}
        choices["named"] = {"type": "function", "name": TOOL_NAME}
    elif dialect is CHAT or (dialect is OLLAMA and choice == "auto"):
        tool = {"type": "function", "function": function}
        choices["named"] = {"type": "function", "function": {"name": TOOL_NAME}}
    else:
        return None
    offered = {**body, "tools": [tool]}
    return offered if choice == "auto" else {**offered, "tool_choice": choices[choice]}


def with_tool_result(
    dialect: WireDialect, body: Body, prompt: str, answer: Mapping[str, Any]
) -> Body | None:
    """Return a request behind a whole answer with a call; the user's message is its result."""
    offered = with_tool(dialect, body)
    if offered is None:
        return None
    user: Body = {"role": "user", "content": _CALL_PROMPT}
    if dialect is MESSAGES:
        parts = answer["content"]
        results = [
            {"type": "tool_result", "tool_use_id": part["id"], "content": prompt}
            for part in parts
            if part["type"] == "tool_use"
        ]
        turns = [{"role": "assistant", "content": parts}, {"role": "user", "content": results}]
        return {**offered, "messages": [user, *turns]}
    if dialect is RESPONSES:
        parts = answer["output"]
        results = [
            {"type": "function_call_output", "call_id": part["call_id"], "output": prompt}
            for part in parts
            if part["type"] == "function_call"
        ]
        return {**offered, "input": [user, *parts, *results]}
    message = answer["choices"][0]["message"] if dialect is CHAT else answer["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": prompt}
        if dialect is CHAT
        else {"role": "tool", "tool_name": TOOL_NAME, "content": prompt}
        for call in message["tool_calls"]
    ]
    return {**offered, "messages": [user, message, *results]}


# The body of a request in each dialect, without its stops.


def _turns(ask: Ask, *, has_system: bool = True) -> list[Body]:
    """Return the messages of a request; the system's is among them if the dialect has it there."""
    turns = [("system", ask.system)] if ask.system and has_system else []
    if ask.earlier is not None:
        turns += [("user", ask.earlier[0]), ("assistant", ask.earlier[1])]
    return [{"role": role, "content": text} for role, text in (*turns, ("user", ask.prompt))]


def _messages_body(ask: Ask) -> Body:
    body: Body = {
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "messages": _turns(ask, has_system=False),
        "stream": ask.is_streamed,
    }
    if ask.system:
        body["system"] = ask.system
    if ask.is_thinking is not None:
        enabled = {"type": "enabled", "budget_tokens": 1024}
        body["thinking"] = enabled if ask.is_thinking else {"type": "disabled"}
    if ask.is_thinking:
        # The vendor requires a limit above the budget, whose smallest value is this one.
        body["max_tokens"] = max(ask.max_tokens, 1024 + 512)
    return body


def _openai_body(ask: Ask) -> Body:
    body: Body = {
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "stream": ask.is_streamed,
    }
    if ask.is_streamed and ask.includes_usage:
        body["stream_options"] = {"include_usage": True}
    return body | ({} if ask.seed is None else {"seed": ask.seed})


def _chat_body(ask: Ask) -> Body:
    body = {**_openai_body(ask), "messages": _turns(ask)}
    if ask.is_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": ask.is_thinking}
    return body


def _completions_body(ask: Ask) -> Body:
    return {**_openai_body(ask), "prompt": ask.prompt}


def _responses_body(ask: Ask) -> Body:
    body: Body = {
        "max_output_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "input": ask.prompt if ask.earlier is None else _turns(ask, has_system=False),
        "stream": ask.is_streamed,
    }
    if ask.system:
        body["instructions"] = ask.system
    if ask.is_thinking is not None:
        body["reasoning"] = {"effort": "medium" if ask.is_thinking else "none"}
    return body


def _generate_body(ask: Ask) -> Body:
    return {
        "text": ask.prompt,
        "sampling_params": {"temperature": ask.temperature, "max_new_tokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }


def _ollama_body(ask: Ask) -> Body:
    options: Body = {"temperature": ask.temperature, "num_predict": ask.max_tokens}
    if ask.seed is not None:
        options["seed"] = ask.seed
    body: Body = {"messages": _turns(ask), "stream": ask.is_streamed, "options": options}
    return body | ({} if ask.is_thinking is None else {"think": ask.is_thinking})


def value_at(body: Any, path: Path) -> Any:
    """Return the value at a path of names; None if there is none."""
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def set_at(body: Body, path: Path, value: Any) -> None:
    """Set a field, and create the objects around it."""
    holder = body
    for name in path[:-1]:
        holder = holder.setdefault(name, {})
    holder[path[-1]] = value


@dataclass(frozen=True, slots=True)
class Driver:
    """Makes requests in one dialect."""

    dialect: WireDialect
    path: str
    # Makes the body of a request without model and stops.
    make: Callable[[Ask], Body]
    stop_path: Path
    limit_path: Path
    prompt_path: Path
    # The spelling of each ending.
    reason_names: Mapping[CapturedEnding, str]
    ids_path: Path | None = None
    takes_string: bool = True
    can_think: bool = True
    has_chat_template: bool = True
    # Whether answers name the stop that matched.
    names_stop: bool = False
    are_stops_standard: bool = True
    # Another name of the limit that the server requires.
    limit_name: str = ""
    min_tokens: int = 1
    vendor_min_tokens: int = 1
    # Fields that the server refuses.
    omitted: tuple[str, ...] = ()
    streams_by_default: bool = False

    def body(self, ask: Ask, model: str) -> Body:
        body = self.make(replace(ask, max_tokens=max(ask.max_tokens, self.min_tokens)))
        if model and self.dialect is not GENERATE:
            body = {"model": model, **body}
        for name in self.omitted:
            for holder in (body, *(part for part in body.values() if isinstance(part, dict))):
                holder.pop(name, None)
        if self.limit_name:
            set_at(body, self._limit_path, body.pop(self.limit_path[-1]))
        if ask.stops:
            set_at(body, self.stop_path, list(ask.stops))
            if not self.are_stops_standard:
                # A server that knows the extension also knows how to report the stop that matched.
                body["fullstop"] = {"report": True}
        if ask.token_ids and self.ids_path is not None:
            set_at(body, self.ids_path, list(ask.token_ids))
        return body

    def with_reason_named(self, sentence: str) -> str:
        """Return a sentence about the reason with the name of the dialect's field."""
        name = self.reason_names[CapturedEnding.NATURAL].partition(" ")[0]
        if name in sentence:
            return sentence
        return re.sub(r"\breason\b(?! is| of)", f"reason ({name})", sentence, count=1)

    def requests_stream(self, body: Any) -> bool:
        return isinstance(body, dict) and bool(body.get("stream", self.streams_by_default))

    def raw_stops(self, body: Body) -> Any:
        """Return the stops of a request in any form; None if it has none."""
        return value_at(body, self.stop_path)

    def stops(self, body: Body) -> tuple[str, ...]:
        """Return the stops of a request that are strings and not empty."""
        stops = self.raw_stops(body)
        listed = stops if isinstance(stops, list) else [stops]
        return tuple(stop for stop in listed if isinstance(stop, str) and stop)

    def limit(self, body: Any) -> int | None:
        """Return the limit of a request, by any of its names; None if it is no whole number."""
        newer = value_at(body, (*self.limit_path[:-1], "max_completion_tokens"))
        return count(value_at(body, self._limit_path) if newer is None else newer)

    def with_stops(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the stops."""
        return _with_value(body, self.stop_path, value)

    def with_limit(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the limit."""
        return _with_value(body, self._limit_path, value)

    def with_prompt(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the prompt."""
        return _with_value(body, self.prompt_path, value)

    @property
    def _limit_path(self) -> Path:
        return (*self.limit_path[:-1], self.limit_name or self.limit_path[-1])


def _with_value(body: Body, path: Path, value: Any) -> Body:
    changed = copy.deepcopy(body)
    set_at(changed, path, value)
    return changed


def request_headers(
    dialect: WireDialect, api_key: str | None, more: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the headers of a request, names in lower case."""
    found = {"content-type": "application/json"}
    if dialect is MESSAGES:
        found["anthropic-version"] = "2023-06-01"
    if dialect is MESSAGES and api_key:
        found["x-api-key"] = api_key
    if api_key:
        found["authorization"] = f"Bearer {api_key}"
    return found | {name.lower(): value for name, value in more}


def request_path(driver: Driver, base_path: str | None) -> str:
    """Return the path of requests, with ``/v1`` replaced if another base path is given."""
    if base_path is None:
        return driver.path
    begin = f"/{base_path.strip('/')}" if base_path.strip("/") else ""
    return begin + driver.path.removeprefix("/v1")


def _reason_names(
    field: str, natural: str, stop: str, limit: str, tool: str = ""
) -> dict[CapturedEnding, str]:
    return {
        CapturedEnding.NATURAL: f'{field} "{natural}"',
        CapturedEnding.STOP: f'{field} "{stop}"',
        CapturedEnding.NATURAL_OR_STOP: f'{field} "{natural}"',
        CapturedEnding.LIMIT: f'{field} "{limit}"',
        CapturedEnding.TOOL: f'{field} "{tool or natural}"',
    }


_FINISH_REASONS = _reason_names("finish_reason", "stop", "stop", "length", "tool_calls")
DRIVERS: dict[WireDialect, Driver] = {
    MESSAGES: Driver(
        MESSAGES,
        "/v1/messages",
        _messages_body,
        ("stop_sequences",),
        ("max_tokens",),
        ("messages",),
        _reason_names("stop_reason", "end_turn", "stop_sequence", "max_tokens", "tool_use"),
        takes_string=False,
        names_stop=True,
    ),
    CHAT: Driver(
        CHAT,
        "/v1/chat/completions",
        _chat_body,
        ("stop",),
        ("max_tokens",),
        ("messages",),
        _FINISH_REASONS,
        ids_path=("stop_token_ids",),
    ),
    RESPONSES: Driver(
        RESPONSES,
        "/v1/responses",
        _responses_body,
        ("stop",),
        ("max_output_tokens",),
        ("input",),
        _reason_names("status", "completed", "completed", "incomplete")
        | {CapturedEnding.LIMIT: 'status "incomplete" with reason "max_output_tokens"'},
        are_stops_standard=False,
        vendor_min_tokens=16,
    ),
    OLLAMA: Driver(
        OLLAMA,
        "/api/chat",
        _ollama_body,
        ("options", "stop"),
        ("options", "num_predict"),
        ("messages",),
        _reason_names("done_reason", "stop", "stop", "length"),
        streams_by_default=True,
    ),
    GENERATE: Driver(
        GENERATE,
        "/generate",
        _generate_body,
        ("sampling_params", "stop"),
        ("sampling_params", "max_new_tokens"),
        ("text",),
        _reason_names("finish_reason type", "stop", "stop", "length")
        | {CapturedEnding.STOP: 'finish_reason type "stop" with the stop as "matched"'},
        ids_path=("sampling_params", "stop_token_ids"),
        can_think=False,
        has_chat_template=False,
        names_stop=True,
    ),
    COMPLETIONS: Driver(
        COMPLETIONS,
        "/v1/completions",
        _completions_body,
        ("stop",),
        ("max_tokens",),
        ("prompt",),
        _FINISH_REASONS,
        ids_path=("stop_token_ids",),
        can_think=False,
        has_chat_template=False,
    ),
}
