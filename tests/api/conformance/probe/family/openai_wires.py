"""The family's wire formats for Chat Completions, Completions and Responses."""

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from tests.api.conformance.probe.family.talk import Query, Refused, Said

REASONS = {"natural": "stop", "stop": "stop", "limit": "length", "tool": "tool_calls"}


CREATED = 1_767_225_600


def id_of(query: Query, begin: str) -> str:
    return f"{begin}{zlib.crc32(json.dumps(query.body, sort_keys=True).encode()):08x}"


def sse(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    data = value if isinstance(value, str) else json.dumps(value)
    return f"{head}data: {data}\n\n".encode()


def stops_of(value: Any, *, takes_string: bool = True) -> tuple[str, ...]:
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
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{name}: must be a whole number")
    return value


def last_message(value: Any) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[-1], dict):
        raise Refused("messages: must be a list")
    last = value[-1]
    said = last.get("output") if "output" in last else last.get("content")
    if isinstance(said, list):
        said = "".join(str(part.get("text")) for part in said)
    return str(said)


def openai_error(message: str) -> dict[str, Any]:
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
    path = "/v1/chat/completions"
    error = staticmethod(openai_error)
    content_type = "text/event-stream"

    def read(self, body: dict[str, Any]) -> Query:
        kwargs = body.get("chat_template_kwargs") or {}
        return Query(
            prompt=last_message(body.get("messages")),
            stops=stops_of(body.get("stop")),
            limit=whole_number(
                body.get("max_completion_tokens", body.get("max_tokens")), "max_tokens"
            ),
            is_streamed=bool(body.get("stream")),
            choices=body.get("n") or 1,
            has_tool=bool(body.get("tools")),
            has_schema="response_format" in body,
            has_logprobs=bool(body.get("logprobs")),
            token_ids=tuple(body.get("stop_token_ids") or ()),
            is_thinking=kwargs.get("enable_thinking"),
            body=body,
        )

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return {
            **self.head(query, "chat.completion"),
            "choices": [self._choice(index, one) for index, one in enumerate(said)],
            "usage": _usage(said),
        }

    def head(self, query: Query, name: str) -> dict[str, Any]:
        return {"id": id_of(query, "c"), "object": name, "created": CREATED, "model": "small"}

    def _choice(self, index: int, one: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": one.text}
        if one.thinking:
            message["reasoning_content"] = one.thinking
        if one.call is not None:
            function = {"name": "note", "arguments": one.call}
            message["tool_calls"] = [{"id": "t1", "type": "function", "function": function}]
        choice = {"index": index, "message": message, **self.end(one)}
        if one.logged is not None:
            choice["logprobs"] = self._listed(one.logged)
        return choice

    def _listed(self, tokens: Sequence[str]) -> dict[str, Any]:
        return {
            "content": [
                {
                    "token": token,
                    "logprob": -0.1,
                    "top_logprobs": [
                        {"token": other, "logprob": -0.1 - rank}
                        for rank, other in enumerate((token, "?"))
                    ],
                }
                for token in tokens
            ]
        }

    def end(self, one: Said) -> dict[str, Any]:
        return {"finish_reason": REASONS[one.ending], "matched_stop": one.matched}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        head = self.head(query, "chat.completion.chunk")
        for index, one in enumerate(said):
            yield self._chunk(head, index, {"role": "assistant", "content": ""})
            for piece in query.pieces(one.thinking):
                yield self._chunk(head, index, {"reasoning_content": piece})
            for piece in query.pieces(one.text):
                more = {} if one.logged is None else {"logprobs": self._listed([piece])}
                yield self._chunk(head, index, {"content": piece}, **more)
            if one.call is not None:
                function = {"name": "note", "arguments": one.call}
                call = {"index": 0, "id": "t1", "type": "function", "function": function}
                yield self._chunk(head, index, {"tool_calls": [call]})
            yield self._chunk(head, index, {}, **self.end(one))
        if self.counts(query):
            yield sse({**head, "choices": [], "usage": _usage(said)})
        yield sse("[DONE]")

    def counts(self, query: Query) -> bool:
        return bool((query.body.get("stream_options") or {}).get("include_usage"))

    def _chunk(self, head: dict[str, Any], index: int, delta: dict[str, Any], **more: Any) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": None, **more}
        return sse({**head, "choices": [choice], "usage": None})


class CompletionsWire(ChatWire):
    path = "/v1/completions"

    def read(self, body: dict[str, Any]) -> Query:
        if not isinstance(body.get("prompt"), str):
            raise Refused("prompt: must be a string")
        return Query(
            prompt=body["prompt"],
            stops=stops_of(body.get("stop")),
            limit=whole_number(body.get("max_tokens"), "max_tokens"),
            is_streamed=bool(body.get("stream")),
            choices=body.get("n") or 1,
            has_logprobs=body.get("logprobs") is not None,
            token_ids=tuple(body.get("stop_token_ids") or ()),
            body=body,
        )

    def head(self, query: Query, name: str) -> dict[str, Any]:
        return super().head(query, "text_completion")

    def _choice(self, index: int, one: Said) -> dict[str, Any]:
        choice = {"index": index, "text": one.text, **self.end(one)}
        if one.logged is not None:
            choice["logprobs"] = self._scored(one.logged)
        return choice

    def _scored(self, tokens: Sequence[str], begin: int = 0) -> dict[str, Any]:
        ends = list(accumulate(map(len, tokens), initial=begin))
        return {
            "tokens": list(tokens),
            "token_logprobs": [-0.1 for _ in tokens],
            "top_logprobs": [{token: -0.1, "?": -1.1} for token in tokens],
            "text_offset": ends[:-1],
        }

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        head = self.head(query, "")
        for index, one in enumerate(said):
            begin = 0
            for piece in query.pieces(one.text):
                scored = self._scored([piece], begin)
                begin += len(piece)
                more = {} if one.logged is None else {"logprobs": scored}
                yield self._piece(head, index, piece, **more)
            yield self._piece(head, index, "", **self.end(one))
        if self.counts(query):
            yield sse({**head, "choices": [], "usage": _usage(said)})
        yield sse("[DONE]")

    def _piece(self, head: dict[str, Any], index: int, text: str, **more: Any) -> bytes:
        choice = {"index": index, "text": text, "finish_reason": None, **more}
        return sse({**head, "choices": [choice], "usage": None})


class ResponsesWire:
    path = "/v1/responses"
    error = staticmethod(openai_error)
    content_type = "text/event-stream"

    def read(self, body: dict[str, Any]) -> Query:
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
        return self._response(said[0], query)

    def _items(self, one: Said) -> list[dict[str, Any]]:
        status = "incomplete" if one.ending == "limit" else "completed"
        items: list[dict[str, Any]] = []
        if one.thinking:
            thought = {"type": "reasoning_text", "text": one.thinking}
            items.append({"id": "rs1", "type": "reasoning", "summary": [], "content": [thought]})
        part = {"type": "output_text", "text": one.text, "annotations": []}
        items.append({"id": "m1", "type": "message", "role": "assistant", "content": [part]})
        if one.call is not None:
            call = {"type": "function_call", "name": "note", "arguments": one.call}
            items.append({"id": "f1", "call_id": "call_1", **call})
        return [item | {"status": "completed"} for item in items[:-1]] + [
            items[-1] | {"status": status}
        ]

    def _response(self, one: Said, query: Query) -> dict[str, Any]:
        is_cut = one.ending == "limit"
        return {
            "id": id_of(query, "r"),
            "object": "response",
            "created_at": CREATED,
            "model": "small",
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": self._items(one),
            "usage": {
                "input_tokens": one.prompt_tokens,
                "output_tokens": one.tokens,
                "total_tokens": one.all_tokens,
            },
        }

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        [one] = said
        number = -1

        def event(kind: str, **fields: Any) -> bytes:
            nonlocal number
            number += 1
            return sse({"type": kind, "sequence_number": number, **fields}, kind)

        final = self._response(one, query)
        begun = {**final, "status": "in_progress", "incomplete_details": None, "output": []}
        yield event("response.created", response=begun)
        for place, item in enumerate(final["output"]):
            empty = {**item, "status": "in_progress"}
            text, at = self._text(item), {"item_id": item["id"], "output_index": place}
            if item["type"] == "function_call":
                yield event("response.output_item.added", **at, item={**empty, "arguments": ""})
                yield event("response.function_call_arguments.delta", **at, delta=text)
                yield event("response.function_call_arguments.done", **at, arguments=text)
            else:
                [part] = item["content"]
                at["content_index"] = 0
                yield event("response.output_item.added", **at, item={**empty, "content": []})
                yield event("response.content_part.added", **at, part={**part, "text": ""})
                for piece in query.pieces(text):
                    yield event(f"response.{part['type']}.delta", **at, delta=piece)
                yield event(f"response.{part['type']}.done", **at, text=text)
                yield event("response.content_part.done", **at, part=part)
            yield event("response.output_item.done", output_index=place, item=item)
        yield event(f"response.{final['status']}", response=final)

    def _text(self, item: dict[str, Any]) -> str:
        is_call = item["type"] == "function_call"
        return str(item["arguments"] if is_call else item["content"][0]["text"])
