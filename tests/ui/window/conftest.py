"""A theme whose text is as usual again after each test."""

from collections.abc import Iterator

import pytest

from ui.kit.theme import Theme


@pytest.fixture
def sized(theme: Theme) -> Iterator[Theme]:
    """The theme; its text is as usual afterwards."""
    yield theme
    theme.set_text_size(100)
