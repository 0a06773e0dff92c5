"""The README and its pages: lists equal the code, links lead somewhere, files named are there."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest

from api.server.routes import ROUTES
from tests.conftest import QT_PROBLEM
from tests.support.parameter_lists import VENDORS, meanings, requests
from tests.support.readme_lists import (
    ARCHITECTURE,
    LISTS,
    OPTIONS,
    PAGES,
    README,
    ROOT,
    page_of,
    written,
)

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
WRITE_ANEW = "python -m tests.support.readme_lists writes the lists anew"
# Variables of the tests and the bundle, which no command reads.
_OF_TESTS = {"FULLSTOP_RANDOM_CASES", "FULLSTOP_TEST_BUNDLE", "FULLSTOP_WRITE_GOLDEN"}


def read(page: Path) -> str:
    """Return a page without its blocks of code, whose brackets and hashes are not Markdown."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures, but for those of the web."""
    found = re.findall(r"\]\(([^)\s]+)\)", read(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.+)$", read(page), re.MULTILINE):
        text = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[text] = found.get(text, 0) + 1
    repeated = {f"{text}-{number}" for text, count in found.items() for number in range(1, count)}
    return found.keys() | repeated


def leads_nowhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    if not found.exists():
        return True
    return bool(anchor) and anchor not in anchors(found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_picture_and_anchor_leads_somewhere(page: Path) -> None:
    assert [target for target in links(page) if leads_nowhere(page, target)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, new = set[Path](), {README}
    while new:
        reached |= new
        paths = {
            (page.parent / link.partition("#")[0]).resolve() for page in new for link in links(page)
        }
        new = {path for path in paths if path.suffix == ".md" and path.is_file()} - reached
    assert {page.name for page in PAGES} - {page.name for page in reached} == set()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    places = r"(?:engine|api|ui|app|tests|assets|\.ci|\.github)/[\w./-]+"
    named = re.findall(rf"`({places})`", read(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_module_that_a_page_runs_exists(page: Path) -> None:
    named = re.findall(r"-m ((?:tests|assets)[\w.]*\w)", page.read_text(encoding="utf-8"))
    paths = [ROOT.joinpath(*name.split(".")) for name in named]
    assert [p for p in paths if not (p.is_dir() or p.with_suffix(".py").is_file())] == []


@pytest.mark.parametrize("name", [name for name in LISTS if name != "shortcuts"])
def test_the_lists_of_the_pages_are_those_of_the_code(name: str) -> None:
    before = written(name, page_of(name).read_text(encoding="utf-8"))
    assert before is not None, f"no marks for {name}"
    assert before == LISTS[name](before), WRITE_ANEW


@pytest.mark.skipif(QT_PROBLEM is not None, reason="the shortcuts need Qt")
@pytest.mark.skipif(sys.platform != "linux", reason="each system has keys of its own")
def test_the_listed_shortcuts_are_those_of_the_menus(qapp: object) -> None:
    page = OPTIONS.read_text(encoding="utf-8")
    assert written("shortcuts", page) == LISTS["shortcuts"](""), WRITE_ANEW


def test_every_route_with_parameters_has_a_list() -> None:
    listed = {path for paths in VENDORS.values() for path in paths}
    routes = [route for route in ROUTES if route.path in requests()]
    assert listed <= requests().keys()
    # A route that differs from another in its path alone has the other's list.
    assert {one.summary for one in routes} == {one.summary for one in routes if one.path in listed}


@pytest.mark.parametrize("name", [name for name in LISTS if name.startswith("parameters")])
def test_the_page_says_what_every_parameter_does(name: str) -> None:
    listed = written(name, OPTIONS.read_text(encoding="utf-8")) or ""
    assert [field for field, meaning in meanings(listed).items() if not meaning] == []


def test_the_page_names_every_variable_that_the_program_reads() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for package in ("app", "api", "engine", "ui")
        for path in (ROOT / package).rglob("*.py")
    )
    variables = set(re.findall(r"FULLSTOP_[A-Z][A-Z_]+[A-Z]", code)) - _OF_TESTS
    page = OPTIONS.read_text(encoding="utf-8")
    assert variables
    assert {name for name in variables if f"`{name}`" not in page} == set()


def test_every_name_among_the_terms_of_the_field_is_defined() -> None:
    terms = (
        ARCHITECTURE.read_text("utf-8").partition("## Terms of the field")[2].partition("\n## ")[0]
    )
    code = "\n".join(path.read_text("utf-8") for path in ROOT.glob("*/**/*.py"))
    names = {name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z_.]+)`", terms)} - {"py"}
    assert len(names) > 20
    defined = r"(?:class|def) {}\b|\b{}: |^{} = |\"{}\""
    assert [n for n in names if not re.search(defined.replace("{}", n), code, re.M)] == []
