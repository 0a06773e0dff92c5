"""Answers of Ollama's API: one object, a stream of objects on lines of their own, models, errors.

Pure except for the encoders' own state. Any thread.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, assert_never

from api.dialects.ollama.wire import (
    Ability,
    AnswerParams,
    ChatParams,
    DoneReason,
    OllamaAnswer,
    OllamaCall,
    OllamaChatAnswer,
    OllamaDetails,
    OllamaErrorAnswer,
    OllamaGenerateAnswer,
    OllamaListed,
    OllamaMessage,
    OllamaModel,
    PromptParams,
)
from api.dialects.openai.write import answer_tokens, entries_to_wire
from api.dialects.shared.answers import (
    AnswerEncoder,
    not_an_ending,
    raw_text_of,
    reasoning_of,
    report_to_wire,
    text_of,
    with_field,
)
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters import is_report_wanted
from api.transport.answer_text import json_text
from api.transport.errors import ApiError, ContextOverflow, status_of
from api.transport.service import Abilities, ListedModel
from engine import Event, Finished, ModelInfo, StopInfo, StopKind, TokenTrace, ToolCallCompleted

_NS = 1_000_000_000

_Answer = OllamaChatAnswer | OllamaGenerateAnswer


class JsonLine(NamedTuple):
    """One line of the stream, not yet serialised."""

    value: _Answer | OllamaErrorAnswer

    def frame(self) -> str:
        """Return the line as text of the stream."""
        return f"{json_text(self.value)}\n"


def done_reason_to_wire(stop: StopInfo) -> DoneReason:
    """Return ``done_reason``; this API has no field for the stop that matched."""
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_STRING | StopKind.STOP_TOKEN | StopKind.TOOL_CALL:
            return "stop"
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "length"
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


class LineEncoder(AnswerEncoder[JsonLine]):
    """Turns the events of one generation into the lines of one answer."""

    def __init__(self, params: AnswerParams, head: Head) -> None:
        super().__init__()
        # The requested name, which the reference repeats.
        self._model = params.model or tagged(head.model)
        self._created_at = time_text(datetime.fromtimestamp(head.created_s, UTC))
        self._reports = is_report_wanted(params.fullstop)
        self._has_logprobs = bool(params.logprobs)
        self._texts = head.vocabulary
        # Text that waits for the trace of its token.
        self._text_due = ""

    @abstractmethod
    def line(self, text: str = "", thinking: str = "", calls: Sequence[OllamaCall] = ()) -> _Answer:
        """Return a line that does not end the answer."""

    def end(self, answer: OllamaAnswer, finished: Finished) -> None:
        """Add the end of an answer: its reason, counts and durations (nanoseconds)."""
        usage, timing = finished.usage, finished.timing
        answer["done"] = True
        answer["done_reason"] = done_reason_to_wire(finished.stop)
        if self._reports:
            answer["fullstop"] = report_to_wire(finished)
        answer["total_duration"] = round(timing.total_s * _NS)
        answer["load_duration"] = 0
        answer["prompt_eval_count"] = usage.prompt_tokens
        answer["prompt_eval_duration"] = round(timing.prefill_s * _NS)
        answer["eval_count"] = usage.output_tokens
        answer["eval_duration"] = round(timing.decode_s * _NS)

    def unanswered(self, reason: Literal["load", "unload"]) -> _Answer:
        """Return the answer to a request that only loads or unloads the model."""
        answer = self.line()
        answer["done"], answer["done_reason"] = True, reason
        return answer

    def keepalive(self) -> str:
        """Return a line without content; a blank line would not be JSON for the clients."""
        return JsonLine(self.line()).frame()

    def logprobs(self, answer: OllamaAnswer, events: Iterable[Event]) -> None:
        """Add the logprobs of an answer's tokens, if the request asks for them."""
        if self._has_logprobs:
            answer["logprobs"] = entries_to_wire(answer_tokens(events), self._texts)

    def _text(self, text: str, choice: int) -> None:
        if self._has_logprobs:
            self._text_due += text
        else:
            self._send(JsonLine(self.line(text=text)))

    def _token(self, trace: TokenTrace | Finished, choice: int) -> None:
        """Send the text that an event completes, with its logprobs if the request asks for them."""
        text, self._text_due = self._text_due, ""
        if self._has_logprobs and (text or answer_tokens([trace])):
            answer = self.line(text=text)
            self.logprobs(answer, [trace])
            self._send(JsonLine(answer))

    def _thinking(self, text: str, choice: int) -> None:
        self._send(JsonLine(self.line(thinking=text)))

    def _end(self, finished: Finished, choice: int) -> None:
        self._token(finished, choice)
        answer = self.line()
        self.end(answer, finished)
        self._send(JsonLine(answer))

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        failure = error_to_wire(error, "")[1]
        if finished is None:
            self._send(JsonLine(failure))
        else:
            answer = self.line()
            answer["done"], answer["done_reason"] = True, "error"
            answer["error"] = failure["error"]
            self._send(JsonLine(answer))


class ChatLineEncoder(LineEncoder):
    """Writes the lines of ``/api/chat``."""

    def line(
        self, text: str = "", thinking: str = "", calls: Sequence[OllamaCall] = ()
    ) -> OllamaChatAnswer:
        """Return a line with new content in ``message``."""
        message: OllamaMessage = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = list(calls)
        return {
            "model": self._model,
            "created_at": self._created_at,
            "message": message,
            "done": False,
        }

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        self._send(JsonLine(self.line(calls=[call_to_wire(call)])))


