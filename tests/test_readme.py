"""The README's lists must equal the code, and its links must lead somewhere."""

import re
from pathlib import Path

from api.routes import ROUTES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_lists_exactly_the_routes_there_are() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| `(/[^`]*)` \| (.+) \|$", README, re.MULTILINE)
    assert rows == [(route.method, route.path, route.description) for route in ROUTES]


def test_every_relative_link_and_picture_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_file_named_in_the_readme_exists() -> None:
    named = re.findall(r"`((?:engine|api|ui|app|tests|assets)/[\w./-]+\.py)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
