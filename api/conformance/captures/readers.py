"""Reads answers of Chat Completions, Completions, SGLang's ``/generate`` and Ollama.

Each reader takes a whole answer, or the objects of a stream. Pure; any thread.
"""

import json
from typing import Any

from api.conformance.captures.draft import ChoiceDraft, Draft, read_usage
from api.conformance.captures.frames import count, items, mapping, objects
from api.conformance.captures.values import CapturedEnding, Severity, WireDialect

_CHAT_ENDINGS = {
    "stop": CapturedEnding.NATURAL_OR_STOP,
    "eos": CapturedEnding.NATURAL,
    "length": CapturedEnding.LIMIT,
    # vLLM's and ours, where the request has repetition_detection.
    "repetition": CapturedEnding.LIMIT,
    "tool_calls": CapturedEnding.TOOL,
    "function_call": CapturedEnding.TOOL,
    "content_filter": CapturedEnding.OTHER,
    # No reason of this API; some servers give it for an answer that is an error.
    "error": CapturedEnding.ERROR,
}
_OLLAMA_ENDINGS = {"stop": CapturedEnding.NATURAL_OR_STOP, "length": CapturedEnding.LIMIT}
# Fields in which vLLM, SGLang and others report the stop that matched.
_MATCHED = ("matched_stop", "stop_reason", "stopping_word")
_CHANGES = (("id", "id_changes"), ("model", "model_changes"), ("created", "created_changes"))
_CHANGE_TEXTS = {
    "id_changes": "The chunks of one stream have different ids",
    "model_changes": "The model changes within an answer",
    "created_changes": "created changes within an answer",
}


# Chat Completions and Completions.


def read_chat(draft: Draft) -> None:
    """Read a body, or the chunks of a stream, checking their order on the way."""
    reader = _ChatReader(draft)
    for index, value in draft.values("A chunk"):
        reader.read(index, value)
    if draft.error is None:
        reader.check_end()


class _ChatReader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._first: dict[str, Any] = {}
        self._calls: dict[ChoiceDraft, _ChatCalls] = {}
        self._announces_usage = self._is_chat = self._has_role = self._is_role_late = False

    def read(self, index: int, value: dict[str, Any]) -> None:
        draft = self._draft
        # A recording may have another answer after this one.
        is_own = draft.is_complete or draft.reason is None
        for name, code in _CHANGES:
            first = self._first.get(name) or value.get(name)
            self._first[name] = first
            if is_own and value.get(name) not in (first, None, "", 0):
                draft.report_change(code, index, _CHANGE_TEXTS[code], first, value[name])
        draft.model, draft.answer_id = self._first["model"], self._first["id"]
        self._announces_usage |= "usage" in value
        if isinstance(value.get("usage"), dict):
            draft.usage = read_usage(
                value["usage"],
                "prompt_tokens",
                "completion_tokens",
                "prompt_tokens_details.cached_tokens",
                "total_tokens",
                "completion_tokens_details.reasoning_tokens",
            )
        for choice in objects(value.get("choices")):
            self._read_choice(index, choice)

    def _read_choice(self, index: int, choice: dict[str, Any]) -> None:
        draft = self._draft
        into = draft.choice(choice.get("index"))
        part = mapping(choice.get("delta" if draft.is_streamed else "message"))
        if draft.is_streamed:
            self._is_chat |= draft.dialect is WireDialect.CHAT and "delta" in choice
            self._has_role |= bool(part.get("role"))
            self._is_role_late |= bool(part.get("content")) and not self._has_role
        elif part and "role" not in part:
            draft.report_missing_role("The message of the answer has no role.")
        # Some servers send the last text and the reason in one chunk.
        content = part.get("content")
        if isinstance(content, list):
            content = "".join(str(piece.get("text", "")) for piece in objects(content))
        into.add_text(index, content)
        into.add_thinking(index, part.get("reasoning_content") or part.get("reasoning"))
        calls = self._calls.setdefault(into, _ChatCalls(into))
        for position, call in enumerate(objects(part.get("tool_calls"))):
            calls.add(index, call.get("index", position), call)
        # The API's older form of tool calls.
        if isinstance(part.get("function_call"), dict):
            calls.add(index, "function_call", {"function": part["function_call"]})
        into.add_text(index, choice.get("text"))
        _read_finish_reason(into, index, choice)

    def check_end(self) -> None:
        """Record the roles and counts that the answer lacks."""
        draft = self._draft
        if not draft.is_streamed:
            if draft.usage is None:
                draft.report_missing_usage("The answer has no usage.", Severity.NOTE)
            return
        if self._is_chat and not draft.is_dump:
            if not self._has_role:
                draft.report_missing_role("No chunk of the stream has the role.")
            elif self._is_role_late:
                draft.report_missing_role(
                    "The role, which is due in the first chunk, comes after text."
                )
        if draft.usage is None and self._announces_usage and not draft.is_dump:
            draft.report_missing_usage(
                "The stream announces usage by usage: null, but never sends it."
            )
        elif draft.usage is None:
            draft.report_missing_usage(
                "The stream has no usage (request it with stream_options.include_usage).",
                Severity.NOTE,
            )


