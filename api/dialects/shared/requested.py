"""What the body of a request asks the engine for. Pure; any thread, any process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from api.dialects.shared.body import WireModel
from engine import GenerationRequest, InvalidRequest

_Params = TypeVar("_Params", bound=WireModel)
_Sent = TypeVar("_Sent", bound=WireModel, contravariant=True)


class ReadRequest(Protocol[_Sent]):
    """Turns a request's body into generations."""

    def __call__(self, params: _Sent, *, strict: bool) -> Sequence[GenerationRequest]:
        """Return what the engine is to generate; nothing where the request has no question.

        Args:
            params: The request.
            strict: Refuse what the hosted API refuses.

        Raises:
            ApiError: A feature is not supported, or a field is wrong; the error names it.
            InvalidRequest: A stop is wrong; the message names its index.
        """
        ...


@dataclass(frozen=True, slots=True)
class Asked(Generic[_Params]):
    """A request's body as it was read.

    Attributes:
        params: The body. That of a large one comes without its turns, which ``read`` has used.
        wanted: What it asks the engine for.
        refusal: Where the engine would refuse it, the field and the reason.
    """

    params: _Params
    wanted: Sequence[GenerationRequest]
    refusal: tuple[str, str] | None = None

    def requests(self) -> Sequence[GenerationRequest]:
        """Return what it asks the engine for.

        Raises:
            InvalidRequest: The engine would refuse it.
        """
        if self.refusal is not None:
            raise InvalidRequest(*self.refusal)
        return self.wanted


def asked_by(params: _Params, read: ReadRequest[_Params], *, strict: bool) -> Asked[_Params]:
    """Return what a body asks the engine for, or where the engine would refuse it.

    Args:
        params: The request.
        read: The dialect's reader.
        strict: Refuse what the hosted API refuses.

    Raises:
        ApiError: A feature is not supported, or a field is wrong; the error names it.
    """
    try:
        return Asked(params, read(params, strict=strict))
    except InvalidRequest as refusal:
        # Not the error itself: its traceback refers to the frames that hold the request.
        return Asked(params, (), (refusal.field, refusal.reason))
