"""Ollama's API as one value, and what it answers: an object, lines of objects, models, errors.

Pure except for the encoders' own state; the replies to queries run on the server's loop.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import json
import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, assert_never

from api.dialects.ollama.models import MODEL_QUERIES, checked_name, tagged, time_text
from api.dialects.ollama.read import (
    ask,
    chat_from_wire,
    is_streamed,
    keep_alive_s,
    prompt_from_wire,
    wants_thinking,
)
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    DoneReason,
    EmbedAnswer,
    EmbedParams,
    ModelParams,
    OldEmbedAnswer,
    OldEmbedParams,
    OllamaAnswer,
    OllamaCall,
    OllamaChatAnswer,
    OllamaChatLine,
    OllamaErrorAnswer,
    OllamaGenerateAnswer,
    OllamaGenerateLine,
    OllamaMessage,
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
    vectors_answer,
    with_field,
)
from api.dialects.shared.dialect import LINES, AnswerRoute, Collected, Dialect, Head, QueryRoute
from api.dialects.shared.parameters import is_report_wanted
from api.transport.answer_text import json_text
from api.transport.errors import ApiError, ContextOverflow, invalid, status_of
from api.transport.service import (
    Service,
    abilities_of,
    embedded,
    engine_name,
    loaded_model,
)
from engine import (
    EmbeddingRequest,
    Embeddings,
    Event,
    Finished,
    StopInfo,
    StopKind,
    TokenTrace,
    ToolCallCompleted,
)

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
        self._clock = head.clock
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
            "created_at": time_text(self._clock()),
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
                "created_at": time_text(self._clock()),
                "response": text,
                "thinking": thinking,
                "done": False,
            }
        return {
            "model": self._model,
            "created_at": time_text(self._clock()),
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


# -- models and their memory -------------------------------------------------------------------


async def loaded_as_asked(service: Service, params: ModelParams) -> str:
    """Return the name of a request's model; one that is not in memory is loaded."""
    keep_alive_s(params)  # wrong fields are refused before anything is done
    name = await checked_name(service, params.model)
    await loaded_model(service, params.model)
    return name


async def admit(service: Service, params: AnswerParams) -> None:
    """Refuse a request that its model cannot answer."""
    keep_alive_s(params)  # wrong fields are refused before anything is done
    name = await checked_name(service, params.model)
    if wants_thinking(params) and not (await abilities_of(service, name)).can_think:
        raise invalid(("think",), f"{tagged(name)} does not support thinking")


def keep_as_wanted(service: Service, params: ModelParams) -> None:
    """Free the model's memory if a request asks for it, once the accepted requests have ended.

    If one model answers all requests, clients may unload it, but not set how long it stays loaded.
    """
    keep_s = keep_alive_s(params)
    if keep_s == 0:
        service.engine.unload_when_idle(engine_name(service, params.model))
    elif keep_s is not None and service.is_choosing:
        service.engine.unload_after(
            keep_s if keep_s > 0 else None, engine_name(service, params.model)
        )


async def reply_without_question(
    service: Service, params: AnswerParams, head: Head
) -> OllamaAnswer:
    """Load or unload the model, as a request without a prompt asks."""
    reason: Literal["load", "unload"] = "load"
    if keep_alive_s(params) == 0:
        reason = "unload"
    else:
        await service.engine.tokenize("", engine_name(service, params.model))
    keep_as_wanted(service, params)
    encoder = ChatLineEncoder if isinstance(params, ChatParams) else PromptLineEncoder
    return encoder(params, head).unanswered(reason)


# -- embeddings --------------------------------------------------------------------------------
# https://github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings


async def embed(service: Service, params: EmbedParams) -> EmbedAnswer | str:
    """Answer ``POST /api/embed``."""
    begun_s = time.perf_counter()
    name = await loaded_as_asked(service, params)
    made = Embeddings((), ())
    if params.texts:
        wanted = EmbeddingRequest(
            tuple(params.texts),
            params.dimensions or None,
            truncates=params.truncate is not False,
        )
        made, _ = await embedded(service, wanted, params.model)
    keep_as_wanted(service, params)

    def answer(embeddings: Embeddings, tokens: int) -> EmbedAnswer:
        return {
            "model": params.model or tagged(name),
            "embeddings": [list(vector) for vector in embeddings.vectors],
            "total_duration": round((time.perf_counter() - begun_s) * _NS),
            "load_duration": 0,
            "prompt_eval_count": tokens,
        }

    return await vectors_answer(made, answer)


async def embed_one(service: Service, params: OldEmbedParams) -> OldEmbedAnswer:
    """Answer ``POST /api/embeddings``."""
    await loaded_as_asked(service, params)
    vector: list[float] = []
    if params.prompt:
        wanted = EmbeddingRequest((params.prompt,), truncates=True)
        embeddings, _ = await embedded(service, wanted, params.model)
        vector = list(embeddings.vectors[0])
    keep_as_wanted(service, params)
    return {"embedding": vector}


_EMBEDDINGS = (
    QueryRoute(
        method="POST",
        path="/api/embed",
        summary="Ollama's embeddings: texts as vectors",
        request=EmbedParams,
        reply=embed,
        answer=EmbedAnswer,
        operation="embeddings",
        own_names={"inputs": "input"},
    ),
    QueryRoute(
        method="POST",
        path="/api/embeddings",
        summary="Ollama's earlier route for one text as a vector",
        request=OldEmbedParams,
        reply=embed_one,
        answer=OldEmbedAnswer,
        operation="embeddings",
        own_names={"inputs[0]": "prompt"},
    ),
)


# -- the dialect -------------------------------------------------------------------------------


DIALECT = Dialect(
    name="Ollama",
    title="Ollama",
    vendor="Ollama",
    reference="https://github.com/ollama/ollama/blob/main/docs/api.md",
    render_error=error_to_wire,
    error_type=OllamaErrorAnswer,
    field_names={
        "stops.strings": "options.stop",
        "max_tokens": "options.num_predict",
        "constraint.json_schema": "format",
        "constraint": "format",
    },
    prefix="/api/",
    ask=ask,
    answers=(
        AnswerRoute(
            path="/api/chat",
            summary="Ollama's chat",
            request=ChatParams,
            read=chat_from_wire,
            answer=OllamaChatAnswer,
            write_whole=write_chat,
            event=OllamaChatLine,
            encoder=ChatLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
        AnswerRoute(
            path="/api/generate",
            operation="text_completion",
            summary="Ollama's single prompts",
            request=PromptParams,
            read=prompt_from_wire,
            answer=OllamaGenerateAnswer,
            write_whole=write_response,
            event=OllamaGenerateLine,
            encoder=PromptLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
    ),
    queries=(
        *_EMBEDDINGS,
        *MODEL_QUERIES,
    ),
)
