"""One request of a probe and its answer. Pure values; knows no web framework. Any thread."""

from dataclasses import dataclass, field
from typing import Any

from api.conformance.captures.values import Capture


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer.

    Attributes:
        body: The request's body.
        status: The HTTP status; 0 if there was none.
        text: The answer's body.
        capture: The answer, parsed.
        problem: Why the answer is incomplete: a time-out or a broken connection; empty if it is
            complete.
        total_s: How long it took.
        first_s: When the first byte of the body arrived; None if none did.
        is_streamed: Whether a stream was asked for.
        is_left_open: Whether the connection stayed open after the end of the stream.
        headers: The answer's headers, names in lower case.
    """

    body: Any
    status: int
    text: str
    capture: Capture
    problem: str = ""
    total_s: float = 0.0
    first_s: float | None = None
    is_streamed: bool = False
    is_left_open: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """How the answer was requested, as reports show it."""
        return "streamed" if self.is_streamed else "whole"

    @property
    def is_answer(self) -> bool:
        """Whether this is a complete answer of the model."""
        return self.status == 200 and not self.problem and self.capture.error is None

    @property
    def is_refusal(self) -> bool:
        """Whether the server says that the request is at fault."""
        return 400 <= self.status < 500 and not self.problem
