"""Runs the commands and snippets of the README and its pages, word for word."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from app.cli import main
from tests.e2e.conftest import without_display
from tests.support.parameter_lists import VENDORS, meanings
from tests.support.readme_lists import OPTIONS, PAGES, ROOT, written

pytestmark = pytest.mark.long

TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
ADDRESS = "http://127.0.0.1:8642"
# Snippets for people who use the server; a page for builders shows how to hold a step.
PYTHON = [code for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "import" in code]
# A command can follow those that install the program.
SHELL = [
    command
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for command in re.findall(r"(?:^|&& \S+/)(fullstop (?:ask|replay) .*)$", block, re.MULTILINE)
]
# The smallest request of each route.
BODIES = {
    "/v1/messages": {
        "model": "any",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "a"}],
    },
    "/v1/messages/count_tokens": {"model": "any", "messages": [{"role": "user", "content": "a"}]},
    "/v1/chat/completions": {"model": "any", "messages": [{"role": "user", "content": "a"}]},
    "/v1/completions": {"model": "any", "prompt": "a"},
    "/v1/responses": {"model": "any", "input": "a"},
    "/v1/responses/compact": {"model": "any", "input": "a"},
    "/v1/responses/input_tokens": {"input": "a"},
    "/tokenize": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/chat/completions/render": {"messages": [{"role": "user", "content": "a"}]},
    "/apply-template": {"messages": [{"role": "user", "content": "a"}]},
    "/generate": {"text": "a", "sampling_params": {"max_new_tokens": 1}},
    "/api/chat": {"model": "any", "messages": [{"role": "user", "content": "a"}]},
    "/api/generate": {"model": "any", "prompt": "a"},
}
# Values that switch a parameter on, by the type that the page states.
SAMPLES = {
    "`null`": ["a"],
    "a list of objects": [{}],
    "a list of whole numbers": [1],
    "true or false": True,
    "text": "a",
}


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        env=without_display() | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        timeout=60,
        check=False,
    )


def posted(url: str, body: object) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def refused() -> list[tuple[str, str, str]]:
    """Return route, name and value of every parameter that the page marks as refused."""
    page = OPTIONS.read_text(encoding="utf-8")
    found = []
    for vendor, paths in VENDORS.items():
        listed = written(f"parameters of {vendor}", page) or ""
        rows = [line for line in listed.splitlines() if " | Refused" in line]
        for (name, value), meaning in meanings("\n".join(rows)).items():
            assert meaning.startswith("Refused")
            columns = next(line for line in rows if line.startswith(f"| `{name}` | {value} |"))
            marks = columns.split(" | ")[3:] if len(paths) > 1 else ["yes"]
            found += [
                (path, name, value)
                for path, mark in zip(paths, marks, strict=True)
                if mark.strip(" |") == "yes"
            ]
    return found


def test_the_pages_have_snippets_for_every_vendor_with_a_client() -> None:
    clients = {re.findall(r"import (\w+)", code)[0] for code in PYTHON}
    assert clients == {"anthropic", "openai", "ollama"}


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: str(code.split()[1]))
def test_a_snippet_works_when_pasted(code: str, address: str) -> None:
    assert ADDRESS in code
    done = typed(sys.executable, "-c", code.replace(ADDRESS, address))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split()
    assert shown[:5] == ["1", "2", "3", "4", "5"], done.stdout
    # Ollama's API has no field for the stop that matched.
    assert shown[-1] == ("stop" if "ollama" in code else "6"), "the stop is named"


def test_the_commands_work_when_typed_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert SHELL[0].endswith("--stop 6"), "the command that most people try first"
    monkeypatch.chdir(tmp_path)
    texts = {}
    for line in SHELL:
        code = main(shlex.split(line)[1:])
        captured = capfd.readouterr()
        assert code == 0, (line, captured.err)
        texts[line] = captured.out
    assert any('"value": "END"' in text for text in texts.values())
    saved = [line for line in SHELL if "--save-run" in line]
    replayed = [line for line in SHELL if line.startswith("fullstop replay")]
    assert saved
    assert texts[replayed[0]].startswith("1\n2\n3\n4\n5\n6\n")
    assert os.listdir(tmp_path) == ["run.json"]


def test_the_server_accepts_the_bodies_of_these_tests(address: str) -> None:
    assert {
        path: posted(address + path, body)[0] for path, body in BODIES.items()
    } == dict.fromkeys(BODIES, 200)


@pytest.mark.parametrize(("path", "name", "value"), refused())
def test_a_parameter_that_the_page_marks_as_refused_is_refused_by_name(
    path: str, name: str, value: str, address: str
) -> None:
    sample = SAMPLES.get(value, 3)  # a number that no parameter accepts
    outer, _, inner = name.rpartition(".")
    body: dict[str, object] = dict(BODIES[path])
    if outer:
        whole = body.get(outer, {})
        assert isinstance(whole, dict)
        body[outer] = whole | {inner: sample}
    else:
        body[name] = sample
    status, text = posted(address + path, body)
    assert (status, inner in text) == (400, True), text
