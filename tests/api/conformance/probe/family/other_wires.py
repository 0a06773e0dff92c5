"""The family's wire formats for Messages, SGLang's /generate and Ollama's /api/chat."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.api.conformance.probe.family.openai_wires import (
    id_of,
    last_message,
    openai_error,
    sse,
    stops_of,
    whole_number,
)
from tests.api.conformance.probe.family.talk import Query, Refused, Said

CREATED_AT = "2026-01-01T00:00:00.000000Z"
_REASONS = {
    "natural": "end_turn",
    "stop": "stop_sequence",
    "limit": "max_tokens",
    "tool": "tool_use",
}


class MessagesWire:
    path = "/v1/messages"
    content_type = "text/event-stream"

    @staticmethod
    def error(message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    def read(self, body: dict[str, Any]) -> Query:
        thinking = body.get("thinking")
        return Query(
            prompt=last_message(body.get("messages")),
            stops=stops_of(body.get("stop_sequences"), takes_string=False),
            limit=whole_number(body.get("max_tokens"), "max_tokens"),
            is_streamed=bool(body.get("stream")),
            has_tool=bool(body.get("tools")),
            is_thinking=None if thinking is None else thinking["type"] == "enabled",
            body=body,
        )

    def _end(self, one: Said) -> dict[str, Any]:
        return {"stop_reason": _REASONS[one.ending], "stop_sequence": one.matched}

    def _blocks(self, one: Said) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if one.thinking:
            blocks.append({"type": "thinking", "thinking": one.thinking, "signature": "s"})
        blocks.append({"type": "text", "text": one.text})
        return blocks

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        [one] = said
        blocks = self._blocks(one)
        if one.call is not None:
            try:
                value = json.loads(one.call)
            except ValueError:
                value = {"cut": one.call}
            blocks.append({"type": "tool_use", "id": "t1", "name": "note", "input": value})
        return {
            **self._head(query),
            "content": blocks,
            **self._end(one),
            "usage": {"input_tokens": one.prompt_tokens, "output_tokens": one.tokens},
        }

    def _head(self, query: Query) -> dict[str, Any]:
        head = {"id": id_of(query, "m"), "type": "message", "role": "assistant"}
        return {**head, "model": "small"}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        [one] = said

        def event(kind: str, **fields: Any) -> bytes:
            return sse({"type": kind, **fields}, kind)

        usage = {"input_tokens": one.prompt_tokens, "output_tokens": 1}
        begun = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield event("message_start", message={**self._head(query), **begun})
        place = 0
        for kind, name, text in (
            ("thinking", "thinking_delta", one.thinking),
            ("text", "text_delta", one.text),
        ):
            if kind == "thinking" and not text:
                continue
            yield event("content_block_start", index=place, content_block={"type": kind, kind: ""})
            for piece in query.pieces(text):
                delta = {"type": name, kind: piece}
                yield event("content_block_delta", index=place, delta=delta)
            yield event("content_block_stop", index=place)
            place += 1
        if one.call is not None:
            block = {"type": "tool_use", "id": "t1", "name": "note", "input": {}}
            yield event("content_block_start", index=place, content_block=block)
            delta = {"type": "input_json_delta", "partial_json": one.call}
            yield event("content_block_delta", index=place, delta=delta)
            yield event("content_block_stop", index=place)
        usage = {"output_tokens": one.tokens}
        yield event("message_delta", delta=self._end(one), usage=usage)
        yield event("message_stop")


class GenerateWire:
    path = "/generate"
    error = staticmethod(openai_error)
    content_type = "text/event-stream"

    def read(self, body: dict[str, Any]) -> Query:
        if not isinstance(body.get("text"), str):
            raise Refused("text: must be a string")
        sampling = body.get("sampling_params") or {}
        return Query(
            prompt=body["text"],
            stops=stops_of(sampling.get("stop")),
            limit=whole_number(sampling.get("max_new_tokens"), "max_new_tokens"),
            is_streamed=bool(body.get("stream")),
            token_ids=tuple(sampling.get("stop_token_ids") or ()),
            body=body,
        )

    def _answer(self, query: Query, one: Said, text: str, *, is_last: bool) -> dict[str, Any]:
        reason: dict[str, Any] = {"type": "stop", "matched": one.matched}
        if one.ending == "limit":
            reason = {"type": "length", "length": one.tokens}
        return {
            "text": text,
            "meta_info": {
                "id": id_of(query, "g"),
                "finish_reason": reason if is_last else None,
                "prompt_tokens": one.prompt_tokens,
                "completion_tokens": one.tokens,
            },
        }

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return self._answer(query, said[0], said[0].text, is_last=True)

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        [one] = said
        so_far = ""
        for piece in query.pieces(one.text):
            so_far += piece
            yield sse(self._answer(query, one, so_far, is_last=False))
        yield sse(self._answer(query, one, one.text, is_last=True))
        yield sse("[DONE]")


class OllamaWire:
    path = "/api/chat"
    content_type = "application/x-ndjson"

    @staticmethod
    def error(message: str) -> dict[str, Any]:
        return {"error": message}

    def read(self, body: dict[str, Any]) -> Query:
        options = body.get("options") or {}
        return Query(
            prompt=last_message(body.get("messages")),
            stops=stops_of(options.get("stop")),
            limit=whole_number(options.get("num_predict"), "num_predict"),
            is_streamed=bool(body.get("stream", True)),
            has_tool=bool(body.get("tools")),
            has_schema="format" in body,
            is_thinking=body.get("think"),
            body=body,
        )

    def _end(self, one: Said) -> dict[str, Any]:
        return {
            "done": True,
            "done_reason": "length" if one.ending == "limit" else "stop",
            "prompt_eval_count": one.prompt_tokens,
            "eval_count": one.tokens,
        }

    def _message(self, one: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": one.text}
        if one.thinking:
            message["thinking"] = one.thinking
        if one.call is not None:
            try:
                arguments = json.loads(one.call)
            except ValueError:
                arguments = {"cut": one.call}
            message["tool_calls"] = [{"function": {"name": "note", "arguments": arguments}}]
        return message

    def whole(self, said: Sequence[Said], query: Query) -> dict[str, Any]:
        return {**self._head(), "message": self._message(said[0]), **self._end(said[0])}

    def _head(self) -> dict[str, Any]:
        return {"model": "small", "created_at": CREATED_AT}

    def stream(self, said: Sequence[Said], query: Query) -> Iterator[bytes]:
        [one] = said

        def line(message: dict[str, Any], **more: Any) -> bytes:
            value = {**self._head(), "message": message, "done": False, **more}
            return f"{json.dumps(value)}\n".encode()

        for piece in query.pieces(one.thinking):
            yield line({"role": "assistant", "content": "", "thinking": piece})
        for piece in query.pieces(one.text):
            yield line({"role": "assistant", "content": piece})
        last = {**self._message(one), "content": ""}
        last.pop("thinking", None)
        yield line(last, **self._end(one))
