"""How far the loading of a model has come, and the way to break it off. Pure values; any thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.errors import ModelLoadFailed

LoadPhase = Literal["checking", "libraries", "weights", "tokenizer"]


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """What loading is busy with.

    Attributes:
        phase: Checking the files, importing MLX, reading weights, reading the tokenizer.
        done_bytes: Bytes of weights in memory.
        total_bytes: Bytes of weights in all; 0 while they are not known.
    """

    phase: LoadPhase
    done_bytes: int = 0
    total_bytes: int = 0


class LoadCancelled(ModelLoadFailed):
    """Loading was broken off because somebody asked for it."""

    def __init__(self) -> None:
        super().__init__("loading was cancelled")


# Called on the engine thread between two parts of the work; raises ``LoadCancelled`` to end it.
OnLoadProgress = Callable[[LoadProgress], None]


def unobserved(_progress: LoadProgress) -> None:
    """Take a progress nobody wants to see."""
