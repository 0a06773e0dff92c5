"""The family's wire formats for Chat Completions, Completions and Responses."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.api.conformance.probe.family.talk import Query, Refused, Said, pieces

REASONS = {"natural": "stop", "stop": "stop", "limit": "length", "tool": "tool_calls"}


def sse(value: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    head = f"event: {name}\n" if name else ""
    data = value if isinstance(value, str) else json.dumps(value)
    return f"{head}data: {data}\n\n".encode()


def stops_of(value: Any, *, takes_string: bool = True) -> tuple[str, ...]:
    """Return the stops of a request, or refuse them."""
    if value is None:
        return ()
    if isinstance(value, str) and takes_string:
        value = [value]
    if not isinstance(value, list):
        raise Refused("stop: must be a list")
    for index, one in enumerate(value):
        if not isinstance(one, str) or not one:
            raise Refused(f"stop[{index}]: must be a non-empty string")
    return tuple(value)


def whole_number(value: Any, name: str) -> int:
    """Return a number, or refuse it."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{name}: must be a whole number")
    return value


def last_message(value: Any) -> str:
    """Return what the user said last, or refuse the messages."""
    if not isinstance(value, list) or not value or not isinstance(value[-1], dict):
        raise Refused("messages: must be a list")
    return str(value[-1].get("content"))


def openai_error(message: str) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return {"error": error}


def _usage(said: Sequence[Said]) -> dict[str, int]:
    tokens = sum(one.tokens for one in said)
    first = said[0]
    total = first.prompt_tokens + tokens if first.total is None else first.total
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": total,
    }


