"""Texts as vectors of length 1, of nearly the same direction for texts of like meaning."""

from array import array
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from engine.errors import InvalidRequest

# 32-bit numbers.
Vector: TypeAlias = "array[float]"

# As many as hosted services take.
MAX_INPUTS = 2048


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts of which each becomes a vector.

    Attributes:
        inputs: The texts, each as text or as token ids, at least one.
        dimensions: The length of the vectors, which are cut and scaled again; None for all that
            the model has.
        truncates: Whether a text that is longer than the context loses its end; if not, the request
            is refused.
    """

    field: ClassVar[str] = "inputs"

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    truncates: bool = False
    model: str | None = None

    def check(self) -> None:
        if not self.inputs:
            raise InvalidRequest("inputs", "at least one text is needed")
        if len(self.inputs) > MAX_INPUTS:
            raise InvalidRequest(
                "inputs", f"at most {MAX_INPUTS:,} texts are possible, got {len(self.inputs):,}"
            )
        if self.dimensions is not None and self.dimensions < 1:
            raise InvalidRequest("dimensions", f"must be at least 1, not {self.dimensions}")


@dataclass(frozen=True, slots=True)
class Embeddings:
    """For each text, in their order, a vector of length 1, and how many tokens were read."""

    vectors: tuple[Vector, ...]
    tokens: tuple[int, ...]
