"""The generations that a request's body asks for. Pure; any thread, any process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.extension import with_image_rule
from api.transport.config import ImageRule
from engine import GenerationRequest, InvalidRequest

_Params = TypeVar("_Params", bound=WireModel)
_Sent = TypeVar("_Sent", bound=WireModel, contravariant=True)


class ReadRequest(Protocol[_Sent]):
    """Turns a request's body into generations."""

    def __call__(self, params: _Sent, *, strict: bool) -> Sequence[GenerationRequest]:
        """Return the generations that the request asks for; none if it has no prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Asked(Generic[_Params]):
    """A request's body after parsing.

    Attributes:
        params: The wire model. For a large body it comes without turns, which ``read`` has
            converted.
        wanted: The generations that it asks for.
        refusal: The field that the engine would refuse, with the reason; None if it would accept.
    """

    params: _Params
    wanted: Sequence[GenerationRequest]
    refusal: tuple[str, str] | None = None

    def requests(self) -> Sequence[GenerationRequest]:
        """Return the generations that it asks for.

        Raises:
            InvalidRequest: The engine would refuse it.
        """
        if self.refusal is not None:
            raise InvalidRequest(*self.refusal)
        return self.wanted


def asked_by(
    params: _Params,
    read: ReadRequest[_Params],
    *,
    strict: bool,
    images: ImageRule = "refuse",
) -> Asked[_Params]:
    """Return the generations that a body asks for, or what the engine would refuse."""
    params = with_image_rule(params, images)
    try:
        return Asked(params, read(params, strict=strict))
    except InvalidRequest as refusal:
        # Not the error itself: its traceback would keep the request's frames alive.
        return Asked(params, (), (refusal.field, refusal.reason))
