"""The APIs that the probe speaks, as data: how each is asked, what it has, how it reports errors.

Pure; any thread.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from api.conformance.captures.values import CapturedEnding, WireDialect

# One request, independent of any dialect, and how fields are put into a body.

Body = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, independent of any dialect.

    Attributes:
        prompt: What the user says.
        stops: The stops.
        max_tokens: The limit.
        is_streamed: Whether the answer is streamed.
        is_thinking: Whether the model thinks; None leaves it to the server.
        token_ids: Stop token ids.
        system: A system message; empty for none.
        earlier: An earlier turn: what the user said, and the answer.
        temperature: The temperature.
        seed: The seed, where the dialect has one.
        counts: Whether a stream asks for its counts, where the dialect has an option for that.
    """

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
    counts: bool = True


def put(body: Body, path: Path, value: Any) -> None:
    """Set a field, and create the objects around it."""
    holder = body
    for name in path[:-1]:
        holder = holder.setdefault(name, {})
    holder[path[-1]] = value


# Whether an error's body has the form that its dialect prescribes.


def is_messages_error(body: Any) -> bool:
    """Return whether this is an error object of the Messages API."""
    return isinstance(body, dict) and body.get("type") == "error" and _has_words(body, "type")


def is_openai_error(body: Any) -> bool:
    """Return whether this is an error object as OpenAI sends it."""
    return isinstance(body, dict) and _has_words(body, "type")


def is_worded_error(body: Any) -> bool:
    """Return whether this is an error object with a message, as several vendors send it."""
    return isinstance(body, dict) and _has_words(body)


def _has_words(body: Mapping[str, Any], *more: str) -> bool:
    error = body.get("error")
    names = ("message", *more)
    return isinstance(error, dict) and all(isinstance(error.get(name), str) for name in names)


def is_ollama_error(body: Any) -> bool:
    """Return whether this is an error in words, as Ollama sends it."""
    return isinstance(body, dict) and isinstance(body.get("error"), str)


def is_generate_error(body: Any) -> bool:
    """Return whether this is an error of SGLang's native API, which has two forms."""
    return is_worded_error(body) or is_ollama_error(body)


# Requests for features of some dialects: several choices, tools, structure, logprobs.
#
# Each function returns the changed body, or None if the dialect lacks the feature.

TOOL_PROMPT = "Call the tool note with the text: red green blue"
_CALL_PROMPT = "Call the tool note with the text: red, and then do what it says."
STRUCTURE_PROMPT = "Describe a large blue circle as JSON with color, shape and size"

TOOL_NAME = "note"
# Some servers want nine letters and digits.
_CALL_ID = "call12345"
_WHAT = "Keeps a text."
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


def with_choices(dialect: WireDialect, body: Body, count: int) -> Body | None:
    """Return a request for several answers; None if the dialect lacks the feature."""
    if dialect in (WireDialect.CHAT, WireDialect.COMPLETIONS):
        return {**body, "n": count}
    return None


def with_logprobs(dialect: WireDialect, body: Body, tops: int = 1) -> Body | None:
    """Return a request for the probabilities of the answer's tokens, and of others in their place.

    Args:
        dialect: The dialect.
        body: The request.
        tops: How many tokens are listed for each place; 1 lists those of the answer, and leaves
            the others to the server's default.
    """
    match dialect:
        case WireDialect.CHAT:
            return {**body, "logprobs": True} | ({} if tops == 1 else {"top_logprobs": tops})
        case WireDialect.COMPLETIONS:
            return {**body, "logprobs": tops}
        case _:
            return None