class ChatWire:
    """Chat Completions."""

    path = "/v1/chat/completions"
    error = staticmethod(openai_error)
    content_type = "text/event-stream"

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        kwargs = body.get("chat_template_kwargs") or {}
        return Query(
            prompt=last_message(body.get("messages")),
            stops=stops_of(body.get("stop")),
            limit=whole_number(
                body.get("max_completion_tokens", body.get("max_tokens")), "max_tokens"
            ),
            is_streamed=bool(body.get("stream")),
            choices=body.get("n", 1),
            has_tool=bool(body.get("tools")),
            has_schema="response_format" in body,
            has_logprobs=bool(body.get("logprobs")),
            token_ids=tuple(body.get("stop_token_ids") or ()),
            is_thinking=kwargs.get("enable_thinking"),
            body=body,
        )

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        return {
            "id": "c1",
            "object": "chat.completion",
            "model": "small",
            "choices": [self._choice(index, one) for index, one in enumerate(said)],
            "usage": _usage(said),
        }

    def _choice(self, index: int, one: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": one.text}
        if one.thinking:
            message["reasoning_content"] = one.thinking
        if one.call is not None:
            function = {"name": "note", "arguments": one.call}
            message["tool_calls"] = [{"id": "t1", "type": "function", "function": function}]
        choice = {"index": index, "message": message, **self.end(one)}
        if one.logged is not None:
            listed = [{"token": token, "logprob": -0.1} for token in one.logged]
            choice["logprobs"] = {"content": listed}
        return choice

    def end(self, one: Said) -> dict[str, Any]:
        """Return the fields that say how an answer ended."""
        return {"finish_reason": REASONS[one.ending], "matched_stop": one.matched}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        for index, one in enumerate(said):
            yield self._chunk(index, {"role": "assistant", "content": ""})
            for piece in pieces(one.thinking):
                yield self._chunk(index, {"reasoning_content": piece})
            for piece in pieces(one.text):
                yield self._chunk(index, {"content": piece})
            if one.call is not None:
                function = {"name": "note", "arguments": one.call}
                call = {"index": 0, "id": "t1", "type": "function", "function": function}
                yield self._chunk(index, {"tool_calls": [call]})
            yield self._chunk(index, {}, **self.end(one))
        if self.counts(query):
            yield sse({"id": "c1", "model": "small", "choices": [], "usage": _usage(said)})
        yield sse("[DONE]")

    def counts(self, query: Query) -> bool:
        """Return whether a stream ends with counts."""
        return bool((query.body.get("stream_options") or {}).get("include_usage"))

    def _chunk(self, index: int, delta: dict[str, Any], **more: Any) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": None, **more}
        return sse({"id": "c1", "model": "small", "choices": [choice], "usage": None})


class CompletionsWire(ChatWire):
    """Completions."""

    path = "/v1/completions"

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        if not isinstance(body.get("prompt"), str):
            raise Refused("prompt: must be a string")
        return Query(
            prompt=body["prompt"],
            stops=stops_of(body.get("stop")),
            limit=whole_number(body.get("max_tokens"), "max_tokens"),
            is_streamed=bool(body.get("stream")),
            choices=body.get("n", 1),
            has_logprobs=body.get("logprobs") is not None,
            token_ids=tuple(body.get("stop_token_ids") or ()),
            body=body,
        )

    def _choice(self, index: int, one: Said) -> dict[str, Any]:
        choice = {"index": index, "text": one.text, **self.end(one)}
        if one.logged is not None:
            choice["logprobs"] = {
                "tokens": list(one.logged),
                "token_logprobs": [-0.1 for _ in one.logged],
            }
        return choice

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        for index, one in enumerate(said):
            for piece in pieces(one.text):
                yield self._piece(index, piece)
            yield self._piece(index, "", **self.end(one))
        if self.counts(query):
            yield sse({"id": "c1", "model": "small", "choices": [], "usage": _usage(said)})
        yield sse("[DONE]")

    def _piece(self, index: int, text: str, **more: Any) -> bytes:
        choice = {"index": index, "text": text, "finish_reason": None, **more}
        return sse({"id": "c1", "model": "small", "choices": [choice], "usage": None})


class ResponsesWire:
    """Responses, with the stops that some servers add."""

    path = "/v1/responses"
    error = staticmethod(openai_error)
    content_type = "text/event-stream"

    def read(self, body: dict[str, Any]) -> Query:
        """Return the request."""
        asked = body.get("input")
        if not isinstance(asked, str | list):
            raise Refused("input: must be a string or a list")
        effort = (body.get("reasoning") or {}).get("effort")
        return Query(
            prompt=asked if isinstance(asked, str) else last_message(asked),
            stops=stops_of(body.get("stop")),
            limit=whole_number(body.get("max_output_tokens"), "max_output_tokens"),
            is_streamed=bool(body.get("stream")),
            has_tool=bool(body.get("tools")),
            has_schema="format" in (body.get("text") or {}),
            is_thinking=None if effort is None else effort != "none",
            body=body,
        )

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        """Return a whole answer."""
        return self._response(said[0])

    def _response(self, one: Said) -> dict[str, Any]:
        part = {"type": "output_text", "text": one.text, "annotations": []}
        output: list[dict[str, Any]] = []
        if one.thinking:
            thought = {"type": "reasoning_text", "text": one.thinking}
            output.append({"id": "r1", "type": "reasoning", "summary": [], "content": [thought]})
        output.append({"id": "m1", "type": "message", "role": "assistant", "content": [part]})
        if one.call is not None:
            output.append(
                {"id": "f1", "type": "function_call", "name": "note", "arguments": one.call}
            )
        is_cut = one.ending == "limit"
        return {
            "id": "r1",
            "object": "response",
            "model": "small",
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": output,
            "usage": {
                "input_tokens": one.prompt_tokens,
                "output_tokens": one.tokens,
                "total_tokens": one.all_tokens,
            },
        }

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        """Yield a streamed answer."""
        [one] = said
        number = -1

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, "sequence_number": number, **fields}, kind)

        final = self._response(one)
        yield event("response.created", response={"model": "small", "status": "in_progress"})
        place = 0
        if one.thinking:
            yield event("response.output_item.added", output_index=0, item={"type": "reasoning"})
            for piece in pieces(one.thinking):
                yield event("response.reasoning_text.delta", output_index=0, delta=piece)
            place = 1
        at = {"output_index": place, "content_index": 0}
        yield event("response.output_item.added", output_index=place, item={"type": "message"})
        yield event("response.content_part.added", **at, part={"type": "output_text"})
        for piece in pieces(one.text):
            yield event("response.output_text.delta", **at, delta=piece)
        yield event("response.output_text.done", **at, text=one.text)
        if one.call is not None:
            item = {"type": "function_call", "name": "note"}
            yield event("response.output_item.added", output_index=place + 1, item=item)
            yield event(
                "response.function_call_arguments.delta", output_index=place + 1, delta=one.call
            )
        yield event(f"response.{final['status']}", response=final)
