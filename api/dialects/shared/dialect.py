"""A vendor's API: its routes, which read requests and write answers, and its errors.

Knows no vendor and no web framework. Readers and writers are pure; replies run on the server's
loop.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from api.dialects.shared.answers import AnswerEncoder
from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters import Vendor
from api.dialects.shared.requests import ReadRequest
from api.service.errors import ApiError
from api.service.models import check_model
from api.service.record import RequestRecord
from api.service.service import Service
from engine import Event, Finished, GenerationRequest, Vocabulary

EVENTS = "text/event-stream; charset=utf-8"
LINES = "application/x-ndjson"

# A generation's deltas and traces in order, and its end.
Collected = tuple[Sequence[Event], Finished]
# Stores an answer, so that a later request can continue it: its id, its JSON, its items' ids.
StoreAnswer = Callable[[str, str, Sequence[str]], None]
Reply = Callable[[Service, RequestRecord, Any], Awaitable[object]]

_Params = TypeVar("_Params", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Head:
    """The parts of an answer that are known before its first token.

    Attributes:
        unique: Hexadecimal digits from which the answer's ids are made.
        store: Stores the whole answer before its end is sent; None if it is not to be stored.
    """

    unique: str
    created_s: float
    model: str
    request_id: str = ""
    vocabulary: Vocabulary | None = None
    store: StoreAnswer | None = None
    answer_id: str = ""
    is_accepted: bool = False
    clock: Callable[[], float] = time.time


class AnswerRoute(ABC, Generic[_Params]):
    """A route whose answers the model generates; each has a subclass.

    Attributes:
        operation: The operation's name in OpenTelemetry's conventions
            (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans).
    """

    method: ClassVar[str] = "POST"
    path: ClassVar[str]
    summary: ClassVar[str]
    request: type[_Params]
    answer: Any
    id_prefix: ClassVar[str] = ""
    media_type: ClassVar[str] = EVENTS
    operation: ClassVar[Literal["chat", "text_completion"]] = "chat"

    @abstractmethod
    def read(self, params: _Params, *, strict: bool) -> Sequence[GenerationRequest]:
        """Return the generations that a request asks for; none if it has no prompt."""

    @abstractmethod
    def write_whole(self, answers: Sequence[Collected], params: _Params, head: Head) -> object:
        """Return the body of an answer that is sent whole."""

    @abstractmethod
    def encoder(self, params: _Params, head: Head) -> AnswerEncoder:
        """Return the encoder of a stream."""

    def wants_stream(self, params: _Params) -> bool:
        """Whether a request asks for a stream."""
        return bool(getattr(params, "stream", None))

    async def admit(self, service: Service, params: _Params) -> None:
        """Refuse a request that the model cannot answer."""
        check_model(service, self.model_of(params))

    def model_of(self, params: _Params) -> str:
        """Return the name of the model that a request is for; empty if it names none."""
        return getattr(params, "model", None) or ""

    def field_names(self, params: _Params) -> Mapping[str, str]:
        """Return the request's own names of engine fields; all others have the dialect's names."""
        return {}

    def on_accepted(self, service: Service, params: _Params) -> None:
        """Act once the generations of a request have been accepted."""

    async def reply_without_prompt(self, service: Service, params: _Params, head: Head) -> object:
        """Answer a request without a prompt."""
        raise AssertionError("a request was read as no generation")

    def recall(self, service: Service, record: RequestRecord, params: _Params) -> _Params:
        """Return the request with the items of stored answers that it refers to."""
        return params

    def storage(
        self, service: Service, record: RequestRecord, params: _Params
    ) -> StoreAnswer | None:
        """Return the function that stores the answer; None if it is not to be stored."""
        return None

    def answer_id(self, params: _Params, head: Head) -> str:
        """Return the answer's id as the client gets it; empty if answers have none."""
        return f"{self.id_prefix}{head.unique}" if self.id_prefix else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRoute:
    """A route that answers without generating an answer for the client; ``query`` makes it.

    Attributes:
        reply: Returns the answer's body from the request's body or, if the path has parameters,
            from those and the query's; None is an answer without a body, a text is JSON already,
            and a list is the events of a stream.
        read: Converts the body to generations; ``reply`` then gets both, as ``ParsedRequest``.
        is_safe: Whether a GET changes nothing and generates nothing, so that HEAD may do the same
            (RFC 9110, section 9.2.1).
    """

    method: Literal["DELETE", "GET", "POST"]
    path: str
    summary: str
    reply: Reply
    request: type[WireModel] | None = None
    read: ReadRequest | None = None
    answer: Any = None
    recall: Callable[[Service, RequestRecord, Any], Any] | None = None
    operation: Literal["", "embeddings"] = ""
    field_names: Mapping[str, str] = field(default_factory=dict)
    media_type: str | None = None
    is_safe: bool = True


def query(
    method: Literal["DELETE", "GET", "POST"], path: str, **fields: Any
) -> Callable[[Reply], QueryRoute]:
    """Make a function the reply of a route; its docstring's first line is the route's summary."""

    def route(reply: Reply) -> QueryRoute:
        summary = (reply.__doc__ or "").partition("\n")[0].removesuffix(".")
        return QueryRoute(method=method, path=path, summary=summary, reply=reply, **fields)

    return route


class Dialect(ABC):
    """One vendor's API; each has a subclass.

    Attributes:
        field_names: Maps the engine's names of request fields to this dialect's.
        stream_fields: Fields of a request that ask for a stream, in addition to ``stream``.
        prefix: Errors for unknown paths that begin with it are in this dialect; empty for none.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    vendor: ClassVar[Vendor]
    error_type: Any
    field_names: ClassVar[Mapping[str, str]]
    answers: ClassVar[tuple[AnswerRoute[Any], ...]]
    queries: ClassVar[tuple[QueryRoute, ...]] = ()
    stream_fields: ClassVar[Mapping[str, object]] = {}
    prefix: ClassVar[str] = ""

    @abstractmethod
    def render_error(self, error: ApiError, request_id: str) -> tuple[int, Mapping[str, object]]:
        """Return the HTTP status and the body of an error, with the id of its request."""

    @abstractmethod
    def request_body(
        self, request: GenerationRequest, model: str, prompt: str
    ) -> dict[str, Any] | None:
        """Return the body that asks the first route for a generation with this rendered prompt.

        None if the API cannot express it.
        """