def with_structure(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request for JSON of a given structure."""
    match dialect:
        case WireDialect.CHAT:
            named = {"name": "thing", "strict": True, "schema": _SCHEMA}
            return {**body, "response_format": {"type": "json_schema", "json_schema": named}}
        case WireDialect.RESPONSES:
            form = {"type": "json_schema", "name": "thing", "strict": True, "schema": _SCHEMA}
            return {**body, "text": {"format": form}}
        case WireDialect.OLLAMA:
            return {**body, "format": _SCHEMA}
        case _:
            return None


def with_json(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request for any JSON object."""
    match dialect:
        case WireDialect.CHAT:
            return {**body, "response_format": {"type": "json_object"}}
        case WireDialect.RESPONSES:
            return {**body, "text": {"format": {"type": "json_object"}}}
        case WireDialect.OLLAMA:
            return {**body, "format": "json"}
        case _:
            return None


def with_parts(dialect: WireDialect, body: Body, prompt: str) -> Body | None:
    """Return a request whose prompt is a list of parts."""
    match dialect:
        case WireDialect.CHAT | WireDialect.MESSAGES:
            said = {"role": "user", "content": [{"type": "text", "text": prompt}]}
            return {**body, "messages": [*body["messages"][:-1], said]}
        case WireDialect.RESPONSES:
            parts = [{"type": "input_text", "text": prompt}]
            return {**body, "input": [{"type": "message", "role": "user", "content": parts}]}
        case _:
            return None


_MAY_BE_NULL = ("frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "seed")
# What the vendor says may be null.
_NULLABLE: Mapping[WireDialect, Sequence[str]] = {
    WireDialect.CHAT: (*_MAY_BE_NULL, "stream_options", "top_logprobs", "top_p"),
    WireDialect.COMPLETIONS: (*_MAY_BE_NULL, "best_of", "echo", "stream_options", "suffix"),
    WireDialect.RESPONSES: (
        *("instructions", "metadata", "previous_response_id", "reasoning", "store", "top_p"),
        "truncation",
    ),
}


def with_nulls(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request with null for fields that it does not have otherwise."""
    names = _NULLABLE.get(dialect)
    return None if names is None else dict.fromkeys(names) | body


class Choice(StrEnum):
    """Whether a request that offers a tool wants a call of it."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


def with_tool(dialect: WireDialect, body: Body, choice: Choice = Choice.AUTO) -> Body | None:
    """Return a request that offers a tool; None if the dialect cannot, or has no such choice."""
    function: dict[str, Any] = {
        "name": TOOL_NAME,
        "description": _WHAT,
        "parameters": _PARAMETERS,
    }
    match dialect:
        case WireDialect.MESSAGES:
            tool: Body = {"name": TOOL_NAME, "description": _WHAT, "input_schema": _PARAMETERS}
            named: Body = {"type": "tool", "name": TOOL_NAME}
            kinds: Body = {Choice.NONE: {"type": "none"}, Choice.REQUIRED: {"type": "any"}}
        case WireDialect.CHAT:
            tool = {"type": "function", "function": function}
            named = {"type": "function", "function": {"name": TOOL_NAME}}
            kinds = {Choice.NONE: "none", Choice.REQUIRED: "required"}
        case WireDialect.RESPONSES:
            tool = {"type": "function", **function}
            named = {"type": "function", "name": TOOL_NAME}
            kinds = {Choice.NONE: "none", Choice.REQUIRED: "required"}
        case WireDialect.OLLAMA if choice is Choice.AUTO:
            return {**body, "tools": [{"type": "function", "function": function}]}
        case _:
            return None
    offered = {**body, "tools": [tool]}
    kinds |= {Choice.NAMED: named}
    return offered if choice is Choice.AUTO else {**offered, "tool_choice": kinds[choice]}


def after_call(
    dialect: WireDialect, body: Body, prompt: str, answer: Mapping[str, Any] | None = None
) -> Body | None:
    """Return a request in which the tool was called, and its result is what the user says.

    Args:
        dialect: The dialect.
        body: The request without them.
        prompt: The result.
        answer: A whole answer of the server with a call, which then stands in the request as it
            is; None for a call that the probe makes up.
    """
    offered = with_tool(dialect, body)
    if offered is None:
        return None
    answer, arguments = answer or {}, {"text": "red"}
    written = json.dumps(arguments)
    asked: Body = {"role": "user", "content": _CALL_PROMPT}
    if dialect is WireDialect.MESSAGES:
        call: Body = {"type": "tool_use", "id": _CALL_ID, "name": TOOL_NAME, "input": arguments}
        parts = answer.get("content") or [call]
        results = [
            {"type": "tool_result", "tool_use_id": part["id"], "content": prompt}
            for part in parts
            if part["type"] == call["type"]
        ]
        said: Body = {"role": "assistant", "content": parts}
        return {**offered, "messages": [asked, said, {"role": "user", "content": results}]}
    if dialect is WireDialect.RESPONSES:
        call = {"type": "function_call", "call_id": _CALL_ID, "name": TOOL_NAME}
        parts = answer.get("output") or [{**call, "arguments": written}]
        results = [
            {"type": "function_call_output", "call_id": part["call_id"], "output": prompt}
            for part in parts
            if part["type"] == call["type"]
        ]
        return {**offered, "input": [asked, *parts, *results]}
    if dialect is WireDialect.CHAT:
        function = {"name": TOOL_NAME, "arguments": written}
        call = {"id": _CALL_ID, "type": "function", "function": function}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        said = answer["choices"][0]["message"] if answer else said
        results = [
            {"role": "tool", "tool_call_id": each["id"], "content": prompt}
            for each in said["tool_calls"]
        ]
    else:
        call = {"function": {"name": TOOL_NAME, "arguments": arguments}}
        said = answer.get("message") or {"role": "assistant", "content": "", "tool_calls": [call]}
        result = {"role": "tool", "tool_name": TOOL_NAME, "content": prompt}
        results = [result] * len(said["tool_calls"])
    return {**offered, "messages": [asked, said, *results]}


# The body of a request in each dialect, without its stops.


def _turns(ask: Ask, *, has_system: bool = True) -> list[Body]:
    """Return the messages of a request, the system's among them if the dialect has it there."""
    turns = [("system", ask.system)] if ask.system and has_system else []
    if ask.earlier is not None:
        turns += [("user", ask.earlier[0]), ("assistant", ask.earlier[1])]
    return [{"role": role, "content": text} for role, text in (*turns, ("user", ask.prompt))]


def messages_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to the Messages API."""
    body: Body = {
        "model": model,
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
            # The vendor requires a limit above the budget, and allows no temperature.
            body["max_tokens"] = max(ask.max_tokens, 1024 + 512)
    return body


def chat_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Chat Completions."""
    body: Body = {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "messages": _turns(ask),
        **_openai_stream(ask),
    }
    if ask.is_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": ask.is_thinking}
    return body | _seed(ask)


def completions_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Completions."""
    return {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "prompt": ask.prompt,
        **_openai_stream(ask),
        **_seed(ask),
    }


def _seed(ask: Ask) -> Body:
    return {} if ask.seed is None else {"seed": ask.seed}


def _openai_stream(ask: Ask) -> Body:
    if not ask.is_streamed:
        return {"stream": False}
    options: Body = {"stream_options": {"include_usage": True}} if ask.counts else {}
    return {"stream": True, **options}


def responses_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to the Responses API."""
    body: Body = {
        "model": model,
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


def generate_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to SGLang's ``/generate``."""
    return {
        "text": ask.prompt,
        "sampling_params": {"temperature": ask.temperature, "max_new_tokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }


def ollama_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Ollama's ``/api/chat``."""
    body: Body = {
        "model": model,
        "messages": _turns(ask),
        "stream": ask.is_streamed,
        "options": {
            "temperature": ask.temperature,
            "num_predict": ask.max_tokens,
            **_seed(ask),
        },
    }
    if ask.is_thinking is not None:
        body["think"] = ask.is_thinking
    return body


# A dialect as the probe uses it: one value that makes its requests.


def _at(body: Any, path: Path) -> Any:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


@dataclass(frozen=True, slots=True)
class Driver:
    """Makes requests in one dialect."""

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
    vendor_least_tokens: int = 1
    left_out: tuple[str, ...] = ()
    streams_by_default: bool = False

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

    def with_reason_named(self, sentence: str) -> str:
        """Return a sentence about the reason with the name that the dialect has for it."""
        name = self.words[CapturedEnding.NATURAL].partition(" ")[0]
        if name in sentence:
            return sentence
        return re.sub(r"\breason\b(?! is| of)", f"reason ({name})", sentence, count=1)

    def asks_for_stream(self, body: Any) -> bool:
        """Return whether a request wants a stream; many leave that to the API's default."""
        return isinstance(body, dict) and bool(body.get("stream", self.streams_by_default))

    def has_several_prompts(self, body: Any) -> bool:
        """Return whether a request has a list of prompts, each of which gets an answer."""
        return not self.has_chat_template and isinstance(_at(body, self.prompt_path), list)

    def stops_in(self, body: Body) -> Any:
        """Return the stops of a request in any form; None if it has none."""
        return _at(body, self.stop_path)

    def stops_of(self, body: Body) -> tuple[str, ...]:
        """Return the stops of a request that are strings and not empty."""
        stops = self.stops_in(body)
        listed = stops if isinstance(stops, list) else [stops]
        return tuple(stop for stop in listed if isinstance(stop, str) and stop)

    def limit_in(self, body: Body) -> Any:
        """Return the limit of a request, by any of its names."""
        newer = _at(body, (*self.limit_path[:-1], "max_completion_tokens"))
        return _at(body, self._limit_path) if newer is None else newer

    def has_stops(self, body: Body) -> bool:
        """Return whether a request has stops in any form."""
        return self.stops_in(body) not in (None, [], ())

    def with_stop(self, body: Body, value: Any) -> Body:
        """Return the body with any value, even a wrong one, as the stops."""
        changed = copy.deepcopy(body)
        put(changed, self.stop_path, value)
        return changed

    def limit_of(self, body: Body) -> int | None:
        """Return the limit of a request; None if it is no whole number."""
        holder: Any = body
        for name in self._limit_path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        return holder if isinstance(holder, int) and not isinstance(holder, bool) else None

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
    """Return the headers of a request, names in lower case."""
    found = {"content-type": "application/json"}
    if dialect is WireDialect.MESSAGES:
        found["anthropic-version"] = "2023-06-01"
        if api_key:
            found["x-api-key"] = api_key
    if api_key:
        found["authorization"] = f"Bearer {api_key}"
    return found | {name.lower(): value for name, value in more}


def path_of(driver: Driver, base_path: str | None) -> str:
    """Return the path of requests, with ``/v1`` replaced if another base path is given."""
    if base_path is None:
        return driver.path
    begin = f"/{base_path.strip('/')}" if base_path.strip("/") else ""
    return begin + driver.path.removeprefix("/v1")


def words_of(
    field: str, natural: str, stop: str, limit: str, *, tool: str = ""
) -> dict[CapturedEnding, str]:
    """Return how a dialect spells each ending in one field."""
    return {
        CapturedEnding.NATURAL: f'{field} "{natural}"',
        CapturedEnding.STOP: f'{field} "{stop}"',
        CapturedEnding.NATURAL_OR_STOP: f'{field} "{natural}"',
        CapturedEnding.LIMIT: f'{field} "{limit}"',
        CapturedEnding.TOOL: f'{field} "{tool or natural}"',
    }


# The table of the dialects that can be probed.

_FINISH_REASONS = words_of("finish_reason", "stop", "stop", "length", tool="tool_calls")
_STATUSES = words_of("status", "completed", "completed", "incomplete") | {
    CapturedEnding.LIMIT: 'status "incomplete" with reason "max_output_tokens"'
}
_GENERATE_REASONS = words_of("finish_reason type", "stop", "stop", "length") | {
    CapturedEnding.STOP: 'finish_reason type "stop" with the stop as "matched"'
}

DRIVERS: dict[WireDialect, Driver] = {
    one.dialect: one
    for one in (
        Driver(
            WireDialect.MESSAGES,
            path="/v1/messages",
            make=messages_body,
            stop_path=("stop_sequences",),
            limit_path=("max_tokens",),
            prompt_path=("messages",),
            is_envelope=is_messages_error,
            words=words_of(
                "stop_reason", "end_turn", "stop_sequence", "max_tokens", tool="tool_use"
            ),
            takes_string=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.CHAT,
            path="/v1/chat/completions",
            make=chat_body,
            stop_path=("stop",),
            limit_path=("max_tokens",),
            prompt_path=("messages",),
            is_envelope=is_openai_error,
            words=_FINISH_REASONS,
            ids_path=("stop_token_ids",),
        ),
        Driver(
            WireDialect.RESPONSES,
            path="/v1/responses",
            make=responses_body,
            stop_path=("stop",),
            limit_path=("max_output_tokens",),
            prompt_path=("input",),
            is_envelope=is_openai_error,
            words=_STATUSES,
            are_stops_standard=False,
            vendor_least_tokens=16,
        ),
        Driver(
            WireDialect.OLLAMA,
            path="/api/chat",
            make=ollama_body,
            stop_path=("options", "stop"),
            limit_path=("options", "num_predict"),
            prompt_path=("messages",),
            is_envelope=is_ollama_error,
            words=words_of("done_reason", "stop", "stop", "length"),
            streams_by_default=True,
        ),
        Driver(
            WireDialect.GENERATE,
            path="/generate",
            make=generate_body,
            stop_path=("sampling_params", "stop"),
            limit_path=("sampling_params", "max_new_tokens"),
            prompt_path=("text",),
            is_envelope=is_generate_error,
            words=_GENERATE_REASONS,
            ids_path=("sampling_params", "stop_token_ids"),
            can_think=False,
            has_chat_template=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.COMPLETIONS,
            path="/v1/completions",
            make=completions_body,
            stop_path=("stop",),
            limit_path=("max_tokens",),
            prompt_path=("prompt",),
            is_envelope=is_openai_error,
            words=_FINISH_REASONS,
            ids_path=("stop_token_ids",),
            can_think=False,
            has_chat_template=False,
        ),
    )
}
