"""What a dialect is: one value, of which routes, documents, the request log and tables are made.

Knows no vendor and no web framework. What reads and writes is pure; replies run on the server's
loop.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.vendors import Vendor
from api.dialects.shared.requested import ReadRequest
from api.transport.context import Service, check_model
from api.transport.errors import ApiError
from api.transport.events import StreamEncoder
from engine import Event, Finished, GenerationRequest, Vocabulary

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

# A generation's deltas and traces in their order, and its end.
Collected = tuple[Sequence[Event], Finished]

_Params = TypeVar("_Params", bound=WireModel)
_Sent = TypeVar("_Sent", bound=WireModel, contravariant=True)


class KeepAnswer(Protocol):
    """Keeps an answer, so that a later request can go on from it."""

    def __call__(self, answer_id: str, answer: str, item_ids: Sequence[str]) -> None:
        """Keep it.

        Args:
            answer_id: Its id.
            answer: The whole of it, as JSON.
            item_ids: The ids of its items.
        """
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of an answer before its first token.

    Attributes:
        unique: Hexadecimal digits of which the answer's ids are made.
        created_s: When it was asked for, in seconds since the epoch.
        model: The name of the model that answers.
        request_id: Under which the request is answered and logged.
        vocabulary: What token ids stand for, where that is known.
        keep: Keeps the whole answer before its end is sent; None where it is not to be kept.
    """

    unique: str
    created_s: float
    model: str
    request_id: str = ""
    vocabulary: Vocabulary | None = None
    keep: KeepAnswer | None = None


class WriteWhole(Protocol[_Sent]):
    """Turns what generations came to into an answer that is sent whole."""

    def __call__(self, answers: Sequence[Collected], params: _Sent, head: Head) -> object:
        """Return the answer's body.

        Args:
            answers: For each choice its events, neighbouring deltas merged, and its end.
            params: The request.
            head: What is known from the beginning.
        """
        ...


async def admit_model(service: Service, params: Any) -> None:
    """Let a request in unless it names a model that cannot answer it."""
    check_model(service, params.model)


def named_model(params: Any) -> str:
    """Return the name of the model that a request is for; empty where it names none."""
    return getattr(params, "model", None) or ""


async def admit_any(service: Service, params: Any) -> None:
    """Let every request in, in a dialect whose requests name no model."""


def is_stream_wanted(params: Any) -> bool:
    """Whether a request asks for a stream."""
    return bool(params.stream)


def no_names(params: Any) -> Mapping[str, str]:
    """Return no names of fields beside those that the dialect always uses."""
    return {}


def recalls_nothing(service: Service, params: _Params) -> _Params:
    """Return a request as it is, in dialects whose requests say all that they mean."""
    return params


def keeps_nothing(service: Service, params: Any) -> KeepAnswer | None:
    """Return nothing that keeps the answer to a request."""
    return None


def do_nothing(service: Service, params: Any) -> None:
    """Do nothing when the generations of a request have been accepted."""


