"""The words of the window are plain, and numbers agree with their nouns by one helper."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.wording import format_size

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "ui").rglob("*.py"))
# What the window once said, and what no longer stands in it; see "Plain English" for the rest.
STRANGE = re.compile(
    r"\bonce more\b|\bhas come\b|\bgone on with\b|\bgo on with\b|(?<!re )\bis no (?!longer\b)[a-z]|"
    r"\bresting\b|\bNo More\b|\bmend\b|\bAfterwards\b|\bsign by sign\b|\bstands here\b|"
    r"\bput away\b|\bevery byte was\b|\beverything said\b|\bBring Back\b",
    re.IGNORECASE,
)
NOUNS = "token|character|byte|answer|request|stop|message|file|result|check|run|sequence|word|line"
UNHELPED = re.compile(rf"^ (?:{NOUNS})s\b(?!/)")  # "tokens/s" is a unit


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the text constants of a module that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            assert isinstance(node, ast.Constant)
            yield node


def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_label_uses_words_that_people_do_not_know(path: Path) -> None:
    found = [
        f"line {one.lineno}: {one.value}"
        for one in strings(parsed(path))
        if " " in str(one.value) and STRANGE.search(str(one.value))
    ]
    assert found == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_numbers_agree_with_their_nouns(path: Path) -> None:
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.JoinedStr):
            for one, after in zip(node.values, node.values[1:], strict=False):
                is_number = isinstance(one, ast.FormattedValue)
                words = str(after.value) if isinstance(after, ast.Constant) else ""
                if is_number and UNHELPED.match(words):
                    found.append(f"line {node.lineno}: …{words}")
    assert found == [], "use engine.counted"


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (2_048, "2.0 kB")]
)
def test_sizes_agree_too(count: int, words: str) -> None:
    assert format_size(count) == words
