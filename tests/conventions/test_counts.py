"""A number stands with its noun in the right form: "1 token", "2,048 tokens"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOUNS = (
    "answers|apps|bytes|calls|cases|characters|checks|conversations|files|folders|items|lines|"
    "messages|minutes|models|pages|parts|pieces|prompts|requests|results|rows|rules|runs|seconds|"
    "sequences|servers|stops|tokens|tools|versions|words"
)
_PLURAL = re.compile(rf"^ (?:\w+ )?({NOUNS})\b(?!/s)")
# The vendors' own words, which clients read; what shares nothing with the engine; what only one of
# several machines tells another.
_OTHERS = ("api/dialects/", "api/conformance/", "engine/distributed/")


def uncounted(source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers that stand before a noun in the plural, whatever the number is."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            written = ast.unparse(value.value)
            is_many = written.rpartition(".")[2].lstrip("_").isupper()  # a constant
            is_measured = value.format_spec is not None and "f" in ast.unparse(value.format_spec)
            is_sql = " FROM " in str(after.value)
            is_count = re.search(r"count|len|tokens|bytes|number|most|limit|size|width", written)
            if (
                _PLURAL.match(str(after.value))
                and is_count
                and not (is_many or is_measured or is_sql)
            ):
                yield node.lineno, f"{{{written}}}{after.value}"


def test_no_text_gives_a_number_its_noun_in_a_form_of_its_own() -> None:
    files = [
        file for room in ("engine", "api", "ui", "app") for file in (ROOT / room).rglob("*.py")
    ]
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in files
        if not file.relative_to(ROOT).as_posix().startswith(_OTHERS)
        for line, text in uncounted(file.read_text(encoding="utf-8"))
    ]
    assert len(files) > 100
    assert found == []
