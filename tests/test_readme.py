"""The README's lists must equal the code, and its links must lead somewhere."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest

from tests.conftest import QT_PROBLEM
from tests.support.readme_lists import LISTS, written

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_relative_link_and_picture_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_file_named_in_the_readme_exists() -> None:
    named = re.findall(r"`((?:engine|api|ui|app|tests|assets)/[\w./-]+\.py)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", ["routes", "options", "settings"])
def test_the_readmes_lists_are_those_of_the_code(name: str) -> None:
    assert written(name, README) == LISTS[name](), "python -m tests.support.readme_lists"


@pytest.mark.skipif(QT_PROBLEM is not None, reason="the shortcuts need Qt")
@pytest.mark.skipif(sys.platform != "linux", reason="each system has keys of its own")
def test_the_readmes_shortcuts_are_those_of_the_menus(qapp: object) -> None:
    assert written("shortcuts", README) == LISTS["shortcuts"]()
