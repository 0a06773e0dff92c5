"""Colors of code."""

import pytest

from ui.kit.colors import LIGHT
from ui.kit.markdown.style import highlighted_lines


@pytest.mark.parametrize("code", ["ls  # all", "ls  # all\n", "ls  # all\necho"])
def test_bash_comment_is_faint_without_newline(code: str) -> None:
    lines = highlighted_lines(code, "bash", LIGHT)
    assert ("# all", LIGHT.faint) in lines[0]
    assert ["".join(text for text, _ in line) for line in lines] == code.split("\n")


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "kotlin", "csharp"])
def test_number_with_separators_has_one_color(language: str) -> None:
    for number in ("86_400_000", "10_000n"):
        [line] = highlighted_lines(f"x = {number}", language, LIGHT)
        colored = "".join(text for text, color in line if color == LIGHT.limit)
        assert number.removesuffix("n") in colored
    [line] = highlighted_lines("x1 = some_400", language, LIGHT)
    assert not [text for text, color in line if color == LIGHT.limit]


@pytest.mark.parametrize("language", ["sh", "console"])
def test_shell_comment_between_commands_is_faint(language: str) -> None:
    lines = highlighted_lines("# list all\n$ ls", language, LIGHT)
    assert {color for _, color in lines[0]} == {LIGHT.faint}
    assert LIGHT.faint not in {color for _, color in lines[1]}