class _ChatCalls:
    """The calls of one choice, by the index under which clients join their parts."""

    def __init__(self, into: ChoiceDraft) -> None:
        self._into = into
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, index: int, number: object, call: dict[str, Any]) -> None:
        into, key = self._into, repr(number)
        custom = mapping(call.get("custom"))
        if custom:
            # Custom tools take any text, not only JSON.
            into.add_call(key, custom.get("name"), "{}" if custom.get("name") else "")
            return
        function = mapping(call.get("function"))
        name = function["name"] if isinstance(function.get("name"), str) else ""
        key = self._check_id(index, key, call.get("id"), name)
        if name and name == self._names.get(key):
            message = f"The name {name!r} of a call comes again; clients join the parts of a name."
            into.find("call_name_repeated", message, index)
        self._names[key] = self._names.get(key, "") + name
        into.add_call(key, self._names[key], into.as_string(index, function.get("arguments")))

    def _check_id(self, index: int, key: str, given: object, name: str) -> str:
        """Return the key of the call that has an id, and record ids that cannot be right."""
        if not isinstance(given, str) or not given:
            return key
        known = self._ids.setdefault(key, given)
        if known != given and name:
            message = f"Two calls, {known} and {given}, have index {key}; clients make one of them."
            self._into.find("call_index_repeated", message, index)
            return f"{key} {given}"
        if known != given:
            message = f"The id of a call changes from {known} to {given}."
            self._into.find("call_id_changes", message, index)
        elif list(self._ids.values()).count(given) > 1:
            message = f"The call {given} comes under more than one index; clients make two of it."
            self._into.find("call_id_repeated", message, index)
        return key


def _read_finish_reason(into: ChoiceDraft, index: int, choice: dict[str, Any]) -> None:
    reason = choice.get("finish_reason")
    if reason == "":
        message = "finish_reason is an empty string where null is due: no reason, or the end."
        into.find("reason_empty", message, index)
    if not isinstance(reason, str) or not reason:
        return
    field = next((name for name in _MATCHED if name in choice), None)
    if field is not None and reason != "repetition":
        into.set_matched(choice[field])
    ending = _CHAT_ENDINGS.get(reason, CapturedEnding.OTHER)
    if ending is CapturedEnding.NATURAL_OR_STOP and into.matched is not None:
        ending = CapturedEnding.STOP
    into.set_reason(index, reason, ending)


# SGLang's /generate: each frame has the whole text so far.


