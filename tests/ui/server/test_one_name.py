"""The window of the local server has one name, in every menu, button, sentence and page."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ui.server.server_switch import WINDOW_TITLE

ROOT = Path(__file__).parents[3]
# What it was called before, or may be called by mistake.
_OTHER_NAMES = re.compile(
    r"Server and Requests|Requests and Settings|(?<!Local )Server window|(?<!tool )server window"
    r"|server\u2019s window|window of the server"
)


def shown_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of the window and of the pages, each with its place."""
    for package in ("ui", "app"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value
    for page in (*sorted((ROOT / ".github").glob("*.md")), ROOT / "README.md"):
        yield page.name, page.read_text()


def test_the_window_of_the_server_has_one_name() -> None:
    assert WINDOW_TITLE == "Local Server"
    others = [
        f"{place}: {match[0]}"
        for place, text in shown_texts()
        for match in _OTHER_NAMES.finditer(text)
    ]
    assert others == []
