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
_COUNT = "Count from 1 to 9, one number per line"


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


def replaced(tree: Path, name: str, place: str, text: str) -> None:
    """Put text in the place that a file has once."""
    file = tree / name
    before = file.read_text(encoding="utf-8")
    assert before.count(place) == 1, f"{name} has {place!r} once"
    file.write_text(before.replace(place, text), encoding="utf-8")


def environment(tree: Path) -> Mapping[str, str]:
    """The environment of a program in a copy, away from this person's folders."""
    own = {"FULLSTOP_DATA_DIR": "data", "FULLSTOP_CONFIG_DIR": "config", "HF_HUB_CACHE": "hub"}
    places = {name: str(tree.parent / folder) for name, folder in own.items()}
    return {
        **os.environ,
        **places,
        "PYTHONPATH": str(tree),
        "COLUMNS": "100",
        "QT_QPA_PLATFORM": "offscreen",
    }


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


def answer(address: str, asked: str = _COUNT, **parameters: Any) -> str:
    """The text of a chat completion of the demo model."""
    question = {"role": "user", "content": asked}
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
    calls = "    return list(\n        make_logits_processors("
    with_mask = calls.replace("return ", "return _near_the_top(wanted) + ")
    replaced(tree, "engine/inference/sampling.py", calls, with_mask)
    with served(tree) as address:
        greedy = answer(address, temperature=0)
        assert any(answer(address, temperature=2, seed=seed) != greedy for seed in range(8))
        for seed in range(8):
            narrow = answer(address, temperature=2, seed=seed, top_n_sigma=0.001)
            assert narrow == greedy


_ONE_STOP_IN_THE_WINDOW = """
from PySide6.QtWidgets import QApplication, QMenu

from engine import Channel, RunSetting, StopInfo, StopKind, StopRules, TokenTrace
from engine.files.json_fields import Fields
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import from_json, to_json
from tests.engine.contract.found import stop_as_test
from ui.inspector.matcher_tab import rule_reports
from ui.inspector.tape import Tape
from ui.kit.theme import Theme
from ui.records.codec import stops_from, stops_values
from ui.records.conversations import StopEntry, rules_of
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import StopHistory, remarks
from ui.stops.stop_table import StopTable

program = QApplication([])
theme = Theme(program)
model = StopListModel([StopEntry.of("END")])
table = StopTable()
table.setModel(model)
table.choose_scope(model.index(0, 1))
option = table.findChild(QMenu).actions()[-1]
print(option.text())
option.trigger()
rules = rules_of(model.entries())
print(stop_as_test(rules.stops[0]))
print(stops_from(Fields({"stops": stops_values(model.entries())})) == model.entries())
trace = RunTrace(RunSetting("m"), rules, 64)
trace.take(TokenTrace(0, 5, "the end", b"the end", Channel.TEXT, 0.1, 7, "", (0,)))
trace.stop = StopInfo(StopKind.EOS)
recording = trace.recording()
print(from_json(to_json(recording)).rules == rules)
print(remarks(model.entries(), 0, StopHistory(answers=("the end",)), frozenset())[0].words)
print(rule_reports(Tape(trace))[0].outcome)
"""


@pytest.mark.slow
def test_an_option_for_one_stop_of_four_files_counts_over_http_in_the_window_and_in_the_contract(
    tree: Path,
) -> None:
    shutil.copytree(ROOT / "tests/engine", tree / "tests/engine", ignore=_CODE)
    field = """\
    ignores_case: bool = field(
        default=False, metadata={"title": "Ignore Case", "help": "take any case of its letters"}
    )

"""
    any_case = """\
        if self.ignores_case:
            return text.lower().find(self.text[:chars].lower(), start)
"""
    spellings = """\
def _spellings(rules: StopRules, numbers: tuple[int, ...]) -> dict[str, int]:
    texts: dict[str, int] = {}
    for place, number in enumerate(numbers):
        stop = rules.stops[number]
        cases = [{char, char.swapcase()} if stop.ignores_case else {char} for char in stop.text]
        for letters in product(*cases):
            texts.setdefault("".join(letters), place)
    return texts


class _AnyCase(StopMatcher):
    def __init__(self, spellings: dict[str, int]) -> None:
        super().__init__(tuple(spellings))
        self._places = tuple(spellings.values())

    @property
    def progress(self) -> tuple[int, ...]:
        reached = [0] * (max(self._places) + 1)
        for place, count in zip(self._places, super().progress, strict=True):
            reached[place] = max(reached[place], count)
        return tuple(reached)

    def _matched(self, rule: int, held: str, piece: str, consumed: int) -> str:
        text = super()._matched(rule, held, piece, consumed)
        self.match = replace(self.match, rule=self._places[rule])
        return text


"""
    second_reading = """\
    if stop.ignores_case:
        return text.lower() == stop.text[: len(text)].lower()
"""
    meaning = '| `fullstop.stop_ignores_case` | an object | takes any case: `{"END": true}` |\n'
    changed(
        tree,
        ("engine/stopping/rules.py", "    def find(self", field),
        ("engine/stopping/rules.py", "        return text.find(self", any_case),
        ("engine/stopping/matcher.py", "import re\n", "from itertools import product\n"),
        ("engine/stopping/matcher.py", "def matcher_of(", spellings),
        ("tests/engine/contract/writing/ends.py", "    return text == stop.text[", second_reading),
        (".github/OPTIONS.md", "| `fullstop.stop_scopes` |", meaning),
    )
    matcher = "engine/stopping/matcher.py"
    replaced(tree, matcher, "import dataclass\n", "import dataclass, replace\n")
    replaced(tree, matcher, "StopMatcher(_texts(rules, ", "_AnyCase(_spellings(rules, ")
    replaced(
        tree,
        matcher,
        "tuple(rules.stops[number].text for number in numbers)",
        "tuple(_spellings(rules, numbers))",
    )

    with served(tree) as address:
        asked = {"asked": "Who are you?", "temperature": 0, "max_tokens": 30}
        whole = answer(address, **asked)
        assert "demo model" in whole
        assert answer(address, **asked, stop=["DEMO"]) == whole
        ignoring = {"stop_ignores_case": {"DEMO": True}}
        cut = answer(address, **asked, stop=["DEMO"], fullstop=ignoring)
        assert cut == whole[: whole.index("demo")]

    compared = said(tree, "-m", "tests.engine.contract.run", "--cases", "300", "--seed", "1")
    assert ", 0 differ from the reference" in compared
    assert said(tree, "-c", _ONE_STOP_IN_THE_WINDOW).splitlines() == [
        "Ignore Case",
        "Stop('END', ignores_case=True)",
        "True",
        "True",
        "Would have ended the last answer.",
        "Occurred, but did not end the answer",
    ]
