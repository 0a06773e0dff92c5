"""The product's own source, for the tests that look for words and names in it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "api", "ui", "app")


def modules(*packages: str, holding: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each module of some packages that holds some text."""
    paths = (path for package in packages or PACKAGES for path in (ROOT / package).rglob("*.py"))
    for path in sorted(paths):
        text = path.read_text(encoding="utf-8")
        if holding in text:
            yield path.relative_to(ROOT).as_posix(), text


def nodes(text: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(text))
