"""What the error formats of all vendors have in common. Pure; any thread."""

from api.transport.errors import ApiError, ErrorKind, path_text
from engine import StopInfo


def with_field(error: ApiError) -> str:
    """Return an error's message after the name of its field: ``messages[0].role: …``."""
    field = path_text(error.field)
    return f"{field}: {error.message}" if field else error.message


def not_an_ending(stop: StopInfo) -> ApiError:
    """Return the error of code that renders a failure as the end of an answer.

    A failed answer is sent as an error, which is decided before ends are rendered.
    """
    return ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
