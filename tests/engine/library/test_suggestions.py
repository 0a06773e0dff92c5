"""The suggestions for a newcomer fit the memory, and their data is complete."""

import pytest

from engine.library.downloads import repository_of
from engine.library.hub_models import SUGGESTIONS, WRITTEN_ON, recommended, suggestions
from engine.library.memory import Fit, Memory

GB = 1_000_000_000


@pytest.mark.parametrize("size_gb", [4, 6, 12, 18, 24, 48, 96, 384])
def test_six_different_models_that_fit_are_suggested(size_gb: int) -> None:
    here = Memory(size_gb * GB, size_gb * GB)
    chosen = suggestions(here)
    assert len({one.name for one in chosen}) == 6
    assert all(one.model().fit(here) is Fit.FITS for one in chosen)
    sizes = [one.size_mb for one in chosen]
    assert sizes == sorted(sizes, reverse=True)


def test_the_largest_that_fits_is_among_them() -> None:
    here = Memory(24 * GB, 24 * GB)
    fitting = [one for one in SUGGESTIONS if one.model().fit(here) is Fit.FITS]
    assert suggestions(here)[0] == fitting[-1]


def test_other_programs_do_not_change_what_is_suggested() -> None:
    assert suggestions(Memory(24 * GB, GB)) == suggestions(Memory(24 * GB, 24 * GB))


def test_nothing_is_suggested_where_nothing_fits() -> None:
    assert suggestions(Memory(GB // 4, GB // 4)) == ()


def test_every_suggestion_is_a_repository_with_size_license_and_purpose() -> None:
    assert WRITTEN_ON.year >= 2026
    for one in SUGGESTIONS:
        assert repository_of(one.name) == one.name
        assert one.size_mb > 0
        assert one.token_bytes > 0
        assert one.license
        assert one.purpose


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
    assert chosen.first_words


def test_nothing_is_recommended_where_nothing_fits() -> None:
    assert recommended(Memory(GB // 4, GB // 4)) is None
