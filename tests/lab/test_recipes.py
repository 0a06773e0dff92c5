"""The recipes of HOW_TO_ADD: each makes its change on a copy of the tree and sees the effect."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_CODE = shutil.ignore_patterns("__pycache__", "*.pyc")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the program and its demo model."""
    folder = tmp_path / "tree"
    for package in ("api", "app", "engine", "ui", "assets/demo-model"):
        shutil.copytree(ROOT / package, folder / package, ignore=_CODE)
    for part in ("tests/support", ".github"):
        shutil.copytree(ROOT / part, folder / part, ignore=_CODE)
    shutil.copy(ROOT / "README.md", folder)
    return folder


def changed(tree: Path, *changes: tuple[str, str, str]) -> None:
    """Put text before a place of each file, which the place names once; a new file has no place."""
    for name, place, text in changes:
        file = tree / name
        before = file.read_text(encoding="utf-8") if place else ""
        assert before.count(place) == 1 or not place, f"{name} has {place!r} once"
        file.write_text(before.replace(place, text + place) if place else text, encoding="utf-8")


def environment(tree: Path) -> Mapping[str, str]:
    """The environment of a program in a copy, away from this person's folders."""
    own = {"FULLSTOP_DATA_DIR": "data", "FULLSTOP_CONFIG_DIR": "config", "HF_HUB_CACHE": "hub"}
    places = {name: str(tree.parent / folder) for name, folder in own.items()}
    return {**os.environ, **places, "PYTHONPATH": str(tree), "COLUMNS": "100"}


def said(tree: Path, *words: str) -> str:
    """What the program in a copy prints."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tree,
        env=environment(tree),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(tree: Path) -> Iterator[str]:
    """The address of a server in a copy."""
    with subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", "0", "--plain-decoding"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,
        env=environment(tree),
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().removeprefix("listening on ").strip()
        finally:
            server.terminate()


def answer(address: str, **parameters: Any) -> str:
    """The text of a chat completion of the demo model."""
    question = {"role": "user", "content": "Count from 1 to 9, one number per line"}
    body = {"model": "any", "messages": [question], "max_tokens": 12, **parameters}
    request = urllib.request.Request(
        f"{address.rstrip('/')}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        text = json.load(response)["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


@pytest.mark.long
def test_a_command_of_three_files_runs_is_completed_and_is_in_help_and_in_the_tables(
    tree: Path,
) -> None:
    options = '''\
@dataclass(frozen=True, slots=True)
class GreetOptions:
    """Who is greeted."""

    name: str = declare("", option="NAME", help="who is greeted")
    times: int = declare(1, least=1, most=9, metavar="N", help="how often")
    is_loud: bool = declare(False, option="--loudly", help="greet in capitals")


'''
    line = """\
    Command(
        name="greet",
        help="greet somebody",
        work="app.commands.greet:run",
        options=GreetOptions,
    ),
"""
    work = '''\
"""``fullstop greet``: greets somebody."""

from app import exits
from app.settings.options import GreetOptions


def run(options: GreetOptions) -> int:
    """Print the greeting; return the exit code."""
    words = " ".join([f"Hello {options.name}"] * options.times)
    print(words.upper() if options.is_loud else words)
    return exits.OK
'''
    page = "### `fullstop greet`\n\n<!-- options of greet -->\n<!-- /options of greet -->\n\n"
    changed(
        tree,
        ("app/settings/options.py", "@dataclass(frozen=True, slots=True, kw_only=True)\n", options),
        ("app/settings/options.py", '    Command(\n        name="serve"', line),
        ("app/commands/greet.py", "", work),
        (".github/OPTIONS.md", "### `fullstop replay`\n", page),
    )
    program = ("-m", "app")
    assert said(tree, *program, "greet", "Ada", "--times", "2", "--loudly") == (
        "HELLO ADA HELLO ADA\n"
    )
    assert "greet               greet somebody" in said(tree, *program, "--help")
    assert "--times N" in said(tree, *program, "greet", "--help")
    assert said(tree, *program, "completion", "bash", "--", "fullstop", "greet", "--l") == (
        "--loudly\n"
    )
    made = "from tests.support.readme_lists import LISTS; print(LISTS['options of greet'](''))"
    assert "| `--times N` | how often (default 1) |" in said(tree, "-c", made)


@pytest.mark.slow
def test_a_sampling_parameter_of_three_files_is_honoured_over_http(tree: Path) -> None:
    field = """\
    top_n_sigma: float | None = _option(
        SamplingOption("Top n sigma", "deviations below the likeliest token", 0, 10, 0.1)
    )
"""
    near_the_top = """\
def _near_the_top(wanted: Sampling) -> list[Any]:
    sigmas = wanted.top_n_sigma
    if sigmas is None:
        return []

    def mask(_: mx.array, logits: mx.array) -> mx.array:
        least = mx.max(logits, -1, keepdims=True) - sigmas * mx.std(logits, -1, keepdims=True)
        return mx.where(logits < least, -mx.inf, logits)

    return [mask]


"""
    row = '    "top_n_sigma": {"OpenAI": Spelled(_from(0, 10))},\n'
    changed(
        tree,
        ("engine/values/request.py", "    min_p: float | None = _option(", field),
        ("engine/inference/sampling.py", "def processors(", near_the_top),
        ("api/dialects/shared/parameters.py", '    "min_p": {"OpenAI"', row),
    )
    sampling = tree / "engine/inference/sampling.py"
    made = sampling.read_text(encoding="utf-8")
    calls = "    return list(\n        make_logits_processors("
    assert made.count(calls) == 1
    sampling.write_text(
        made.replace(calls, calls.replace("return ", "return _near_the_top(wanted) + ")),
        encoding="utf-8",
    )
    with served(tree) as address:
        greedy = answer(address, temperature=0)
        assert any(answer(address, temperature=2, seed=seed) != greedy for seed in range(8))
        for seed in range(8):
            narrow = answer(address, temperature=2, seed=seed, top_n_sigma=0.001)
            assert narrow == greedy