def read_generate(draft: Draft) -> None:
    """Read a body, or frames of cumulative text."""
    tokens, seen = 0, ""
    for index, value in draft.values("A frame"):
        text, meta = value.get("text"), mapping(value.get("meta_info"))
        draft.answer_id = draft.answer_id or meta.get("id")
        if meta.get("id") not in (draft.answer_id, None):
            subject = "The events of one answer have different ids"
            draft.report_change("id_changes", index, subject, draft.answer_id, meta["id"])
        counted = count(meta.get("completion_tokens"))
        if counted is not None and 0 <= counted < tokens:
            message = f"completion_tokens falls from {tokens} to {counted}."
            draft.find("usage_falls", message, index)
        tokens = tokens if counted is None else counted
        if isinstance(text, str) and text.startswith(seen):
            draft.add_text(index, text[len(seen) :])
            seen = text
        elif isinstance(text, str):
            message = "The text of an event does not begin with the text of the event before it."
            draft.find("text_retracted", message, index)
        ids = [item for item in items(value.get("output_ids")) if isinstance(item, int)]
        draft.output_ids = ids or draft.output_ids
        if "completion_tokens" in meta:
            draft.usage = read_usage(meta, "prompt_tokens", "completion_tokens", "cached_tokens")
        _read_generate_reason(draft, index, meta)


def _read_generate_reason(draft: Draft, index: int, meta: dict[str, Any]) -> None:
    reason = meta.get("finish_reason")
    if reason is None:
        draft.check_reason_kept(index, "A frame")
        return
    reason = {"type": reason} if isinstance(reason, str) else mapping(reason)
    kind, matched = reason.get("type"), reason.get("matched", meta.get("matched_stop"))
    draft.set_matched(matched)
    endings = {
        # The id that matched may be the end-of-sequence token, which is a natural end.
        "stop": CapturedEnding.STOP if isinstance(matched, str) else CapturedEnding.NATURAL_OR_STOP,
        "length": CapturedEnding.LIMIT,
        "abort": CapturedEnding.ERROR,
    }
    draft.set_reason(index, str(kind), endings.get(str(kind), CapturedEnding.OTHER))
    if draft.usage is None:
        draft.report_missing_usage("meta_info has no completion_tokens.")


# Ollama, from /api/chat and /api/generate.


def read_ollama(draft: Draft) -> None:
    """Read a body, or a stream of one object a line."""
    is_done = False
    for index, frame in enumerate(draft.framed.frames):
        value = mapping(frame.value)
        if is_done and value:
            draft.report_order(index, "An object comes after the one that says done.")
        if draft.model is not None and value.get("model") not in (draft.model, None):
            subject = "The model changes within an answer"
            draft.report_change("model_changes", index, subject, draft.model, value["model"])
        draft.check_form(index, value)
        is_done |= value.get("done") is True
        if draft.is_streamed and "error" in value:
            draft.set_error(value["error"])
        else:
            _read_ollama_object(draft, index, value)
    if draft.error is None and not is_done:
        subject = "The answer is whole, but does not say"
        if draft.is_streamed:
            subject = "The stream ends without an object that says"
        draft.find("end_marker_missing", f'{subject} "done": true.')


def _read_ollama_object(draft: Draft, index: int, value: dict[str, Any]) -> None:
    draft.model = value.get("model") or draft.model
    message = mapping(value.get("message"))
    draft.add_text(index, message.get("content"))
    draft.add_text(index, value.get("response"))
    draft.add_thinking(index, message.get("thinking") or value.get("thinking"))
    for number, call in enumerate(objects(message.get("tool_calls"))):
        function = mapping(call.get("function"))
        if isinstance(function.get("arguments"), str):
            draft.report_arguments_form(index, "an object")
        arguments = json.dumps(function.get("arguments"), ensure_ascii=False)
        draft.add_call((index, number), function.get("name"), arguments)
    reason = value.get("done_reason")
    if value.get("done") is not True:
        return
    if isinstance(reason, str):
        draft.set_reason(index, reason, _OLLAMA_ENDINGS.get(reason, CapturedEnding.OTHER))
    if "eval_count" in value:
        draft.usage = read_usage(value, "prompt_eval_count", "eval_count")
    else:
        draft.report_missing_usage("The last object has no token counts (eval_count).")
