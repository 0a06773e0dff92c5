"""A vendor's API: its routes, which read requests and write answers, and its errors.

Knows no vendor and no web framework. Readers and writers are pure; replies run on the server's
loop.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, overload

from api.dialects.shared.answers import AnswerEncoder
from api.dialects.shared.parameters import Vendor
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import ReadRequest
from api.service.errors import ApiError
from api.service.models import check_model, keep_loaded
from api.service.record import RequestRecord
from api.service.service import Service
from engine import Vocabulary
from engine.values.events import Event, Finished
from engine.values.request import GenerationRequest

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

# A generation's deltas and traces in order, and its end.
Collected = tuple[Sequence[Event], Finished]
# Stores an answer, so that a later request can continue it: its id, its JSON, its items' ids.
StoreAnswer = Callable[[str, str, Sequence[str]], None]
Method = Literal["DELETE", "GET", "POST"]

_Params = TypeVar("_Params", bound=WireModel | None)
_Body = TypeVar("_Body", bound=WireModel)


@dataclass(frozen=True, slots=True)
class ParsedRequest(Generic[_Params]):
    """A request after parsing.

    Attributes:
        params: Its body; None where the route has none.
        generations: The generations that it asks for; none if it has no prompt.
        url: The parameters of its path and of its query.
        is_anthropic: Whether its headers show a client of Anthropic's, on a route of no dialect.
    """

    service: Service
    record: RequestRecord
    params: _Params
    generations: Sequence[GenerationRequest] = ()
    url: Mapping[str, str] = field(default_factory=dict)
    is_anthropic: bool = False


Reply = Callable[[ParsedRequest[_Params]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Head:
    """The parts of an answer that are known before its first token.

    Attributes:
        unique: Hexadecimal digits from which the answer's ids are made.
        store: Stores the whole answer before its end is sent; None if it is not to be stored.
        no_effect: The parts of the request without effect, as the client spelled them.
    """

    unique: str
    created_s: float
    model: str
    request_id: str = ""
    is_strict: bool = False
    vocabulary: Vocabulary | None = None
    store: StoreAnswer | None = None
    answer_id: str = ""
    is_accepted: bool = False
    no_effect: tuple[str, ...] = ()
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, kw_only=True)
class Route:
    """A row of the table of routes: either an ``AnswerRoute`` or a ``QueryRoute``.

    Attributes:
        request: The type of its body; None where it has none.
        answer: The type of its answer, as the OpenAPI document describes it.
        other_answers: The same by HTTP status, of answers that are no errors.
        media_type: Of its stream, or of an answer that is not JSON.
        operation: The operation's name in OpenTelemetry's conventions
            (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans).
        field_names: Returns a body's own names of engine fields; all others have the dialect's.
        needs_key: Whether the server's key is required, if it has one.
        is_safe: Whether a GET changes nothing and generates nothing, so that HEAD may do the same
            (RFC 9110, section 9.2.1).
    """

    method: Method = "POST"
    path: str
    summary: str
    request: type[WireModel] | None = None
    answer: Any = None
    other_answers: Mapping[int, Any] = field(default_factory=dict)
    media_type: str | None = None
    operation: Literal["", "chat", "embeddings", "rerank", "text_completion"] = ""
    field_names: Callable[[Any], Mapping[str, str]] = lambda params: {}
    needs_key: bool = True
    is_safe: bool = True


@dataclass(frozen=True, kw_only=True)
class AnswerRoute(Route, Generic[_Body]):
    """A route whose answers the model generates; a subclass differs from the others in its steps.

    Attributes:
        read: Returns the generations that a body asks for; none if it has no prompt.
        write_whole: Returns the body of an answer that is sent whole.
        encoder: Returns the encoder of a stream.
    """

    request: type[_Body]
    read: ReadRequest
    write_whole: Callable[[Sequence[Collected], _Body, Head], object]
    encoder: Callable[[_Body, Head], AnswerEncoder]
    id_prefix: str = ""
    media_type: str = EVENTS
    operation: Literal["chat", "text_completion"] = "chat"

    def wants_stream(self, params: _Body) -> bool:
        return bool(getattr(params, "stream", None))

    async def admit(self, service: Service, params: _Body) -> None:
        check_model(service, self.model_of(params))

    def model_of(self, params: _Body) -> str:
        """Return the name of the model that a request is for; empty if it names none."""
        return getattr(params, "model", None) or ""

    def on_accepted(self, service: Service, params: _Body) -> None:
        """Act once the generations of a request have been accepted."""
        keep_loaded(service, self.model_of(params), getattr(params, "ttl", None))

    async def reply_without_prompt(self, service: Service, params: _Body, head: Head) -> object:
        """Answer a request without a prompt."""
        raise AssertionError("a request was read as no generation")

    def storage(self, request: ParsedRequest[_Body]) -> StoreAnswer | None:
        """Return the function that stores the answer; None if it is not to be stored."""
        return None

    def answer_id(self, params: _Body, unique: str) -> str:
        """Return the answer's id as the client gets it; empty if answers have none."""
        return f"{self.id_prefix}{unique}" if self.id_prefix else ""


@dataclass(frozen=True, kw_only=True)
class QueryRoute(Route):
    """A route that a function answers, without generating for the client; ``query`` makes it.

    Attributes:
        reply: Returns the answer's body: None is none, a text is JSON already, a list is the events
            of a stream. A reply of the server itself may return the whole response.
        read: Converts the body to generations, which ``reply`` gets beside it.
    """

    reply: Reply[Any]
    read: ReadRequest | None = None


@overload
def query(
    method: Method, path: str, *, request: type[_Body], **fields: Any
) -> Callable[[Reply[_Body]], QueryRoute]: ...
@overload
def query(method: Method, path: str, **fields: Any) -> Callable[[Reply[None]], QueryRoute]: ...
def query(method: Method, path: str, **fields: Any) -> Callable[[Reply[Any]], QueryRoute]:
    """Make a function the reply of a route; its docstring's first line is the route's summary."""

    def route(reply: Reply[Any]) -> QueryRoute:
        summary = (reply.__doc__ or "").partition("\n")[0].removesuffix(".")
        return QueryRoute(method=method, path=path, summary=summary, reply=reply, **fields)

    return route


AnyRoute = AnswerRoute[Any] | QueryRoute


@dataclass(frozen=True, kw_only=True, eq=False)
class Dialect:
    """One vendor's API.

    Attributes:
        render_error: Returns the HTTP status and the body of an error, with its request's id.
        request_body: Returns the body that asks the first route for a generation: of a model, with
            a rendered prompt. None if the API cannot express it. The inspector shows it.
        field_names: Maps the engine's names of request fields to this dialect's.
        stream_fields: Fields of a request that ask for a stream, in addition to ``stream``.
        prefix: Errors for unknown paths that begin with it are in this dialect; empty for none.
        recall: Returns a request's body with the stored items that it refers to.
    """

    name: str
    title: str
    vendor: Vendor
    error_type: Any
    render_error: Callable[[ApiError, str], tuple[int, Mapping[str, object]]]
    request_body: Callable[[GenerationRequest, str, str], dict[str, Any] | None]
    field_names: Mapping[str, str]
    routes: Sequence[AnyRoute]
    stream_fields: Mapping[str, object] = field(default_factory=dict)
    prefix: str = ""
    recall: Callable[[Service, RequestRecord, Any], Any] | None = None

    @property
    def answers(self) -> tuple[AnswerRoute[Any], ...]:
        return tuple(route for route in self.routes if isinstance(route, AnswerRoute))
