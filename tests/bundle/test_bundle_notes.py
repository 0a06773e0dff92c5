"""The workflow, the checklist and the contributors' notes name only what there is."""

from typing import Any

import pytest
import yaml

from assets.bundle.product import ROOT, linux_layout, mac_layout

NOTES = ROOT / ".github"
WORKFLOW = NOTES / "workflows" / "checks.yml"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return found


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
