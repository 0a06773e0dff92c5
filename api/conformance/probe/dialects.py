"""How each dialect is asked: path, body, where stops and limits stand, how errors look.

Knows what servers in the field take, not what ours takes. Pure; any thread.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from api.conformance.captures.values import WireDialect

Body = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, in no dialect's words.

    Attributes:
        prompt: What the user says.
        stops: The stop strings; empty leaves the field out.
        max_tokens: The limit.
        is_streamed: Whether the answer is streamed.
        is_thinking: Whether the model thinks first; None leaves it to the server.
        token_ids: Stop token ids, where the dialect has them.
    """

    prompt: str
    stops: tuple[str, ...] = ()
    max_tokens: int = 128
    is_streamed: bool = False
    is_thinking: bool | None = None
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """Asks in one dialect.

    Attributes:
        dialect: Which.
        path: Where requests go.
        make: Makes the body of a request without its stops.
        stop_path: Where stops stand in the body.
        limit_path: Where the token limit stands.
        prompt_path: Where the prompt stands.
        is_envelope: Whether an error's body has the form that the dialect prescribes.
        ids_path: Where stop token ids stand; None where the dialect has none.
        takes_string: Whether one stop may stand without a list.
        can_think: Whether the dialect can switch thinking on and off.
        has_chat_template: Whether the model's template is put around the prompt.
        names_stop: Whether the dialect prescribes that the stop that matched is named.
        are_stops_standard: Whether the dialect's specification has stops at all.
    """

    dialect: WireDialect
    path: str
    make: Callable[[Ask, str], Body]
    stop_path: Path
    limit_path: Path
    prompt_path: Path
    is_envelope: Callable[[Any], bool]
    ids_path: Path | None = None
    takes_string: bool = True
    can_think: bool = True
    has_chat_template: bool = True
    names_stop: bool = False
    are_stops_standard: bool = True

    def body(self, ask: Ask, model: str) -> Body:
        """Return the body of a request."""
        body = self.make(ask, model)
        if ask.stops:
            put(body, self.stop_path, list(ask.stops))
            if not self.are_stops_standard:
                # Whoever knows the extension also knows where to report what matched.
                put(body, ("fullstop",), {"report": True})
        if ask.token_ids and self.ids_path is not None:
            put(body, self.ids_path, list(ask.token_ids))
        return body

    def with_stop(self, body: Body, value: Any) -> Body:
        """Return the body with any value, a wrong one too, where the stops stand."""
        changed = copy.deepcopy(body)
        put(changed, self.stop_path, value)
        return changed

    def with_limit(self, body: Body, value: Any) -> Body:
        """Return the body with any value, a wrong one too, as the limit."""
        changed = copy.deepcopy(body)
        put(changed, self.limit_path, value)
        return changed

    def with_prompt(self, body: Body, value: Any) -> Body:
        """Return the body with any value, a wrong one too, as the prompt."""
        changed = copy.deepcopy(body)
        put(changed, self.prompt_path, value)
        return changed


def put(body: Body, path: Path, value: Any) -> None:
    """Set a field, making the objects around it."""
    holder = body
    for name in path[:-1]:
        holder = holder.setdefault(name, {})
    holder[path[-1]] = value


def headers(dialect: WireDialect, api_key: str | None) -> dict[str, str]:
    """Return the headers of a request."""
    found = {"content-type": "application/json"}
    if dialect is WireDialect.MESSAGES:
        found["anthropic-version"] = "2023-06-01"
        if api_key:
            found["x-api-key"] = api_key
    if api_key:
        found["authorization"] = f"Bearer {api_key}"
    return found


def _user(ask: Ask) -> list[dict[str, str]]:
    return [{"role": "user", "content": ask.prompt}]