async def nothing_to_answer(service: Service, params: Any, head: Head) -> dict[str, object]:
    """Answer a request without a question, in dialects whose requests always have one.

    Args:
        service: What the server works with.
        params: The request.
        head: What is known from the beginning.

    Raises:
        AssertionError: Always: the dialect's reader returned no generation.
    """
    raise AssertionError("a request was read as no generation")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRoute(Generic[_Params]):
    """A route whose answers the model generates.

    Attributes:
        path: Where requests are posted.
        summary: What it is for, in a few words.
        request: The type of a request's body.
        read: Makes the generations of a request.
        answer: The type of an answer that is sent whole.
        write_whole: Makes such an answer of what the generations came to.
        event: The type of one event of a stream, or of one line.
        encoder: Makes what encodes a stream.
        media_type: What a stream is.
        wants_stream: Whether a request asks for a stream.
        admit: Refuses a request that the model cannot answer.
        model_of: Returns the name of the model that a request is for; empty where it names none.
        own_names: What this request calls some of the engine's fields; the rest is the dialect's.
        on_accepted: Told when the generations of a request have been accepted.
        reply_without_question: Answers a request that was read as no generation.
        recall: Puts into a request what it refers to of earlier answers.
        keeper: Returns what keeps the answer to a request; None where it is not to be kept.
        operation: What the model is asked for, in the words of OpenTelemetry's conventions: an
            answer to a conversation, or a text that goes on from a prompt
            (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans).
    """

    path: str
    summary: str
    request: type[_Params]
    read: ReadRequest[_Params]
    answer: Any
    write_whole: WriteWhole[_Params]
    event: Any
    encoder: Callable[[_Params, Head], StreamEncoder]
    media_type: str = EVENTS
    wants_stream: Callable[[_Params], bool] = is_stream_wanted
    admit: Callable[[Service, _Params], Awaitable[None]] = admit_model
    model_of: Callable[[_Params], str] = named_model
    own_names: Callable[[_Params], Mapping[str, str]] = no_names
    on_accepted: Callable[[Service, _Params], None] = do_nothing
    reply_without_question: Callable[[Service, _Params, Head], Awaitable[object]] = (
        nothing_to_answer
    )
    recall: Callable[[Service, _Params], _Params] = recalls_nothing
    keeper: Callable[[Service, _Params], KeepAnswer | None] = keeps_nothing
    operation: Literal["chat", "text_completion"] = "chat"


@dataclass(frozen=True, slots=True)
class Addressed:
    """What the address of a request says.

    Attributes:
        parts: The parts of the path that stand in braces in the table of routes.
        query: The parameters after the question mark.
    """

    parts: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRoute:
    """A route that tells something without an answer being generated for the client.

    Attributes:
        method: The HTTP method.
        path: Where it is.
        summary: What it is for, in a few words.
        reply: Makes the answer's body of the request's, or of what its address says where the
            path has parts in braces (``Addressed``); None is an answer without a body.
        request: The type of a request's body; None where there is none.
        read: Makes what the engine is asked of the body: ``reply`` then gets both, as ``Asked``.
        answer: The type of the answer's body; None where there is none.
        recall: Puts into a request what it refers to of earlier answers.
    """

    method: Literal["DELETE", "GET", "HEAD", "POST"]
    path: str
    summary: str
    reply: Callable[[Service, Any], Awaitable[object]]
    request: type[WireModel] | None = None
    read: ReadRequest[Any] | None = None
    answer: Any = None
    recall: Callable[[Service, Any], Any] = recalls_nothing


class AskRequest(Protocol):
    """Turns a generation into the body that asks for it: the way back of reading."""

    def __call__(
        self, request: GenerationRequest, model: str, prompt: str
    ) -> dict[str, Any] | None:
        """Return the body; None where the API has no words for such a request.

        Args:
            request: What was asked.
            model: The model's name.
            prompt: The rendered prompt, for the APIs that take no messages.
        """
        ...


class RenderError(Protocol):
    """Turns a failure into a vendor's status and body."""

    def __call__(self, error: ApiError, request_id: str) -> tuple[int, Mapping[str, object]]:
        """Return the HTTP status and the envelope."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API in the words of its vendor.

    Attributes:
        name: Its name in logs, metrics and documents.
        title: Its name for people.
        vendor: Whose names the parameters of its requests have.
        reference: The address of the vendor's reference.
        render_error: Makes the envelope of a failure.
        error_type: The envelope's type.
        field_names: The engine's names of request fields to this dialect's.
        answers: The routes whose answers the model generates.
        queries: The other routes.
        ask: Makes the body that asks the first route for a generation.
        stream_fields: What such a body says beside ``stream`` where a stream is wanted.
        prefix: Unknown paths that begin with it are answered in this dialect; empty for none.
    """

    name: str
    title: str
    vendor: Vendor
    reference: str
    render_error: RenderError
    error_type: Any
    field_names: Mapping[str, str]
    answers: tuple[AnswerRoute[Any], ...]
    ask: AskRequest
    queries: tuple[QueryRoute, ...] = ()
    stream_fields: Mapping[str, object] = field(default_factory=dict)
    prefix: str = ""
