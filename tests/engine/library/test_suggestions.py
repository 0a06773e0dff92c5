"""The suggestions for a newcomer fit the memory, and their data is complete."""

import pytest

from engine.library.memory_need import Fit, Memory
from engine.library.suggestions import recommended, suggestions

GB = 1_000_000_000


@pytest.mark.parametrize("size_gb", [4, 6, 12, 18, 24, 48, 96, 384])
def test_six_different_models_that_fit_are_suggested(size_gb: int) -> None:
    here = Memory(size_gb * GB, size_gb * GB)
    chosen = suggestions(here)
    assert len({one.name for one in chosen}) == 6
    assert all(one.model().fit(here) is Fit.FITS for one in chosen)
    sizes = [one.size_mb for one in chosen]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("usable_gb", "title"),
    [
        (3, "Qwen3 1.7B"),
        (6, "Qwen3 4B"),
        (11, "Qwen3 8B"),
        (24, "gpt-oss 20B"),
        (96, "gpt-oss 120B"),
    ],
)
def test_a_newcomer_is_recommended_the_largest_that_leaves_room(usable_gb: int, title: str) -> None:
    chosen = recommended(Memory(usable_gb * GB, GB))
    assert chosen is not None
    assert chosen.title == title
    need = chosen.model().need
    assert need is not None
    assert need.total < usable_gb * GB
    assert chosen.summary


def test_nothing_is_recommended_where_nothing_fits() -> None:
    assert recommended(Memory(GB // 4, GB // 4)) is None
