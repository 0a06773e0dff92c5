"""The suggestions for a newcomer fit the memory, and their data is complete."""

import pytest

from engine.library.memory_need import Fit, Memory
from engine.library.suggestions import first_models, suggestions

GB = 1_000_000_000


@pytest.mark.parametrize("size_gb", [4, 6, 12, 18, 24, 48, 96, 384])
def test_six_different_models_that_fit_are_suggested(size_gb: int) -> None:
    here = Memory(size_gb * GB, size_gb * GB)
    chosen = suggestions(here)
    assert len({one.name for one in chosen}) == 6
    assert all(one.model().fit(here) is Fit.FITS for one in chosen)
    sizes = [one.size_mb for one in chosen]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("usable_gb", "names"),
    [
        (3, ["Qwen3-1.7B-4bit", "Qwen3-0.6B-4bit"]),
        (6, ["Qwen3-4B-Instruct-2507-4bit", "Qwen3-0.6B-4bit"]),
        (24, ["Qwen3-4B-Instruct-2507-4bit", "Qwen3-0.6B-4bit", "gpt-oss-20b-MXFP4-Q8"]),
        (96, ["Qwen3-4B-Instruct-2507-4bit", "Qwen3-0.6B-4bit", "gpt-oss-120b-MXFP4-Q8"]),
    ],
)
def test_newcomer_is_recommended_a_download_of_minutes_and_the_extremes_that_fit(
    usable_gb: int, names: list[str]
) -> None:
    chosen = first_models(Memory(usable_gb * GB, GB))
    assert [model.name.rpartition("/")[2] for model in chosen] == names
    for model in chosen:
        assert model.summary
        need = model.model().need
        assert need is not None
        assert need.total < usable_gb * GB


def test_nothing_is_recommended_where_nothing_fits() -> None:
    assert first_models(Memory(GB // 4, GB // 4)) == ()