def _messages(ask: Ask, model: str) -> Body:
    body: Body = {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "messages": _user(ask),
        "stream": ask.is_streamed,
    }
    if ask.is_thinking is not None:
        enabled = {"type": "enabled", "budget_tokens": 1024}
        body["thinking"] = enabled if ask.is_thinking else {"type": "disabled"}
        if ask.is_thinking:
            # The vendor wants room for more than the budget, and no temperature of one's own.
            body["max_tokens"] = max(ask.max_tokens, 1024 + 512)
    return body


def _chat(ask: Ask, model: str) -> Body:
    body: Body = {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "messages": _user(ask),
        **_openai_stream(ask),
    }
    if ask.is_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": ask.is_thinking}
    return body


def _completions(ask: Ask, model: str) -> Body:
    return {
        "model": model,
        "max_tokens": ask.max_tokens,
        "temperature": 0,
        "prompt": ask.prompt,
        **_openai_stream(ask),
    }


def _openai_stream(ask: Ask) -> Body:
    if not ask.is_streamed:
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True}}


def _responses(ask: Ask, model: str) -> Body:
    body: Body = {
        "model": model,
        "max_output_tokens": ask.max_tokens,
        "temperature": 0,
        "input": ask.prompt,
        "stream": ask.is_streamed,
    }
    if ask.is_thinking is not None:
        body["reasoning"] = {"effort": "medium" if ask.is_thinking else "none"}
    return body


def _generate(ask: Ask, model: str) -> Body:
    return {
        "text": ask.prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }


def _ollama(ask: Ask, model: str) -> Body:
    body: Body = {
        "model": model,
        "messages": _user(ask),
        "stream": ask.is_streamed,
        "options": {"temperature": 0, "num_predict": ask.max_tokens},
    }
    if ask.is_thinking is not None:
        body["think"] = ask.is_thinking
    return body


def _is_messages_error(body: Any) -> bool:
    return isinstance(body, dict) and body.get("type") == "error" and _has_words(body, "type")


def _is_openai_error(body: Any) -> bool:
    return isinstance(body, dict) and _has_words(body)


def _has_words(body: Mapping[str, Any], *more: str) -> bool:
    error = body.get("error")
    names = ("message", *more)
    return isinstance(error, dict) and all(isinstance(error.get(name), str) for name in names)


def _is_ollama_error(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("error"), str)


def _is_generate_error(body: Any) -> bool:
    return _is_openai_error(body) or _is_ollama_error(body)


DRIVERS: dict[WireDialect, Driver] = {
    one.dialect: one
    for one in (
        Driver(
            WireDialect.MESSAGES,
            "/v1/messages",
            _messages,
            ("stop_sequences",),
            ("max_tokens",),
            ("messages",),
            _is_messages_error,
            takes_string=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.CHAT,
            "/v1/chat/completions",
            _chat,
            ("stop",),
            ("max_tokens",),
            ("messages",),
            _is_openai_error,
            ids_path=("stop_token_ids",),
        ),
        Driver(
            WireDialect.RESPONSES,
            "/v1/responses",
            _responses,
            ("stop",),
            ("max_output_tokens",),
            ("input",),
            _is_openai_error,
            are_stops_standard=False,
        ),
        Driver(
            WireDialect.OLLAMA,
            "/api/chat",
            _ollama,
            ("options", "stop"),
            ("options", "num_predict"),
            ("messages",),
            _is_ollama_error,
        ),
        Driver(
            WireDialect.GENERATE,
            "/generate",
            _generate,
            ("sampling_params", "stop"),
            ("sampling_params", "max_new_tokens"),
            ("text",),
            _is_generate_error,
            ids_path=("sampling_params", "stop_token_ids"),
            can_think=False,
            has_chat_template=False,
            names_stop=True,
        ),
        Driver(
            WireDialect.COMPLETIONS,
            "/v1/completions",
            _completions,
            ("stop",),
            ("max_tokens",),
            ("prompt",),
            _is_openai_error,
            ids_path=("stop_token_ids",),
            can_think=False,
            has_chat_template=False,
        ),
    )
}