class PromptLineEncoder(LineEncoder):
    """Writes the lines of ``/api/generate``, which takes no tools, so that a call is text."""

    def line(
        self, text: str = "", thinking: str = "", calls: Sequence[OllamaCall] = ()
    ) -> OllamaGenerateAnswer:
        """Return a line with new content in ``response``."""
        if thinking:
            return {
                "model": self._model,
                "created_at": self._created_at,
                "response": text,
                "thinking": thinking,
                "done": False,
            }
        return {
            "model": self._model,
            "created_at": self._created_at,
            "response": text,
            "done": False,
        }


def write_chat(answers: Sequence[Collected], params: ChatParams, head: Head) -> OllamaChatAnswer:
    """Return the whole answer of ``/api/chat``."""
    [(events, finished)] = answers
    encoder = ChatLineEncoder(params, head)
    calls = [call_to_wire(event) for event in events if isinstance(event, ToolCallCompleted)]
    answer = encoder.line(text_of(events), reasoning_of(events), calls)
    encoder.logprobs(answer, [*events, finished])
    encoder.end(answer, finished)
    return answer


def write_response(
    answers: Sequence[Collected], params: PromptParams, head: Head
) -> OllamaGenerateAnswer:
    """Return the whole answer of ``/api/generate``."""
    [(events, finished)] = answers
    encoder = PromptLineEncoder(params, head)
    answer = encoder.line(raw_text_of(events, has_thinking=True), reasoning_of(events))
    encoder.logprobs(answer, [*events, finished])
    encoder.end(answer, finished)
    return answer


def call_to_wire(event: ToolCallCompleted) -> OllamaCall:
    """Return a call as this API spells it: arguments are an object."""
    call = event.call
    return {
        "id": f"call_{call.id}",
        "function": {
            "index": event.index,
            "name": call.name,
            "arguments": _arguments(call.arguments),
        },
    }


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}


# -- models ------------------------------------------------------------------------------------


# Clients ask for the version to learn what they may send; we follow the reference of this version.
API_VERSION = "0.12.6"

_TAG = ":latest"
_NEVER = datetime(2318, 1, 1, tzinfo=UTC)


def tagged(model_id: str) -> str:
    """Return a model's name as this API spells it, with a tag."""
    return model_id if ":" in model_id.rpartition("/")[2] else f"{model_id}{_TAG}"


def untagged(asked: str) -> str:
    """Return the name of a model as the engine knows it: without the tag for the latest version."""
    return asked[: -len(_TAG)] if asked.lower().endswith(_TAG) else asked


def is_named(asked: str, model: ModelInfo) -> bool:
    """Whether a name is the model's, with or without a tag."""
    return tagged(asked).lower() == tagged(model.id).lower()


def time_text(when: datetime) -> str:
    """Return a time as this API spells it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def listed_entry(model: ListedModel) -> OllamaListed:
    """Return a model's entry of ``/api/tags``."""
    return {
        "name": tagged(model.id),
        "model": tagged(model.id),
        "modified_at": _since(model),
        "size": model.size_bytes,
        "digest": _digest(model),
        "details": _details(model),
    }


def running_entry(model: ListedModel) -> OllamaListed:
    """Return the entry of ``/api/ps`` of a model that is in memory."""
    entry = listed_entry(model)
    del entry["modified_at"]
    ends = _NEVER if model.unloads_at is None else datetime.fromtimestamp(model.unloads_at, UTC)
    entry["expires_at"] = time_text(ends)
    entry["size_vram"] = model.memory_bytes
    entry["context_length"] = model.context_length
    return entry


def model_to_wire(model: ListedModel, abilities: Abilities) -> OllamaModel:
    """Return the answer of ``/api/show``."""
    capabilities: list[Ability] = ["completion"]
    capabilities += ["tools"] if abilities.can_call_tools else []
    capabilities += ["thinking"] if abilities.can_think else []
    info: dict[str, str | int] = {
        "general.architecture": model.architecture,
        f"{model.architecture}.context_length": model.context_length,
    }
    if abilities.vocabulary_size is not None:
        info[f"{model.architecture}.vocab_size"] = abilities.vocabulary_size
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(model),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": _since(model),
    }


def _details(model: ListedModel) -> OllamaDetails:
    return {
        "parent_model": "",
        "format": "safetensors",
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": "",
        "quantization_level": "" if model.bits is None else f"{model.bits}-bit",
    }


def _since(model: ListedModel) -> str:
    return time_text(datetime.fromtimestamp(model.since, UTC))


def _digest(model: ListedModel) -> str:
    """Return a digest of the model's description; hashing the weights would take too long."""
    known = f"{model.id}\n{model.architecture}\n{model.size_bytes}\n{model.context_length}"
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()


# -- errors ------------------------------------------------------------------------------------


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, OllamaErrorAnswer]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    return status_of(error.kind), {"error": _message(error)}


def _message(error: ApiError) -> str:
    if isinstance(error, ContextOverflow):
        # Clients look for exactly these words.
        excess = error.prompt_tokens - error.max_tokens
        return f"prompt too long; exceeded max context length by {excess} tokens"
    return with_field(error)
