"""Colors of code."""

import pytest

from ui.kit.colors import LIGHT
from ui.kit.markdown.style import highlighted_lines


@pytest.mark.parametrize("code", ["ls  # all", "ls  # all\n", "ls  # all\necho"])
def test_bash_comment_is_faint_without_newline(code: str) -> None:
    lines = highlighted_lines(code, "bash", LIGHT)
    assert ("# all", LIGHT.faint) in lines[0]
    assert ["".join(text for text, _ in line) for line in lines] == code.split("\n")
