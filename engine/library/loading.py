"""The progress of loading a model, and its cancellation. Pure values; any thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.errors import ModelLoadFailed

LoadPhase = Literal["checking", "libraries", "weights", "tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading a model.

    Attributes:
        phase: Checking files, importing MLX, reading weights, or reading the tokenizer.
        done_bytes: Bytes of weights in memory.
        total_bytes: Bytes of weights in all; 0 while they are not known.
    """

    phase: LoadPhase
    done_bytes: int = 0
    total_bytes: int = 0


class LoadCancelled(ModelLoadFailed):
    """Loading was cancelled on request."""

    def __init__(self) -> None:
        super().__init__("loading was cancelled")


# Called on the engine thread between two parts of the work; raises ``LoadCancelled`` to cancel.
OnLoadProgress = Callable[[LoadProgress], None]


def unobserved(_progress: LoadProgress) -> None:
    """Ignore the progress."""
