"""The workflow, the checklist and the contributors' notes name only what there is."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.bundle.product import ROOT, linux_layout, mac_layout

NOTES = ROOT / ".github"
WORKFLOW = NOTES / "workflows" / "checks.yml"
PAGES = sorted(NOTES.glob("*.md"))


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, WORKFLOW], ids=lambda page: page.name)
def test_files_and_modules_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"(?<![$.\w])(?:app|engine|api|ui|tests|assets)/[\w/-]+\.\w+", text)
    modules = re.findall(r"-m ((?:app|tests|assets)[\w.]*)", text)
    places = [ROOT / file for file in files]
    for module in modules:
        place = ROOT.joinpath(*module.split("."))
        places.append(place if place.is_dir() else place.with_suffix(".py"))
    assert [str(place) for place in places if not place.exists()] == []


def test_the_workflow_runs_every_check_on_linux(jobs: dict[str, Any]) -> None:
    assert {"run": ".ci/run"} in jobs["linux"]["steps"]


def test_the_workflow_proves_the_bundle_that_is_built(jobs: dict[str, Any]) -> None:
    job = jobs["bundle"]
    programs = {
        row["system"].partition("-")[0]: row["program"]
        for row in job["strategy"]["matrix"]["include"]
    }
    dist = ROOT / "dist"
    assert programs == {
        "macos": mac_layout(dist).program.relative_to(ROOT).as_posix(),
        "ubuntu": linux_layout(dist).program.relative_to(ROOT).as_posix(),
    }
    commands = [step["run"] for step in job["steps"] if "run" in step]
    built = commands.index("python -m assets.bundle.build")
    assert "env -i" in commands[built + 1]
    assert "--self-test" in commands[built + 1]
