"""What the error envelopes of all vendors have in common. Pure; any thread."""

from api.transport.errors import ApiError, ErrorKind, path_text
from engine import StopInfo


def with_field(error: ApiError) -> str:
    """Return what is wrong, after the field where it is wrong: ``messages[0].role: …``."""
    field = path_text(error.field)
    return f"{field}: {error.message}" if field else error.message


def not_an_ending(stop: StopInfo) -> ApiError:
    """Return the error of rendering a failure as if it were the end of an answer.

    A failed answer is told as an error, which is decided before endings are rendered.
    """
    return ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
