"""Whether a model fits into memory is known before it is loaded."""

import pytest

from engine.library.memory_need import Fit, Memory, MemoryNeed

GIB = 1 << 30


@pytest.mark.parametrize(
    ("usable", "available", "fit"),
    [(16, 12, Fit.FITS), (16, 6, Fit.TIGHT), (6, 6, Fit.TOO_LARGE)],
)
def test_a_model_fits_is_tight_or_is_too_large(usable: int, available: int, fit: Fit) -> None:
    wanted = MemoryNeed(weights=7 * GIB, cache=0, headroom=0, context=1)
    assert wanted.fit(Memory(usable * GIB, available * GIB)) is fit
