"""A dialect as one value, from which routes, documents, the request log and tables are made.

Knows no vendor and no web framework. Readers and writers are pure; replies run on the server's
loop.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters import Vendor
from api.dialects.shared.requests import ReadRequest
from api.transport.answer_text import StreamEncoder
from api.transport.errors import ApiError
from api.transport.service import Service, check_model
from engine import Event, Finished, GenerationRequest, Vocabulary

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

# A generation's deltas and traces in order, and its end.
Collected = tuple[Sequence[Event], Finished]

_Params = TypeVar("_Params", bound=WireModel)


# Keeps an answer, so that a later request can continue it: its id, its JSON, the ids of its items.
KeepAnswer = Callable[[str, str, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of an answer before its first token.

    Attributes:
        unique: Hexadecimal digits from which the answer's ids are made.
        created_s: When the request arrived, in seconds since the epoch.
        model: The name of the model that answers.
        request_id: The id of the request in its answer and in the log.
        vocabulary: The texts of token ids; None if they are not known.
        keep: Keeps the whole answer before its end is sent; None if it is not to be kept.
        is_accepted: Whether the engine has accepted the request, so that its answer can begin.
        clock: Returns the time in seconds since the epoch.
    """

    unique: str
    created_s: float
    model: str
    request_id: str = ""
    vocabulary: Vocabulary | None = None
    keep: KeepAnswer | None = None
    is_accepted: bool = False
    clock: Callable[[], float] = time.time


async def admit_model(service: Service, params: Any) -> None:
    """Accept a request unless it names a model that cannot answer it."""
    check_model(service, params.model)


async def admit_any(service: Service, params: Any) -> None:
    """Accept every request, in a dialect whose requests name no model."""


async def nothing_to_answer(service: Service, params: Any, head: Head) -> dict[str, object]:
    """Raise, in dialects whose requests always have a prompt."""
    raise AssertionError("a request was read as no generation")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRoute(Generic[_Params]):
    """A route whose answers the model generates.

    Attributes:
        path: The path that requests are posted to.
        summary: What it is for, in a few words.
        request: The type of a request's body.
        read: Converts a request to generations.
        answer: The type of an answer that is sent whole.
        write_whole: Makes that answer's body from the finished generations.
        event: The type of one event of a stream, or of one line.
        encoder: Makes the encoder of a stream.
        media_type: The media type of a stream.
        wants_stream: Whether a request asks for a stream.
        admit: Refuses a request that the model cannot answer.
        model_of: Returns the name of the model that a request is for; empty if it names none.
        own_names: Returns the request's own names of engine fields; all others have the dialect's
            names.
        on_accepted: Called when the generations of a request have been accepted.
        reply_without_question: Answers a request without a prompt.
        recall: Adds to a request the items of earlier answers that it refers to.
        keeper: Returns the function that keeps the answer to a request; None if it is not to be
            kept.
        answer_id: Returns the answer's id as the client gets it; empty if answers have none.
        operation: What the model is asked to do, in the terms of OpenTelemetry's conventions:
            answer a conversation, or continue a prompt
            (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans).
    """

    path: str
    summary: str
    request: type[_Params]
    read: ReadRequest[_Params]
    answer: Any
    write_whole: Callable[[Sequence[Collected], _Params, Head], object]
    event: Any
    encoder: Callable[[_Params, Head], StreamEncoder]
    media_type: str = EVENTS
    wants_stream: Callable[[_Params], bool] = lambda params: bool(getattr(params, "stream", None))
    admit: Callable[[Service, _Params], Awaitable[None]] = admit_model
    model_of: Callable[[_Params], str] = lambda params: getattr(params, "model", None) or ""
    own_names: Callable[[_Params], Mapping[str, str]] = lambda params: {}
    on_accepted: Callable[[Service, _Params], None] = lambda service, params: None
    reply_without_question: Callable[[Service, _Params, Head], Awaitable[object]] = (
        nothing_to_answer
    )
    recall: Callable[[Service, _Params], _Params] = lambda service, params: params
    keeper: Callable[[Service, _Params], KeepAnswer | None] = lambda service, params: None
    answer_id: Callable[[_Params, Head], str] = lambda params, head: ""
    operation: Literal["chat", "text_completion"] = "chat"


@dataclass(frozen=True, slots=True)
class UrlParameters:
    """The parameters in the address of a request.

    Attributes:
        path: The values of the path's parameters, which the table of routes writes in braces.
        query: The parameters after the question mark.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRoute:
    """A route that answers without generating an answer for the client.

    Attributes:
        method: The HTTP method.
        path: Its path.
        summary: What it is for, in a few words.
        reply: Makes the answer's body from the request's body, or from its address if the path has
            parameters (``UrlParameters``); None is an answer without a body, a text is JSON
            already, and a list is the events of a stream.
        request: The type of a request's body; None if requests have no body.
        read: Converts the body to generations; ``reply`` then gets both, as ``ParsedRequest``.
        answer: The type of the answer's body; None if answers have no body.
        recall: Adds to a request the items of earlier answers that it refers to.
        operation: What the model is asked to do, as in ``AnswerRoute``; empty for other routes.
        own_names: The route's own names of engine fields; all others have the dialect's names.
        media_type: The media type of a stream; None if the route has none.
    """

    method: Literal["DELETE", "GET", "POST"]
    path: str
    summary: str
    reply: Callable[[Service, Any], Awaitable[object]]
    request: type[WireModel] | None = None
    read: ReadRequest[Any] | None = None
    answer: Any = None
    recall: Callable[[Service, Any], Any] = lambda service, params: params
    operation: Literal["", "embeddings"] = ""
    own_names: Mapping[str, str] = field(default_factory=dict)
    media_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One vendor's API.

    Attributes:
        name: Its name in logs, metrics and documents.
        title: Its name for people.
        vendor: The vendor whose parameter names its requests use.
        reference: The address of the vendor's reference.
        render_error: Returns the HTTP status and the body of an error, with the id of its request.
        error_type: The type of that body.
        field_names: Maps the engine's names of request fields to this dialect's.
        answers: The routes whose answers the model generates.
        queries: The other routes.
        ask: The reverse of reading: returns the body that asks a model for a generation by a
            prompt, at the first route; None if the API cannot express the request.
        stream_fields: Fields of such a body that ask for a stream, in addition to ``stream``.
        prefix: Errors for unknown paths that begin with it are in this dialect; empty for none.
    """

    name: str
    title: str
    vendor: Vendor
    reference: str
    render_error: Callable[[ApiError, str], tuple[int, Mapping[str, object]]]
    error_type: Any
    field_names: Mapping[str, str]
    answers: tuple[AnswerRoute[Any], ...]
    ask: Callable[[GenerationRequest, str, str], dict[str, Any] | None]
    queries: tuple[QueryRoute, ...] = ()
    stream_fields: Mapping[str, object] = field(default_factory=dict)
    prefix: str = ""
